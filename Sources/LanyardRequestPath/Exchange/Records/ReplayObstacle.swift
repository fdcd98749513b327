/// Why there is no replay: the `result` of `lanyard_replays_total`, and a text in `Proxy-Status`.
package enum ReplayObstacle: String, CaseIterable, Sendable {
    /// The body is larger than `replay_body_max`, or its copy was released.
    case bodyTooLarge = "body_too_large"
    /// The body did not arrive within 1 s.
    case bodyLate = "body_late"
    case refreshFailed = "refresh_failed"
    /// Another program renews the token, and its file holds the refused one.
    case sameToken = "same_token"
    /// The session that the request was sent with has ended, and the user's next one may belong to another account.
    /// A request of one account is not repeated as another.
    case sessionReplaced = "session_replaced"
    /// A refresh was forced too recently, or too often within the hour.
    case cooldown
    /// The route's upstream has recently refused a fresh token as well.
    case breaker
    /// Another token of the same session would have the same scope.
    case insufficientScope = "insufficient_scope"
    /// The upstream refuses the request itself, not the token.
    case invalidRequest = "invalid_request"
    /// The route passes the client's own authorization.
    case clientAuthorization = "client_authorization"

    var details: StaticString {
        switch self {
        case .bodyTooLarge: "body too large"
        case .bodyLate: "body late"
        case .refreshFailed: "refresh failed"
        case .sameToken: "the same token is in the file"
        case .sessionReplaced: "session replaced"
        case .cooldown: "cooldown"
        case .breaker: "breaker open"
        case .insufficientScope: "insufficient scope"
        case .invalidRequest: "invalid request"
        case .clientAuthorization: "client authorization"
        }
    }
}
