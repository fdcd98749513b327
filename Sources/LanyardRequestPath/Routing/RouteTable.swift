import LanyardSettings

/// Decides the route of a request: routes that name its host first; among these the longest path, then the method (architecture-control.md
/// 4.3, http-requests.md 2.2, 2.3).
package final class RouteTable: Sendable {
    package enum Decision: Sendable {
        case route(Route)
        /// 404 `no-route`.
        case none
        /// 405 `method-not-allowed`, with what `Allow` says.
        case methodNotAllowed([UInt8])
        /// 403 `denied-by-route`.
        case denied(Route)
        /// 400 `ambiguous-path`.
        case ambiguous
        /// 400 `malformed-request`: `%` without two hex digits, `%00`.
        case malformed
    }

    /// The methods that `Allow` names if no route restricts them.
    private static let commonMethods = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"]

    /// The longest path with dot segments, or with separators in parameters, in bytes. Such a path is read in all ways, which
    /// takes time, and longer ones do not occur in practice.
    private static let disputedMax = 1_024

    /// The routes of one prefix, each list in the order in which they are tried.
    private struct Group: Sendable {
        /// In canonical form.
        var hosts = SortedBytes([])
        /// For each of `hosts` the routes that name it.
        var named: [[Route]] = []
        /// Routes that take any host.
        var open: [Route] = []

        init(_ routes: [Route]) {
            hosts = SortedBytes(routes.flatMap(\.hosts))
            named = Array(repeating: [], count: hosts.values.count)
            open = routes.filter(\.hosts.isEmpty)
            for route in routes {
                for host in Set(route.hosts) {
                    if let place = host.withUnsafeBufferPointer({ hosts.place(of: $0) }) { named[place].append(route) }
                }
            }
        }
    }

    private let routes: [Route]
    private let prefixes: PrefixTable
    /// In the order of `prefixes`.
    private let groups: [Group]
    /// All hosts that routes name, in canonical form.
    private let hosts: SortedBytes
    /// Some route takes certain hosts only; else the request's host is not needed.
    package let usesHosts: Bool

    package init(_ routes: [Route]) {
        hosts = SortedBytes(routes.flatMap(\.hosts))
        usesHosts = !hosts.values.isEmpty
        let sorted = routes.enumerated().sorted { left, right in
            let (a, b) = (left.element, right.element)
            if a.hosts.isEmpty != b.hosts.isEmpty { return !a.hosts.isEmpty }
            if a.prefix.bytes.count != b.prefix.bytes.count { return a.prefix.bytes.count > b.prefix.bytes.count }
            if a.methods.isEmpty != b.methods.isEmpty { return !a.methods.isEmpty }
            return left.offset < right.offset
        }.map(\.element)
        let prefixes = PrefixTable(sorted.map(\.prefix))
        var members: [[Route]] = Array(repeating: [], count: prefixes.count)
        for route in sorted {
            if let place = prefixes.place(of: route.prefix) { members[place].append(route) }
        }
        self.routes = sorted
        self.prefixes = prefixes
        groups = members.map(Group.init)
    }

    /// Whether some route names this host, which is in canonical form.
    func names(host: Bytes) -> Bool { hosts.place(of: host) != nil }

    /// - Parameters:
    ///   - path: the raw path, beginning with `/`.
    ///   - host: the host without port, in canonical form, or nil.
    package func decide(method: Bytes, host: Bytes?, path: Bytes) -> Decision {
        if PathViews.isSimple(path) {
            guard let route = find(method, host, path) else { return refusal(host, path) }
            return route.denies(method: method, path: path) ? .denied(route) : .route(route)
        }
        guard let views = PathViews(path) else { return .malformed }
        if views.escapesRoot { return .ambiguous }
        return views.plain.withUnsafeBufferPointer { plain in
            views.normalized.withUnsafeBufferPointer { normalized in decide(method, host, path, plain, normalized) }
        }
    }

    private func decide(_ method: Bytes, _ host: Bytes?, _ raw: Bytes, _ plain: Bytes, _ normalized: Bytes) -> Decision
    {
        let route = find(method, host, plain)
        guard route === find(method, host, normalized) else { return .ambiguous }
        guard let route else { return refusal(host, plain) }
        let denied = route.denies(method: method, path: plain)
        guard denied == route.denies(method: method, path: normalized) else { return .ambiguous }
        if denied { return .denied(route) }
        if PathReader.isDisputed(Array(raw)), raw.count > Self.disputedMax || changesRoute(raw, route, method, host) {
            return .ambiguous
        }
        if route.settings.paths == .strict, !raw.elementsEqual(plain) || !raw.elementsEqual(normalized) {
            return .ambiguous
        }
        return .route(route)
    }

    /// Whether dot segments or parameters lead some reader out of the route, to another one, or into a denied path. The
    /// normalised reader uses all options and sees one path; a reader with fewer options may see another.
    private func changesRoute(_ raw: Bytes, _ route: Route, _ method: Bytes, _ host: Bytes?) -> Bool {
        let path = Array(raw)
        let rest = Array(path[route.prefix.end(in: raw)...])
        return PathReader.all.contains { reader in
            let (read, escapesBase) = reader.read(path)
            if escapesBase || reader.read(rest).escapesBase { return true }
            return read.withUnsafeBufferPointer { read in
                find(method, host, read) !== route || route.denies(method: method, path: read)
            }
        }
    }

    /// Whether a route denies a path, or something below it, to a method, as far as readers of the path agree.
    enum Denial: Equatable { case none, denied, ambiguous }

    /// - Parameters:
    ///   - method: another one than the request's, which `decide` has judged.
    ///   - path: the raw path, beginning with `/`.
    static func denial(by route: Route, of method: Bytes, _ path: Bytes) -> Denial {
        func isDenied(_ path: Bytes) -> Bool {
            route.denies(method: method, path: path) || route.deniesBelow(method: method, path: path)
        }
        if PathViews.isSimple(path) { return isDenied(path) ? .denied : .none }
        guard let views = PathViews(path), !views.escapesRoot else { return .ambiguous }
        let denied = views.plain.withUnsafeBufferPointer { isDenied($0) }
        let isSame = views.normalized.withUnsafeBufferPointer { isDenied($0) == denied }
        guard isSame else { return .ambiguous }
        if denied { return .denied }
        let raw = Array(path)
        guard PathReader.isDisputed(raw) else { return .none }
        let isAmbiguous =
            raw.count > disputedMax
            || PathReader.all.contains { reader in
                reader.read(raw).path.withUnsafeBufferPointer { isDenied($0) }
            }
        return isAmbiguous ? .ambiguous : .none
    }

    /// Calls `body` with each route that takes the path and the host, in their order, until it returns true.
    private func visit(_ host: Bytes?, _ path: Bytes, _ body: (Route) -> Bool) {
        if usesHosts, let host {
            let isFound = prefixes.visit(path) { place in
                guard let index = groups[place].hosts.place(of: host) else { return false }
                return groups[place].named[index].contains(where: body)
            }
            if isFound { return }
        }
        _ = prefixes.visit(path) { groups[$0].open.contains(where: body) }
    }

    private func find(_ method: Bytes, _ host: Bytes?, _ path: Bytes) -> Route? {
        var found: Route?
        visit(host, path) { route in
            guard route.allows(method: method) else { return false }
            found = route
            return true
        }
        return found
    }

    /// Why no route was found: no path and host match, or only the method does not.
    private func refusal(_ host: Bytes?, _ path: Bytes) -> Decision {
        var candidates: [Route] = []
        visit(host, path) { route in
            candidates.append(route)
            return false
        }
        return candidates.isEmpty ? .none : .methodNotAllowed(Self.allow(candidates))
    }

    /// `Allow` for CONNECT and TRACE, which no route takes.
    package var allowed: [UInt8] { Self.allow(routes) }

    private static func allow(_ routes: [Route]) -> [UInt8] {
        var names: [String] = []
        for route in routes {
            for name in route.methods.isEmpty ? commonMethods : route.settings.methods where !names.contains(name) {
                if name != "TRACE", name != "CONNECT" { names.append(name) }
            }
        }
        return Array(names.joined(separator: ", ").utf8)
    }
}
