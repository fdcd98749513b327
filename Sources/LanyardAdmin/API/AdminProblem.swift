/// The problems of the admin API by their names, as its OpenAPI document lists them. A test compares them with the source.
enum AdminProblem: String, CaseIterable {
    case malformedRequest = "malformed-request"
    case tokenRequired = "admin-token-required"
    case callerNotAllowed = "caller-not-allowed"
    case originNotAllowed = "origin-not-allowed"
    case tokenNotExposed = "token-not-exposed"
    case noSuchUser = "no-such-user"
    case noSuchIdentity = "no-such-identity"
    case noRoute = "no-route"
    case methodNotAllowed = "method-not-allowed"
    case requestTimeout = "request-timeout"
    case nameInUse = "name-in-use"
    case accountInUse = "account-in-use"
    case notLoggedIn = "not-logged-in"
    case notSupported = "not-supported"
    case loginInProgress = "login-in-progress"
    case contentTooLarge = "content-too-large"
    case uriTooLong = "uri-too-long"
    case expectationFailed = "expectation-failed"
    case hostNotAllowed = "host-not-allowed"
    case invalidValue = "invalid-value"
    case configurationInvalid = "configuration-invalid"
    case restartNeeded = "restart-needed"
    case credentialRefused = "credential-refused"
    case fieldsTooLarge = "fields-too-large"
    case notImplemented = "not-implemented"
    case identityError = "identity-error"
    case identityUnreachable = "identity-unreachable"
    case loginRequired = "login-required"
    case overloaded
    case shuttingDown = "shutting-down"
    case storeFailing = "store-failing"
    case versionNotSupported = "version-not-supported"

    /// The statuses of its responses. `4XX` stands for each status of the identity service that has none of its own here.
    var statuses: [String] {
        switch self {
        case .malformedRequest: ["400"]
        case .tokenRequired: ["401"]
        case .callerNotAllowed, .originNotAllowed, .tokenNotExposed: ["403"]
        case .noSuchUser, .noSuchIdentity, .noRoute: ["404"]
        case .methodNotAllowed: ["405"]
        case .requestTimeout: ["408"]
        case .nameInUse, .accountInUse, .notLoggedIn, .notSupported, .loginInProgress: ["409"]
        case .contentTooLarge: ["413"]
        case .uriTooLong: ["414"]
        case .expectationFailed: ["417"]
        case .hostNotAllowed: ["421"]
        case .invalidValue, .credentialRefused, .configurationInvalid, .restartNeeded: ["422"]
        case .fieldsTooLarge: ["431"]
        case .notImplemented: ["501"]
        case .identityError: ["400", "401", "403", "404", "409", "422", "4XX", "502"]
        case .identityUnreachable, .loginRequired, .overloaded, .shuttingDown, .storeFailing: ["503"]
        case .versionNotSupported: ["505"]
        }
    }

    /// Whether a call of the route may end in it.
    func concerns(_ route: AdminRoute) -> Bool {
        let call = route.call(["user", "name"])
        switch self {
        case .noSuchUser: return call.userName != nil
        case .noSuchIdentity: if case .emailPassword = route { return true } else { return route == .addUser }
        case .tokenNotExposed: return route == .token
        case .nameInUse: return route == .addUser
        case .configurationInvalid, .restartNeeded: return route == .reload
        case .identityError, .identityUnreachable, .credentialRefused, .loginInProgress, .accountInUse:
            return call.waitsForOthers && route != .reload
        case .notLoggedIn, .notSupported, .loginRequired, .shuttingDown, .storeFailing:
            return call.userName != nil && route != .user || call.waitsForOthers && route != .reload
        default: return true
        }
    }

    /// The field that responses of a status carry; nil: none, or not always.
    static func field(of status: String) -> String? {
        switch status {
        case "401": "WWW-Authenticate"
        case "405": "Allow"
        default: nil
        }
    }
}
