/// A session that was made on another user's behalf, or elsewhere: it is stored and served as if a login had brought it.
package struct ObtainedSession: Sendable {
    package var grant: Grant
    /// The clocks before the request was sent that brought it.
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
