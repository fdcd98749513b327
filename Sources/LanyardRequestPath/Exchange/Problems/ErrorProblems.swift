import Glibc
import LanyardFoundations

/// The problem of each error of the request path. docs/reference/errors.md has the same as a table, with the side at fault and the
/// log event.
extension Problem {
    // MARK: The client's request

    /// A head or body that the reader refused.
    package static func malformed(_ headError: HeadError) -> Problem {
        let message = headError.message.description
        return switch headError.kind {
        case .malformed: malformed(message)
        case .lineTooLong:
            refusal("uri-too-long", 414, "URI too long", message, .limit)
        case .fieldsTooLarge:
            refusal("fields-too-large", 431, "Request header fields too large", message, .limit)
        case .notImplemented:
            refusal("not-implemented", 501, "Not implemented", message, .malformed)
        case .versionNotSupported:
            refusal("version-not-supported", 505, "HTTP version not supported", message, .malformed)
        }
    }

    // MARK: The token

    /// Why there is no token.
    ///
    /// - Parameters:
    ///   - user: the user's name.
    ///   - loginRequiredStatus: key `login_required_status`.
    package static func noToken(
        _ refusal: AccessToken.Refusal, user: String, loginRequiredStatus status: Int, at now: Instant
    ) -> Problem {
        switch refusal {
        case .loginRequired: return .loginRequired(user: user, status: status)
        case .loginRequiredElsewhere(let message):
            return .loginRequired(user: user, because: message, status: status)
        case .credentialRefusedElsewhere(let message): return .clientRefused(user: user, because: message)
        case .loggedOut: return .loggedOut(user: user, status: status)
        case .credentialRefused(let message, let action):
            return .credentialRefused(user: user, because: message, action: action)
        case .userUnknown(wasRemoved: false): return .userUnknown(user: user, status: status)
        case .userUnknown(wasRemoved: true): return .userRemoved(user: user, status: status)
        case .identityUnreachable(var nextAttemptAt, let message, let action, let requested):
            // This request brings the attempt forward.
            if let requested { nextAttemptAt = requested.instant(insteadOf: nextAttemptAt, at: now) }
            let wait = nextAttemptAt == .never ? 60 : (nextAttemptAt - now).inSeconds.rounded(.up)
            return .identityUnreachable(user: user, because: message, retryAfter: Int(wait), action: action)
        case .clientRefused(let message, let action):
            return .clientRefused(user: user, because: message, action: action)
        case .variantRefused(let message, let action):
            return .variantRefused(user: user, because: message, action: action)
        case .tokenUnusable(let message): return .tokenUnusable(user: user, because: message)
        }
    }

    /// Another Lanyard holds the session. A repeat of the request finds out whether the user has logged in there.
    ///
    /// - Parameter message: who must log in there; no secret.
    private static func loginRequired(user: String, because message: String, status: Int) -> Problem {
        var problem = loginRequired(user: user, status: status)
        problem.detail = "There is no usable token: \(message)."
        return problem
    }

    // MARK: The upstream

    /// Why no upstream connection was established. The client is told the cause, and the log the address as well.
    package static func upstream(_ error: UpstreamError) -> Problem {
        var problem = toldToClient(error)
        if let address = error.address { problem.cause = "\(problem.detail) The address is \(address)." }
        return problem
    }

    private static func toldToClient(_ error: UpstreamError) -> Problem {
        switch error {
        case .nameNotFound: unreachable("The upstream's name cannot be resolved.", error: "dns_error")
        case .nameTimedOut:
            timeout("The upstream's name was not resolved within upstream_dns.timeout.", error: "dns_timeout")
        case .refused(ENODEV, _):
            unreachable(
                "The network interface that the upstream's address names does not exist on this machine.",
                error: "connection_refused", needsOperator: true)
        case .refused(let code, _):
            unreachable("Connecting failed: \(Errno.text(of: code)).", error: "connection_refused")
        case .connectTimedOut: timeout("Connecting took too long.", error: "connection_timeout")
        case .tls(.timedOut, _, _): timeout("The TLS handshake took too long.", error: "connection_timeout")
        case .tls(let error, _, let certificate):
            unreachable(
                "TLS failed: \(error.message(.upstream, certificate)).", error: Self.proxyStatus(of: error),
                needsOperator: error.needsOperator)
        case .connectionLimit:
            overloaded(
                "All connections to the upstream are in use (connections_max of the route), and no further request may wait: "
                    + "limits.parked_requests_max is reached.")
        case .forbiddenAddress:
            unreachable(
                "The upstream's address is one of metadata services, such as a link-local one. allow_link_local permits it.",
                error: "destination_ip_prohibited", needsOperator: true)
        case .plainBeyondLoopback:
            unreachable(
                "The upstream's name resolves to no loopback address, and plain http would expose tokens on the network: "
                    + "correct the hosts file or resolver, use https, or set unsafe_plain if that way is safe.",
                error: "destination_ip_prohibited", needsOperator: true)
        case .proxy(let error, _): ofProxy(error)
        case .local: overloaded("No descriptor or memory for an upstream connection.")
        }
    }

