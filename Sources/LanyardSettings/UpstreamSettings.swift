/// Where a route's requests are sent and how long each step may take (architecture-control.md 4.3).
package struct UpstreamSettings: Hashable, Sendable {
    /// Where connections are made to.
    package enum Endpoint: Equatable, Hashable, Sendable {
        /// A name or address literal in canonical form (v6 without brackets) and a port; `tls` for `https:`.
        case tcp(host: String, port: UInt16, tls: Bool)
        case unix(path: String)
    }

    /// How long each step may take.
    package struct Timeouts: Hashable, Sendable {
        /// One address.
        package var connect = Duration.seconds(5)
        /// All addresses together.
        package var connectAll = Duration.seconds(10)
        /// From the last request byte to the whole response head.
        package var responseHeader = Duration.seconds(300)
        /// Time without a byte of a request body.
        package var requestIdle = Duration.seconds(30)
        /// Time without a byte of a response body; nil is no limit.
        package var responseIdle: Duration? = .seconds(300)
        /// Time in which a side takes no byte.
        package var write = Duration.seconds(60)
        /// Time without a byte in either direction of an upgraded connection.
        package var upgradedIdle = Duration.seconds(3600)
        /// The same after one side has ended.
        package var upgradedHalfClosed = Duration.seconds(30)
        package init() {}
    }

    /// `tls:` of a route. Without effect unless the endpoint speaks TLS.
    package struct TLS: Hashable, Sendable {
        /// Authorities that are trusted, PEM; nil: the system's.
        package var caFile: String?
        /// The name that the certificate must have; nil: the endpoint's host.
        package var serverName: String?
        /// The client certificate with its chain, PEM, and its key. Both or none.
        package var certificateFile: String?
        package var keyFile: String?
        /// `unsafe_skip_verify`: every certificate is accepted.
        package var skipsVerification = false
        /// Bytes of the upstream's certificates, and of its request for one. `limits.certificate_bytes_max`.
        package var certificateBytesMax = LimitSettings().certificateBytesMax
        package init() {}
    }

    /// `upstream_dns`.
    package struct DNS: Hashable, Sendable {
        /// How long resolved addresses are used.
        package var refresh = Duration.seconds(30)
        /// How long a request waits for a lookup. A name server has two fifths of it.
        package var timeout = Duration.seconds(5)
        package init() {}
    }

    /// A proxy between Lanyard and the upstream. It is spoken to by plain HTTP/1.1 and resolves the upstream's name.
    package struct Proxy: Hashable, Sendable {
        /// In canonical form (`CanonicalHost`), v6 without brackets.
        package var host: String
        package var port: UInt16
        /// The name ends with the dot of the root: it is looked up as it is.
        package var isFullyQualified = false
        /// `user:password` for the proxy (Basic, RFC 7617); nil: it asks for none.
        package var credentialsFile: String?

        package init(host: String, port: UInt16, isFullyQualified: Bool = false, credentialsFile: String? = nil) {
            self.host = host
            self.port = port
            self.isFullyQualified = isFullyQualified
            self.credentialsFile = credentialsFile
        }

        /// `http://host:port`.
        package var url: String {
            "http://\(host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host):\(port)"
        }
    }

    /// `protocol` of a route.
    package enum HTTPVersion: String, Sendable {
        /// HTTP/2 if the upstream agrees on it by ALPN, else HTTP/1.1. Without TLS HTTP/1.1.
        case auto
        case http1
        /// Without TLS by prior knowledge.
        case http2
    }

    /// Where connections are made to.
    package var endpoint: Endpoint
    /// Which version of HTTP is spoken.
    package var httpVersion = HTTPVersion.auto
    package var http2 = HTTP2Settings()
    /// The `Host` that names this upstream: `host`, `host:port`, or `localhost` for a unix socket.
    package var authority: String
    /// The zone of a link-local address: the network interface of this machine that it is reached at; nil: there is none. It is in no
    /// byte that is sent.
    package var zone: String?
    /// The name of the URL ends with the dot of the root: it is looked up as it is, without a search list.
    package var isFullyQualified = false
    package var tls = TLS()
    /// How long each step may take.
    package var timeouts = Timeouts()
    /// Connections to this upstream, all shards together.
    package var connectionsMax = 1024
    /// `connections: shared`: a connection carries requests of several users.
    package var sharesConnections = false
    /// Link-local addresses (169.254.0.0/16, fe80::/10) may be connected to; metadata services use them.
    package var allowsLinkLocal = false
    /// `unsafe_plain`: tokens may be sent over plain http to addresses that are not loopback.
    package var allowsPlain = false
    package var dns = DNS()
    /// `proxy` of the route, or what the environment says for this upstream; nil: connections are made to the upstream itself. A unix
    /// socket has none.
    package var proxy: Proxy?

    /// The name for the resolver, which is the proxy's if there is one: one that is fully qualified ends with a dot. Empty for a unix
    /// socket.
    package var lookupName: String {
        if let proxy { return proxy.isFullyQualified ? proxy.host + "." : proxy.host }
        guard case .tcp(let host, _, _) = endpoint else { return "" }
        return isFullyQualified ? host + "." : host
    }

    /// Where connections are made to: the proxy, or the upstream.
    package var dialled: Endpoint {
        proxy.map { .tcp(host: $0.host, port: $0.port, tls: false) } ?? endpoint
    }

    /// Requests go to a proxy in absolute form. nil: there is no proxy, or one of CONNECT, since the upstream speaks TLS.
    package var forwardingProxy: Proxy? {
        if case .tcp(_, _, tls: false) = endpoint { proxy } else { nil }
    }

    package init(endpoint: Endpoint, authority: String) {
        self.endpoint = endpoint
        self.authority = authority
    }
}
