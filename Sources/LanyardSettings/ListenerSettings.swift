/// One entry of `listeners:` or `brokers:`; also the addresses of `health` and `admin` (architecture-control.md 4.2).
package struct ListenerSettings: Equatable, Sendable {
    /// Where a listener is bound.
    package enum Address: Equatable, Hashable, Sendable, CustomStringConvertible {
        /// An address literal (v6 without brackets, a link-local one with its zone, `fe80::1%eth0`) or `localhost`; port 0 lets the
        /// kernel choose.
        case tcp(host: String, port: UInt16)
        case unix(path: String)
        /// The socket that the service manager passes under this name (sd_listen_fds(3)).
        case activated(name: String)

        package var description: String {
            switch self {
            case .tcp(let host, let port):
                host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]:\(port)" : "\(host):\(port)"
            case .unix(let path): "unix:\(path)"
            case .activated(let name): "systemd:\(name)"
            }
        }

        /// As in a `Host` field: without the zone of an IPv6 address, which means something on this machine only.
        package var authority: String {
            guard case .tcp(let host, let port) = self, let percent = host.firstIndex(of: "%") else {
                return description
            }
            return "[\(host[..<percent])]:\(port)"
        }
    }

    /// Unix users and groups by number. A client is one of them if its user id or its group id is listed.
    package struct Peers: Equatable, Sendable {
        package var uids: [UInt32]
        package var gids: [UInt32]

        package init(uids: [UInt32] = [], gids: [UInt32] = []) {
            self.uids = uids
            self.gids = gids
        }
    }

    /// TLS towards clients.
    package struct TLS: Equatable, Sendable {
        /// The chain, its own certificate first, in PEM.
        package var certificateFile: String
        /// The key of the first certificate, in PEM.
        package var keyFile: String
        /// Clients must have a certificate of one of these authorities; nil: none is asked for.
        package var clientCAFile: String?
        /// Names of client certificates that may call; empty: all. Needs `clientCAFile`.
        package var clientNames: [String] = []
        /// Bytes of a client's certificates. `limits.certificate_bytes_max`.
        package var certificateBytesMax = LimitSettings().certificateBytesMax
        /// What a client may agree on by ALPN. `protocols` of the listener.
        package var protocols = Protocols.all

        package init(certificateFile: String, keyFile: String) {
            self.certificateFile = certificateFile
            self.keyFile = keyFile
        }
    }

    /// Which protocols clients may speak.
    package struct Protocols: Equatable, Sendable {
        package var http1: Bool
        package var http2: Bool

        package init(http1: Bool, http2: Bool) {
            self.http1 = http1
            self.http2 = http2
        }

        package static let all = Protocols(http1: true, http2: true)
    }

    /// Where the listener is bound.
    package var address: Address
    /// nil: both; without TLS HTTP/2 on loopback and unix addresses alone.
    package var protocols: Protocols?
    /// `websocket_over_http2`.
    package var bridgesWebSocket = false
    /// nil: clients speak plain HTTP.
    package var tls: TLS?
    /// `host:port` values that a request may name; nil is the default: the bound address and `localhost`, each with the
    /// port.
    package var allowedHosts: [String]?
    /// Origins of web pages that may send requests.
    package var allowedOrigins: [String] = []
    /// The file with the capability that each request must carry as `Lanyard-Capability`; nil: none is asked for.
    package var capabilityFile: String?
    /// The name of a field that each request must carry, with any value; nil: none.
    package var requiredHeader: String?
    /// Which clients may connect to a unix socket; nil: all that its permissions admit.
    package var peers: Peers?
    /// Permissions of a unix socket.
    package var socketMode: UInt16 = 0o600
    /// A non-loopback address may be bound without caller authentication.
    package var isUnsafe = false
    /// It hands out tokens; nil: it forwards requests.
    package var broker: BrokerSettings?

    package init(address: Address) { self.address = address }
}

/// `shutdown:` of the configuration (architecture-control.md 7.7).
package struct ShutdownSettings: Equatable, Sendable {
    /// How long requests are still accepted while readiness is off.
    package var drainMin = Duration.zero
    /// How long requests in progress may take to end.
    package var drainMax = Duration.seconds(30)
    /// `exit_zero_on_sigterm`.
    package var exitZeroOnSIGTERM = false
    package init() {}
}
