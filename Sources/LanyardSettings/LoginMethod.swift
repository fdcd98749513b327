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

    /// The `provider` of each kind, once.
    package static let providers = allCases.map(\.provider).reduce(into: [String]()) { providers, provider in
        if providers.last != provider { providers.append(provider) }
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
        }
    }

    /// The admin API's member with the secret. The configuration's key for its file ends in `_file`. nil: there is no secret.
    package var secretName: String? {
        switch self {
        case .anonymous: nil
        case .emailPassword: "password"
        case .apiKey: "key"
        case .function: "payload"
        case .jwt: "token"
        case .facebook: "access_token"
        case .googleIDToken, .apple: "id_token"
        case .googleAuthCode: "auth_code"
        }
    }
}

/// A kind of login with what it needs. `Value` is the secret, or the path of its file.
package struct LoginMethod<Value> {
    package let kind: LoginKind
    /// Of `emailPassword` alone.
    package let email: String?
    /// nil for `anonymous` alone.
    package let secret: Value?

    private init(_ kind: LoginKind, _ email: String?, _ secret: Value?) {
        self.kind = kind
        self.email = email
        self.secret = secret
    }

    /// nil: a part that the kind needs is missing, or there is one too many.
    package init?(_ kind: LoginKind, email: String?, secret: Value?) {
        guard (email != nil) == (kind == .emailPassword), (secret != nil) == (kind.secretName != nil) else {
            return nil
        }
        self.init(kind, email, secret)
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

    /// The kind's name (`LoginKind.provider`).
    package var provider: String { kind.provider }

    /// The same login with another secret, such as the content of its file.
    package func map<Other>(_ transform: (Value) -> Other) -> LoginMethod<Other> {
        LoginMethod<Other>(kind, email, secret.map(transform))
    }
}

extension LoginMethod: Equatable where Value: Equatable {}
extension LoginMethod: Sendable where Value: Sendable {}

extension LoginMethod<String> {
    /// The file with the secret; nil: there is none.
    package var secretFile: String? { secret }
}
