import Glibc

/// Who a connection's client really is, as `forwarded: append` tells the upstream (RFC 7239, http-rules.md 18.2).
///
/// Lines of their own behind the client's: a list is the sum of its lines, so the real peer is its last member. `X-Real-IP` has one member
/// only, and the client's own is left out.
struct ForwardedPeer {
    /// Whole field lines.
    let lines: [UInt8]

    /// - Parameter raw: the client's socket.
    init(_ raw: CInt) {
        let host = SocketAddress(filledBy: { getpeername(raw, $0, $1) == 0 })?.host ?? ""
        // A unix socket's peer has no address (RFC 7239 §6.2).
        let name = host.isEmpty ? "unknown" : host
        let node = name.utf8.contains(UInt8(ascii: ":")) ? "\"[\(name)]\"" : name
        lines = Array("Forwarded: for=\(node)\r\nX-Forwarded-For: \(name)\r\nX-Real-IP: \(name)\r\n".utf8)
    }
}
