// Which of the two modules owns SHUT_WR depends on what was compiled first.
import CLanyard.Linux
import Glibc

/// One connection of an operator listener: reads requests one after another, has each judged by the handler, answered or carried out.
///
/// Belongs to the listener's loop. Its input may hold passwords and the bearer token: what was used is wiped at once.
final class OperatorConnection: Watcher, @unchecked Sendable {
    private enum Phase {
        /// Waits for a head, or for the rest of one.
        case readingHead
        /// The head is judged; its body comes.
        case readingBody
        /// The call is being carried out; nothing is read meanwhile.
        case performing
        /// The answer is held back; nothing is read meanwhile.
        case delaying(OperatorResponse)
        /// The socket is full; nothing is read meanwhile.
        case writing
        /// The last answer is out: what still comes is thrown away, so that closing does not reset it (RFC 9112 §9.6).
        case lingering
        case closed
    }

    /// What an answer must know of its request.
    private struct Request {
        var call: OperatorCall?
        var isHead = false
        var keepsHTTP10 = false
        var closes = false
    }

    /// Heads and bodies that are taken before others get their turn.
    private static let messagePartsPerTurnMax = 8
    private static let lingerBytesMax = 256 << 10

    private let listener: OperatorListener
    private let handler: any OperatorHandler
    private let peer: PeerCredentials
    /// In the order of arrival: several come in one turn, at the same instant.
    let number: Int
    private var descriptor: OwnedDescriptor?
    private let raw: CInt
    private var watch: EventLoop.Watch?
    /// What the loop was asked for.
    private var interest = IOReadiness.read
    private lazy var deadline = Deadline(of: self)

    private var phase = Phase.readingHead
    private let input: UnsafeMutableBufferPointer<UInt8>
    private var inputCount = 0
    private var reader = RequestReader()
    private let table: FieldTable
    private var hasHeadBegun = false
    /// The client has ended its direction.
    private var hasInputEnded = false
    private var request = Request()
    private var body: OperatorRequestBody?

    private var output: [UInt8] = []
    private var written = 0
    private var lingerBytes = 0

    /// It came when every place was taken, and was only told so.
    private(set) var isRejected = false
    /// Since when the client owes something: a request, or room for an answer.
    private(set) var waitingSince: Instant
    var isPerforming: Bool { if case .performing = phase { true } else { false } }
    /// An answer is held back.
    var isDelaying: Bool { if case .delaying = phase { true } else { false } }
    /// An answer is under way: not the first to make room.
    var isWriting: Bool { if case .writing = phase { true } else { false } }
    private var isReadingHead: Bool { if case .readingHead = phase { true } else { false } }
    private var isReading: Bool {
        switch phase {
        case .readingHead, .readingBody: true
        default: false
        }
    }

    /// Takes over a socket and begins to watch it. On the loop's queue.
    init(
        taking socket: consuming OwnedDescriptor, number: Int, from peer: PeerCredentials,
        of listener: OperatorListener,
        for handler: any OperatorHandler
    ) throws(SystemError) {
        self.number = number
        self.listener = listener
        self.handler = handler
        self.peer = peer
        raw = socket.raw
        descriptor = consume socket
        let limits = listener.limits.head
        input = .allocate(capacity: limits.headBytesMax + 1)
        table = FieldTable(capacity: limits.fieldsMax)
        waitingSince = listener.loop.now
        super.init()
        watch = try listener.loop.watch(raw, for: interest, by: self)
        listener.loop.set(deadline, at: listener.loop.now + listener.limits.headTimeout)
    }

    /// Answers before anything was asked, and ends. Once, at the beginning.
    func reject(_ refusal: OperatorResponse) {
        isRejected = true
        request.closes = true
        response(refusal)
    }

    deinit {
        lanyard_wipe(input.baseAddress!, input.count)
        input.deallocate()
    }

    // MARK: Events

    override func ready(_ readiness: IOReadiness, on watch: EventLoop.Watch) {
        switch phase {
        case .readingHead, .readingBody: receive()
        case .writing:
            send()
            resumeReading()
        case .lingering: readAndDiscard()
        // Nothing was asked of the loop, so the client is gone for good; its call goes on.
        case .performing, .delaying: close()
        case .closed: break
        }
    }

