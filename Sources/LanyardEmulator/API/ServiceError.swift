/// An error of the service: status, text and, for most, a code. The texts are those of the real service after May 2024.
///
/// A type of its own, because it is a response: status, text and code go to the client.
struct ServiceError: Error, Equatable {
    var status: Int
    var code: String?
    var text: String
    /// The text of before May 2024, if it was another one.
    var verboseText: String?
    /// Whether a function has failed that had begun to run.
    var isOfFunction = false

    init(_ status: Int, _ code: String?, _ text: String, verbose: String? = nil) {
        self.status = status
        self.code = code
        self.text = text
        verboseText = verbose
    }

    // Logging in.
    static let wrongPassword = ServiceError(
        401, "InvalidPassword", "unauthorized", verbose: "invalid username/password")
    static let pendingAccount = ServiceError(401, "AuthError", "unauthorized", verbose: "confirmation required")
    static let refusedKey = ServiceError(401, "AuthError", "unauthorized", verbose: "invalid API key")
    static func refusedToken(_ reason: String) -> ServiceError {
        ServiceError(401, "AuthError", "unauthorized", verbose: "invalid custom auth token: \(reason)")
    }
    static func refusedByProvider(_ reason: String) -> ServiceError {
        ServiceError(401, "AuthError", "unauthorized", verbose: reason)
    }
    static let disabled = ServiceError(401, "UserDisabled", "user disabled")
    static func unsupportedProvider(_ name: String) -> ServiceError {
        ServiceError(401, "InvalidSession", "authentication via '\(name)' is unsupported")
    }
    static func unknownApp(_ id: String) -> ServiceError {
        ServiceError(404, nil, "cannot find app using Client App ID '\(id)'")
    }
    /// The request comes from a web page of an origin that `allowed_request_origins` does not have.
    static let originForbidden = ServiceError(403, nil, "origin forbidden")
    static let gone = ServiceError(410, nil, "Atlas App Services and Device Sync have reached EOL")

    // Linking.
    static let identityInUse = ServiceError(
        401, "InvalidSession", "unauthorized", verbose: "a user already exists with the specified provider")
    /// The service's response to a second email/password identity.
    static let secondEmail = ServiceError(
        500, nil, "unauthorized", verbose: "linking a local-userpass identity is not allowed when one is already linked"
    )
    static let anonymousLink = ServiceError(400, "BadRequest", "cannot link anonymous credentials to an existing user")

    // Email and password.
    static let nameInUse = ServiceError(409, "AccountNameInUse", "name already in use")
    static let passwordLength = ServiceError(400, "BadRequest", "password must be between 6 and 128 characters")
    static let emailInvalid = ServiceError(400, "BadRequest", "email invalid")
    static let invalidTokenData = ServiceError(400, "BadRequest", "invalid token data")
    static let pairInvalid = ServiceError(400, "UserpassTokenInvalid", "userpass token is expired or invalid")
    static let alreadyConfirmed = ServiceError(400, "UserAlreadyConfirmed", "already confirmed")
    static let userNotFound = ServiceError(404, "UserNotFound", "user not found")
    static let resetByFunction = ServiceError(400, nil, "please use reset password via function")
    static let resetByEmail = ServiceError(400, nil, "please use reset password via email")
    static func confirmationRefused(_ email: String) -> ServiceError {
        ServiceError(400, "BadRequest", "failed to confirm user \"\(email)\"")
    }
    static func confirmationNotRun(_ email: String, because reason: String) -> ServiceError {
        ServiceError(400, nil, "cannot run confirmation for \(email): \(reason)")
    }
    static func resetRefused(_ email: String) -> ServiceError {
        ServiceError(400, nil, "failed to reset password for user \"\(email)\"")
    }

    // API keys.
    static let keyName = ServiceError(
        400, "InvalidParameter", "can only contain ASCII letters, numbers, underscores, and hyphens")
    static let keyNameMissing = ServiceError(400, nil, "'name' is a required string")
    static let keyNameInUse = ServiceError(409, "APIKeyAlreadyExists", "API key with name already exists")
    static let keyNotFound = ServiceError(404, "APIKeyNotFound", "API key not found")
    static let keyOfSession = ServiceError(403, nil, "cannot delete the API key of this session")
    static let keysOfAnonymous = ServiceError(403, nil, "anonymous users cannot have API keys")
    static let keyLimit = ServiceError(400, "BadRequest", "a user has at most 20 API keys")

    // Functions and services.
    static let functionNotFound = ServiceError(404, "FunctionNotFound", "function not found")
    static let watchRefused = ServiceError(403, "InvalidSession", "invalid session: session has ended")
    static func notCallable(_ name: String) -> ServiceError {
        ServiceError(400, "NotCallable", "function '\(name)' cannot be called by clients")
    }
    static func serviceNotFound(_ name: String) -> ServiceError {
        ServiceError(404, "ServiceNotFound", "service not found: '\(name)'")
    }
    static func commandNotFound(_ name: String) -> ServiceError {
        ServiceError(404, "ServiceCommandNotFound", "command not found: '\(name)'")
    }
    static func function(_ failure: FunctionError) -> ServiceError {
        var error = ServiceError(failure.status, failure.code, failure.text)
        error.isOfFunction = true
        return error
    }

    // Tokens on calls.
    static let unauthenticated = ServiceError(401, nil, "must authenticate first")
    static let emptyBearer = ServiceError(401, nil, "expected Authorization header with JWT (Bearer schema)")
    static let refreshUnparsable = ServiceError(401, nil, "token contains an invalid number of segments")
    /// The real service's differs by call. With this code realm-web refreshes.
    static let accessUnparsable = ServiceError(
        401, "InvalidSession", "invalid session: token contains an invalid number of segments")
    static let accessExpired = ServiceError(401, "InvalidSession", "invalid session: access token expired")
    static let accessBadSignature = ServiceError(401, "InvalidSession", "invalid session: signature is invalid")
    static let accessRevoked = ServiceError(401, "InvalidSession", "invalid session: access token revoked")
    static let refreshWhereAccess = ServiceError(401, "InvalidSession", "invalid session: incorrect token type")
    static let accessWhereRefresh = ServiceError(401, nil, "invalid refresh token: incorrect token type")
    static let refreshBadSignature = ServiceError(401, nil, "signature is invalid")
    static let refreshUnknown = ServiceError(401, "InvalidSession", "invalid session: failed to find refresh token")
    static let refreshExpired = ServiceError(401, "InvalidSession", "invalid session: refresh token expired")
    static let otherApp = ServiceError(401, "UserAppDomainMismatch", "the user belongs to another app")

    // Any call.
    static let malformed = ServiceError(400, "BadRequest", "malformed JSON body")
    static func missing(_ name: String) -> ServiceError {
        ServiceError(400, "MissingParameter", "'\(name)' is a required string")
    }
    static func invalid(_ name: String, _ expected: String) -> ServiceError {
        ServiceError(400, "InvalidParameter", "'\(name)' must be \(expected)")
    }
    static let noSuchRoute = ServiceError(404, nil, "not found")
    static func notEmulated(_ what: String) -> ServiceError { ServiceError(501, nil, "\(what) is not emulated") }
    static let tooLarge = ServiceError(413, nil, "request body too large")
    static let tooManyRequests = ServiceError(429, nil, "too many requests")
    static let maintenance = ServiceError(500, "MaintenanceInProgress", "service is down for maintenance")
}
