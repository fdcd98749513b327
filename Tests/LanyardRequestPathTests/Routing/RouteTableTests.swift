import Testing

@testable import LanyardRequestPath
@testable import LanyardSettings

@Suite struct RouteTableTests {
    private static func route(
        _ name: String, _ path: String, hosts: [String] = [], methods: [String] = [], deny: [RouteSettings.Denial] = [],
        strict: Bool = false
    ) -> RouteSettings {
        var settings = RouteSettings(name: name)
        (settings.path, settings.hosts, settings.methods, settings.deny) = (path, hosts, methods, deny)
        settings.paths = strict ? .strict : .lenient
        return settings
    }

    /// What the table says, in a word: the route's name, or why there is none.
    private static func decide(
        _ routes: [RouteSettings], _ path: String, _ method: String = "GET", host: String? = nil
    ) -> String {
        let table = RouteTable(routes.enumerated().map { Route($1, index: $0, user: nil) })
        let verdict = Array(path.utf8).withUnsafeBufferPointer { path in
            Array(method.utf8).withUnsafeBufferPointer { method in
                guard let host else { return table.decide(method: method, host: nil, path: path) }
                return Array(host.utf8).withUnsafeBufferPointer {
                    table.decide(method: method, host: $0, path: path)
                }
            }
        }
        return switch verdict {
        case .route(let route): route.settings.name
        case .none: "none"
        case .methodNotAllowed(let allow): "405 " + String(decoding: allow, as: UTF8.self)
        case .denied(let route): "denied by " + route.settings.name
        case .ambiguous: "ambiguous"
        case .malformed: "malformed"
        }
    }

    @Test(
        "the longest prefix of whole segments decides",
        arguments: [
            ("/", "root"), ("/x", "root"), ("/api", "api"), ("/api/", "api"), ("/api/x", "api"), ("/apix", "root"),
            ("/api/v1", "v1"),
            ("/api/v1/x", "v1"), ("/api/v10", "api"), ("/API", "root"),
        ])
    func longest(_ path: String, _ name: String) {
        let routes = [Self.route("root", "/"), Self.route("api", "/api"), Self.route("v1", "/api/v1/")]
        #expect(Self.decide(routes, path) == name)
    }

    @Test("of equal prefixes the one with hosts comes first, then the one with methods, then the first")
    func order() {
        let routes = [
            Self.route("any", "/"), Self.route("second", "/"), Self.route("get", "/", methods: ["GET"]),
            Self.route("host", "/", hosts: ["a.test"]),
        ]
        #expect(Self.decide(routes, "/", "POST") == "any")
        #expect(Self.decide(routes, "/", "GET") == "get")
        #expect(Self.decide(routes, "/", "GET", host: "a.test") == "host")
        #expect(Self.decide(routes, "/", "GET", host: "b.test") == "get")
        #expect(Self.decide(routes, "/", "get") == "any")
    }

    @Test("a route that names the host goes before one with a longer path that names none")
    func hostFirst() {
        let routes = [Self.route("path", "/api"), Self.route("host", "/", hosts: ["a.test"], methods: ["GET"])]
        #expect(Self.decide(routes, "/api/x", host: "a.test") == "host")
        #expect(Self.decide(routes, "/api/x", host: "b.test") == "path")
        #expect(Self.decide(routes, "/api/x", "PUT", host: "a.test") == "path")
    }

    @Test("no route: 404; only the method does not match: 405 with Allow")
    func nothing() {
        let routes = [
            Self.route("a", "/a", methods: ["GET", "POST"]), Self.route("b", "/a", methods: ["PUT", "GET"]),
            Self.route("h", "/h", hosts: ["x"]),
        ]
        #expect(Self.decide(routes, "/b") == "none")
        #expect(Self.decide(routes, "/h") == "none")
        #expect(Self.decide(routes, "/h", host: "y") == "none")
        #expect(Self.decide(routes, "/a", "DELETE") == "405 GET, POST, PUT")
        #expect(Self.decide(routes, "/%61", "DELETE") == "405 GET, POST, PUT")
    }

    @Test(
        "where two readers would find different routes or verdicts the path is ambiguous",
        arguments: [
            "/api/../x", "/api/%2e%2e/x", "/api%2fx", "/x/../api", "/api\\x", "//api", "/api;x/y", "/api/..;/x", "/..",
            "/api/../../api", "/api//../../api/x",
            "/api/%252e%252e/x", "/x/..%2fapi",
            // One segment before the dots for some readers, two for others.
            "/api/a%5cb/../../x", "/api/a%252fb/../../x", "/api/a%2fb/../../x", "/api/a\\b/../../x",
            "/api/a%255cb/../../x", "/x/a%5cb/../../api",
            // Parameters for some readers, a segment for others.
            "/;x%2fy/api/z", "/;x\\y/api", "/%3bx%252fy/api",
        ])
    func ambiguous(_ path: String) {
        #expect(Self.decide([Self.route("root", "/"), Self.route("api", "/api")], path) == "ambiguous")
        #expect(["ambiguous", "none"].contains(Self.decide([Self.route("api", "/api")], path)))
    }

