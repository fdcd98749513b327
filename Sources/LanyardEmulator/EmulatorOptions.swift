/// The start options of an emulator. Most can be changed later through `/emulator/…`.
public struct EmulatorOptions: Sendable {
    static let defaultAppID = "demo-abcde"

    /// The first app, which gets the users and keys of `seed`. Every app id that is neither this nor configured in the seed gets 404. The
    /// default gives way to the seed's first app.
    public var appID = EmulatorOptions.defaultAppID
    /// `127.0.0.1:port`, `[::1]:port` or `unix:/path`. Port 0 takes any free one.
    public var listen = "127.0.0.1:0"
    /// Lifetime of an access token in seconds. The real service has a fixed 1800.
    public var accessTokenSeconds = 1800.0
    /// Lifetime of a refresh token in seconds. The real service's default is 60 days. Applies to sessions created later.
    public var refreshTokenSeconds = 5_184_000.0
    /// Lifetime of an anonymous user's refresh token in seconds. The real service has about 50 years.
    public var anonymousRefreshTokenSeconds = 1_576_800_000.0
    /// Lifetime of the tokens in mails, in seconds. The real service has 30 minutes.
    public var mailTokenSeconds = 1800.0
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
    /// Whether errors have the texts of before May 2024, which tell more. Codes and statuses are the same.
    public var verboseTexts = false
    /// Whether the service has ended: 410 for every call of an existing app.
    public var isGone = false
    /// Whether refused links have a code and texts that realm-web does not take for an expired token.
    public var webLinkFailures = false
    /// The OAuth side; nil: that of `seed`, if it has one.
    public var oauth: OAuthSettings?
    /// Lifetime of a device code in seconds.
    public var deviceCodeSeconds = 600.0
    /// The interval of a device's polls in seconds.
    public var deviceIntervalSeconds = 5.0
    /// Lifetime of an authorization code in seconds.
    public var authorizationCodeSeconds = 60.0
    /// A file that keeps the state across starts; nil: everything is in memory.
    public var snapshotPath: String?
    /// Users, keys and apps that exist from the start.
    public var seed = Seed()

    /// The defaults: an app without users on a free port.
    public init() {}

    var oauthSettings: OAuthSettings? { oauth ?? seed.oauth }

    /// The apps that exist, the first app first. It has the seed's users and keys.
    var apps: [AppSettings] {
        var apps = seed.apps
        if let index = apps.firstIndex(where: { $0.appID == appID }) {
            apps.insert(apps.remove(at: index), at: 0)
        } else if apps.isEmpty || appID != Self.defaultAppID {
            apps.insert(AppSettings(appID: appID), at: 0)
        }
        apps[0].users = seed.users + apps[0].users
        apps[0].keys = seed.keys + apps[0].keys
        return apps
    }
}
