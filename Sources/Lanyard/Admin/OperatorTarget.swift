/// A request target as the health and admin listeners accept it: a path or an absolute http URL (RFC 9112 §3.2.1, §3.2.2).
struct OperatorTarget {
    /// The authority of an absolute target, which replaces `Host`; nil for a path.
    let authority: Bytes?
    /// Without query.
    let path: Bytes
    let hasQuery: Bool

    /// nil: the target has neither form.
    init?(_ target: Bytes) {
        var start = 0
        if target.hasPrefix(lowered: "http://") {
            let end = target[7...].firstIndex(of: UInt8(ascii: "/")) ?? target.count
            guard end > 7 else { return nil }
            authority = target[run: 7..<end]
            start = end
        } else if target[0] == UInt8(ascii: "/") {
            authority = nil
        } else {
            return nil
        }
        let end = target[start...].firstIndex(of: UInt8(ascii: "?")) ?? target.count
        path = target[run: start..<end]
        hasQuery = end < target.count
    }

    /// nil: the request names one of `hosts`. The authority of an absolute target replaces `Host`.
    ///
    /// HTTP/1.0 requests need neither, because no browser sends HTTP/1.0.
    ///
    /// - Parameter unknown: the response for other hosts.
    func refusal(
        by hosts: AllowedHosts, _ head: RequestHead, in bytes: Bytes, _ table: FieldTable, unknown: OperatorResponse
    ) -> OperatorResponse? {
        let host = authority ?? (head.host >= 0 ? table.value(head.host, in: bytes) : nil)
        return switch host.map(hosts.check) ?? .allowed {
        case .allowed: nil
        case .unknown: unknown
        case .malformed: .malformed(.malformed("a Host that is not host[:port]"))
        }
    }
}