    @Test(
        "where they agree the path passes as it is",
        arguments: [
            ("/api/a//b", "api"), ("/api/a/../b", "api"), ("/%61pi/x", "api"), ("/api/x%2fy", "api"),
            ("/api/x;y=1", "api"), ("/x//y", "root"), ("/api/x;y%2fz", "api"),
            ("/.well-known/x", "root"), ("/api/%20", "api"),
        ])
    func agreed(_ path: String, _ name: String) {
        #expect(Self.decide([Self.route("root", "/"), Self.route("api", "/api")], path) == name)
    }

    @Test(
        "strict refuses what normalising would change",
        arguments: [
            ("/a//b", "ambiguous"), ("/%61", "ambiguous"), ("/a/./b", "ambiguous"), ("/a;b", "ambiguous"), ("/.a", "s"),
            ("/a", "s"), ("/a%20", "ambiguous"),
        ])
    func strict(_ path: String, _ verdict: String) {
        #expect(Self.decide([Self.route("s", "/", strict: true)], path) == verdict)
    }

    @Test(
        "deny lists are decided on both views",
        arguments: [
            ("/admin", "GET", "denied by r"), ("/admin/x", "GET", "denied by r"), ("/administrator", "GET", "r"),
            ("/%61dmin", "GET", "denied by r"),
            ("/x/../admin", "GET", "ambiguous"), ("/admin%2fx", "GET", "ambiguous"), ("/admin;a", "GET", "ambiguous"),
            ("//admin", "GET", "ambiguous"),
            // Out of it for the most obliging reader, into it for others.
            ("/x/a%5cb/../../admin", "GET", "ambiguous"), ("/x/a%252fb/../../admin", "GET", "ambiguous"),
            ("/x/../admin/..;/y", "GET", "ambiguous"), ("/./admin/%252e%252e/y", "GET", "ambiguous"),
            ("//admin/%252e%252e/y", "GET", "ambiguous"), ("/x//../admin", "GET", "ambiguous"),
            ("/x/%252e%252e/admin", "GET", "ambiguous"), ("/x/a%5cb/../y", "GET", "r"),
            // Jetty cuts parameters before it decodes.
            ("/;x%2fy/admin", "GET", "ambiguous"), ("/;x%5cy/admin/z", "GET", "ambiguous"),
            ("/;x\\y/admin", "GET", "ambiguous"), ("/;x%252fy/admin", "GET", "ambiguous"),
            ("/%3bx%2fy/admin", "GET", "ambiguous"), ("/;x%2fy/data", "DELETE", "ambiguous"),
            ("/x;a%2fb/y%2fz", "GET", "r"),
            ("/data", "DELETE", "denied by r"), ("/data", "GET", "r"),
        ])
    func denied(_ path: String, _ method: String, _ verdict: String) {
        let route = Self.route(
            "r", "/", deny: [.init(path: "/admin"), .init(path: "/data", methods: ["DELETE"])])
        #expect(Self.decide([route], path, method) == verdict)
    }

    @Test("a path with dot segments is not read in all ways when it is long, but refused")
    func longDots() {
        let routes = [Self.route("api", "/api")], long = String(repeating: "/./x", count: 300)
        #expect(Self.decide(routes, "/api" + long.prefix(1_020)) == "api")
        #expect(Self.decide(routes, "/api" + long) == "ambiguous")
        #expect(Self.decide(routes, "/api" + long.replacing("/.", with: "/%20")) == "api")
    }

    @Test("malformed escapes are refused before any route", arguments: ["/%", "/%zz", "/api/%00"])
    func malformed(_ path: String) { #expect(Self.decide([Self.route("root", "/")], path) == "malformed") }

    @Test("whatever path passes stays below its route in every reading")
    func neverOutside() {
        var random = SeededPath()
        let routes = [Self.route("api", "/api")]
        for _ in 0..<20_000 {
            let path = random.path()
            guard Self.decide(routes, path) == "api" else { continue }
            for reader in PathReader.all {
                let (read, escapesBase) = reader.read(Array(path.utf8))
                let text = String(decoding: read, as: UTF8.self)
                #expect(!escapesBase)
                // Without dots nothing leads out of it, whatever is decoded in it.
                let isBelow = text == "/api" || text.hasPrefix("/api/") || text.hasPrefix("/%61pi")
                #expect(isBelow, "\(path): \(text)")
            }
        }
    }
}

@Suite struct PathPrefixTests {
    private static func end(_ prefix: String, _ raw: String) -> String {
        Array(raw.utf8).withUnsafeBufferPointer { raw in
            String(decoding: raw[run: 0..<PathPrefix(prefix).end(in: raw)], as: UTF8.self)
        }
    }

    @Test(
        "the prefix's literal bytes in a raw path, escapes included",
        arguments: [
            ("/api", "/api/x", "/api"), ("/api", "/%61pi/x", "/%61pi"), ("/api", "/api", "/api"),
            ("/a/b", "/a/b/c", "/a/b"), ("/a/", "/a/c", "/a"),
            ("/", "/x", ""), ("/", "/", ""),
        ])
    func ends(_ prefix: String, _ raw: String, _ part: String) { #expect(Self.end(prefix, raw) == part) }
}
