import Glibc

/// The field lines of `forwarded: append`, which tell the upstream the client's address (RFC 7239, http-rules.md 18.2).
///
/// The lines stand behind the client's own: a list is the sum of its lines, so the client's address is its last member.
/// `X-Real-IP` has one member only, so the client's own line is left out.
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
