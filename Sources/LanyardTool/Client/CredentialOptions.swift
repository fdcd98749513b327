import ArgumentParser
import LanyardClient
import LanyardFoundations
import LanyardSettings

/// A credential on the command line: one kind, its secret in a file, on standard input or typed.
struct CredentialOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Log in with email and password.", valueName: "address"))
    var email: String?

    @Option(help: ArgumentHelp("OAuth 2.0: log in with user name and password.", valueName: "name"))
    var username: String?

    @Option(
        help: ArgumentHelp(
            "The password for --email or --username; - is standard input. (default: a prompt on a terminal, else standard input)",
            valueName: "path"),
        completion: .file())
    var passwordFile: String?

    @Option(help: ArgumentHelp("An API key; - is standard input.", valueName: "path"), completion: .file())
    var apiKeyFile: String?

    @Flag(help: "Log in without a credential, as a new account.")
    var anonymous = false

    @Option(
        help: ArgumentHelp("The JSON object for the custom function; - is standard input.", valueName: "path"),
        completion: .file())
    var functionPayloadFile: String?

    @Option(help: ArgumentHelp("A custom JWT; - is standard input.", valueName: "path"), completion: .file())
    var jwtFile: String?

    @Option(
        help: ArgumentHelp("An access token of Facebook; - is standard input.", valueName: "path"),
        completion: .file())
    var facebookAccessTokenFile: String?

    @Option(
        name: .customLong("google-id-token-file"),
        help: ArgumentHelp("An ID token of Google; - is standard input.", valueName: "path"), completion: .file())
    var googleIDTokenFile: String?

    @Option(
        help: ArgumentHelp("An authorization code of Google; - is standard input.", valueName: "path"),
        completion: .file())
    var googleAuthCodeFile: String?

    @Option(
        name: .customLong("apple-id-token-file"),
        help: ArgumentHelp("An ID token of Apple; - is standard input.", valueName: "path"), completion: .file())
    var appleIDTokenFile: String?

    @Flag(help: "OAuth 2.0: log the client itself in.")
    var clientCredentials = false

    @Option(
        help: ArgumentHelp("OAuth 2.0: a refresh token from elsewhere; - is standard input.", valueName: "path"),
        completion: .file())
    var refreshTokenFile: String?

    @Option(
        help: ArgumentHelp("OAuth 2.0: an assertion (RFC 7523); - is standard input.", valueName: "path"),
        completion: .file())
    var assertionFile: String?

    @Option(
        help: ArgumentHelp("OAuth 2.0: a token to exchange (RFC 8693); - is standard input.", valueName: "path"),
        completion: .file())
    var subjectTokenFile: String?

    @Option(
        help: ArgumentHelp(
            "The type of that token: a URI, or access_token, refresh_token, id_token, saml1, saml2 or jwt.",
            valueName: "type"))
    var subjectTokenType: String?

    @Option(
        help: ArgumentHelp("OAuth 2.0: the token of who acts for the subject.", valueName: "path"), completion: .file())
    var actorTokenFile: String?

    @Option(help: ArgumentHelp("The type of that token.", valueName: "type"))
    var actorTokenType: String?

    @Flag(help: "OAuth 2.0: confirm the login on another device.")
    var device = false

    @Flag(name: .customLong("browser"), help: "OAuth 2.0: log in with a browser on this machine.")
    var browser = false

    func validate() throws {
        if kinds.count > 1 { throw ValidationError("\(kinds.joined(separator: " and ")): one credential logs in") }
        if passwordFile != nil, email == nil, username == nil {
            throw ValidationError("--password-file needs --email or --username")
        }
        if subjectTokenFile == nil, subjectTokenType ?? actorTokenFile ?? actorTokenType != nil {
            throw ValidationError("a token type or an actor token needs --subject-token-file")
        }
        if actorTokenFile == nil, actorTokenType != nil {
            throw ValidationError("--actor-token-type needs --actor-token-file")
        }
        for type in [subjectTokenType, actorTokenType].compactMap(\.self) where TokenTypes.uri(type) == nil {
            throw ValidationError(
                "\(type) is no type of a token: use a URI, or \(TokenTypes.words.joined(separator: ", "))")
        }
    }

    /// Whether the command line names a kind.
    var isGiven: Bool { !kinds.isEmpty }

    /// The flags that name a kind.
    private var kinds: [String] {
        let given: [(Bool, String)] = [
            (email != nil, "--email"), (apiKeyFile != nil, "--api-key-file"), (anonymous, "--anonymous"),
            (functionPayloadFile != nil, "--function-payload-file"), (jwtFile != nil, "--jwt-file"),
            (facebookAccessTokenFile != nil, "--facebook-access-token-file"),
            (googleIDTokenFile != nil, "--google-id-token-file"),
            (googleAuthCodeFile != nil, "--google-auth-code-file"),
            (appleIDTokenFile != nil, "--apple-id-token-file"), (username != nil, "--username"),
            (clientCredentials, "--client-credentials"), (refreshTokenFile != nil, "--refresh-token-file"),
            (assertionFile != nil, "--assertion-file"), (subjectTokenFile != nil, "--subject-token-file"),
            (device, "--device"), (browser, "--browser"),
        ]
        return given.filter(\.0).map(\.1)
    }

    /// Reads the credential; nil: none is named.
    func credential() throws -> LoginMethod<Secret>? {
        try CommandFailure.reported { () throws(InputError) in try read() }
    }

    private func read() throws(InputError) -> LoginMethod<Secret>? {
        if let email {
            return .emailPassword(
                email: email, password: try SecretInput.read(passwordFile, prompt: "Password of \(email)"))
        }
        if anonymous { return .anonymous }
        if let path = apiKeyFile { return .apiKey(try SecretInput.read(path, as: .token, prompt: "API key")) }
        if let path = functionPayloadFile {
            return .function(payload: try SecretInput.json(path, .object, prompt: "Payload"))
        }
        if let path = jwtFile { return .jwt(try SecretInput.read(path, as: .token, prompt: "JWT")) }
        if let path = facebookAccessTokenFile {
            return .facebook(accessToken: try SecretInput.read(path, as: .token, prompt: "Access token of Facebook"))
        }
        if let path = googleIDTokenFile {
            return .googleIDToken(try SecretInput.read(path, as: .token, prompt: "ID token of Google"))
        }
        if let path = googleAuthCodeFile {
            return .googleAuthCode(try SecretInput.read(path, as: .token, prompt: "Authorization code of Google"))
        }
        if let path = appleIDTokenFile {
            return .apple(idToken: try SecretInput.read(path, as: .token, prompt: "ID token of Apple"))
        }
        return try readOAuth()
    }

    private func readOAuth() throws(InputError) -> LoginMethod<Secret>? {
        if let username {
            return .password(
                username: username, try SecretInput.read(passwordFile, prompt: "Password of \(username)"))
        }
        if clientCredentials { return .clientCredentials }
        if device { return .device }
        if browser { return .authorizationCode }
        if let path = refreshTokenFile {
            return .refreshToken(try SecretInput.read(path, as: .token, prompt: "Refresh token"))
        }
        if let path = assertionFile {
            return .jwtBearer(assertion: try SecretInput.read(path, as: .token, prompt: "Assertion"))
        }
        if let path = subjectTokenFile {
            var login = LoginMethod.tokenExchange(
                subjectToken: try SecretInput.read(path, as: .token, prompt: "Subject token"))
            if let type = subjectTokenType.flatMap(TokenTypes.uri) { login.tokenTypes.subject = type }
            if let path = actorTokenFile {
                login.actorToken = try SecretInput.read(path, as: .token, prompt: "Actor token")
            }
            if let type = actorTokenType.flatMap(TokenTypes.uri) { login.tokenTypes.actor = type }
            return login
        }
        return nil
    }
}
