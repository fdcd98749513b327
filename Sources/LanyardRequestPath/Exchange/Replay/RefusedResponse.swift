import LanyardFoundations

/// An upstream response that means "token refused", as decisions: wait, send the request once more, or relay the
/// response (http-forwarding.md 17.1, 17.2, refresh-outcomes.md 11).
///
/// The state of the request's body and of the token decides. It does no I/O. An obstacle decides at once, without
/// waiting for the other part.
package struct RefusedResponse: Equatable, Sendable {
    package enum Part: Equatable, Sendable {
        /// The body is kept whole, or no byte of it was taken from the client yet. The token is newer than the refused
        /// one.
        case ready
        case awaited
        case lost(ReplayObstacle)

        /// The token's part.
        ///
        /// - Parameter obstacle: why there is no replay if no newer token can be expected.
        init(_ outlook: TokenCache.ReplacementOutlook, otherwise obstacle: ReplayObstacle) {
            self =
                switch outlook {
                case .renewed: .ready
                case .awaited: .awaited
                // While the breaker is open a request does not wait.
                case .inProgress: obstacle == .breaker ? .lost(.breaker) : .awaited
                case .coolingDown: .lost(obstacle == .breaker ? .breaker : .cooldown)
                case .replaced: .lost(.sessionReplaced)
                case .unchanged: .lost(.sameToken)
                case .none: .lost(obstacle)
                }
        }
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
        case (.awaited, .awaited), (.awaited, .ready), (.ready, .awaited): .wait
        }
    }
}

/// The response that a `RefusedResponse` decides about: its head and the bytes that came with it. The rest is not read
/// until the decision.
///
/// Belongs to its exchange, which checks the queue.
final class HeldResponse {
    /// How long an incomplete request body is waited for (http-forwarding.md 17.2).
    static let bodyWaitMax = Duration.seconds(1)

    let head: ResponseHead
    let table: FieldTable
    /// From the head's first byte on.
    var bytes: ByteQueue
    var decision: RefusedResponse
    /// The token that a replay is sent with.
    var token: AccessToken?
    /// A refresh was in progress. If it brings no token, no other one is forced.
    var sawRenewal = false
    /// If the request body is incomplete: how many of its bytes were sent upstream. Bytes that arrive while the
    /// response is held are only kept.
    let bodyBytesSent: Int?

    /// - Parameter budget: counts the held bytes.
    init(
        _ head: ResponseHead, _ table: FieldTable, _ bytes: Bytes, _ decision: RefusedResponse, bodyBytesSent: Int?,
        budget: BufferBudget
    ) {
        self.bytes = ByteQueue(budget: budget)
        self.head = head
        self.table = table
        self.decision = decision
        self.bodyBytesSent = bodyBytesSent
        self.bytes.append(bytes)
    }
}