    override func due(_ deadline: Deadline) {
        switch phase {
        case .readingHead where hasHeadBegun:
            request = Request(closes: true)
            response(.timedOut)
        case .readingBody: response(.bodyTimedOut)
        case .delaying(let refusal):
            response(refusal)
            resumeReading()
        case .readingHead, .performing, .writing, .lingering, .closed: close()
        }
    }

    override func resume() { process() }

    // MARK: Reading

    private func receive() {
        // Full of requests that wait for their turn.
        guard inputCount < input.count else { return }
        let room = UnsafeMutableRawBufferPointer(UnsafeMutableBufferPointer(rebasing: input[inputCount...]))
        switch Socket.receive(raw, into: room) {
        case .bytes(let count): inputCount += count
        case .wouldBlock: return
        case .end: hasInputEnded = true
        case .failed: return close()
        }
        process()
    }

    /// Takes what is whole in the input, in order; a few at a time: a client that sends many gets its turn among others.
    private func process() {
        var steps = 0
        while isReading {
            guard steps < Self.messagePartsPerTurnMax else { return listener.loop.resumeLater(self) }
            guard isReadingHead ? readHead() : readBody() else { break }
            steps += 1
        }
        // A client that ends its direction still gets the answers to whole requests; half a request is none.
        if isReading, hasInputEnded { close() }
    }

    /// False when more bytes are needed.
    private func readHead() -> Bool {
        let bytes = Bytes(rebasing: input[0..<inputCount])
        do throws(HeadError) {
            guard let head = try reader.read(bytes, into: table, limits: listener.limits.head) else {
                noteProgress()
                return false
            }
            request = Request(
                isHead: head.kind == .head, keepsHTTP10: head.minorVersion == 0, closes: !head.wantsKeepAlive)
            let verdict = decide(head, in: bytes)
            wipeConsumed(head.length)
            switch verdict {
            case .call(let call): begin(call, head)
            case .response(let response):
                endWithBody(head)
                self.response(response)
            case .delayed(let response, let delay):
                endWithBody(head)
                delayResponse(response, for: delay)
            }
        } catch {
            request = Request(closes: true)
            response(.malformed(error))
        }
        return true
    }

    /// The body is not read: where it ends does not matter when the connection does.
    private func endWithBody(_ head: RequestHead) {
        let hasBody = head.framing != .none && head.framing != .length(0)
        request.closes = request.closes || hasBody
    }

    /// Whoever waits holds a place, and no thread.
    private func delayResponse(_ response: OperatorResponse, for delay: Duration) {
        listener.closeOldestDelayed()
        phase = .delaying(response)
        waitingSince = listener.loop.now
        listener.loop.set(deadline, at: listener.loop.now + delay)
        change(to: [])
    }

    private func decide(_ head: RequestHead, in bytes: Bytes) -> OperatorDecision {
        guard let target = OperatorTarget(bytes[run: head.target]) else {
            return .response(.malformed(.malformed("a target that is neither a path nor an http URL")))
        }
        return handler.decide(head, target, in: bytes, table, peer: peer)
    }

    /// The first byte of a head starts its time; later ones do not prolong it.
    private func noteProgress() {
        guard !hasHeadBegun, reader.hasBegun else { return }
        hasHeadBegun = true
        listener.loop.set(deadline, at: listener.loop.now + listener.limits.headTimeout)
    }

    private func begin(_ call: OperatorCall, _ head: RequestHead) {
        guard head.expectation != .unknown else { return response(.expectationFailed) }
        if case .length(let length) = head.framing, length > call.bodyBytesMax { return response(.bodyTooLarge) }
        request.call = call
        body = OperatorRequestBody(head.framing, bytesMax: call.bodyBytesMax)
        phase = .readingBody
        listener.loop.set(deadline, at: listener.loop.now + call.bodyTimeout)
        guard head.expectation == .continue100, inputCount == 0 else { return }
        // Some thirty bytes into an empty socket: if they do not go, nothing does.
        let sent = Array("HTTP/1.1 100 Continue\r\n\r\n".utf8).withUnsafeBytes { Socket.send(raw, $0) }
        if case .bytes(25) = sent { return }
        close()
    }

