import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions

/// The problem types of the admin API (RFC 9457), as its OpenAPI document lists them. The raw value is the last part of a type.
///
/// A test compares them with the source.
enum AdminProblem: String, CaseIterable {
    case malformedRequest = "malformed-request"
    case tokenRequired = "admin-token-required"
    case callerNotAllowed = "caller-not-allowed"
    case originNotAllowed = "origin-not-allowed"
    case tokenNotExposed = "token-not-exposed"
    case noSuchUser = "no-such-user"
    case noSuchToken = "no-such-token"
    case noSuchIdentity = "no-such-identity"
    case noSuchLogin = "no-such-login"
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
    case redirectNeeded = "redirect-needed"
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

    /// The status of its responses. `identityError` has this one if the identity service's own is not used.
    var status: Int {
        switch self {
        case .malformedRequest: 400
        case .tokenRequired: 401
        case .callerNotAllowed, .originNotAllowed, .tokenNotExposed: 403
        case .noSuchUser, .noSuchToken, .noSuchIdentity, .noSuchLogin, .noRoute: 404
        case .methodNotAllowed: 405
        case .requestTimeout: 408
        case .nameInUse, .accountInUse, .notLoggedIn, .notSupported, .loginInProgress: 409
        case .contentTooLarge: 413
        case .uriTooLong: 414
        case .expectationFailed: 417
        case .hostNotAllowed: 421
        case .invalidValue, .redirectNeeded, .credentialRefused, .configurationInvalid, .restartNeeded: 422
        case .fieldsTooLarge: 431
        case .notImplemented: 501
        case .identityError: 502
        case .identityUnreachable, .loginRequired, .overloaded, .shuttingDown, .storeFailing: 503
        case .versionNotSupported: 505
        }
    }

    /// The statuses of its responses. `4XX` stands for each status of the identity service that has none of its own here.
    var statuses: [String] {
        switch self {
        case .identityError: ["400", "401", "403", "404", "409", "422", "4XX", "502"]
        case .credentialRefused: ["422", "503"]
        default: ["\(status)"]
        }
    }

    /// The statuses of its responses to a call. One for a token has the status that a request gets in its place.
    func statuses(of route: AdminRoute) -> [String] {
        self == .credentialRefused ? [route == .token ? "503" : "\(status)"] : statuses
    }

