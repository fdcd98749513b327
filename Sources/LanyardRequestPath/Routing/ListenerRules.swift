import LanyardSettings

/// Which hosts and origins requests on one listener may name, and who may send them (http-requests.md 4.2, 4.4).
///
/// A reload makes other ones.
package final class ListenerRules: Sendable {
    /// Of the listener.
    let index: Int
    private let hosts: AllowedHosts
    /// The bound port; nil: a unix socket.
    private let port: UInt16?
    /// As configured: what nearly all requests of web pages have.
    private let originTexts: [[UInt8]]
    private let origins: [WebOrigin]
    let callers: CallerPolicy
    /// The place of the listener's TLS among those of a shard; nil: clients speak plain HTTP.
    let tlsIndex: Int?
    /// The bound address is loopback.
    private let isLoopback: Bool
    /// Its requests ask for tokens (fleet.md): they have no route.
    let isBroker: Bool

    package init(
        hosts: AllowedHosts, port: UInt16?, allowedOrigins: [String],
        callers: CallerPolicy = .unrestricted, index: Int = 0, tlsIndex: Int? = nil, isLoopback: Bool = false,
        acceptsHTTP1: Bool = true, acceptsPreface: Bool = false, bridgesWebSocket: Bool = false,
        isBroker: Bool = false
    ) {
        self.index = index
        self.hosts = hosts
        self.port = port
        self.callers = callers
        self.tlsIndex = tlsIndex
        self.isLoopback = isLoopback
        self.isBroker = isBroker
        self.acceptsHTTP1 = acceptsHTTP1
        self.acceptsPreface = acceptsPreface
        self.bridgesWebSocket = bridgesWebSocket
        originTexts = allowedOrigins.map { Array($0.utf8) }
        origins = originTexts.compactMap { $0.withUnsafeBufferPointer { WebOrigin($0) } }
    }

    /// The rules of one listener. The default allow-list: the bound address and `localhost`, each with the port
    /// (architecture-control.md 4.2). Hosts that routes name are allowed as well.
    ///
    /// - Parameters:
    ///   - address: what was bound; no port: a unix socket.
    ///   - index: of the listener.
    package convenience init(of settings: ListenerSettings, at address: (text: String, port: UInt16?), index: Int) {
        let defaults = address.port.map { [address.text, "localhost:\($0)"] }
        let hosts = (settings.allowedHosts ?? defaults).map {
            $0 + Self.metadataHosts(of: settings, port: address.port)
        }
        self.init(
            hosts: AllowedHosts(
                address.port == nil ? nil : hosts,
                defaultPort: settings.tls == nil ? 80 : 443),
            port: address.port, allowedOrigins: settings.allowedOrigins, callers: CallerPolicy(settings, index: index),
            index: index, tlsIndex: settings.tls == nil ? nil : index,
            isLoopback: address.port != nil && Self.isLoopback(address.text),
            acceptsHTTP1: settings.protocols?.http1 ?? true,
            acceptsPreface: settings.tls == nil
                && settings.protocols?.http2 ?? (address.port == nil || Self.isLoopback(address.text)),
            bridgesWebSocket: settings.bridgesWebSocket, isBroker: settings.broker != nil)
    }

    /// The name by which clients ask for Google Compute Engine's metadata.
    private static func metadataHosts(of settings: ListenerSettings, port: UInt16?) -> [String] {
        guard settings.broker?.serves.contains(.gceMetadata) == true, let port else { return [] }
        return ["metadata.google.internal", "metadata.google.internal:\(port)"]
    }

    private static func isLoopback(_ address: String) -> Bool {
        Array(address.utf8).withUnsafeBufferPointer { value in
            guard let (host, _) = HostValue.split(value) else { return false }
            return HostValue.withCanonical(value[run: host]) { $0.map(HostValue.isLoopback) ?? false }
        }
    }

    /// Clients without TLS may begin HTTP/2 by its preface (H1).
    let acceptsPreface: Bool
    let acceptsHTTP1: Bool
    /// WebSocket over HTTP/2 becomes an upgrade of HTTP/1.1 (H6).
    let bridgesWebSocket: Bool

    /// The scheme of absolute targets.
    var scheme: StaticString { tlsIndex == nil ? "http" : "https" }

    /// The port of a `Host` or an absolute target that names none.
    var defaultPort: UInt16 { tlsIndex == nil ? 80 : 443 }

    /// Checks a `Host` value or the authority of an absolute target. A host that a route names is allowed with the
    /// listener's port.
    func check(host value: Bytes, _ routes: RouteTable) -> AllowedHosts.Decision {
        let decision = hosts.check(value)
        guard decision == .unknown, let port, let (name, namedPort) = HostValue.split(value),
            (namedPort ?? defaultPort) == port,
            HostValue.withCanonical(value[run: name], { $0.map { routes.names(host: $0) } ?? false })
        else { return decision }
        return .allowed
    }

    /// Whether an `Origin` names this listener itself, as a program sends it that is no browser (http-requests.md 4.4): its scheme and port
    /// are the listener's, and its host is the request's.
    ///
    /// Only where browsers say which site has sent a request (Fetch Metadata): to hosts that they trust, which are loopback ones and those
    /// of TLS. Anywhere else a page of that origin could not be told from a program.
    ///
    /// - Parameters:
    ///   - origin: the value of the only `Origin` of a request that shows no sign of a browser.
    ///   - host: the request's `Host`, which is allowed.
    func isOwn(origin: Bytes, host: Bytes) -> Bool {
        guard let port, isLoopback || tlsIndex != nil, let colon = origin.firstIndex(of: UInt8(ascii: ":")),
            origin[run: 0..<colon].equals(lowered: scheme), origin.count > colon + 3,
            origin[colon + 1] == UInt8(ascii: "/"), origin[colon + 2] == UInt8(ascii: "/")
        else { return false }
        let authority = origin[run: (colon + 3)..<origin.count]
        guard let (range, named) = HostValue.split(authority), (named ?? defaultPort) == port,
            HostValue.areEqual(authority, host, defaultPort: defaultPort)
        else { return false }
        if tlsIndex != nil { return true }
        return HostValue.withCanonical(authority[run: range]) { $0.map(HostValue.isLoopback) ?? false }
    }

    /// Whether requests of web pages of this origin are allowed.
    func allows(origin: Bytes) -> Bool {
        if originTexts.contains(where: { $0.elementsEqual(origin) }) { return true }
        return WebOrigin(origin).map(origins.contains) ?? false
    }
}
