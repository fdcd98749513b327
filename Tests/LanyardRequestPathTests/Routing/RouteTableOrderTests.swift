import TestSupport
import Testing

@testable import LanyardRequestPath
@testable import LanyardSettings

/// The table finds by halving what a look at each route in turn would find.
@Suite struct RouteTableOrderTests {
    private static let paths = ["/", "/a", "/a/b", "/a/b/", "/a/bc", "/ab", "/b", "/b/a/a", "/a-b", "/a/b/c/d"]
    private static let hosts = ["a.test", "b.test", "ab.test", "a"]
    private static let methods = ["GET", "POST", "PUT"]

    private static func some(of list: [String], _ generator: inout SeededGenerator) -> [String] {
        list.filter { _ in Int.random(in: 0..<4, using: &generator) == 0 }
    }

    private static func routes(_ generator: inout SeededGenerator) -> [RouteSettings] {
        (0..<Int.random(in: 0...25, using: &generator)).map { index in
            var route = RouteSettings(name: "r\(index)")
            route.path = paths.randomElement(using: &generator)!
            route.hosts = Bool.random(using: &generator) ? [] : some(of: hosts, &generator)
            route.methods = Bool.random(using: &generator) ? [] : some(of: methods, &generator)
            route.deny = some(of: paths, &generator).map { .init(path: $0, methods: some(of: methods, &generator)) }
            return route
        }
    }

    /// The rule in plain words: routes with hosts first; prefixes of whole segments, the longest first; then methods,
    /// then the order of the file.
    private static func expected(_ routes: [RouteSettings], _ method: String, _ host: String?, _ path: String) -> String
    {
        func isBelow(_ prefix: String) -> Bool {
            let prefix = prefix.hasSuffix("/") ? String(prefix.dropLast()) : prefix
            return path == prefix || path.hasPrefix(prefix + "/")
        }
        func length(_ route: RouteSettings) -> Int { route.path.utf8.count - (route.path.hasSuffix("/") ? 1 : 0) }
        let near = routes.filter { route in
            isBelow(route.path) && (route.hosts.isEmpty || route.hosts.contains { $0 == host })
        }
        let ranked = near.enumerated().sorted { a, b in
            if a.element.hosts.isEmpty != b.element.hosts.isEmpty { return b.element.hosts.isEmpty }
            if length(a.element) != length(b.element) { return length(a.element) > length(b.element) }
            if a.element.methods.isEmpty != b.element.methods.isEmpty { return b.element.methods.isEmpty }
            return a.offset < b.offset
        }.map(\.element)
        guard let first = ranked.first(where: { $0.methods.isEmpty || $0.methods.contains(method) }) else {
            return near.isEmpty ? "none" : "405"
        }
        let isDenied = first.deny.contains { isBelow($0.path) && ($0.methods.isEmpty || $0.methods.contains(method)) }
        return (isDenied ? "denied by " : "") + first.name
    }

    private static func found(_ table: RouteTable, _ method: String, _ host: String?, _ path: String) -> String {
        let verdict = Array(path.utf8).withUnsafeBufferPointer { path in
            Array(method.utf8).withUnsafeBufferPointer { method in
                Array((host ?? "").utf8).withUnsafeBufferPointer {
                    table.decide(method: method, host: host == nil ? nil : $0, path: path)
                }
            }
        }
        return switch verdict {
        case .route(let route): route.settings.name
        case .denied(let route): "denied by " + route.settings.name
        case .none: "none"
        case .methodNotAllowed: "405"
        case .ambiguous, .malformed: "refused"
        }
    }

    @Test("whatever the routes are, the same one is found as by looking at each of them")
    func same() {
        var generator = SeededGenerator(16)
        var outcomes: Set<String> = []
        for _ in 0..<300 {
            let routes = Self.routes(&generator)
            let table = RouteTable(routes.enumerated().map { Route($1, index: $0, user: nil) })
            for path in Self.paths + ["/a/b/c", "/ab/c", "/c", "/a/", "/a/b/c/d/e"] {
                for host in [nil, "a.test", "b.test", "c.test"] {
                    for method in ["GET", "POST", "DELETE"] {
                        let (found, wanted) = (
                            Self.found(table, method, host, path), Self.expected(routes, method, host, path)
                        )
                        outcomes.insert(String(wanted.prefix(3)))
                        if found != wanted { Issue.record("\(method) \(host ?? "-") \(path): \(found), not \(wanted)") }
                    }
                }
            }
        }
        #expect(outcomes.isSuperset(of: ["non", "405", "den", "r1"]))
    }
}
