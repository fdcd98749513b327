/// Who may call at all, judged from a request's head before anything of its body is read (threats.md T1 to T3, T15). Pure.
struct AdminAccessPolicy {
    /// Of a unix socket any `Host` is right: nobody is led to it by a name.
    let hosts: AllowedHosts
    /// The bearer token of calls over TCP; nil: the socket's peer decides.
    let token: Secret?
    let isTCP: Bool
    let ownUID: UInt32

    /// nil: the call may go on.
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

    /// A page may neither ask nor have its forms sent here, whatever origin it has.
    private func isFromWebPage(_ head: RequestHead, in bytes: Bytes, _ table: FieldTable) -> Bool {
        if head.traits.contains(.origin) { return true }
        guard head.traits.contains(.secFetchSite) else { return false }
        for index in 0..<table.count where table[index].name == .secFetchSite {
            let value = table.value(index, in: bytes)
            if value.equals(lowered: "cross-site") || value.equals(lowered: "same-site") { return true }
        }
        return false
    }

    /// A call that is refused for want of the token carries another one.
    func carriesAuthorization(in bytes: Bytes, _ table: FieldTable) -> Bool {
        (0..<table.count).contains { table.name($0, in: bytes).equals(lowered: "authorization") }
    }

    /// One `Authorization` field with the scheme Bearer (RFC 6750 §2.1) and the very token; the time does not tell where it differs.
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
