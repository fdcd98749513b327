/// An error of the service: status, text and, for most, a code. The texts are those of the real service after May 2024.
///
/// A type of its own, because it is a response: status, text and code go to the client.
struct ServiceError: Error, Equatable {
    var status: Int
    var code: String?
    var text: String

    init(_ status: Int, _ code: String?, _ text: String) {
        self.status = status
        self.code = code
        self.text = text
    }

    // Logging in.
    static let wrongPassword = ServiceError(401, "InvalidPassword", "unauthorized")
    static let refusedCredential = ServiceError(401, "AuthError", "unauthorized")
    static let disabled = ServiceError(401, "UserDisabled", "user disabled")
    static func unsupportedProvider(_ name: String) -> ServiceError {
        ServiceError(401, "InvalidSession", "authentication via '\(name)' is unsupported")
    }
    static func unknownApp(_ id: String) -> ServiceError {
        ServiceError(404, nil, "cannot find app using Client App ID '\(id)'")
    }

    // Registering.
    static let nameInUse = ServiceError(409, "AccountNameInUse", "name already in use")
    static let passwordLength = ServiceError(400, "BadRequest", "password must be between 6 and 128 characters")
    static let emailInvalid = ServiceError(400, "BadRequest", "email invalid")
    static let malformed = ServiceError(400, "BadRequest", "malformed JSON body")
    static func missing(_ name: String) -> ServiceError {
        ServiceError(400, "MissingParameter", "'\(name)' is a required string")
    }

    // Tokens on calls.
    static let unauthenticated = ServiceError(401, nil, "must authenticate first")
    static let emptyBearer = ServiceError(401, nil, "expected Authorization header with JWT (Bearer schema)")
    static let unparsableToken = ServiceError(401, nil, "token contains an invalid number of segments")
    static let accessExpired = ServiceError(401, "InvalidSession", "invalid session: access token expired")
    static let accessBadSignature = ServiceError(401, "InvalidSession", "invalid session: signature is invalid")
    static let accessRevoked = ServiceError(401, "InvalidSession", "invalid session: access token revoked")
    static let refreshWhereAccess = ServiceError(401, "InvalidSession", "invalid session: incorrect token type")
    static let accessWhereRefresh = ServiceError(401, nil, "invalid refresh token: incorrect token type")
    static let refreshBadSignature = ServiceError(401, nil, "signature is invalid")
    static let refreshUnknown = ServiceError(401, "InvalidSession", "invalid session: failed to find refresh token")
    static let refreshExpired = ServiceError(401, "InvalidSession", "invalid session: refresh token expired")

    static let noSuchRoute = ServiceError(404, nil, "not found")
    static let tooLarge = ServiceError(413, nil, "request body too large")
}
