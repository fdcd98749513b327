import LanyardFoundations

/// A request at a broker's listener, until its response.
final class GrantExchange {
    let granter: any TokenGranter
    let target: RequestTarget
    /// What has come of the body. It may hold a secret.
    private(set) var body = SecretBuffer(capacity: 512)
    /// nil: the body is awaited, or the request is refused.
    private(set) var grant: TokenGrant?
    /// Of a refusal, now or later.
    private(set) var form = ResponseForm.problem

    init(_ granter: any TokenGranter, _ target: RequestTarget) {
        self.granter = granter
        self.target = target
    }

    /// - Returns: false: the body is too long.
    func append(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard body.count + bytes.count <= GrantRequest.bodyBytesMax else { return false }
        body.append(bytes)
        return true
    }

    func begin(_ grant: TokenGrant) { (self.grant, form) = (grant, grant.problemForm) }

    func refuse(as form: ResponseForm) { self.form = form }
}
