/// An identity service as a session sees it: three calls, each answered exactly once, on whatever queue.
///
/// Calls return at once. Each has a deadline of its own (connect 5 s, total 30 s), detached from any client.
package protocol IdentityService: AnyObject, Sendable {
    /// Which service and application this is, whatever its name; nil: nobody can tell.
    var fingerprint: IdentityFingerprint? { get }
    /// Logs in. A configured credential is read afresh.
    ///
    /// - Parameter guarded: keeps a refused credential from being sent again, and has each fault name the one that was sent; nil: it is
    ///   sent whatever came of it before, and no fault names it.
    func login(
        _ credential: Credential, guarded: LoginGuard?,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void)
    /// Asks for a new access token.
    func refresh(_ refreshToken: Secret, reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void)
    /// Tells the service that the session is over.
    func revoke(_ refreshToken: Secret, reply: @escaping @Sendable (Result<Void, IdentityError>) -> Void)
}

extension IdentityService {
    package var fingerprint: IdentityFingerprint? { nil }
}
