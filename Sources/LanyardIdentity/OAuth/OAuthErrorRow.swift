import LanyardSettings

/// What an error of an authorization server means, whatever call it came to.
enum OAuthErrorClass: Equatable, Sendable {
    /// Ask again later.
    case retry
    /// The grant has ended: the refresh token, or what a login sent.
    case grant
    /// The client or its authentication. It stays refused until one of its files changes.
    case client
    /// The request as it is configured: a scope, an audience, a grant that the server does not offer.
    case request
    /// The user must consent or log in.
    case user
    /// The server's policy denies a machine's grant. No row has it: what is a user's decision elsewhere is that here.
    case policy
}

/// One row of what servers send: a status, a place in the response with a value, and what it means. The rows are data;
/// docs/reference/oauth-rules.md 3 tells them by class.
struct OAuthErrorRow: Sendable {
    /// nil: of every server.
    let profile: OAuthProfile?
    /// nil: any.
    let status: Int?
    /// A JSON pointer (RFC 6901), one of `OAuthResponse.errors`. The members of an array count each.
    let pointer: String
    /// As the server writes it: upper and lower case differ (RFC 6749 §5.2).
    let value: String
    let means: OAuthErrorClass

    private init(
        _ profile: OAuthProfile?, _ pointer: String, _ value: String, _ means: OAuthErrorClass, status: Int? = nil
    ) {
        (self.profile, self.status, self.pointer, self.value) = (profile, status, pointer, value)
        self.means = means
    }

    /// The class of a response's error; nil: no row has it. The first row counts: those of the profile before those of every server, and
    /// a cause before the error that it explains.
    static func match(_ response: OAuthResponse, status: Int, profile: OAuthProfile) -> OAuthErrorClass? {
        let rows = all.filter { $0.profile == profile } + all.filter { $0.profile == nil }
        let row = rows.first { row in
            (row.status ?? status) == status && response.errors[row.pointer, default: []].contains(row.value)
        }
        if let row { return row.means }
        // In another place, such as an object in place of the text, a name only says that the error passes by itself. With a 5xx it may be
        // a gateway's.
        return status < 500 && response.otherNames.contains(where: isPassing) ? .retry : nil
    }

    /// Whether the name is one of a limit or an outage, in any case of letters.
    static func isPassing(_ name: String) -> Bool {
        let name = name.lowercased()
        let others = ["resource_exhausted", "unavailable", "too_many_requests", "toomanyrequests", "ratelimitexceeded"]
        return others.contains(name)
            || all.contains { $0.profile == nil && $0.pointer == "/error" && $0.means == .retry && $0.value == name }
    }

    /// The class of an `error` without a status; nil: no row has it.
    static func match(_ error: String, profile: OAuthProfile) -> OAuthErrorClass? {
        let own = all.filter { $0.profile == profile } + all.filter { $0.profile == nil }
        return own.first { $0.status == nil && $0.pointer == "/error" && $0.value == error }?.means
    }

    /// Whether a row or another RFC has this name. It tells nothing of a secret, whatever that holds.
    static func isKnown(_ name: String) -> Bool { all.contains { $0.value == name } || others.contains(name) }

    /// RFC 8628 §3.5, RFC 7009 §2.2.1, RFC 6749 §4.1.2.1, RFC 6750 §3.1, RFC 9101 §7, OpenID Connect Core 3.1.2.6.
    private static let others: Set<String> = [
        "authorization_pending", "expired_token", "unsupported_token_type", "unsupported_response_type",
        "invalid_token",
        "invalid_request_uri", "invalid_request_object", "request_not_supported", "request_uri_not_supported",
        "account_selection_required",
    ]