    /// Whether a call of the route may end in it.
    func concerns(_ route: AdminRoute) -> Bool {
        let call = route.call(["user", "name"])
        switch self {
        case .noSuchUser: return call.userName != nil
        case .noSuchIdentity: if case .emailPassword = route { return true } else { return route == .addUser }
        case .redirectNeeded: return route == .logIn
        case .noSuchLogin: return [.loginResult, .cancelLogin, .completeLogin].contains(route)
        case .tokenNotExposed, .noSuchToken: return route == .token
        case .nameInUse: return route == .addUser
        case .configurationInvalid, .restartNeeded: return route == .reload
        case .identityError, .accountInUse: return call.waitsForOthers && route != .reload && route != .token
        case .identityUnreachable, .credentialRefused:
            return call.waitsForOthers && route != .reload
        case .loginInProgress: return call.waitsForOthers && route != .reload || route == .cancelLogin
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

/// The responses with these problems (architecture-control.md 7.4).
extension OperatorResponse {
    /// A problem detail of the type.
    ///
    /// - Parameter status: nil: the type's own.
    static func problem(
        _ type: AdminProblem, status: Int? = nil, _ title: String, _ detail: String, closes: Bool = false,
        user: String? = nil, isRetryable: Bool = false, identity: IdentityError? = nil,
        action: ResponsibleParty? = nil, remedy: String? = nil
    ) -> OperatorResponse {
        problem(
            status ?? type.status, type.rawValue, title, detail, closes: closes, user: user, isRetryable: isRetryable,
            identity: identity, action: action, remedy: remedy)
    }

    static let noRoute = problem(
        .noRoute, "Not found", "The admin API has no such path; see /v1/status and /v1/users.")
    static let noSuchUser = problem(.noSuchUser, "No such user", "This Lanyard knows no user of that name.")
    static let tokenRequired: OperatorResponse = {
        var response = problem(
            .tokenRequired, "Admin token required",
            "A call over TCP carries `Authorization: Bearer` with the content of admin.token_file.")
        // RFC 9110 §11.6.1: a 401 names the accepted authentication scheme.
        response.fields.append("WWW-Authenticate: Bearer realm=\"lanyard\"")
        return response
    }()
    static let callerNotAllowed = problem(
        .callerNotAllowed, "Caller not allowed", "Only root and the user that Lanyard runs as may call.",
        closes: true)
    static let adminHostNotAllowed = problem(
        .hostNotAllowed, "Host not allowed",
        "Name the admin listener by the address it is bound to, or by localhost with its port.")
    static let bodyTimedOut = problem(
        .requestTimeout, "Request timeout", "The request's body did not arrive in time.", closes: true)
    static let bodyTooLarge = problem(
        .contentTooLarge, "Content too large", "The body of an admin call has at most 1088 KiB.", closes: true)
    static let expectationFailed = problem(
        .expectationFailed, "Expectation failed", "Only 100-continue can be expected here.", closes: true)
    static let queryNotTaken = problem(
        .invalidValue, "Invalid value", "This call takes no query parameters in this version.")
    static let accountQueryInvalid = problem(
        .invalidValue, "Invalid value",
        "The only query here is ?account=delete, which deletes the account at the service.")
    static let noSuchIdentity = problem(
        .noSuchIdentity, "No such identity", "No identity of that name is configured.")
    static func redirectNeeded(user: String) -> OperatorResponse {
        problem(
            .redirectNeeded, "Redirect needed",
            "This login is completed with a browser: give redirect_uri, a loopback address where it comes back.",
            user: user)
    }
    static let tokenNotExposed = problem(
        .tokenNotExposed, "Token not exposed",
        "Access tokens are shown only if admin.expose_tokens is true; refresh tokens never.")

    static func methodNotAllowed(allow: String) -> OperatorResponse {
        var response = problem(.methodNotAllowed, "Method not allowed", "This path takes \(allow).")
        response.allow = allow
        return response
    }

    /// A body that cannot be used.
    static func problem(_ error: AdminBody.ReadError) -> OperatorResponse {
        switch error {
        case .malformed(let error):
            problem(
                .malformedRequest, "Malformed request",
                "The body is not JSON: \(error.kind.message) at byte \(error.offset).")
        case .invalid(let message): problem(.invalidValue, "Invalid value", message + ".")
        }
    }

    /// The problem for an operation that failed.
    ///
    /// - Parameters:
    ///   - user: the name in the call; nil: it names none.
    ///   - session: the user as its status shows it; nil: there is no such user.
    static func problem(
        _ error: UserError, user: String?, session: SessionStatus? = nil
    ) -> OperatorResponse {
        let name = user ?? "the user"
        return switch error {
        case .noSuchUser: noSuchUser
        case .noSuchIdentity: noSuchIdentity
        case .nameInUse:
            problem(.nameInUse, "Name in use", "There is a user \(name); choose another name.", user: user)
        case .accountInUse(let holder):
            problem(
                .accountInUse, "Account in use",
                "The login ended in the account of \(holder), which is logged in; the new session is revoked.",
                user: holder)
        case .notLoggedIn: notLoggedIn(user, session)
        case .notSupported:
            problem(
                .notSupported, "Not supported",
                "The tokens of a static identity come from its file; it has no logins and no accounts.", user: user,
                remedy: "write the token into the file that token_file of the identity names")
        case .noAccounts:
            problem(
                .notSupported, "Not supported",
                "Only App Services has profiles, linked logins, functions, API keys and accounts to manage; the identity of this call is "
                    + "of another kind.",
                user: user)
        case .loginInProgress:
            problem(
                .loginInProgress, "Login in progress",
                "Another login of this user, a link or the deletion of its account is in progress; wait for its end.",
                user: user)
        case .noCredential:
            problem(
                .invalidValue, "Invalid value", "credential is missing, and \(name) has none configured.", user: user)
        case .identity(let error): problem(error, user: user, canLogIn: session?.canLogIn ?? false)
        case .stopping:
            problem(
                .shuttingDown, "Shutting down", "Lanyard is ending; nothing was changed.", user: user,
                isRetryable: true)
        case .outcomeUnknown:
            problem(
                .shuttingDown, "Shutting down",
                "Lanyard has ended before the call did, and its outcome is unknown; look at the user after the restart.",
                user: user)
        case .loginRequired:
            problem(
                .loginRequired, "Login required",
                "The session has ended with this refresh, and Lanyard cannot begin another by itself: log in; last_error says why.",
                user: user)
        case .noToken(let refusal): noToken(refusal, user: user, session: session)
        case .noSuchToken(let known): noSuchToken(known: known, user: user)
        case .storeFailing:
            problem(
                .storeFailing, "The store fails",
                "The store cannot be read or written now, and this call cannot do without it; nothing was changed.",
                user: user, isRetryable: true)
        case .serviceOutcomeUnknown(let error): outcomeUnknown(error, user)
        case .notDeleted(let error): notDeleted(error, user, name)
        }
    }

    /// Who must act is what the status of the user says: Lanyard makes a machine's login by itself, or when an operator asks for it.
    private static func notLoggedIn(_ user: String?, _ session: SessionStatus?) -> OperatorResponse {
        let name = user ?? "the user"
        // A session that has begun since says nothing of this call.
        let session = session.flatMap { $0.state.isAuthenticated ? nil : $0 }
        let action = session?.action ?? .user
        let reason = session?.failure.map { ": \($0.message)" } ?? ""
        let detail =
            switch action {
            case .user: "\(name) has no session; log in first."
            case .operator where reason.isEmpty:
                "\(name) has no session; its configured login is made when an operator asks for it."
            case .operator: "\(name) has no session\(reason)."
            case .nobody: "\(name) has no session yet\(reason); Lanyard makes the login by itself."
            }
        return problem(
            .notLoggedIn, "Not logged in", detail, user: user, isRetryable: action == .nobody, action: action,
            remedy: session?.failure?.remedy)
    }

    /// Whether the call was carried out is unknown, so it is not to be repeated blindly.
    private static func outcomeUnknown(_ error: IdentityError, _ user: String?) -> OperatorResponse {
        let detail = error.operatorMessage + ". Whether the call was carried out is unknown; look before repeating it."
        return problem(
            .identityUnreachable, "Identity service unreachable", detail, user: user, identity: error)
    }

    private static func notDeleted(_ error: IdentityError, _ user: String?, _ name: String) -> OperatorResponse {
        guard error.verdict == .unknownOutcome else {
            return problem(error, user: user, outcome: " The account was not deleted, and \(name) stays logged in.")
        }
        let detail =
            error.operatorMessage
            + ". Whether the account was deleted is unknown; \(name) stays logged in; refresh it to find out."
        return problem(
            .identityUnreachable, "Identity service unreachable", detail, user: user, identity: error)
    }

    /// The problem for an error of the identity service, or for a service that did not respond.
    ///
    /// - Parameters:
    ///   - canLogIn: a configured credential can begin another session.
    ///   - outcome: what else the operator must know; it begins with a space.
    private static func problem(
        _ error: IdentityError, user: String?, canLogIn: Bool = false, outcome: String = ""
    ) -> OperatorResponse {
        let detail = error.operatorMessage + "." + outcome
        let action = error.action(canLogIn: canLogIn)
        switch error.passedOn {
        case .loginRequired:
            return problem(.loginRequired, "Login required", detail, user: user, identity: error, action: action)
        case .credentialRefused:
            return problem(
                .credentialRefused, "Credential refused", detail, user: user, identity: error, action: action)
        case nil: break
        }
        switch error.verdict {
        case .credentialUnavailable where error.isForeignKind:
            return problem(.invalidValue, "Invalid value", detail, user: user)
        case .credentialRefused, .credentialUnavailable:
            return problem(
                .credentialRefused, "Credential refused", detail, user: user, identity: error, action: action)
        case .transient(let retryAfter):
            // Another 4xx with the service's own error is a refusal: a repeat of the same call would fail again.
            if error.isServiceError, let status = error.status, 400..<500 ~= status, ![408, 425, 429].contains(status) {
                break
            }
            if error.cause == .unusableToken { break }
            return unreachable(detail, user, error, action, retryAfter: retryAfter)
        case .unknownOutcome, .credentialDelayed:
            return unreachable(detail, user, error, action, retryAfter: error.retryAfter)
        case .accountInUse: return problem(.accountInUse, "Account in use", detail, user: user)
        case .sessionDead, .credentialDoubted, .gone, .unknownApp, .clientRefused, .callRefused: break
        }
        // A 5xx here would look like a failure of Lanyard.
        let status = error.status.flatMap { 400..<500 ~= $0 ? $0 : nil } ?? 502
        return problem(
            .identityError, status: status, "The identity service refused", detail, user: user, identity: error,
            action: action)
    }

    private static func unreachable(
        _ detail: String, _ user: String?, _ error: IdentityError, _ action: ResponsibleParty, retryAfter: Duration?
    ) -> OperatorResponse {
        var response = problem(
            .identityUnreachable, "Identity service unreachable", detail, user: user, isRetryable: true,
            identity: error, action: action)
        let seconds = max(1, Int((retryAfter ?? .seconds(1)).inSeconds.rounded(.up)))
        response.fields.append("Retry-After: \(min(seconds, 3600))")
        return response
    }
}
