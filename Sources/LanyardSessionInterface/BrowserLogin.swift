import LanyardFoundations
import LanyardSettings

/// Logins that a user completes in a browser: on another device (RFC 8628), or on the machine of the command (RFC 8252).
///
/// Calls return at once. Nothing of such a login is stored before its tokens are a session's.
package protocol BrowserLoginService: AnyObject, Sendable {
    /// Begins a login. `onPrompt` comes once, unless the login ends before; then `onEnd` comes once. Both on any queue.
    ///
    /// - Returns: the login, which also lives without the caller.
    func begin(
        _ request: BrowserLoginRequest, onPrompt: @escaping @Sendable (BrowserLoginPrompt) -> Void,
        onEnd: @escaping @Sendable (Result<LoginMethod<Secret>, IdentityError>) -> Void
    ) -> any BrowserLogin
    /// The session of a login was not begun. Tokens that are still held are given up, and revoked at the service.
    func discard(_ login: LoginMethod<Secret>)
}

/// A login in a browser that is in progress.
package protocol BrowserLogin: AnyObject, Sendable {
    /// Ends it, whatever its state. `onEnd` does not come any more; tokens that come are revoked.
    func cancel()
    /// The query with which the server has sent the browser back (RFC 6749 §4.1.2).
    ///
    /// - Parameter reply: nil: the login continues with it, and `onEnd` follows. A message: it is not the response to this login, which
    ///   still waits.
    func receive(query: Secret, reply: @escaping @Sendable (String?) -> Void)
}

/// What a login in a browser begins with.
package enum BrowserLoginRequest: Equatable, Sendable {
    case device
    /// - redirectURI: where the browser comes back.
    case authorizationCode(redirectURI: String)

    package var kind: LoginKind {
        switch self {
        case .device: .device
        case .authorizationCode: .authorizationCode
        }
    }
}

/// What the user needs to complete a login. All texts are visible ASCII.
package struct BrowserLoginPrompt: Equatable, Sendable {
    /// To open in a browser.
    package var uri: String
    /// To type there; nil: nothing.
    package var userCode: String?
    /// `uri` with the code in it; nil: the server has none.
    package var completeURI: String?
    /// Later the login fails.
    package var expiresAt: WallTime
    /// How often the result may be asked for.
    package var interval: Duration

    package init(uri: String, userCode: String?, completeURI: String?, expiresAt: WallTime, interval: Duration) {
        self.uri = uri
        self.userCode = userCode
        self.completeURI = completeURI
        self.expiresAt = expiresAt
        self.interval = interval
    }
}