    /// False when more bytes are needed.
    private func readBody() -> Bool {
        let bytes = Bytes(rebasing: input[0..<inputCount])
        do throws(HeadError) {
            guard let (progress, used) = try body?.take(bytes) else { return false }
            wipeConsumed(used)
            switch progress {
            case .needsMore: return false
            case .tooLarge: response(.bodyTooLarge)
            case .whole: perform()
            }
        } catch {
            response(.malformed(error))
        }
        return true
    }

    /// Wipes what has been understood; what stands behind it moves to the front.
    private func wipeConsumed(_ count: Int) {
        let left = inputCount - count
        if left > 0 { memmove(input.baseAddress!, input.baseAddress! + count, left) }
        if count > 0 { lanyard_wipe(input.baseAddress! + left, count) }
        inputCount = left
    }

    // MARK: Carrying out

    private func perform() {
        guard let body = body.take(), let call = request.call.take() else { return }
        phase = .performing
        listener.loop.set(deadline, at: .never)
        change(to: [])
        let loop = listener.loop
        body.withBytes { bytes in
            call.perform(bytes) { [self] response in
                loop.post { [self] in
                    guard isPerforming else { return }
                    self.response(response)
                    resumeReading()
                }
            }
        }
    }

    // MARK: Writing

    private func response(_ response: OperatorResponse) {
        request.closes = request.closes || response.closes
        body = nil
        output = response.write(
            toHead: request.isHead, closes: request.closes, keepsHTTP10: request.keepsHTTP10, at: .now)
        written = 0
        phase = .writing
        send()
    }

    private func send() {
        while written < output.count {
            let sent = output.withUnsafeBytes { Socket.send(raw, UnsafeRawBufferPointer(rebasing: $0[written...])) }
            switch sent {
            case .bytes(let count):
                written += count
                waitingSince = listener.loop.now
            case .wouldBlock:
                // What is not out yet waits for room, and nothing is read before it is.
                listener.loop.set(deadline, at: listener.loop.now + listener.limits.writeTimeout)
                return change(to: .write)
            case .failed: return close()
            }
        }
        output = []
        waitingSince = listener.loop.now
        if request.closes { return linger() }
        (phase, reader, hasHeadBegun) = (.readingHead, RequestReader(), false)
        listener.loop.set(deadline, at: listener.loop.now + listener.limits.idleTimeout)
        change(to: .read)
    }

    /// After an answer that took its time: another request may stand there already, and no event will tell of it.
    private func resumeReading() {
        if isReadingHead, inputCount > 0 || hasInputEnded { listener.loop.resumeLater(self) }
    }

    private func change(to readiness: IOReadiness) {
        guard let watch, interest != readiness else { return }
        interest = readiness
        do throws(SystemError) { try listener.loop.change(watch, to: readiness) } catch { close() }
    }

    // MARK: The end

    private func linger() {
        guard !hasInputEnded else { return close() }
        shutdown(raw, CInt(SHUT_WR))
        phase = .lingering
        listener.loop.set(deadline, at: listener.loop.now + listener.limits.lingerTimeout)
        change(to: .read)
    }

    private func readAndDiscard() {
        switch Socket.receive(raw, into: UnsafeMutableRawBufferPointer(input)) {
        case .bytes(let count):
            lingerBytes += count
            if lingerBytes > Self.lingerBytesMax { close() }
        case .wouldBlock: break
        case .end, .failed: close()
        }
    }

    /// Ends the connection whatever it was doing; a call that is being carried out goes on without it. Once; later calls do nothing.
    func close() {
        if case .closed = phase { return }
        phase = .closed
        body = nil
        listener.loop.drop(deadline)
        if let watch { listener.loop.forget(watch) }
        watch = nil
        listener.remove(self) { descriptor = nil }
    }
}
