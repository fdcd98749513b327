/// A token that is renewed elsewhere and that Lanyard only reads, such as the file of a `static` identity.
///
/// It has no refresh and no expiry. A user of such an identity is `valid` while the latest outcome was a token,
/// otherwise `refused`.
package protocol TokenFeed: AnyObject, Sendable {
    /// Begins to read. `onChange` is called on any queue, in order: soon after the start with the first outcome, then
    /// with each different one (new content, a file that vanished or came back). A failure's verdict is
    /// `credentialUnavailable`; its message names the path and the remedy. Called once.
    func start(_ onChange: @escaping @Sendable (Result<Secret, IdentityError>) -> Void)

    /// Ends the reading. A late call of `onChange` may still come.
    func stop()
}
