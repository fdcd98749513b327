/// A session that was obtained for another user, or elsewhere. It is stored and served like the result of a login.
package struct ObtainedSession: Sendable {
    package var grant: Grant
    /// The clocks before the request was sent.
    package var startedAt: Instant
    package var startedAtWall: WallTime
    /// The kind of login, as `UserSettings.Login.provider` spells it; nil: unknown.
    package var provider: String?

    package init(_ grant: Grant, startedAt: Instant, startedAtWall: WallTime, provider: String? = nil) {
        self.grant = grant
        self.startedAt = startedAt
        self.startedAtWall = startedAtWall
        self.provider = provider
    }
}
