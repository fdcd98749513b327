import LanyardFoundations
import LanyardSettings

/// The form of Lanyard's own responses (http-connections.md 19.5), and the wait for a body that tells it.
extension ClientConnection {
    /// A longer body is not waited for.
    private static let awaitedBodyBytesMax = 16 << 10

    /// Decided before anything of the request is released; nil: the rest of the body tells it.
    func responseForm(of problem: Problem) -> ResponseForm? {
        guard state.isHeadRead, input.head.kind == .post else { return .problem }
        switch state.shardRoute?.route.settings.errors ?? .auto {
        case .problem: return .problem
        case .auto where !input.hasMCPField: return .problem
        case .auto, .jsonrpc: break
        }
        if let isNotification = input.isMCPNotification { return isNotification ? .problem : .jsonRPC }
        guard let message else { return mayAwaitBody(before: problem) ? nil : .jsonRPC }
        return message.form
    }

    /// What the body is, if all of it is there; nil: unknown.
    private var message: JSONRPCMessage? {
        if let message = input.withUntakenBody(JSONRPCMessage.kind) { return message }
        guard input.body.isEnded, input.body.total > 0, replay.holdsBody, let buffer = input.buffer else { return nil }
        let (first, second) = replay.bytes(from: 0, in: buffer)
        if second.isEmpty { return JSONRPCMessage.kind(of: UnsafeRawBufferPointer(first)) }
        return (Array(first) + Array(second)).withUnsafeBytes(JSONRPCMessage.kind)
    }

    /// Most clients send the body in a write of its own, and it arrives at once.
    private func mayAwaitBody(before problem: Problem) -> Bool {
        guard !problem.closes, input.body.total == 0, !input.body.isEnded, input.head.expectation == .none,
            case .length(let length) = input.head.framing, length <= Self.awaitedBodyBytesMax
        else { return false }
        if case .refusing = state { return false }
        return !stream.hasEnded && !shard.context.buffers.isUnder(.requestsRefused)
    }

    /// Reads the body of the request, for a second at most, and refuses it then.
    func awaitRefusedBody(before problem: Problem) {
        dropUpstream(keeps: false)
        endOutboundWait()
        state = .refusing(problem, before: state)
        begin(.refusedBody, for: HeldResponse.bodyWaitMax)
        // The read that has brought the head continues by itself.
        if !input.isParsing { pump() }
    }

    /// Reads body bytes once. Returns their number.
    func readRefusedBody() -> Int {
        let room = input.room(in: shard)
        guard room.count > 0 else {
            finishRefusal()
            return 0
        }
        switch stream.receive(into: room) {
        case .bytes(let count):
            input.recordArrival(count)
            if message != nil { finishRefusal() }
            return count
        case .wouldBlock: break
        case .end: finishRefusal()
        case .failed: abandon()
        }
        return 0
    }

    /// The body is there, or is not waited for any longer.
    func finishRefusal() {
        guard case .refusing(let problem, let former) = state else { return }
        endInboundWait()
        state = former
        let form = message?.form ?? .jsonRPC
        // The connection can carry another request if the body has been read.
        input.takeWholeBody(in: shard)
        send(problem, as: form)
    }
}
