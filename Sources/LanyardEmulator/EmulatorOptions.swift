/// What an emulator is started with. Most of it can be changed later through `/emulator/…`.
public struct EmulatorOptions: Sendable {
    /// The one app that exists; every other app id is answered with 404.
    public var appID = "demo-abcde"
    /// `127.0.0.1:port`, `[::1]:port` or `unix:/path`. Port 0 takes any free one.
    public var listen = "127.0.0.1:0"
    /// Life of an access token in seconds; the real service has 1800, fixed.
    public var accessTokenSeconds = 1800.0
    /// Life of a refresh token in seconds; the real service's default is 60 days. In force for sessions created afterwards.
    public var refreshTokenSeconds = 5_184_000.0
    /// Whether revoking sessions also ends access tokens that were issued already. The real service leaves them.
    public var revokeEndsAccessTokens = false
    /// Whether a logout also ends the access tokens of its session. The real service leaves them.
    public var logoutEndsAccessTokens = false
    /// Whether session calls bring new refresh tokens. The real service's do not.
    public var rotation = RefreshRotation.none
    /// How long the refresh token before the one in force may be repeated under `grace`.
    public var rotationGraceSeconds = 30.0
    /// Seconds by which the service's clock is ahead of the machine's, or behind it.
    public var clockOffsetSeconds = 0.0
    /// Users and keys that exist from the start.
    public var seed = Seed()

    /// The defaults: an app without users on a free port.
    public init() {}
}