    /// Why no connection through the route's proxy was established.
    private static func ofProxy(_ error: ProxyError) -> Problem {
        switch error {
        case .nameNotFound: unreachable("The name of the route's proxy cannot be resolved.", error: "dns_error")
        case .nameTimedOut:
            timeout(
                "The name of the route's proxy was not resolved within upstream_dns.timeout.", error: "dns_timeout")
        case .notConnected(let code):
            unreachable(
                "Connecting to the route's proxy failed: \(Errno.text(of: code)).", error: "connection_refused")
        case .connectTimedOut:
            timeout("Connecting to the route's proxy took too long.", error: "connection_timeout")
        case .refused(let status): refusedByProxy(status)
        case .loginRequired(hasSentCredential: false):
            unreachable(
                "The route's proxy asks for a login with the status 407: name a file with user:password as "
                    + "proxy.credentials_file of the route.",
                error: "proxy_configuration_error; received-status=407", needsOperator: true)
        case .loginRequired(hasSentCredential: true):
            unreachable(
                "The route's proxy refuses the user and the password of proxy.credentials_file with the status 407.",
                error: "proxy_configuration_error; received-status=407", needsOperator: true)
        case .invalid(let headError):
            unreachable(
                "The route's proxy gave no response to CONNECT that can be read: \(headError.message.description).",
                error: "http_protocol_error", needsOperator: true)
        case .closed:
            unreachable(
                "The route's proxy closed the connection without a response to CONNECT.", error: "connection_terminated"
            )
        case .responseTimedOut:
            timeout("The route's proxy gave no response to CONNECT in time.", error: "connection_timeout")
        case .credentialUnavailable:
            unreachable(
                "The file proxy.credentials_file of the route cannot be used; see Lanyard's log.",
                error: "proxy_configuration_error", needsOperator: true)
        case .forbiddenAddress:
            unreachable(
                "The address of the route's proxy is one of metadata services, such as a link-local one. allow_link_local "
                    + "permits it.",
                error: "destination_ip_prohibited", needsOperator: true)
        case .plainBeyondLoopback:
            unreachable(
                "The name of the route's proxy resolves to no loopback address, and plain http would expose tokens on the "
                    + "network: use https, or set unsafe_plain if that way is safe.",
                error: "destination_ip_prohibited", needsOperator: true)
        }
    }

    /// - Parameter status: of the proxy's response to CONNECT.
    private static func refusedByProxy(_ status: Int) -> Problem {
        let detail = "The route's proxy refused to connect to the upstream, with the status \(status)."
        return switch status {
        case 504: timeout(detail, error: "connection_timeout; received-status=504")
        case 500...599: unreachable(detail, error: "destination_unavailable; received-status=\(status)")
        default:
            unreachable(detail, error: "connection_refused; received-status=\(status)", needsOperator: true)
        }
    }

    private static func proxyStatus(of error: TLSError) -> String {
        switch error {
        case .closedInHandshake, .truncated, .reset: "connection_terminated"
        case _ where error.isCertificate: "tls_certificate_error"
        default: "tls_protocol_error"
        }
    }

    /// A response that the reader refused.
    package static func upstreamInvalid(_ headError: HeadError) -> Problem {
        invalid(
            "The upstream's response cannot be trusted: \(headError.message.description).",
            error: headError.kind == .fieldsTooLarge ? "http_response_header_section_size" : "http_protocol_error")
    }
}
