/// The OAuth side of the emulator: its clients, and what they may ask for (emulator-oauth.md).
public struct OAuthSettings: Sendable {
    /// A client (RFC 6749 §2). Its grants, scopes and redirect URIs are not restricted unless a configuration restricts them.
    public struct Client: Sendable {
        /// Printable ASCII.
        public var id: String
        /// nil: a public client.
        public var secret: String?
        /// Whether each call needs the secret. Otherwise a call without it counts as that of a public client.
        public var requiresSecret = true
        var grants = Set(OAuthGrant.allCases)
        /// nil: those of the settings.
        var scopes: [String]?
        /// In addition to every loopback address, unless there is one here.
        var redirectURIs: [String] = []
        /// `aud` of access tokens for which no call has named an audience; empty: the issuer.
        var audience: [String] = []

        /// A client with every grant.
        public init(id: String, secret: String? = nil) {
            self.id = id
            self.secret = secret
        }

        /// `demo` with the secret `demo-secret`. Users log in without the secret, too.
        public static var demo: Client {
            var client = Client(id: "demo", secret: "demo-secret")
            client.requiresSecret = false
            return client
        }
    }

    /// In the order of their configuration. Ids differ.
    public var clients = [Client.demo]
    /// The scopes that exist; nil: any.
    public var scopes: [String]?
    /// The resources that exist (RFC 8707); nil: any.
    var resources: [String]?
    /// Signs tokens; nil: a new P-256 key.
    var signingKey: SigningKey?
    /// Verify tokens of other issuers that come as the subject or actor of an exchange.
    var subjectKeys: [VerificationKey] = []

    /// The client `demo`, any scope, a new key.
    public init() {}

    /// Whether a text can be a scope (RFC 6749 §3.3).
    public static func isScope(_ text: String) -> Bool { OAuthScope.isToken(text) }

    /// Whether a text can be a client id, or a secret (RFC 6749 appendix A.1 and A.2).
    public static func isPrintable(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { (0x20...0x7E).contains($0) }
    }
}

/// The grants of the token endpoint, by their `grant_type`.
enum OAuthGrant: String, CaseIterable, Sendable {
    case clientCredentials = "client_credentials"
    case password
    case refreshToken = "refresh_token"
    case authorizationCode = "authorization_code"
    case deviceCode = "urn:ietf:params:oauth:grant-type:device_code"
    case tokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange"

    /// The name in configurations, sessions and statistics.
    var name: String {
        switch self {
        case .clientCredentials, .password, .refreshToken, .authorizationCode: rawValue
        case .deviceCode: "device_code"
        case .tokenExchange: "token_exchange"
        }
    }

    static func named(_ name: String) -> OAuthGrant? { allCases.first { $0.name == name } }
}
