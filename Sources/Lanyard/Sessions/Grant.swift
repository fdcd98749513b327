/// What a successful login or refresh brought.
package struct Grant: Sendable {
    package var accessToken: Secret
    /// nil: the refresh token in hand stays (App Services never sends a new one).
    package var refreshToken: Secret?
    /// The service's id of the account; nil after a refresh.
    package var userID: String?
    /// How long the access token lives from the moment before the request was sent (refresh.md 1): at least 2 s.
    package var lifetime: Duration
    /// The refresh token's own end, if it says so.
    package var refreshTokenExpiry: WallTime?
    /// The service's `Date`, to learn the skew from.
    package var serverDate: WallTime?

    package init(
        accessToken: Secret, refreshToken: Secret?, userID: String?, lifetime: Duration, refreshTokenExpiry: WallTime?,
        serverDate: WallTime?
    ) {
        self.accessToken = accessToken
        self.refreshToken = refreshToken
        self.userID = userID
        self.lifetime = lifetime
        self.refreshTokenExpiry = refreshTokenExpiry
        self.serverDate = serverDate
    }
}
