import LanyardSettings

/// Which hosts and origins requests on one listener may name, and who may send them (http-rules.md 4.2, 4.4).
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

    package init(
        hosts: AllowedHosts, port: UInt16?, allowedOrigins: [String],
        callers: CallerPolicy = .unrestricted, index: Int = 0, tlsIndex: Int? = nil
    ) {
        self.index = index
        self.hosts = hosts
        self.port = port
        self.callers = callers
        self.tlsIndex = tlsIndex
        originTexts = allowedOrigins.map { Array($0.utf8) }
        origins = originTexts.compactMap { $0.withUnsafeBufferPointer { WebOrigin($0) } }
    }

    /// The rules of one listener. The default allow-list: the bound address and `localhost`, each with the port
    /// (architecture.md 4.2). Hosts that routes name are allowed as well.
    ///
    /// - Parameters:
    ///   - address: what was bound; no port: a unix socket.
    ///   - index: of the listener.
    package convenience init(of settings: ListenerSettings, at address: (text: String, port: UInt16?), index: Int) {
        let defaults = address.port.map { [address.text, "localhost:\($0)"] }
        self.init(
            hosts: AllowedHosts(
                address.port == nil ? nil : settings.allowedHosts ?? defaults,
                defaultPort: settings.tls == nil ? 80 : 443),
            port: address.port, allowedOrigins: settings.allowedOrigins, callers: CallerPolicy(settings, index: index),
            index: index, tlsIndex: settings.tls == nil ? nil : index)
    }

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

    /// Whether requests of web pages of this origin are allowed.
    func allows(origin: Bytes) -> Bool {
        if originTexts.contains(where: { $0.elementsEqual(origin) }) { return true }
        return WebOrigin(origin).map(origins.contains) ?? false
    }
}
