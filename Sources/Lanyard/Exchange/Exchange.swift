/// One request from head to last byte, as decisions: an event goes in, a step comes out, `ClientConnection` performs it.
///
/// It does no I/O and knows no bytes. What it guards: a response that was cut never looks whole, a request that may have been carried
/// out is not repeated, and a connection that is out of step is not used again.
package struct Exchange: Equatable, Sendable {
    /// What became of the request, as the upstream sees it.
    package enum RequestPart: Sendable {
        /// No byte was written.
        case unsent
        /// The head was; body bytes are still to come.
        case sending
        case sent
    }

    /// What became of the response, as the client sees it.
    package enum ResponsePart: Sendable {
        /// No final head yet; interim ones perhaps.
        case awaited
        /// A final head came that may lead to a replay; nothing of it was sent.
        case held
        /// The final head was sent; the body follows.
        case relaying
        case ended
    }

    package enum Action: Equatable, Sendable {
        case wait
        /// Send the request once more, on a fresh connection.
        case retry
        /// Answer with a problem; whatever upstream connection there is closes.
        case refuse(Problem)
        /// End the client's connection so that the response cannot look whole.
        case abort
        /// The response is whole.
        case finish(keepsUpstream: Bool, keepsClient: Bool)
    }

    /// Interim responses to one request (http-rules.md 8).
    private static let interimsMax = 16
    /// Their heads together.
    private static let interimBytesMax = 64 << 10

    package private(set) var request = RequestPart.unsent
    package private(set) var response = ResponsePart.awaited
    /// Repeating it after a stale connection does no harm (http-rules.md 16.5).
    private let isIdempotent: Bool
    /// `Expect: 100-continue` goes upstream.
    private let expectsContinue: Bool
    /// The upstream has asked for the body since the request was last sent.
    private var sawContinue = false
    /// `Connection: close` goes with the response.
    package private(set) var closesClient: Bool
    private var upstreamKeepsAlive = true
    private var framing = BodyFraming.none
    private var isReused = false
    /// A fresh connection took no byte of the head.
    private var hasFreshConnectionFailed = false
    /// After a stale connection; at most one.
    package private(set) var retries = 0
    /// After a refused token; at most one.
    package private(set) var replays = 0
    private var interims = 0
    /// One came since the request was last sent.
    private var sawInterim = false
    private var interimBytes = 0

    /// - Parameter head: the client's request.
    package init(_ head: RequestHead) {
        isIdempotent = head.kind.isIdempotent
        expectsContinue = head.expectation == .continue100
        closesClient = !head.wantsKeepAlive
    }

    /// The head was written; `hasBody` says that bytes are to follow.
    package mutating func sentHead(reused: Bool, hasBody: Bool) {
        isReused = reused
        request = hasBody ? .sending : .sent
    }

    package mutating func requestEnded() { request = .sent }

    /// Whether the request may go to another connection, should this one have taken no byte of its head: a kept connection that the upstream has
    /// closed meanwhile, or a fresh one that was closed as soon as it was made. That is no retry, and good for any method
    /// (http-rules.md 16.4); the second fresh one that takes nothing is the upstream's fault.
    package var canRetryUnsent: Bool {
        (isReused || !hasFreshConnectionFailed) && response == .awaited && interims == 0
    }

    /// No byte of the head was taken, and `canGoElsewhere`.
    package mutating func retryUnsent() -> Action {
        if !isReused { hasFreshConnectionFailed = true }
        (request, isReused) = (.unsent, false)
        return .retry
    }

    /// A 1xx other than 101 came, with a head of so many bytes.
    ///
    /// - Parameter continues: it is a 100.
    package mutating func interim(bytes: Int, continues: Bool = false) -> Action {
        if continues { sawContinue = true }
        interims += 1
        sawInterim = true
        interimBytes += bytes
        guard interims <= Self.interimsMax, interimBytes <= Self.interimBytesMax else {
            return upstreamFailed(HeadError(.fieldsTooLarge, "too many interim responses"))
        }
        return .wait
    }

    /// A final head came that means "token refused": it goes to the client, or makes place for a replay.
    package mutating func hold() { response = .held }

    /// The request is sent once more, with another token. At most once in an exchange (http-rules.md 16.6).
    ///
    /// - Returns: whether the upstream's connection is in step once the body behind `head` has been read.
    package mutating func replay(insteadOf head: ResponseHead) -> Bool {
        let isInStep = request == .sent && keepsUpstream(after: head)
        replays += 1
        (request, response, isReused, sawInterim, sawContinue) = (.unsent, .awaited, false, false, false)
        return isInStep
    }

    /// The replay of what may not be repeated goes on a connection that has carried nothing: another one, this exchange's own included, may
    /// be closed by the upstream in the very moment, and nobody could tell whether the request was carried out (http-rules.md 16.6).
    package var needsFreshConnection: Bool { replays > 0 && !isIdempotent }

    /// After a final answer instead of 100 never: nobody knows whether the upstream has read the body, though all of it was sent, or takes it
    /// for the next request (http-rules.md 11.3).
    private func keepsUpstream(after head: ResponseHead) -> Bool {
        head.keepsAlive && !head.announcesForbiddenBody && head.framing != .untilClose
            && (!expectsContinue || sawContinue)
    }

    /// The final head came and goes to the client.
    ///
    /// - Parameter delimitedByClose: the client learns the end of the body only from the end of the connection.
    package mutating func finalHead(_ head: ResponseHead, delimitedByClose: Bool) {
        response = .relaying
        framing = head.framing
        upstreamKeepsAlive = keepsUpstream(after: head)
        // An early response: what is left of the body must never be read as a request (http-rules.md 9.6).
        if request != .sent || delimitedByClose { closesClient = true }
    }

    /// The client's connection ends after this exchange; called before the final head is written.
    package mutating func closeClient() { closesClient = true }

    /// The body is whole by length, chunks, or the upstream's orderly end.
    ///
    /// - Parameter leftover: bytes came behind it, which belong to nobody (http-rules.md 13.4).
    package mutating func responseEnded(leftover: Bool) -> Action {
        response = .ended
        return .finish(
            keepsUpstream: upstreamKeepsAlive && request == .sent && !leftover,
            keepsClient: !closesClient && request == .sent)
    }

    /// The upstream has ended its direction, or reset the connection.
    ///
    /// - Parameters:
    ///   - clean: an orderly end, which completes a body that lasts until the end.
    ///   - sawBytes: some bytes of a response head came before.
    ///   - holdsRequest: there is no body, or all of it has come and is kept.
    package mutating func upstreamEnded(clean: Bool, sawBytes: Bool, holdsRequest: Bool) -> Action {
        switch response {
        case .awaited where !sawInterim && !sawBytes && isReused && isIdempotent && holdsRequest && retries == 0:
            retries += 1
            (request, isReused) = (.unsent, false)
            return .retry
        case .awaited: return .refuse(sawBytes || sawInterim ? .upstreamIncomplete : .upstreamTerminated)
        case .relaying where clean && framing == .untilClose: return responseEnded(leftover: false)
        case .relaying: return .abort
        // What is held is judged without the connection.
        case .held, .ended: return .wait
        }
    }

    /// No byte of a final answer has gone to the client.
    private var isResponseUnsent: Bool { response == .awaited || response == .held }

    /// The upstream's bytes break a rule.
    package mutating func upstreamFailed(_ fault: HeadError) -> Action {
        isResponseUnsent ? .refuse(.upstreamInvalid(fault)) : .abort
    }

    /// There is no memory to hold what has come of a head or a trailer section until the rest comes.
    package mutating func outOfMemory() -> Action { isResponseUnsent ? .refuse(.buffersFull) : .abort }

    /// The client's body was cut short or breaks a rule: it must not look complete upstream.
    package mutating func requestFailed(_ problem: Problem) -> Action {
        isResponseUnsent ? .refuse(problem) : .abort
    }

    /// The client ends its upload early, by a half-close. Before the answer has begun that is its fault. Afterwards it is how a client takes note
    /// of an early answer (RFC 9112 §9.5), which is relayed to its end; the upstream never sees the body whole, since its connection
    /// ends with the response (http-rules.md 5.8, 9.6).
    package mutating func requestCut(_ problem: Problem) -> Action {
        isResponseUnsent ? .refuse(problem) : .wait
    }

    /// The response did not come, or stood still, for too long; or a side took no byte.
    package mutating func timedOut(_ problem: Problem) -> Action {
        isResponseUnsent ? .refuse(problem) : .abort
    }
}
