import FlyingFox

/// The routes with calls that are counted, delayed and failed. The raw value is the name in `/emulator/…`.
enum Route: String, CaseIterable, Sendable {
    case location, register, login, refresh, logout, profile, protected, link, delete, confirm, reset, function, stream,
        push, oauth
    case apiKeys = "api_keys"
    /// The token endpoint of the OAuth side, for each grant but a refresh.
    case oauthLogin = "oauth_login"
    case oauthRefresh = "oauth_refresh"
    case oauthRevoke = "oauth_revoke"
    /// The device authorization endpoint.
    case oauthDevice = "oauth_device"
    /// The page on which a user approves a device.
    case oauthVerify = "oauth_verify"
    /// The authorization endpoint and its login page.
    case oauthAuthorize = "oauth_authorize"
    case oauthIntrospect = "oauth_introspect"
    case oauthUserInfo = "oauth_userinfo"
    case oauthMetadata = "oauth_metadata"
    case oauthKeys = "oauth_jwks"
    /// Every other path under `/api`, `/app` and `/oauth`.
    case other

    /// Whether calls may change what a snapshot holds.
    var changesState: Bool {
        switch self {
        case .protected, .location, .profile, .other, .oauthIntrospect, .oauthUserInfo, .oauthMetadata, .oauthKeys:
            false
        case .register, .login, .refresh, .logout, .link, .delete, .confirm, .reset, .function, .stream, .push, .oauth,
            .apiKeys, .oauthLogin, .oauthRefresh, .oauthRevoke, .oauthDevice, .oauthVerify, .oauthAuthorize:
            true
        }
    }
}

/// A call of the client API, from its method, path and query.
struct ClientCall {
    enum Operation: Equatable {
        case location
        case login(String), link(String)
        /// The OAuth flow of a browser.
        case browserLogin(String)
        case refresh, logout, profile, deleteAccount
        case createKey, listKeys
        case key(String), deleteKey(String), setKeyDisabled(Bool, String)
        case register, confirm, sendConfirmation, callConfirmation, sendReset, callReset, reset
        case callFunction, watch
        case registerPush(String), deregisterPush(String)
        /// A part of the service that this emulator has not.
        case notEmulated(String)
        case protected
        case unknown
    }

    let route: Route
    let operation: Operation
    /// The client app id in the path; nil: the call's token names the app.
    let appID: String?

    private static let client = ["api", "client", "v2.0"]

    /// nil: neither a path of the service nor of the protected resource.
    init?(_ request: HTTPRequest) {
        let parts = request.path.split(separator: "/").map(String.init)
        switch parts.first {
        case "protected": self.init(.protected, .protected)
        // HTTPS endpoints and the Data API: /app/<id>/endpoint/….
        case "app": self.init(.other, .notEmulated("an HTTPS endpoint or the Data API"), app: parts.dropFirst().first)
        case "api" where Array(parts.prefix(3)) == Self.client:
            self.init(request, Array(parts.dropFirst(3)))
        case "api" where parts.dropFirst().first == "admin": self.init(.other, .notEmulated("the Admin API"))
        case "api": self.init(.other, .unknown)
        default: return nil
        }
    }

    private init(_ route: Route, _ operation: Operation, app: String? = nil) {
        self.route = route
        self.operation = operation
        appID = app
    }

    private init(_ request: HTTPRequest, _ parts: [String]) {
        switch parts.first {
        case "app" where parts.count > 1:
            let (route, operation) = Self.appCall(request, Array(parts.dropFirst(2)))
            self.init(route, operation, app: parts[1])
        case "auth":
            let (route, operation) = Self.sessionCall(request.method, Array(parts.dropFirst()))
            self.init(route, operation)
        default: self.init(.other, .unknown)
        }
    }

    /// Calls below `/auth`, whose token names the app.
    private static func sessionCall(_ method: HTTPMethod, _ parts: [String]) -> (Route, Operation) {
        switch (method, parts.first, parts.count) {
        case (.POST, "session", 1): return (.refresh, .refresh)
        case (.DELETE, "session", 1): return (.logout, .logout)
        case (.GET, "profile", 1): return (.profile, .profile)
        case (.DELETE, "delete", 1): return (.delete, .deleteAccount)
        case (.POST, "api_keys", 1): return (.apiKeys, .createKey)
        case (.GET, "api_keys", 1): return (.apiKeys, .listKeys)
        case (.GET, "api_keys", 2): return (.apiKeys, .key(parts[1]))
        case (.DELETE, "api_keys", 2): return (.apiKeys, .deleteKey(parts[1]))
        case (.PUT, "api_keys", 3) where parts[2] == "enable" || parts[2] == "disable":
            return (.apiKeys, .setKeyDisabled(parts[2] == "disable", parts[1]))
        default: return (parts.first == "api_keys" ? .apiKeys : .other, .unknown)
        }
    }

    /// Calls below `/app/<id>`.
    private static func appCall(_ request: HTTPRequest, _ parts: [String]) -> (Route, Operation) {
        let path = parts.joined(separator: "/")
        switch (request.method, path) {
        case (.GET, "location"): return (.location, .location)
        case (.POST, "functions/call"): return (.function, .callFunction)
        case (.GET, "functions/call"): return (.stream, .watch)
        case (_, "realm-sync"): return (.other, .notEmulated("Device Sync"))
        case (_, "graphql"): return (.other, .notEmulated("GraphQL, which the service has removed,"))
        default: break
        }
        if parts.count == 4, parts[0] == "push", parts[1] == "providers", parts[3] == "registration" {
            switch request.method {
            case .PUT: return (.push, .registerPush(parts[2]))
            case .DELETE: return (.push, .deregisterPush(parts[2]))
            default: return (.push, .unknown)
            }
        }
        guard parts.count >= 4, parts[0] == "auth", parts[1] == "providers" else { return (.other, .unknown) }
        return providerCall(request, parts[2], parts.dropFirst(3).joined(separator: "/"))
    }

    private static func providerCall(_ request: HTTPRequest, _ provider: String, _ path: String) -> (Route, Operation) {
        let isLink = request.query["link"] == "true"
        switch (request.method, path) {
        case (.POST, "login"): return isLink ? (.link, .link(provider)) : (.login, .login(provider))
        case (.GET, "login"): return (.oauth, .browserLogin(provider))
        case (.POST, _) where provider == Provider.emailPassword.rawValue: return emailPasswordCall(path)
        default: return (.other, .unknown)
        }
    }

    private static func emailPasswordCall(_ path: String) -> (Route, Operation) {
        switch path {
        case "register": (.register, .register)
        case "confirm": (.confirm, .confirm)
        case "confirm/send": (.confirm, .sendConfirmation)
        case "confirm/call": (.confirm, .callConfirmation)
        case "reset": (.reset, .reset)
        case "reset/send": (.reset, .sendReset)
        case "reset/call": (.reset, .callReset)
        default: (.other, .unknown)
        }
    }
}
