import LanyardFoundations
import LanyardSettings

/// A token that is renewed elsewhere and that Lanyard only reads, such as the file of a `static` identity.
///
/// It has no refresh and no expiry. A user of such an identity is `valid` while the latest outcome was a token,
/// `stale` after a failure with the verdict `credentialDelayed`, otherwise `refused`.
package protocol TokenFeed: AnyObject, Sendable {
    /// Begins to read. `onChange` is called on any queue, in order: soon after the start with the first outcome, then
    /// with each different one (new content, a file that vanished or came back). A failure's verdict is
    /// `credentialUnavailable`; its message names the path and the remedy. `credentialDelayed`: the former token serves
    /// until the next outcome, which comes within `TokenTransition.durationMax`. Called once.
    func start(_ onChange: @escaping @Sendable (Result<Secret, IdentityError>) -> Void)

    /// Ends the reading. A late call of `onChange` may still come.
    func stop()
}

/// A token's file that is being written.
package enum TokenTransition {
    /// For how long the former content serves while the file is empty, cut or missing.
    package static let durationMax = Duration.seconds(10)
}

/// Reports changes of the file of a user's configured credential, so that a refused user can try again.
package protocol CredentialWatch: AnyObject, Sendable {
    /// Begins to watch the file that `login` names, and those of the identity's client. `onChange` is called on any queue,
    /// soon after each change of a file's content (security-defences.md, "Watched files"). A new file and a swapped symlink are
    /// changes; the start is not.
    ///
    /// - Parameter login: nil: an operator or a browser logs the user in.
    func start(_ login: UserSettings.Login?, _ onChange: @escaping @Sendable () -> Void)

    /// Ends the watching. A late call of `onChange` may still come.
    func stop()
}
