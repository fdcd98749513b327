/// A kind of login of the identity service.
package enum LoginKind: CaseIterable, Sendable {
    case anonymous
    case emailPassword
    case apiKey
    /// A custom function. Its secret is its argument, a JSON object.
    case function
    /// A JSON Web Token of another issuer, which the service verifies.
    case jwt
    case facebook
    case googleIDToken
    /// Google's authorization code, which works for one login.
    case googleAuthCode
    case apple
    /// OAuth 2.0: the client itself (RFC 6749 §4.4). Its secret is the identity's.
    case clientCredentials
    /// OAuth 2.0: a resource owner's password (RFC 6749 §4.3).
    case password
    /// OAuth 2.0: a refresh token from elsewhere, which works for one login.
    case refreshToken
    /// OAuth 2.0: an assertion that another program signs (RFC 7523 §2.1).
    case jwtBearer
    /// OAuth 2.0: an assertion that Lanyard signs with a key in PEM (RFC 7523 §2.1).
    case signedAssertion
    /// OAuth 2.0: the same with the JSON key file of a service account of Google.
    case googleKey
    /// OAuth 2.0: a token of another service that is exchanged (RFC 8693).
    case tokenExchange
    /// OAuth 2.0: a user confirms on another device (RFC 8628).
    case device
    /// OAuth 2.0: a user logs in with a browser on this machine (RFC 6749 §4.1, RFC 8252).
    case authorizationCode
    /// An installation of a GitHub App. Its key is the identity's.
    case gitHubApp
    /// A user of another Lanyard, whose broker knows this caller.
    case broker

    /// A login that a machine makes alone, that locks no account and can be repeated.
    package var isOfMachine: Bool {
        switch self {
        case .apiKey, .clientCredentials, .jwtBearer, .signedAssertion, .googleKey, .tokenExchange, .gitHubApp,
            .broker:
            true
        case .anonymous, .emailPassword, .function, .jwt, .facebook, .googleIDToken, .googleAuthCode, .apple, .password,
            .refreshToken, .device, .authorizationCode:
            false
        }
    }

    /// Why a login must not be made only to see whether it works; nil: it may be. A wrong password may count at the service.
    package var trialObstacle: String? {
        switch self {
        case .anonymous: "each anonymous login makes a new account"
        case .googleAuthCode: "an authorization code works for one login"
        case .refreshToken: "a refresh token may work once"
        case .device, .authorizationCode: "a user confirms it in a browser"
        case .emailPassword, .apiKey, .function, .jwt, .facebook, .googleIDToken, .apple, .clientCredentials, .password,
            .jwtBearer, .signedAssertion, .googleKey, .tokenExchange, .gitHubApp, .broker:
            nil
        }
    }

    /// The access token is the session: a login renews it, as a refresh would.
    package var isRefresh: Bool { isOfMachine && self != .apiKey }

    /// A login that was refused for its client alone is made a few times more: it sends neither a password nor an API key
    /// (refresh-outcomes.md 12).
    package var isRepeatedForClient: Bool { isRefresh || self == .refreshToken }

    /// The kinds that a kind of identity service has.
    package enum Service: CaseIterable, Sendable {
        case appServices, oauth, gitHubApp, lanyard

        /// The configuration's key of such an identity.
        package var key: String {
            switch self {
            case .appServices: "app_services"
            case .oauth: "oauth2"
            case .gitHubApp: "github_app"
            case .lanyard: "lanyard"
            }
        }
    }

    /// The kind of identity service that has this kind of login.
    package var service: Service {
        switch self {
        case .anonymous, .emailPassword, .apiKey, .function, .jwt, .facebook, .googleIDToken, .googleAuthCode, .apple:
            .appServices
        case .clientCredentials, .password, .refreshToken, .jwtBearer, .signedAssertion, .googleKey, .tokenExchange,
            .device, .authorizationCode:
            .oauth
        case .gitHubApp: .gitHubApp
        case .broker: .lanyard
        }
    }

    /// Whether the secret is a signing key, which only the configuration may name: a login by the admin API happens once, and such a login
    /// is the only renewal of its session.
    package var isConfiguredOnly: Bool { self == .signedAssertion || self == .googleKey }

    /// Whether a user completes the login in a browser: no configured credential can do it.
    package var isInteractive: Bool { self == .device || self == .authorizationCode }

    /// The `provider` of each kind, once.
    package static let providers = distinct(allCases)

    /// The `provider` of each kind that a kind of identity service has, once.
    package static func providers(of service: Service) -> [String] {
        distinct(allCases.filter { $0.service == service })
    }

    private static func distinct(_ kinds: [LoginKind]) -> [String] {
        kinds.map(\.provider).reduce(into: []) { providers, provider in
            if providers.last != provider { providers.append(provider) }
        }
    }

    /// The name in the configuration, the admin API and the metrics' `provider` label. The two kinds of App Services for Google share one,
    /// and so do the three that have an assertion.
    package var provider: String {
        switch self {
        case .anonymous: "anonymous"
        case .emailPassword: "email_password"
        case .apiKey: "api_key"
        case .function: "function"
        case .jwt: "jwt"
        case .facebook: "facebook"
        case .googleIDToken, .googleAuthCode: "google"
        case .apple: "apple"
        case .clientCredentials: "client_credentials"
        case .password: "password"
        case .refreshToken: "refresh_token"
        case .jwtBearer, .signedAssertion, .googleKey: "jwt_bearer"
        case .tokenExchange: "token_exchange"
        case .device: "device"
        case .authorizationCode: "authorization_code"
        case .gitHubApp: "github_app"
        case .broker: "broker"
        }
    }

    /// The configuration's key for the file with the secret, below the kind's section; nil: there is no secret.
    package var fileKey: String? {
        self == .signedAssertion ? "key.file" : secretName.map { $0 + "_file" }
    }

    /// The admin API's member with the secret; nil: there is no secret.
    package var secretName: String? {
        switch self {
        case .anonymous, .clientCredentials, .device, .authorizationCode, .gitHubApp, .broker: nil
        case .emailPassword, .password: "password"
        case .apiKey: "key"
        case .function: "payload"
        case .jwt, .refreshToken: "token"
        case .facebook: "access_token"
        case .googleIDToken, .apple: "id_token"
        case .googleAuthCode: "auth_code"
        case .jwtBearer: "assertion"
        case .signedAssertion: "key"
        case .googleKey: "google_key"
        case .tokenExchange: "subject_token"
        }
    }

    /// The member with the name of the account, in the configuration and the admin API; nil: the kind has none.
    package var accountName: String? {
        switch self {
        case .emailPassword: "email"
        case .password: "username"
        case .broker: "user"
        default: nil
        }
    }
}

