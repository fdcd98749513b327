import LanyardFoundations
import LanyardSettings

/// The form of Lanyard's own responses (http-connections.md 19.5), and the wait for a body that tells it.
extension ClientExchange {
    /// A longer body is not waited for, whatever its framing.
    private static let awaitedBodyBytesMax = 16 << 10

    /// Decided before anything of the request is released; nil: the rest of the body tells it.
    func responseForm(of problem: Problem) -> ResponseForm? {
        if case .granting(let exchange) = state { return exchange.form }
        if state.isHeadRead, input.isGRPC { return .grpc }
        guard state.isHeadRead, input.head.kind == .post, mayUseJSONRPC(on: state.shardRoute?.route) else {
            return .problem
        }
        if let isNotification = input.isMCPNotification { return isNotification ? .problem : .jsonRPC }
        input.beginMessage()
        guard input.dropArrivedBody(in: shard) else { return .jsonRPC }
        if mayAwaitBody(before: problem) { return nil }
        return messageForm
    }

    /// Whether refusals of a POST may be errors of JSON-RPC. nil: no route was found.
    func mayUseJSONRPC(on route: Route?) -> Bool {
        switch route?.settings.errors ?? .auto {
        case .problem: false
        case .auto: input.head.traits.contains(.mcp)
        case .jsonrpc: true
        }
    }

    /// A body that was not read whole counts as a request.
    private var messageForm: ResponseForm { input.isMessageWithoutReply ? .problem : .jsonRPC }

    /// Most clients send the body in a write of its own, and it arrives at once.
    private func mayAwaitBody(before problem: Problem) -> Bool {
        guard !problem.closes, !input.body.isEnded, input.body.total <= Self.awaitedBodyBytesMax,
            input.head.expectation == .none, input.buffer != nil
        else { return false }
        switch input.head.framing {
        case .none: return false
        case .length(let length): if length > Self.awaitedBodyBytesMax { return false }
        case .chunked, .untilClose: break
        }
        if case .refusing = state { return false }
        return !sink.hasEnded && !shard.context.buffers.isUnder(.requestsRefused)
    }

    /// Reads the body of the request, for a second at most, and refuses it then.
    func awaitRefusedBody(before problem: Problem) {
        dropUpstream(keeps: false)
        endOutboundWait()
        state = .refusing(problem, before: state)
        begin(.refusedBody, for: HeldResponse.bodyWaitMax)
        // The read that has brought the head continues by itself.
        sink.readUnlessReading()
    }

    /// A read has put bytes of the body into the input's room.
    func handleRefusedBody(_ count: Int) {
        input.recordArrival(count)
        if case .granting(let exchange) = state { return takeBody(of: exchange) }
        let isReadable = input.dropArrivedBody(in: shard)
        // The framing of chunks has a limit as well.
        let isLong =
            input.body.total > Self.awaitedBodyBytesMax || input.bytesBehindHead > 2 * Self.awaitedBodyBytesMax
        if !isReadable || input.body.isEnded || isLong { finishRefusal() }
    }

    /// The body is there, or is not waited for any longer.
    func finishRefusal() {
        if case .granting(let exchange) = state { return endBody(of: exchange) }
        guard case .refusing(let problem, let former) = state else { return }
        endInboundWait()
        state = former
        send(problem, as: messageForm)
    }
}
