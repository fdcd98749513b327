import LanyardFoundations

/// A response of Lanyard's own: a problem type of http-connections.md 19.2 or 19.3 with its status and its effect on the connection.
///
/// `ErrorProblems` has the problem of each error.
package struct Problem: Equatable, Sendable {
    /// The type is `urn:lanyard:problem:` followed by this.
    package let name: String
    package let status: Int
    package let title: String
    /// What happened and how to correct it; never a byte of the request.
    package var detail: String
    package var isRetryable = false
    /// Seconds.
    package var retryAfter: Int?
    /// `error` of `Proxy-Status` (RFC 9209 §2.3).
    package var error: String
    /// The connection is closed after the response.
    package var closes = false
    /// The reason that is counted, if the request itself was refused.
    package var rejection: RejectionReason?
    package var user: String?
    /// Who must act, if there is no token, or about the upstream; nil: the problem is another.
    package var action: ResponsibleParty?
    /// The value of `Allow`.
    package var allow: String?
    /// What happened in words for the log, if it is more than the client is told: addresses, hosts. nil: `detail`.
    package var cause: String?
    /// The word of a token endpoint for it; nil: the name tells it.
    package var oauthCode: OAuthCode?

    /// The names of all problems of the request path.
    static let names = [
        "ambiguous-path", "authorization-not-allowed", "caller-not-allowed", "content-too-large", "credential-refused",
        "denied-by-route", "expectation-failed", "fields-too-large", "forwarded-not-allowed", "host-not-allowed",
        "identity-unreachable", "internal-error", "login-required", "loop", "malformed-request", "method-not-allowed",
        "no-active-user", "no-route", "not-implemented", "origin-not-allowed", "overloaded", "request-timeout",
        "shutting-down", "token-refused", "upstream-invalid", "upstream-timeout", "upstream-unreachable",
        "uri-too-long",
        "version-not-supported",
    ]

    /// 500: an error inside Lanyard.
    package static let internalError = Problem(
        name: "internal-error", status: 500, title: "Internal error",
        detail: "An internal error of Lanyard; see its log.", error: "proxy_internal_error", closes: true)

    // MARK: Errors of the client

    /// - Parameter closes: false if the framing of the message is valid.
    package static func malformed(_ message: String, closes: Bool = true) -> Problem {
        refusal(
            "malformed-request", 400, "Malformed request", "The request cannot be read: \(message).", .malformed,
            closes: closes)
    }

    package static let ambiguousPath = refusal(
        "ambiguous-path", 400, "Ambiguous path",
        "Two readers could understand this path differently; send it normalised.", .path, closes: false)
    package static let requestTimeout = refusal(
        "request-timeout", 408, "Request timeout", "The request did not arrive in time.", .timeout)
    package static let contentTooLarge = refusal(
        "content-too-large", 413, "Content too large", "The body is larger than this route takes.", .limit)
    package static let expectationFailed = refusal(
        "expectation-failed", 417, "Expectation failed", "Only 100-continue is understood.", .expect)

    static let connectNotBridged = refusal(
        "not-implemented", 501, "Not implemented",
        "CONNECT opens tunnels for WebSocket alone, on routes whose upgrades have it.", .malformed, closes: false)

    static func refusal(
        _ name: String, _ status: Int, _ title: String, _ detail: String, _ reason: RejectionReason, closes: Bool = true
    ) -> Problem {
        Problem(
            name: name, status: status, title: title, detail: detail, error: "http_request_error", closes: closes,
            rejection: reason)
    }

    // MARK: Policy

    package static let hostNotAllowed = denial(
        "host-not-allowed", 421, "Host not allowed",
        "This listener does not serve that host; see allowed_hosts. Lanyard is no forward proxy.", .host)
    package static let originNotAllowed = denial(
        "origin-not-allowed", 403, "Origin not allowed", "Requests of web pages are refused; see allowed_origins.",
        .origin)
    static func callerNotAllowed(_ refusal: CallerPolicy.Refusal) -> Problem {
        switch refusal {
        case .capability:
            callerNotAllowed("It takes requests with the right Lanyard-Capability field only.", .capability)
        case .requiredField: callerNotAllowed("It asks for a field that is missing; see required_header.", .caller)
        }
    }
    /// The connection's own process or user is the reason, so each request on it would be refused.
    static let peerNotAllowed: Problem = {
        var problem = callerNotAllowed("The user that this client runs as may not connect; see peers.", .caller)
        problem.closes = true
        return problem
    }()

    /// The client's certificate is valid, and stays the same: each request on the connection would be refused.
    static let certificateNotAllowed: Problem = {
        var problem = callerNotAllowed("No name in the client's certificate may call; see client_names.", .caller)
        problem.closes = true
        return problem
    }()
    /// To a client of a listener with TLS.
    static let plainHTTP = malformed("it came as plain HTTP, and this listener speaks TLS; use https")

    /// A TLS hello on a listener without TLS. Its client reads no HTTP, but its log may show the bytes (http-requests.md 1.2).
    static let unexpectedTLS: Problem = {
        var problem = malformed("it is TLS, and this listener speaks plain HTTP; use http, or give the listener tls")
        problem.rejection = .tls
        return problem
    }()

    private static func callerNotAllowed(_ reason: String, _ rejection: RejectionReason) -> Problem {
        denial(
            "caller-not-allowed", 403, "Caller not allowed", "This listener refuses the caller. \(reason)", rejection)
    }

    package static let forwardedNotAllowed = denial(
        "forwarded-not-allowed", 403, "Forwarded requests not allowed",
        "This route refuses requests that carry Forwarded or X-Forwarded fields.", .forwarded)
    package static let authorizationNotAllowed = denial(
        "authorization-not-allowed", 403, "Authorization not allowed",
        "This route adds the authorization itself and refuses a client's own.", .authorization)
    package static let denied = denial(
        "denied-by-route", 403, "Denied by route", "The route's deny list names this path.", .denied)
    package static let noRoute = denial("no-route", 404, "No route", "No route matches this host and path.", .path)

    package static func methodNotAllowed(_ allow: String, closes: Bool = false) -> Problem {
        var problem = denial(
            "method-not-allowed", 405, "Method not allowed", "No route takes this method here.", .method)
        problem.allow = allow
        problem.closes = closes
        return problem
    }

    static func denial(
        _ name: String, _ status: Int, _ title: String, _ detail: String, _ reason: RejectionReason
    ) -> Problem {
        Problem(
            name: name, status: status, title: title, detail: detail, error: "http_request_denied", rejection: reason)
    }

    // MARK: The session

    package static let noActiveUser = unavailable(
        "no-active-user", "No active user", "The route or broker follows the active user, and there is none.",
        action: .user)

    package static func loginRequired(user: String, status: Int) -> Problem {
        var problem = unavailable(
            "login-required", "Login required",
            "This user has no session, and Lanyard cannot start one by itself: log the user in.", action: .user)
        problem.user = user
        return problem.with(status: status)
    }

    /// The configured credential can log the user in: no user of the service is needed for that.
    package static func loggedOut(user: String, status: Int) -> Problem {
        var problem = loginRequired(user: user, status: status)
        problem.detail =
            "This user was logged out: lanyard login \(user) logs it in again with its configured credential."
        problem.action = .operator
        return problem
    }

    /// The route names a user that is not configured. An operator must act, but no session has ended.
    package static func userUnknown(user: String, status: Int) -> Problem {
        var problem = loginRequired(user: user, status: status)
        problem.detail =
            "A route or broker names this user, and no such user is configured: add it to users, or correct the name."
        problem.action = .operator
        return problem
    }

    /// The route names a configured user that was removed by the admin API.
    package static func userRemoved(user: String, status: Int) -> Problem {
        var problem = loginRequired(user: user, status: status)
        problem.detail =
            "This user was removed by the admin API: log in a user of that name there, or restart Lanyard to restore the configured user."
        problem.action = .operator
        return problem
    }

    /// - Parameters:
    ///   - message: what is wrong with the credential or its identity, and what to do; no secret.
    ///   - action: who must act.
    package static func credentialRefused(
        user: String, because message: String, action: ResponsibleParty = .operator
    ) -> Problem {
        refusedCredential("Lanyard cannot log this user in: \(message).", user, action)
    }

    private static func refusedCredential(_ detail: String, _ user: String, _ action: ResponsibleParty) -> Problem {
        var problem = unavailable("credential-refused", "Credential refused", detail, action: action)
        problem.user = user
        return problem
    }

    /// The session stays, and a repeat of the request does not help before an operator has acted.
    ///
    /// - Parameters:
    ///   - message: what was refused, and what to look at; no secret.
    ///   - action: who must act.
    package static func clientRefused(
        user: String, because message: String, action: ResponsibleParty = .operator
    ) -> Problem {
        refusedCredential("There is no usable token: \(message).", user, action)
    }

    /// The user has a session, and no token of the kind that the route asks for.
    ///
    /// - Parameters:
    ///   - message: which route and `token`, what was refused, and what to look at; no secret.
    ///   - action: who must act.
    package static func variantRefused(
        user: String, because message: String, action: ResponsibleParty = .operator
    ) -> Problem {
        refusedCredential("There is no access token for \(message).", user, action)
    }

    /// A field of the route's `set_headers` has no value: its file cannot be used. The log has the path and the reason.
    static func missingFieldValue(_ field: String, route: String) -> Problem {
        unavailable(
            "credential-refused", "Credential refused",
            "The file of \(field) in set_headers of the route \(route) cannot be used: see the event "
                + "upstream.field_file.failed in the log, and correct the file.", action: .operator)
    }

    /// The identity service responds, and a repeat of the request does not help before an operator has acted.
    ///
    /// - Parameter message: what is wrong with its tokens; no secret.
    package static func tokenUnusable(user: String, because message: String) -> Problem {
        var problem = unavailable(
            "identity-unreachable", "Identity service unreachable", "There is no usable token: \(message).",
            action: .operator)
        problem.user = user
        return problem
    }

    /// - Parameters:
    ///   - message: why the latest call failed; no secret. nil: no call has failed yet.
    ///   - retryAfter: seconds.
    ///   - action: who must act.
    package static func identityUnreachable(
        user: String, because message: String? = nil, retryAfter: Int, action: ResponsibleParty = .nobody
    ) -> Problem {
        var problem = unavailable(
            "identity-unreachable", "Identity service unreachable",
            message.map { "There is no usable token: \($0)." }
                ?? "There is no usable token, and the identity service has not responded yet.", action: action)
        (problem.user, problem.isRetryable, problem.retryAfter) = (user, true, max(retryAfter, 1))
        return problem
    }

    /// The request's token has expired, and the user's next one may belong to another account.
    package static func sessionReplaced(user: String) -> Problem {
        var problem = identityUnreachable(user: user, retryAfter: 1)
        problem.detail =
            "The request's token and its session have ended: the user's next token may belong to another account."
        return problem
    }

    /// The request began before a reload that has given its user another account space, or has taken it away.
    package static func userReplaced(user: String) -> Problem {
        var problem = identityUnreachable(user: user, retryAfter: 1)
        problem.detail =
            "The configuration was reloaded while the request waited, and gives this user another account: repeat the request."
        return problem
    }

    /// - Parameter retryAfter: seconds.
    package static func overloaded(_ detail: String, retryAfter: Int = 1, closes: Bool = false) -> Problem {
        Problem(
            name: "overloaded", status: 503, title: "Overloaded", detail: detail, isRetryable: true,
            retryAfter: retryAfter,
            error: "connection_limit_reached", closes: closes)
    }

    package static let buffersFull = overloaded(
        "The memory of all buffers is in use: limits.buffer_bytes_max is reached.")

    package static let shuttingDown = Problem(
        name: "shutting-down", status: 503, title: "Shutting down", detail: "Lanyard is stopping.", isRetryable: true,
        retryAfter: 1, error: "proxy_internal_response", closes: true)

    private static func unavailable(
        _ name: String, _ title: String, _ detail: String, action: ResponsibleParty
    ) -> Problem {
        Problem(
            name: name, status: 503, title: title, detail: detail, error: "proxy_internal_response", action: action)
    }

    private func with(status: Int) -> Problem {
        Problem(
            name: name, status: status, title: title, detail: detail, isRetryable: isRetryable, retryAfter: retryAfter,
            error: error, closes: closes, rejection: rejection, user: user, action: action, allow: allow, cause: cause)
    }

    /// The session gives no token: its user's state says why.
    var isMissingToken: Bool {
        switch name {
        case "no-active-user", "login-required", "credential-refused", "identity-unreachable": true
        default: false
        }
    }

    // MARK: The upstream

    package static let upstreamTerminated = unreachable(
        "The upstream closed the connection without a response.", error: "connection_terminated")
    package static let upstreamUnprocessed = unreachable(
        "The upstream has processed nothing of the request: it refuses streams, or is closing its connections.",
        error: "connection_terminated")

    package static let upstreamReset = unreachable(
        "The upstream has reset the request's stream without a response.", error: "http_response_incomplete")

    /// The route's upstream is known to take no head as long as the one that would be sent (H38).
    ///
    /// - Parameters:
    ///   - bytes: of the list of fields.
    ///   - token: bytes of the access token among them.
    ///   - bytesMax: what the upstream has announced.
    static func upstreamTakesNoSuchHead(bytes: Int, token: Int, max bytesMax: Int) -> Problem {
        unreachable(
            "The upstream takes \(bytesMax) bytes of header fields, and this request has \(bytes), \(token) of them in its "
                + "token: raise the server's limit (grpc.max_metadata_size of gRPC), or ask for a smaller token.",
            error: "http_request_error", needsOperator: true)
    }

    package static let upstreamIncomplete = invalid(
        "The upstream's response ended early.", error: "http_response_incomplete")
    package static let upstreamResponseTimeout = timeout(
        "No response came within timeouts.response_header of the route.", error: "http_response_timeout")
    package static let upstreamWriteTimeout = timeout(
        "The upstream took no byte of the request within timeouts.write of the route.",
        error: "connection_write_timeout")
    package static let loop = Problem(
        name: "loop", status: 502, title: "Loop detected", detail: "The request has passed this Lanyard before.",
        error: "proxy_loop_detected", action: .operator)

    /// In place of an upstream's 401 (`unauthorized: 503`).
    ///
    /// - Parameter obstacle: why no other token was sent; nil: another one was refused, too, or the route asks for none.
    static func tokenRefused(user: String, _ obstacle: ReplayObstacle?) -> Problem {
        let reason = obstacle.map { "No other token was sent: \($0.details)" } ?? "Another one would be refused, too"
        // The others mean that another token may come.
        let isRetryable =
            switch obstacle {
            case .bodyTooLarge, .bodyLate, .refreshFailed, .sessionReplaced, .cooldown: true
            case nil, .sameToken, .breaker, .insufficientScope, .invalidRequest, .clientAuthorization: false
            }
        return Problem(
            name: "token-refused", status: 503, title: "Token refused",
            detail:
                "The upstream refuses the user's token with 401. \(reason). Compare the token's audience and scopes, "
                + "and the user's account, with what the upstream asks for.",
            isRetryable: isRetryable, retryAfter: isRetryable ? 10 : nil,
            error: "proxy_internal_response; received-status=401", user: user,
            action: isRetryable ? .nobody : .operator)
    }

    /// The upstream may have processed the request, which is not idempotent: its client must not repeat it by itself
    /// (RFC 9110 §9.2.2).
    package var notRepeatable: Problem {
        var problem = self
        (problem.isRetryable, problem.retryAfter) = (false, nil)
        return problem
    }

    /// One that has accepted the connection and then closed it has a title of its own.
    ///
    /// - Parameter needsOperator: each attempt fails until an operator has changed something.
    static func unreachable(_ detail: String, error: String, needsOperator: Bool = false) -> Problem {
        Problem(
            name: "upstream-unreachable", status: 502,
            title: error == "connection_terminated" ? "Upstream closed the connection" : "Upstream unreachable",
            detail: detail, isRetryable: !needsOperator, error: error, action: needsOperator ? .operator : .nobody)
    }

    static func invalid(_ detail: String, error: String) -> Problem {
        Problem(
            name: "upstream-invalid", status: 502, title: "Upstream response invalid", detail: detail, error: error,
            action: .operator)
    }

    static func timeout(_ detail: String, error: String) -> Problem {
        Problem(
            name: "upstream-timeout", status: 504, title: "Upstream timeout", detail: detail, isRetryable: true,
            error: error, action: .nobody)
    }
}
