/// The configuration of one app.
struct AppSettings: Sendable {
    /// The client app id, such as `demo-abcde`.
    let appID: String
    var name: String
    /// Users and keys that exist from the start.
    var users: [Seed.User] = []
    var keys: [Seed.Key] = []
    var providers = ProviderSettings()
    var functions = BuiltinFunction.definitions
    /// Functions of linked services, by the service's name.
    var services: [String: [String: FunctionDefinition]] = [:]
    var pushServices: [String] = []
    /// Where the OAuth flow of browsers may end.
    var redirectURIs: [String] = []
    /// The origins of web pages that may call; empty: any.
    var allowedOrigins: [OriginPattern] = []

    init(appID: String) {
        self.appID = appID
        name = appID.lastIndex(of: "-").map { String(appID[..<$0]) } ?? appID
    }

    /// The id in every token of the app.
    var domainID: String { Identifiers.derived(from: "domain " + appID) }
}

/// The ways to log in. The raw value is the name in the protocol.
enum Provider: String, CaseIterable, Codable, Sendable {
    case anonymous = "anon-user"
    case emailPassword = "local-userpass"
    case apiKey = "api-key"
    case customFunction = "custom-function"
    case customToken = "custom-token"
    case google = "oauth2-google"
    case apple = "oauth2-apple"
    case facebook = "oauth2-facebook"

    /// Whether a browser can be sent to it.
    var isOAuth: Bool { self == .google || self == .apple || self == .facebook }
}

/// The providers of one app.
struct ProviderSettings: Sendable {
    /// The default providers need no further configuration.
    var enabled: Set<Provider> = [.anonymous, .emailPassword, .apiKey]
    var emailPassword = EmailPasswordSettings()
    /// The function that logs in; nil: none is configured.
    var loginFunction: String?
    var customToken = CustomTokenSettings()
    var google = OpenIDSettings(issuers: ["https://accounts.google.com", "accounts.google.com"])
    var apple = OpenIDSettings(issuers: ["https://appleid.apple.com"])
    /// Users by their authorization code (Google) or access token (Facebook).
    var googleCodes: [String: ExternalUser] = [:]
    /// Whether an authorization code logs in once, as Google's do.
    var areCodesUsedUp = false
    var facebookTokens: [String: ExternalUser] = [:]
    /// The user that a browser's OAuth flow logs in.
    var browserUsers: [Provider: ExternalUser] = [:]
}

/// A user as an external provider describes it.
struct ExternalUser: Sendable {
    /// The id of the identity.
    let id: String
    /// Members of the profile's `data`.
    var data = JSONObject()
}

/// The email/password provider of one app.
struct EmailPasswordSettings: Sendable {
    enum Confirmation: Equatable, Sendable { case automatic, email, function(String) }
    enum Reset: Equatable, Sendable { case email, function(String) }

    /// A page that mails lead to, and the subject of the mails.
    struct MailText: Sendable {
        var url: String
        var subject: String
    }

    var confirmation = Confirmation.automatic
    var reset = Reset.email
    var confirmationMail = MailText(url: "http://localhost/confirm", subject: "Confirm your email")
    var resetMail = MailText(url: "http://localhost/reset", subject: "Reset your password")
    var isCaseSensitive = true

    /// The form in which emails are compared.
    func comparable(_ email: String) -> String { isCaseSensitive ? email : email.lowercased() }
}
