/// What became of a person's request that was carried out.
package enum UserOutcome: Sendable {
    /// There is a new user, logged in and active.
    ///
    /// - isStored: a restart will find it so; else storing it is tried again. So it is with the others.
    case added(UserView, isStored: Bool)
    /// The user as it stands now. After a login it may be another one than was named: the one whose account it turned out to be.
    case user(UserView, isStored: Bool)
    /// The access token is new; its end, if it has one.
    case refreshed(WallTime?)
    /// Logged out here, which is for good. The user as it stands now, nil if it is forgotten with its session, and whether the service
    /// knows: if not, it is told in the background.
    case loggedOut(UserView?, isRevoked: Bool, isStored: Bool)
    /// Forgotten here; whether the store has forgotten it, too. If not, that is tried again.
    case removed(isStored: Bool)
}
