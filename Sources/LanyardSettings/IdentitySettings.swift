/// One entry of `identities:`.
package struct IdentitySettings: Equatable, Sendable {
    /// What the identity is.
    package indirect enum Kind: Equatable, Sendable {
        case appServices(AppServices)
        /// An OAuth 2.0 authorization server.
        case oauth(OAuth)
        /// An installation of a GitHub App.
        case gitHubApp(GitHubApp)
        /// Another Lanyard that holds the sessions.
        case lanyard(OtherLanyard)
        /// The file's content is the token; read again when it changes.
        case staticToken(file: String)
    }

    /// An App Services application.
    package struct AppServices: Equatable, Sendable {
        /// The client app id.
        package var appID: String
        /// An `http` or `https` URL, with a path if the service is behind a proxy. No trailing slash.
        package var baseURL: String
        package var rotation = RefreshTokenRotation.none
        package init(appID: String, baseURL: String) {
            self.appID = appID
            self.baseURL = baseURL
        }
    }

    /// How calls leave the machine.
    package enum Proxy: Equatable, Sendable { case none, environment, url(String) }

    package var name: String
    /// What the identity is.
    package var kind: Kind
    /// Authorities that are trusted in place of the system's; nil: the system's.
    package var caFile: String?
    /// A client certificate; nil: none.
    package var certificateFile: String?
    /// The client certificate's key.
    package var keyFile: String?
    /// How calls leave the machine.
    package var proxy = Proxy.none
    /// `user:password` for the proxy of a URL (Basic, RFC 7617); nil: it asks for none.
    package var proxyCredentialsFile: String?
    /// `unsafe_plain`: credentials and tokens may be sent over plain http to addresses that are not loopback.
    package var allowsPlain = false

    package init(name: String, kind: Kind) {
        self.name = name
        self.kind = kind
    }

    /// Where the service is asked; nil: nowhere, its token is in a file.
    package var url: String? {
        switch kind {
        case .appServices(let app): app.baseURL
        case .oauth(let client): client.issuerURL ?? client.endpoints.token
        case .gitHubApp(let app): app.baseURL
        case .lanyard(let other): other.addresses.first?.description
        case .staticToken: nil
        }
    }

    /// Secret files of the client itself, whose change may make a refused login succeed.
    package var clientFiles: [String] {
        switch kind {
        case .appServices, .staticToken: return []
        case .gitHubApp(let app): return [app.keyFile]
        case .lanyard(let other): return [other.capabilityFile].compactMap(\.self)
        case .oauth(let client):
            let fields = client.tokenFields.compactMap {
                if case .file(let path) = $0.value { path } else { nil as String? }
            }
            // A renewed certificate is another proof of the client.
            let certificate = client.authentication == .tls ? [certificateFile, keyFile] : []
            return ([client.authentication.file] + certificate).compactMap(\.self) + fields
        }
    }
}

/// What a refresh does to the refresh token, as the identity's profile says: it decides what follows from a lost response
/// (refresh-outcomes.md 9), and whether the user's lock outlasts a failure to store.
package enum RefreshTokenRotation: String, Sendable, CaseIterable {
    /// The refresh token stays (App Services).
    case none
    /// Each refresh brings a new one; a repeat soon after gets the same successor.
    case grace
    /// Each refresh brings a new one; a repeat ends the session at the identity service.
    case oneUse = "one_use"
    /// As `none`, until a response has brought another refresh token than the one that was sent; then `oneUse`.
    case auto
}

/// What is known of an identity's refresh tokens, besides the responses.
package struct RefreshTokenSettings: Equatable, Sendable {
    /// What a refresh does to them.
    package var rotation: RefreshTokenRotation
    /// How long after a refresh its refresh token may be sent again, with `grace`; nil: no limit is known.
    package var graceWindow: Duration?
    /// How long a session's refresh tokens live from its login, if the service does not say when one ends; nil: unknown.
    package var lifetime: Duration?
    /// How long a refresh token lives without use; nil: unknown.
    package var idle: Duration?
    /// A refresh token that works only once, and whose outcome is unknown, is sent once more when nothing is left to lose.
    package var lastTry = false

    package init(_ rotation: RefreshTokenRotation = .none, graceWindow: Duration? = nil) {
        self.rotation = rotation
        self.graceWindow = graceWindow
    }
}
