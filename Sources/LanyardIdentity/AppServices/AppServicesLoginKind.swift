import LanyardSettings

/// How a kind of login is sent (app-services.md 2.1), checked, and named in messages.
struct AppServicesLoginKind: Equatable, Sendable {
    /// The provider's path segment.
    let provider: String
    /// The member of the body that has the secret. nil: the login has none, or the secret is a document whose members become the
    /// body's.
    var member: String?
    /// The key of the secret's file in the configuration, below `login`.
    var key: String?
    var format = CredentialFormat.text
    /// One login at most can be made with such a credential.
    var isOneUse = false
    /// A new account may wait for its confirmation. The service then refuses its login by `AuthError`, and a wrong password by
    /// another code.
    var hasPendingAccounts: Bool { provider == "local-userpass" }
    /// What else may be the reason if the service refuses the credential.
    var refusalHint: String?

    /// nil: a kind of another identity service.
    init?(of kind: LoginKind) {
        switch kind {
        case .clientCredentials, .password, .refreshToken, .jwtBearer, .signedAssertion, .googleKey, .tokenExchange,
            .device, .authorizationCode, .gitHubApp, .broker:
            return nil
        case .anonymous: self.init(provider: "anon-user")
        case .emailPassword: self.init(provider: "local-userpass", member: "password")
        case .apiKey: self.init(provider: "api-key", member: "key", format: .token)
        case .function:
            self.init(
                provider: "custom-function", format: .document,
                refusalHint: "the function refuses by an error, and by a result that is no id")
        case .jwt:
            self.init(
                provider: "custom-token", member: "token", format: .jwt,
                refusalHint: "key, aud, sub and exp of the JWT must be as the service expects")
        case .facebook:
            self.init(
                provider: "oauth2-facebook", member: "accessToken", format: .token,
                refusalHint: "the access token may have expired")
        case .googleIDToken:
            self.init(
                provider: "oauth2-google", member: "id_token", format: .jwt, refusalHint: Self.idTokenHint)
        case .googleAuthCode:
            self.init(
                provider: "oauth2-google", member: "authCode", format: .token, isOneUse: true,
                refusalHint: "an authorization code works once, and for some minutes only")
        case .apple:
            self.init(
                provider: "oauth2-apple", member: "id_token", format: .jwt, refusalHint: Self.idTokenHint)
        }
        key = kind.secretName.map { "\(kind.provider).\($0)_file" }
    }

    private init(
        provider: String, member: String? = nil, format: CredentialFormat = .text,
        isOneUse: Bool = false, refusalHint: String? = nil
    ) {
        self.provider = provider
        self.member = member
        self.format = format
        self.isOneUse = isOneUse
        self.refusalHint = refusalHint
    }

    private static let idTokenHint = "the ID token may have expired, or be for another client"
}
