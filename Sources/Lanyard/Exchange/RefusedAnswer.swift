/// An upstream's answer that means "token refused", held back: whether its request is sent once more, or the answer goes to the
/// client after all (http-rules.md 17.1, 17.2, refresh.md 11).
///
/// Decided from what becomes of the request's body and of the token; it does no I/O. Nothing waits longer than it must: what makes a
/// replay impossible decides at once.
package struct RefusedResponse: Equatable, Sendable {
    /// Why there is no replay: `result` of `lanyard_replays_total`, and in words in `Proxy-Status`.
    package enum ReplayObstacle: String, CaseIterable, Sendable {
        /// Larger than `replay_body_max`, or its copy was given up.
        case bodyTooLarge = "body_too_large"
        /// It had not arrived within a second.
        case bodyLate = "body_late"
        case refreshFailed = "refresh_failed"
        /// The session that sent the request is over, and the user's next one may be another account's: what left as one account is not
        /// repeated as another.
        case sessionReplaced = "session_replaced"
        /// A refresh was forced too short a time ago, or too often within the hour.
        case cooldown
        /// This route's upstream has lately refused a fresh token, too.
        case breaker
        /// Another token of the same session would be allowed no more.
        case insufficientScope = "insufficient_scope"
        /// The upstream finds fault with the request, not with the token.
        case invalidRequest = "invalid_request"
        /// The route leaves the client's own authorization as it is.
        case clientAuthorization = "client_authorization"

        var words: StaticString {
            switch self {
            case .bodyTooLarge: "body too large"
            case .bodyLate: "body late"
            case .refreshFailed: "refresh failed"
            case .sessionReplaced: "session replaced"
            case .cooldown: "cooldown"
            case .breaker: "breaker open"
            case .insufficientScope: "insufficient scope"
            case .invalidRequest: "invalid request"
            case .clientAuthorization: "client authorization"
            }
        }
    }

    package enum Part: Equatable, Sendable {
        /// The body is held whole, or no byte of it has been taken from the client yet; the token is newer than the one refused.
        case ready
        case awaited
        case lost(ReplayObstacle)
    }

    package enum Action: Equatable, Sendable {
        case wait
        case replay
        case relay(ReplayObstacle)
    }

    package var body: Part
    package var token: Part

    package init(body: Part, token: Part) {
        self.body = body
        self.token = token
    }

    package var action: Action {
        switch (body, token) {
        case (.lost(let replayObstacle), _): .relay(replayObstacle)
        case (_, .lost(let replayObstacle)): .relay(replayObstacle)
        case (.ready, .ready): .replay
        default: .wait
        }
    }
}
