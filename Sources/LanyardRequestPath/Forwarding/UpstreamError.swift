import Glibc
import LanyardFoundations
import LanyardSettings

/// Why no upstream connection was established. Each case is a `Proxy-Status` error (RFC 9209 §2.3).
///
/// A type of its own, because one attempt fails for all requests that wait for it: `ErrorProblems` has the problem of each.
package enum UpstreamError: Error, Equatable, Sendable {
    case nameNotFound
    case nameTimedOut
    /// The last address that was tried, and its error.
    case refused(CInt, at: SocketAddress? = nil)
    /// The last address that was tried; nil: the time for all of them had ended.
    case connectTimedOut(at: SocketAddress? = nil)
    /// The handshake of TLS has failed, or the upstream could not be verified. The certificate is the one that was refused.
    case tls(TLSError, at: SocketAddress? = nil, certificate: RefusedCertificate? = nil)
    /// The route's proxy cannot be reached, or has opened no tunnel. The address is the proxy's.
    case proxy(ProxyError, at: SocketAddress? = nil)
    /// The limit of connections is reached, and `timeouts.connect` has passed in the queue.
    case connectionLimit
    /// All of the route's addresses are link-local or of metadata services, which the route does not allow.
    case forbiddenAddress(SocketAddress? = nil)
    /// None of the addresses is loopback, and the route does not allow plain http to others.
    case plainBeyondLoopback(SocketAddress? = nil)
    /// No descriptor is left, or another error of this machine.
    case local(CInt)
}

extension UpstreamError {
    /// The machine has no address of this kind to connect from: that says nothing about the upstream.
    var isMissingFamily: Bool {
        guard case .refused(let code, _) = self else { return false }
        return [EAFNOSUPPORT, EADDRNOTAVAIL, ENETUNREACH].contains(code)
    }

    /// The other side of a connection has caused it, or what was asked of it.
    var isOfPeer: Bool {
        switch self {
        case .tls: true
        case .proxy(let error, _): error.isOfResponse
        default: false
        }
    }

    /// The same error of connections that are made to a proxy in the upstream's place.
    var ofProxy: UpstreamError {
        switch self {
        case .nameNotFound: .proxy(.nameNotFound)
        case .nameTimedOut: .proxy(.nameTimedOut)
        case .refused(let code, let address): .proxy(.notConnected(code), at: address)
        case .connectTimedOut(let address): .proxy(.connectTimedOut, at: address)
        case .proxy, .tls, .connectionLimit, .local, .forbiddenAddress, .plainBeyondLoopback: self
        }
    }

    /// The address that the error is about, for the log.
    var address: SocketAddress? {
        switch self {
        case .refused(_, let address), .tls(_, let address, _), .connectTimedOut(let address),
            .forbiddenAddress(let address),
            .plainBeyondLoopback(let address), .proxy(_, let address):
            address
        case .nameNotFound, .nameTimedOut, .connectionLimit, .local: nil
        }
    }
}

extension UpstreamSettings {
    /// Why a proxy must not be asked for the upstream; nil: it may be. The proxy resolves its name, so only a literal address is known.
    var prohibitionOfLiteral: UpstreamError? {
        guard proxy != nil, !allowsLinkLocal, case .tcp(let host, let port, _) = endpoint,
            let address = SocketAddress(host: host, port: port), address.isMetadataService
        else { return nil }
        return .forbiddenAddress(address)
    }

    /// What a proxy is asked for before TLS begins; nil: there is no proxy.
    func tunnel(with authorization: Secret?) -> ProxyTunnel? {
        guard proxy != nil, case .tcp(let host, let port, _) = endpoint else { return nil }
        return ProxyTunnel(to: host, port: port, authorization: authorization)
    }

    /// Why this address must not be connected to; nil: it may be. The check needs the address: a name says nothing
    /// about it.
    func prohibition(of address: SocketAddress) -> UpstreamError? {
        if address.isMetadataService, !allowsLinkLocal {
            return proxy == nil ? .forbiddenAddress(address) : .proxy(.forbiddenAddress, at: address)
        }
        if case .tcp(_, _, tls: false) = endpoint, !allowsPlain, !address.isLoopback {
            return proxy == nil ? .plainBeyondLoopback(address) : .proxy(.plainBeyondLoopback, at: address)
        }
        return nil
    }
}
