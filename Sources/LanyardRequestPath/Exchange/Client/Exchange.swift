import LanyardFoundations

/// One request from head to last byte, as a state machine. An event goes in, an action comes out, and
/// `ClientExchange` performs it.
///
/// It does no I/O and sees no bytes. It guarantees:
/// - A response that was cut off never looks complete.
/// - A request that may have been processed is not repeated.
/// - A connection that is out of step is not used again.
package struct Exchange: Equatable, Sendable {
    /// The state of the request, as the upstream sees it.
    package enum RequestPart: Sendable {
        /// No byte was written.
        case unsent
        /// The head was written; body bytes are still to come.
        case sending
        case sent
    }

    /// The state of the response, as the client sees it.
    package enum ResponsePart: Sendable {
        /// No final head has come; interim ones may have.
        case awaited
        /// A final head came that may lead to a replay. Nothing of it was sent.
        case held
        /// The final head was sent; the body follows.
        case relaying
        case ended
    }

    package enum Action: Equatable, Sendable {
        case wait
        /// Send the request once more, on a new connection.
        case retry
        /// Send a problem response and close the upstream connection if there is one.
        case refuse(Problem)
        /// Close the client's connection in a way that makes the response look cut off.
        case abort(ResponseCut)
        /// The response is complete.
        case finish(keepsUpstream: Bool, keepsClient: Bool)
    }

    /// Interim responses to one request (http-connections.md 8). Their total number has no limit: they announce a response that takes long.
    private static let interimLimit = AllowedRate.Limit(burst: 64, interval: .milliseconds(100))
    /// A longer head counts as several.
    private static let interimBytesMax = 8 << 10
    /// One more may come for so many bytes of the body that went upstream: a resumable upload reports its progress by them.
    private static let bodyBytesPerInterim = 1 << 10

    /// What has happened since the request was last sent.
    private struct Sending: Equatable {
        /// The connection has carried a request before.
        var isReused = false
        /// A 100 came.
        var sawContinue = false
        /// An interim response came.
        var sawInterim = false
    }

    /// How often the request was sent again, by reason.
    private struct Repeats: Equatable {
        /// After a stale connection; at most 1.
        var stale = 0
        /// After a refused token; at most 1.
        var refused = 0
        /// The upstream has not processed it.
        var unprocessed = 0
    }

    package private(set) var request = RequestPart.unsent
    package private(set) var response = ResponsePart.awaited
    /// Repeating the request after a stale connection does no harm (http-connections.md 16.5).
    private let isIdempotent: Bool
    /// `Expect: 100-continue` is sent upstream.
    private let expectsContinue: Bool
    /// `Connection: close` is sent with the response.
    package private(set) var closesClient: Bool
    private var upstreamKeepsAlive = true
    private var framing = BodyFraming.none
    private var sending = Sending()
    /// A new connection took no byte of the head.
    private var hasFreshConnectionFailed = false
    private var repeats = Repeats()
    /// Interim responses, of all sendings together.
    private var interims = AllowedRate()

    /// - Parameter head: the client's request.
    package init(_ head: RequestHead) {
        isIdempotent = head.kind.isIdempotent
        expectsContinue = head.expectation == .continue100
        closesClient = !head.wantsKeepAlive
    }

    /// The head was written.
    ///
    /// - Parameter hasBody: body bytes follow.
    package mutating func handleSentHead(reused: Bool, hasBody: Bool) {
        sending.isReused = reused
        request = hasBody ? .sending : .sent
    }

    package mutating func handleRequestEnd() { request = .sent }

    /// Sendings after one that the upstream has not processed, or that met a stale connection.
    package var retries: Int { repeats.stale + repeats.unprocessed }
    /// Sendings after a refused token; at most 1.
    package var replays: Int { repeats.refused }

    /// Whether the request may be sent on another connection if this one took no byte of its head.
    ///
    /// A reused connection may have been closed by the upstream, and a new one may be closed as soon as it is
    /// established. This is no retry, and allowed for any method (http-connections.md 16.4). The second new connection that
    /// takes no byte is an error of the upstream.
    package var canRetryUnsent: Bool {
        (sending.isReused || !hasFreshConnectionFailed) && response == .awaited && interims.isUnused
    }

    /// The connection took no byte of the head. Requires `canRetryUnsent`.
    package mutating func retryUnsent() -> Action {
        if !sending.isReused { hasFreshConnectionFailed = true }
        (request, sending.isReused) = (.unsent, false)
        return .retry
    }

    /// A 1xx other than 101 came.
    ///
    /// - Parameters:
    ///   - bytes: the length of its head.
    ///   - bodyBytes: of the request that went upstream so far.
    ///   - continues: it is a 100.
    package mutating func handleInterim(
        bytes: Int, bodyBytes: Int = 0, at now: Instant, continues: Bool = false
    ) -> Action {
        if continues { sending.sawContinue = true }
        sending.sawInterim = true
        let count = max(1, (bytes + Self.interimBytesMax - 1) / Self.interimBytesMax)
        interims.pay(upTo: bodyBytes / Self.bodyBytesPerInterim)
        guard interims.admit(count, by: Self.interimLimit, at: now) else {
            return handleUpstreamFailure(HeadError(.fieldsTooLarge, "too many interim responses"))
        }
        return .wait
    }

    /// A final head came that means "token refused". It is relayed or replaced by a replay.
    package mutating func hold() { response = .held }

    /// The request is sent once more, with another token. At most once in an exchange (http-connections.md 16.6).
    ///
    /// - Returns: whether the upstream's connection is in step after the body behind `head` has been read.
    package mutating func replay(insteadOf head: ResponseHead) -> Bool {
        let isInStep = request == .sent && keepsUpstream(after: head)
        repeats.refused += 1
        (request, response, sending) = (.unsent, .awaited, Sending())
        return isInStep
    }

    /// A request that is not idempotent is replayed on a connection that has carried none. The upstream may close any
    /// other one, this exchange's own included, at the same moment; then nothing tells whether the request was
    /// processed (http-connections.md 16.6).
    package var needsFreshConnection: Bool { replays > 0 && !isIdempotent }

    /// Never after a final response in place of a 100. The upstream may have read the body, or may take it for the next
    /// request (http-forwarding.md 11.3).
    private func keepsUpstream(after head: ResponseHead) -> Bool {
        head.keepsAlive && !head.announcesForbiddenBody && head.framing != .untilClose
            && (!expectsContinue || sending.sawContinue)
    }

    /// The final head came and is relayed.
    ///
    /// - Parameter delimitedByClose: for the client the body is delimited by the close of the connection.
    package mutating func handleFinalHead(_ head: ResponseHead, delimitedByClose: Bool) {
        response = .relaying
        framing = head.framing
        upstreamKeepsAlive = keepsUpstream(after: head)
        // An early response: the rest of the body must never be read as a request (http-connections.md 9.6).
        if request != .sent || delimitedByClose { closesClient = true }
    }

    /// The client's connection ends after this exchange. Call it before the final head is written.
    package mutating func closeClient() { closesClient = true }

    /// Whether the connection stays open behind a response that is complete now.
    var keepsClient: Bool { !closesClient && request == .sent }

    /// The response body is complete: by its length, its last chunk, or the upstream's orderly close.
    ///
    /// - Parameter leftover: bytes came behind it, which belong to no response (http-forwarding.md 13.4).
    package mutating func handleResponseEnd(leftover: Bool) -> Action {
        response = .ended
        return .finish(
            keepsUpstream: upstreamKeepsAlive && request == .sent && !leftover,
            keepsClient: keepsClient)
    }

    /// The upstream has shut down writing, or reset the connection.
    ///
    /// - Parameters:
    ///   - clean: an orderly close, which completes a body that is delimited by the close.
    ///   - sawBytes: some bytes of a response head came before.
    ///   - holdsRequest: there is no body, or all of it has arrived and is kept.
    package mutating func handleUpstreamEnd(clean: Bool, sawBytes: Bool, holdsRequest: Bool) -> Action {
        switch response {
        case .awaited
        where !sending.sawInterim && !sawBytes && sending.isReused && isIdempotent && holdsRequest && repeats.stale == 0:
            repeats.stale += 1
            (request, sending.isReused) = (.unsent, false)
            return .retry
        case .awaited: return refuse(sawBytes || sending.sawInterim ? .upstreamIncomplete : .upstreamTerminated)
        case .relaying where clean && framing == .untilClose: return handleResponseEnd(leftover: false)
        case .relaying: return .abort(.upstream)
        // A held response is decided about without the connection.
        case .held, .ended: return .wait
        }
    }

    /// The upstream has reset the stream, and may have processed the request.
    package mutating func handleReset() -> Action {
        switch response {
        case .awaited: refuse(.upstreamReset)
        case .relaying: .abort(.upstream)
        case .held, .ended: .wait
        }
    }

    /// An upstream that processes nothing is not asked for ever.
    private static let unprocessedMax = 2

    /// The upstream has said that it has not processed the request (RFC 9113 §8.7): it is sent again, whatever its method (H28).
    ///
    /// - Parameter holdsRequest: all of the body that has arrived is kept.
    package mutating func handleUnprocessed(holdsRequest: Bool) -> Action {
        switch response {
        case .awaited where holdsRequest && repeats.unprocessed < Self.unprocessedMax:
            repeats.unprocessed += 1
            (request, sending) = (.unsent, Sending())
            return .retry
        case .awaited: return .refuse(.upstreamUnprocessed)
        case .relaying: return .abort(.upstream)
        case .held, .ended: return .wait
        }
    }

    /// No byte of a final response was sent to the client.
    private var isResponseUnsent: Bool { response == .awaited || response == .held }

    /// The upstream's bytes are malformed.
    package mutating func handleUpstreamFailure(_ error: HeadError) -> Action {
        isResponseUnsent ? refuse(.upstreamInvalid(error)) : .abort(.upstream)
    }

    /// No memory is left to buffer an incomplete head or trailer section.
    package mutating func handleMemoryShortage() -> Action {
        isResponseUnsent ? refuse(.buffersFull) : .abort(.memory)
    }

    /// The client's body was cut off or is malformed: it must not look complete upstream.
    package mutating func handleRequestFailure(_ problem: Problem) -> Action {
        isResponseUnsent ? .refuse(problem) : .abort(.request)
    }

    /// The client ended its upload early by a half-close.
    ///
    /// Before the response has begun this is the client's error. Afterwards it is the client's reaction to an early
    /// response (RFC 9112 §9.5), which is relayed to its end. The upstream never sees a complete body, because its
    /// connection ends with the response (http-requests.md 5.8, http-connections.md 9.6).
    package mutating func handleRequestCut(_ problem: Problem) -> Action {
        isResponseUnsent ? .refuse(problem) : .wait
    }

    /// The response did not come or made no progress for too long, or a side took no byte.
    ///
    /// - Parameter isUntouched: the upstream took no byte of the request.
    package mutating func handleTimeout(_ problem: Problem, isUntouched: Bool = false) -> Action {
        guard isResponseUnsent else { return .abort(.idle) }
        return isUntouched ? .refuse(problem) : refuse(problem)
    }

    /// Refuses the request because of its upstream. Unless its method is idempotent, one that the upstream may have
    /// processed must not be repeated (RFC 9110 §9.2.2).
    package func refuse(_ problem: Problem) -> Action {
        .refuse(request == .unsent || isIdempotent ? problem : problem.notRepeatable)
    }

    /// The session that the request was sent with has ended, or its user is not the active one any more (`close_streams_on`).
    ///
    /// - Parameter cut: `.logout` or `.switched`.
    package mutating func handleSessionEnd(_ cut: ResponseCut) -> Action { response == .relaying ? .abort(cut) : .wait }
}
