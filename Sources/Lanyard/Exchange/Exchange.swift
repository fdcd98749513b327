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
        /// The final head was sent; the body follows.
        case relaying
        case ended
    }

    package enum Step: Equatable, Sendable {
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

    /// Interim responses to one request (http-requirements §8).
    private static let interimMost = 16
    /// Their heads together.
    private static let interimBytesMax = 64 << 10

    package private(set) var request = RequestPart.unsent
    package private(set) var response = ResponsePart.awaited
    /// Repeating it after a stale connection does no harm: idempotent, and no body (http-requirements 16.5).
    private let isRepeatable: Bool
    /// `Connection: close` goes with the response.
    package private(set) var closesClient: Bool
    private var upstreamKeepsAlive = true
    private var framing = BodyFraming.none
    private var isReused = false
    private var retries = 0
    private var interims = 0
    private var interimBytes = 0

    /// - Parameter head: the client's request.
    package init(_ head: RequestHead) {
        let hasBody = head.framing != .none && head.framing != .length(0)
        isRepeatable = head.kind.isIdempotent && !hasBody
        closesClient = !head.wantsKeepAlive
    }

    /// A sent request may still have to be sent again: its head must be kept until the response begins.
    package var mayRetry: Bool { isRepeatable && retries == 0 }

    /// The head was written; `hasBody` says that bytes are to follow.
    package mutating func sentHead(reused: Bool, hasBody: Bool) {
        isReused = reused
        request = hasBody ? .sending : .sent
    }

    package mutating func requestEnded() { request = .sent }

    /// A 1xx other than 101 came, with a head of so many bytes.
    package mutating func interim(bytes: Int) -> Step {
        interims += 1
        interimBytes += bytes
        guard interims <= Self.interimMost, interimBytes <= Self.interimBytesMax else {
            return upstreamFault(HeadFault(.fieldsTooLarge, "too many interim responses"))
        }
        return .wait
    }

    /// The final head came and goes to the client.
    ///
    /// - Parameter delimitedByClose: the client learns the end of the body only from the end of the connection.
    package mutating func finalHead(_ head: ResponseHead, delimitedByClose: Bool) {
        response = .relaying
        framing = head.framing
        upstreamKeepsAlive = head.keepsAlive && !head.announcesForbiddenBody && head.framing != .untilClose
        // An early response: what is left of the body must never be read as a request (http-requirements 9.6).
        if request != .sent || delimitedByClose { closesClient = true }
    }

    /// The client's connection ends after this exchange; called before the final head is written.
    package mutating func closeClient() { closesClient = true }

    /// The body is whole by length, chunks, or the upstream's orderly end.
    ///
    /// - Parameter leftover: bytes came behind it, which belong to nobody (http-requirements 13.4).
    package mutating func responseEnded(leftover: Bool) -> Step {
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
    package mutating func upstreamEnded(clean: Bool, sawBytes: Bool) -> Step {
        switch response {
        case .awaited where interims == 0 && !sawBytes && isReused && mayRetry:
            retries += 1
            (request, isReused) = (.unsent, false)
            return .retry
        case .awaited: return .refuse(sawBytes || interims > 0 ? .upstreamIncomplete : .upstreamTerminated)
        case .relaying where clean && framing == .untilClose: return responseEnded(leftover: false)
        case .relaying: return .abort
        case .ended: return .wait
        }
    }

    /// The upstream's bytes break a rule.
    package mutating func upstreamFault(_ fault: HeadFault) -> Step {
        response == .awaited ? .refuse(.upstreamInvalid(fault)) : .abort
    }

    /// The client's body was cut short or breaks a rule: it must not look complete upstream.
    package mutating func requestFault(_ problem: Problem) -> Step {
        response == .awaited ? .refuse(problem) : .abort
    }

    /// The response did not come, or stood still, for too long; or a side took no byte.
    package mutating func timedOut(_ problem: Problem) -> Step {
        response == .awaited ? .refuse(problem) : .abort
    }
}
