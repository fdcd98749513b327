/// An identity service as a session sees it: three calls. Each gets exactly one reply, on any queue.
///
/// Calls return at once. Each has its own deadline (connect 5 s, total 30 s), independent of any client.
package protocol IdentityService: AnyObject, Sendable {
    /// The service and application, whatever the identity's name; nil: unknown.
    var fingerprint: IdentityFingerprint? { get }
    /// Logs in. A configured credential is read anew.
    ///
    /// - Parameter guarded: keeps a refused credential from being sent again, and makes each error carry the
    ///   fingerprint of the sent one. If nil, the credential is always sent, and no error carries a fingerprint.
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
