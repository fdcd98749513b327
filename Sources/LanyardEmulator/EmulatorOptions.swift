/// The start options of an emulator. Most can be changed later through `/emulator/…`.
public struct EmulatorOptions: Sendable {
    /// The only app that exists. Every other app id gets 404.
    public var appID = "demo-abcde"
    /// `127.0.0.1:port`, `[::1]:port` or `unix:/path`. Port 0 takes any free one.
    public var listen = "127.0.0.1:0"
    /// Lifetime of an access token in seconds. The real service has a fixed 1800.
    public var accessTokenSeconds = 1800.0
    /// Lifetime of a refresh token in seconds. The real service's default is 60 days. Applies to sessions created later.
    public var refreshTokenSeconds = 5_184_000.0
    /// Whether revoking sessions also revokes access tokens that were issued before. The real service does not revoke them.
    public var revokeEndsAccessTokens = false
    /// Whether a logout also revokes the access tokens of its session. The real service does not revoke them.
    public var logoutEndsAccessTokens = false
    /// Whether session calls return new refresh tokens. The real service's do not.
    public var rotation = RefreshRotation.none
    /// Under `grace`: seconds in which the previous refresh token may be repeated.
    public var rotationGraceSeconds = 30.0
    /// Seconds by which the service's clock is ahead of the machine's; negative: behind it.
    public var clockOffsetSeconds = 0.0
    /// Users and keys that exist from the start.
    public var seed = Seed()

    /// The defaults: an app without users on a free port.
    public init() {}
}
