/// Decides from the head whether a caller may use the admin API, before any of the body is read (threats.md T1 to T3, T15). Pure.
struct AdminAccessPolicy {
    /// A unix socket accepts any `Host`, because no DNS name can lead a browser to it.
    let hosts: AllowedHosts
    /// The bearer token of calls over TCP; nil: there is none, and calls over TCP are refused. A unix socket checks its peer instead.
    let token: Secret?
    let isTCP: Bool
    let ownUID: UInt32

    /// nil: the call is allowed.
    func decide(
        _ head: RequestHead, _ target: OperatorTarget, in bytes: Bytes, _ table: FieldTable, peer: PeerCredentials
    ) -> OperatorResponse? {
        guard isTCP || peer.isTrusted(by: ownUID) else { return .callerNotAllowed }
        if let refusal = target.refusal(by: hosts, head, in: bytes, table, unknown: .adminHostNotAllowed) {
            return refusal
        }
        if isFromWebPage(head, in: bytes, table) { return .originNotAllowed }
        guard !isTCP || carriesToken(in: bytes, table) else { return .tokenRequired }
        return nil
    }

    /// Whether the request comes from a web page: no page may call the admin API or send a form to it.
    private func isFromWebPage(_ head: RequestHead, in bytes: Bytes, _ table: FieldTable) -> Bool {
        if head.traits.contains(.origin) { return true }
        guard head.traits.contains(.secFetchSite) else { return false }
        for index in 0..<table.count where table[index].name == .secFetchSite {
            let value = table.value(index, in: bytes)
            if value.equals(lowered: "cross-site") || value.equals(lowered: "same-site") { return true }
        }
        return false
    }

    /// Whether the request has an `Authorization` field. If the token check fails, such a request is a guess.
    func carriesAuthorization(in bytes: Bytes, _ table: FieldTable) -> Bool {
        (0..<table.count).contains { table.name($0, in: bytes).equals(lowered: "authorization") }
    }

    /// Whether there is exactly one `Authorization` field, with the scheme Bearer (RFC 6750 §2.1) and the configured token.
    /// The comparison takes the same time wherever the tokens differ.
    private func carriesToken(in bytes: Bytes, _ table: FieldTable) -> Bool {
        guard let token else { return false }
        var given: Secret?
        for index in 0..<table.count where table.name(index, in: bytes).equals(lowered: "authorization") {
            let value = table.value(index, in: bytes)
            guard given == nil, value.hasPrefix(lowered: "bearer ") else { return false }
            given = Secret(copying: UnsafeRawBufferPointer(value[run: 7..<value.count].trimmed))
        }
        return given == token
    }
}
