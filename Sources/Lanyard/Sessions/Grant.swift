/// The tokens of a successful login or refresh (RFC 6749 §5.1).
package struct Grant: Sendable {
    package var accessToken: Secret
    /// nil: the refresh token in hand stays (App Services never sends a new one).
    package var refreshToken: Secret?
    /// The service's id of the account; nil after a refresh.
    package var userID: String?
    /// How long the access token lives from the moment before the request was sent (refresh.md 1): at least 2 s.
    package var lifetime: Duration
    /// The refresh token's own expiry, if it states one.
    package var refreshTokenExpiry: WallTime?
    /// The service's `Date`, from which the skew is learned.
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
