/// The result of an operator's request that was carried out.
package enum UserOutcome: Sendable {
    /// There is a new user, logged in and active.
    ///
    /// - isStored: a restart will find the user so; otherwise storing is tried again. The same holds for the other
    ///   cases.
    case added(UserView, isStored: Bool)
    /// The user as it is now. After a login it may be another user than the named one: the owner of the account.
    case user(UserView, isStored: Bool)
    /// The access token is new; its end, if it has one.
    case refreshed(WallTime?)
    /// Logged out here for good. Carries the user as it is now, nil if it is forgotten with its session. If the service
    /// does not know yet, it is told in the background.
    case loggedOut(UserView?, isRevoked: Bool, isStored: Bool)
    /// Forgotten here; whether the store has forgotten it, too. If not, that is tried again.
    case removed(isStored: Bool)
}
