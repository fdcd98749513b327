import FlyingFox

/// The parts of the OAuth side, by their path.
enum OAuthEndpoint: Equatable {
    case metadata, keys, authorize, token, device, verify, revoke, introspect, userInfo
    case unknown

    private static let metadataPaths: Set<String> = [
        // The place of RFC 8414 §3.1 and, for OpenID Connect Discovery 1.0 §4, the one below the issuer; each also with the other's name.
        "/.well-known/oauth-authorization-server/oauth", "/oauth/.well-known/openid-configuration",
        "/.well-known/openid-configuration/oauth", "/oauth/.well-known/oauth-authorization-server",
    ]

    /// nil: the path belongs to another part of the emulator.
    init?(path: String) {
        if Self.metadataPaths.contains(path) {
            self = .metadata
            return
        }
        guard path == "/oauth" || path.hasPrefix("/oauth/") else { return nil }
        switch path.dropFirst("/oauth".count) {
        case "/jwks": self = .keys
        case "/authorize": self = .authorize
        case "/token": self = .token
        case "/device_authorization": self = .device
        case "/device": self = .verify
        case "/revoke": self = .revoke
        case "/introspect": self = .introspect
        case "/userinfo": self = .userInfo
        default: self = .unknown
        }
    }

    /// Methods besides OPTIONS.
    var methods: [HTTPMethod] {
        switch self {
        case .metadata, .keys: [.GET, .HEAD]
        case .token, .device, .revoke, .introspect: [.POST]
        case .authorize, .verify, .userInfo: [.GET, .HEAD, .POST]
        case .unknown: []
        }
    }

    /// - Parameter form: the body's.
    func route(_ form: OAuthForm?) -> Route {
        switch self {
        case .metadata: .oauthMetadata
        case .keys: .oauthKeys
        case .authorize: .oauthAuthorize
        case .token: form?["grant_type"] == OAuthGrant.refreshToken.rawValue ? .oauthRefresh : .oauthLogin
        case .device: .oauthDevice
        case .verify: .oauthVerify
        case .revoke: .oauthRevoke
        case .introspect: .oauthIntrospect
        case .userInfo: .oauthUserInfo
        case .unknown: .other
        }
    }
}
