/// An identity service as a session sees it: three calls, each answered exactly once, on whatever queue.
///
/// Calls return at once. Each has a deadline of its own (connect 5 s, total 30 s), detached from any client.
package protocol IdentityService: AnyObject, Sendable {
    /// Logs in with the user's configured credential, read afresh.
    func login(_ login: UserSettings.Login, reply: @escaping @Sendable (Result<Grant, IdentityFault>) -> Void)
    /// Asks for a new access token.
    func refresh(_ refreshToken: Secret, reply: @escaping @Sendable (Result<Grant, IdentityFault>) -> Void)
    /// Tells the service that the session is over.
    func revoke(_ refreshToken: Secret, reply: @escaping @Sendable (Result<Void, IdentityFault>) -> Void)
}