    static let all: [OAuthErrorRow] = [
        // RFC 6749 §5.2.
        .init(nil, "/error", "invalid_grant", .grant),
        .init(nil, "/error", "invalid_client", .client),
        .init(nil, "/error", "unauthorized_client", .client),
        .init(nil, "/error", "invalid_request", .request),
        .init(nil, "/error", "unsupported_grant_type", .request),
        .init(nil, "/error", "invalid_scope", .request),
        // RFC 8707 §2, RFC 6749 §4.1.2.1, RFC 8628 §3.5, OpenID Connect Core 3.1.2.6.
        .init(nil, "/error", "invalid_target", .request),
        // RFC 6750 §3.1; authgent-server says it of a scope that the client lacks, with 403.
        .init(nil, "/error", "insufficient_scope", .request),
        .init(nil, "/error", "access_denied", .user),
        .init(nil, "/error", "consent_required", .user),
        .init(nil, "/error", "interaction_required", .user),
        .init(nil, "/error", "login_required", .user),
        .init(nil, "/error", "server_error", .retry),
        .init(nil, "/error", "temporarily_unavailable", .retry),
        .init(nil, "/error", "slow_down", .retry),
        // No RFC has a name for a limit on requests.
        .init(nil, "/error", "ratelimited", .retry),
        .init(nil, "/error", "rate_limited", .retry),
        .init(nil, "/error", "rate_limit_exceeded", .retry),
        .init(nil, "/error", "too_many_requests", .retry),
        // Supabase keeps its own name of the cause beside `error`.
        .init(nil, "/error_code", "refresh_token_not_found", .grant),
        .init(nil, "/error_code", "refresh_token_already_used", .grant),
        .init(nil, "/error_code", "session_not_found", .grant),
        // A wrong secret of the client; then a client that the API has not been granted.
        .init(.auth0, "/error", "access_denied", .client, status: 401),
        .init(.auth0, "/error", "access_denied", .request, status: 403),
        .init(.auth0, "/error", "too_many_attempts", .retry),
        .init(.auth0, "/error", "mfa_required", .user),
        .init(.cognito, "/__type", "NotAuthorizedException", .grant),
        .init(.cognito, "/__type", "TooManyRequestsException", .retry),
        // Codes are documented ("AADSTS error codes"): they tell apart what `error` calls invalid_grant or invalid_client.
        .init(.entra, "/error_codes", "90033", .retry),
        .init(.entra, "/error_codes", "50196", .retry),
        .init(.entra, "/error_codes", "700016", .client),
        .init(.entra, "/error_codes", "7000215", .client),
        .init(.entra, "/error_codes", "7000222", .client),
        .init(.entra, "/error_codes", "65001", .user),
        .init(.entra, "/error", "authorization_declined", .user),
        .init(.entra, "/suberror", "consent_required", .user),
        .init(.entra, "/suberror", "basic_action", .user),
        .init(.entra, "/suberror", "additional_action", .user),
        .init(.entra, "/suberror", "message_only", .user),
        .init(.entra, "/suberror", "user_password_expired", .user),
        .init(.entra, "/suberror", "bad_token", .grant),
        .init(.entra, "/suberror", "token_expired", .grant),
        .init(.github, "/error", "bad_refresh_token", .grant),
        .init(.github, "/error", "bad_verification_code", .grant),
        .init(.github, "/error", "incorrect_client_credentials", .client),
        .init(.github, "/error", "unverified_user_email", .user),
        // The organisation wants the user to log in again.
        .init(.google, "/error_subtype", "invalid_rapt", .user),
        .init(.google, "/error", "admin_policy_enforced", .request),
        .init(.google, "/error", "deleted_client", .client),
        .init(.keycloak, "/error", "invalid_token", .grant),
        .init(.keycloak, "/error", "not_allowed", .client),
        .init(.okta, "/errorCode", "E0000047", .retry),
        .init(.okta, "/errorCode", "E0000011", .grant),
        .init(.okta, "/error", "use_dpop_nonce", .request),
        .init(.okta, "/error", "invalid_dpop_proof", .request),
        .init(.salesforce, "/error", "inactive_user", .user),
        .init(.salesforce, "/error", "invalid_client_id", .client),
        .init(.salesforce, "/error", "invalid_client_credentials", .client),
        .init(.salesforce, "/error", "rate_limit_exceeded", .retry),
        .init(.slack, "/error", "account_inactive", .user),
        .init(.slack, "/error", "bad_client_secret", .client),
        .init(.slack, "/error", "invalid_auth", .grant),
        .init(.slack, "/error", "invalid_client_id", .client),
        .init(.slack, "/error", "invalid_refresh_token", .grant),
        .init(.slack, "/error", "ratelimited", .retry),
        .init(.slack, "/error", "token_expired", .grant),
        .init(.slack, "/error", "token_revoked", .grant),
        .init(.zitadel, "/error", "invalid_token", .grant),
    ]
}