/// A kind of login with what it needs. `Value` is the secret, or the path of its file.
package struct LoginMethod<Value> {
    package let kind: LoginKind
    /// The email address, user name or other Lanyard's user of a kind with an `accountName`.
    package let account: String?
    /// nil for a kind without a `secretName`.
    package let secret: Value?
    /// What an assertion says that Lanyard signs; nil for a kind without one.
    package var assertion: AssertionSettings?
    /// The types of the tokens of a token exchange.
    package var tokenTypes = TokenTypes()
    /// The token of who acts for the subject of a token exchange; nil: there is none.
    package var actorToken: Value?
    /// Of an interactive kind: names the tokens that the identity service has obtained for it and holds. nil: there are none yet.
    package var ticket: UInt64?

    private init(_ kind: LoginKind, _ account: String?, _ secret: Value?) {
        self.kind = kind
        self.account = account
        self.secret = secret
        assertion = kind.isConfiguredOnly ? AssertionSettings() : nil
    }

    /// nil: a part that the kind needs is missing, or there is one too many.
    package init?(_ kind: LoginKind, account: String?, secret: Value?) {
        guard (account != nil) == (kind.accountName != nil), (secret != nil) == (kind.secretName != nil) else {
            return nil
        }
        self.init(kind, account, secret)
    }

    package static var anonymous: Self { Self(.anonymous, nil, nil) }
    package static func emailPassword(email: String, password: Value) -> Self { Self(.emailPassword, email, password) }
    package static func apiKey(_ key: Value) -> Self { Self(.apiKey, nil, key) }
    package static func function(payload: Value) -> Self { Self(.function, nil, payload) }
    package static func jwt(_ token: Value) -> Self { Self(.jwt, nil, token) }
    package static func facebook(accessToken: Value) -> Self { Self(.facebook, nil, accessToken) }
    package static func googleIDToken(_ token: Value) -> Self { Self(.googleIDToken, nil, token) }
    package static func googleAuthCode(_ code: Value) -> Self { Self(.googleAuthCode, nil, code) }
    package static func apple(idToken: Value) -> Self { Self(.apple, nil, idToken) }
    package static var clientCredentials: Self { Self(.clientCredentials, nil, nil) }
    package static func password(username: String, _ password: Value) -> Self { Self(.password, username, password) }
    package static func refreshToken(_ token: Value) -> Self { Self(.refreshToken, nil, token) }
    package static func jwtBearer(assertion: Value) -> Self { Self(.jwtBearer, nil, assertion) }
    package static func signedAssertion(key: Value) -> Self { Self(.signedAssertion, nil, key) }
    package static func googleKey(_ key: Value) -> Self { Self(.googleKey, nil, key) }
    package static func tokenExchange(subjectToken: Value) -> Self { Self(.tokenExchange, nil, subjectToken) }
    package static var device: Self { Self(.device, nil, nil) }
    package static var authorizationCode: Self { Self(.authorizationCode, nil, nil) }
    package static var gitHubApp: Self { Self(.gitHubApp, nil, nil) }
    package static func broker(user: String) -> Self { Self(.broker, user, nil) }

    /// The kind's name (`LoginKind.provider`).
    package var provider: String { kind.provider }

    /// The same login with another secret, such as the content of its file.
    package func map<Other>(_ transform: (Value) -> Other) -> LoginMethod<Other> {
        var other = LoginMethod<Other>(kind, account, secret.map(transform))
        (other.assertion, other.tokenTypes, other.actorToken) = (assertion, tokenTypes, actorToken.map(transform))
        other.ticket = ticket
        return other
    }
}

extension LoginMethod: Equatable where Value: Equatable {}
extension LoginMethod: Sendable where Value: Sendable {}

extension LoginMethod<String> {
    /// The file with the secret; nil: there is none.
    package var secretFile: String? { secret }
    /// All files that the login reads.
    package var files: [String] { [secret, actorToken].compactMap(\.self) }
}
