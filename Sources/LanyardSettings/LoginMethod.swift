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
    /// OAuth 2.0: a token of another service that is exchanged (RFC 8693).
    case tokenExchange

    /// The kinds that a kind of identity service has.
    package enum Service: Sendable { case appServices, oauth }

    /// The kind of identity service that has this kind of login.
    package var service: Service {
        switch self {
        case .anonymous, .emailPassword, .apiKey, .function, .jwt, .facebook, .googleIDToken, .googleAuthCode, .apple:
            .appServices
        case .clientCredentials, .password, .refreshToken, .jwtBearer, .tokenExchange: .oauth
        }
    }

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

    /// The name in the configuration, the admin API and the metrics' `provider` label. The two kinds of Google share one.
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
        case .jwtBearer: "jwt_bearer"
        case .tokenExchange: "token_exchange"
        }
    }

    /// The admin API's member with the secret. The configuration's key for its file ends in `_file`. nil: there is no secret.
    package var secretName: String? {
        switch self {
        case .anonymous, .clientCredentials: nil
        case .emailPassword, .password: "password"
        case .apiKey: "key"
        case .function: "payload"
        case .jwt, .refreshToken: "token"
        case .facebook: "access_token"
        case .googleIDToken, .apple: "id_token"
        case .googleAuthCode: "auth_code"
        case .jwtBearer: "assertion"
        case .tokenExchange: "subject_token"
        }
    }

    /// The member with the name of the account, in the configuration and the admin API; nil: the kind has none.
    package var accountName: String? {
        switch self {
        case .emailPassword: "email"
        case .password: "username"
        default: nil
        }
    }
}

/// A kind of login with what it needs. `Value` is the secret, or the path of its file.
package struct LoginMethod<Value> {
    package let kind: LoginKind
    /// The email address or user name of a kind with an `accountName`.
    package let account: String?
    /// nil for a kind without a `secretName`.
    package let secret: Value?

    private init(_ kind: LoginKind, _ account: String?, _ secret: Value?) {
        self.kind = kind
        self.account = account
        self.secret = secret
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
    package static func tokenExchange(subjectToken: Value) -> Self { Self(.tokenExchange, nil, subjectToken) }

    /// The kind's name (`LoginKind.provider`).
    package var provider: String { kind.provider }

    /// The same login with another secret, such as the content of its file.
    package func map<Other>(_ transform: (Value) -> Other) -> LoginMethod<Other> {
        LoginMethod<Other>(kind, account, secret.map(transform))
    }
}

extension LoginMethod: Equatable where Value: Equatable {}
extension LoginMethod: Sendable where Value: Sendable {}

extension LoginMethod<String> {
    /// The file with the secret; nil: there is none.
    package var secretFile: String? { secret }
}
