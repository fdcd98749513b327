/// A token that somebody else renews and Lanyard merely reads, such as the file of a `static` identity.
///
/// It has no refresh and no end: a user of such an identity is `valid` while the last answer was a token, else `refused`.
package protocol TokenFeed: AnyObject, Sendable {
    /// Begins to read. `onChange` is called on whatever queue, in order: soon after the start with the first outcome, then with each
    /// other outcome (a new content, a file that vanished or came back), never twice running with the same one.
    /// A failure's verdict is `credentialUnavailable`; its words name the path and the remedy. Called once.
    func start(_ onChange: @escaping @Sendable (Result<Secret, IdentityError>) -> Void)

    /// Ends the reading. A late call of `onChange` may still come.
    func stop()
}
