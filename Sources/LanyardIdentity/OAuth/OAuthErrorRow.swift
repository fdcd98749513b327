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
}

/// One row of what servers send: a member of the response with a value, and what it means. The rows are data; docs/oauth.md has them as
/// a table.
struct OAuthErrorRow: Sendable {
    /// nil: of every server.
    let profile: OAuthProfile?
    /// A member of `OAuthResponse.errors`.
    let member: String
    let value: String
    let means: OAuthErrorClass

    private init(_ profile: OAuthProfile?, _ member: String, _ value: String, _ means: OAuthErrorClass) {
        (self.profile, self.member, self.value, self.means) = (profile, member, value, means)
    }

    /// The class of a response's error; nil: no row has it.
    static func match(_ response: OAuthResponse, profile: OAuthProfile) -> OAuthErrorClass? {
        let rows = all.filter { $0.profile == profile } + all.filter { $0.profile == nil }
        return rows.first { response.errors[$0.member] == $0.value }?.means
    }

    static let all: [OAuthErrorRow] = [
        // RFC 6749 §5.2.
        .init(nil, "error", "invalid_grant", .grant),
        .init(nil, "error", "invalid_client", .client),
        .init(nil, "error", "unauthorized_client", .client),
        .init(nil, "error", "invalid_request", .request),
        .init(nil, "error", "unsupported_grant_type", .request),
        .init(nil, "error", "invalid_scope", .request),
        // RFC 8707 §2, RFC 6749 §4.1.2.1, RFC 8628 §3.5, OpenID Connect Core 3.1.2.6.
        .init(nil, "error", "invalid_target", .request),
        .init(nil, "error", "access_denied", .user),
        .init(nil, "error", "consent_required", .user),
        .init(nil, "error", "interaction_required", .user),
        .init(nil, "error", "login_required", .user),
        .init(nil, "error", "server_error", .retry),
        .init(nil, "error", "temporarily_unavailable", .retry),
        .init(nil, "error", "slow_down", .retry),
        // Supabase keeps its own name of the cause beside `error`.
        .init(nil, "error_code", "refresh_token_not_found", .grant),
        .init(nil, "error_code", "refresh_token_already_used", .grant),
        .init(nil, "error_code", "session_not_found", .grant),
        .init(.auth0, "error", "too_many_attempts", .retry),
        .init(.auth0, "error", "mfa_required", .user),
        .init(.github, "error", "bad_refresh_token", .grant),
        .init(.github, "error", "bad_verification_code", .grant),
        .init(.github, "error", "incorrect_client_credentials", .client),
        .init(.github, "error", "unverified_user_email", .user),
        .init(.google, "error", "admin_policy_enforced", .request),
        .init(.google, "error", "deleted_client", .client),
        .init(.keycloak, "error", "invalid_token", .grant),
        .init(.keycloak, "error", "not_allowed", .client),
        .init(.salesforce, "error", "inactive_user", .user),
        .init(.salesforce, "error", "invalid_client_id", .client),
        .init(.salesforce, "error", "invalid_client_credentials", .client),
        .init(.salesforce, "error", "rate_limit_exceeded", .retry),
        .init(.slack, "error", "account_inactive", .user),
        .init(.slack, "error", "bad_client_secret", .client),
        .init(.slack, "error", "invalid_auth", .grant),
        .init(.slack, "error", "invalid_client_id", .client),
        .init(.slack, "error", "invalid_refresh_token", .grant),
        .init(.slack, "error", "ratelimited", .retry),
        .init(.slack, "error", "token_expired", .grant),
        .init(.slack, "error", "token_revoked", .grant),
        .init(.zitadel, "error", "invalid_token", .grant),
    ]
}
