import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions

/// The admin listener's problems (architecture.md 7.4).
extension OperatorResponse {
    static let noRoute = problem(
        404, "no-route", "Not found", "The admin API has no such path; see /v1/status and /v1/users.")
    static let noSuchUser = problem(404, "no-such-user", "No such user", "This Lanyard knows no user of that name.")
    static let tokenRequired: OperatorResponse = {
        var response = problem(
            401, "admin-token-required", "Admin token required",
            "A call over TCP carries `Authorization: Bearer` with the content of admin.token_file.")
        // RFC 9110 §11.6.1: a 401 names the accepted authentication scheme.
        response.fields.append("WWW-Authenticate: Bearer realm=\"lanyard\"")
        return response
    }()
    static let callerNotAllowed = problem(
        403, "caller-not-allowed", "Caller not allowed", "Only root and the user that Lanyard runs as may call.",
        closes: true)
    static let adminHostNotAllowed = problem(
        421, "host-not-allowed", "Host not allowed",
        "Name the admin listener by the address it is bound to, or by localhost with its port.")
    static let bodyTimedOut = problem(
        408, "request-timeout", "Request timeout", "The request's body did not arrive in time.", closes: true)
    static let bodyTooLarge = problem(
        413, "content-too-large", "Content too large", "The body of an admin call has at most 1088 KiB.", closes: true)
    static let expectationFailed = problem(
        417, "expectation-failed", "Expectation failed", "Only 100-continue can be expected here.", closes: true)
    static let queryNotTaken = problem(
        422, "invalid-value", "Invalid value", "This call takes no query parameters in this version.")
    static let accountQueryInvalid = problem(
        422, "invalid-value", "Invalid value",
        "The only query here is ?account=delete, which deletes the account at the service.")
    static let noSuchIdentity = problem(
        404, "no-such-identity", "No such identity", "No identity of that name is configured.")
    static let tokenNotExposed = problem(
        403, "token-not-exposed", "Token not exposed",
        "Access tokens are shown only if admin.expose_tokens is true; refresh tokens never.")

    static func methodNotAllowed(allow: String) -> OperatorResponse {
        var response = problem(405, "method-not-allowed", "Method not allowed", "This path takes \(allow).")
        response.allow = allow
        return response
    }

    /// A body that cannot be used.
    static func problem(_ error: AdminBody.ReadError) -> OperatorResponse {
        switch error {
        case .malformed(let error):
            problem(
                400, "malformed-request", "Malformed request",
                "The body is not JSON: \(error.kind.message) at byte \(error.offset).")
        case .invalid(let message): problem(422, "invalid-value", "Invalid value", message + ".")
        }
    }

    /// The problem for an operation that failed.
    ///
    /// - Parameter user: the name in the call; nil: it names none.
    static func problem(_ error: UserError, user: String?) -> OperatorResponse {
        let name = user ?? "the user"
        return switch error {
        case .noSuchUser: noSuchUser
        case .noSuchIdentity: noSuchIdentity
        case .nameInUse:
            problem(409, "name-in-use", "Name in use", "There is a user \(name); choose another name.", user: user)
        case .accountInUse(let holder):
            problem(
                409, "account-in-use", "Account in use",
                "The login ended in the account of \(holder), which is logged in; the new session is revoked.",
                user: holder)
        case .notLoggedIn:
            problem(409, "not-logged-in", "Not logged in", "\(name) has no session; log in first.", user: user)
        case .notSupported:
            problem(
                409, "not-supported", "Not supported",
                "The tokens of a static identity come from its file; it has no logins and no accounts.", user: user)
        case .loginInProgress:
            problem(
                409, "login-in-progress", "Login in progress",
                "Another login of this user, a link or the deletion of its account is in progress; wait for its end.",
                user: user)
        case .noCredential:
            problem(
                422, "invalid-value", "Invalid value", "credential is missing, and \(name) has none configured.",
                user: user)
        case .identity(let error): problem(error, user: user)
        case .stopping:
            problem(
                503, "shutting-down", "Shutting down", "Lanyard is ending; nothing was changed.", user: user,
                isRetryable: true)
        case .outcomeUnknown:
            problem(
                503, "shutting-down", "Shutting down",
                "Lanyard has ended before the call did, and its outcome is unknown; look at the user after the restart.",
                user: user)
        case .loginRequired:
            problem(
                503, "login-required", "Login required",
                "The session has ended with this refresh, and Lanyard cannot begin another by itself: log in; last_error says why.",
                user: user)
        case .storeFailing:
            problem(
                503, "store-failing", "The store fails",
                "The store cannot be read or written now, and this call cannot do without it; nothing was changed.",
                user: user, isRetryable: true)
        case .serviceOutcomeUnknown(let error): outcomeUnknown(error, user)
        case .notDeleted(let error): notDeleted(error, user, name)
        }
    }

    /// Whether the call was carried out is unknown, so it is not to be repeated blindly.
    private static func outcomeUnknown(_ error: IdentityError, _ user: String?) -> OperatorResponse {
        let detail = error.message + ". Whether the call was carried out is unknown; look before repeating it."
        return problem(
            503, "identity-unreachable", "Identity service unreachable", detail, user: user, identity: error)
    }

    private static func notDeleted(_ error: IdentityError, _ user: String?, _ name: String) -> OperatorResponse {
        guard error.verdict == .unknownOutcome else {
            return problem(error, user: user, outcome: " The account was not deleted, and \(name) stays logged in.")
        }
        let detail =
            error.message
            + ". Whether the account was deleted is unknown; \(name) stays logged in; refresh it to find out."
        return problem(
            503, "identity-unreachable", "Identity service unreachable", detail, user: user, identity: error)
    }

    /// The problem for an error of the identity service, or for a service that did not respond.
    ///
    /// - Parameter outcome: what else the operator must know; it begins with a space.
    private static func problem(
        _ error: IdentityError, user: String?, outcome: String = ""
    ) -> OperatorResponse {
        let detail = error.message + "." + outcome
        switch error.verdict {
        case .credentialRefused, .credentialUnavailable:
            return problem(
                422, "credential-refused", "Credential refused", detail, user: user, identity: error)
        case .transient(let retryAfter):
            // Another 4xx with the service's own error is a refusal: a repeat of the same call would fail again.
            if error.isServiceError, let status = error.status, 400..<500 ~= status, ![408, 425, 429].contains(status) {
                break
            }
            return unreachable(detail, user, error, retryAfter: retryAfter)
        case .unknownOutcome, .credentialDelayed: return unreachable(detail, user, error, retryAfter: nil)
        case .accountInUse: return problem(409, "account-in-use", "Account in use", detail, user: user)
        case .sessionDead, .credentialDoubted, .gone, .unknownApp, .callRefused: break
        }
        // A 5xx here would look like a failure of Lanyard.
        let status = error.status.flatMap { 400..<500 ~= $0 ? $0 : nil } ?? 502
        return problem(
            status, "identity-error", "The identity service refused", detail, user: user, identity: error)
    }

    private static func unreachable(
        _ detail: String, _ user: String?, _ error: IdentityError, retryAfter: Duration?
    ) -> OperatorResponse {
        var response = problem(
            503, "identity-unreachable", "Identity service unreachable", detail, user: user, isRetryable: true,
            identity: error)
        let seconds = max(1, Int((retryAfter ?? .seconds(1)).inSeconds.rounded(.up)))
        response.fields.append("Retry-After: \(min(seconds, 3600))")
        return response
    }
}
