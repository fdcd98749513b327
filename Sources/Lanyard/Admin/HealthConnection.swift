import Glibc

/// One connection of the health listener: reads requests one after another, answers each from what is known at that moment.
///
/// Belongs to the health loop's queue. Slow clients cost a place of the budget and nothing else.
package final class HealthConnection: Watcher, @unchecked Sendable {
    private enum Phase {
        /// Waits for a head, or for the rest of one.
        case reading
        /// The socket is full; nothing is read meanwhile.
        case writing
        /// The last answer is out: what still comes is thrown away, so that closing does not reset it (RFC 9112 §9.6).
        case lingering
        case closed
    }

    /// Answers before others get their turn.
    private static let requestsPerTurn = 8
    private static let lingerBytesMax = 256 << 10

    private let listener: HealthListener
    private var descriptor: OwnedDescriptor?
    private let raw: CInt
    private var watch: EventLoop.Watch?
    private lazy var deadline = Deadline(of: self)

    private var phase = Phase.reading
    private let input: UnsafeMutableBufferPointer<UInt8>
    private var inputCount = 0
    private var reader = RequestReader()
    private let table: FieldTable
    private var headBegun = false
    /// The client has ended its direction.
    private var inputEnded = false

    private var output: [UInt8] = []
    private var written = 0
    private var closesAfterOutput = false
    private var lingered = 0

    /// Since when the client owes something: a request, or room for an answer.
    private(set) var waitingSince: Instant
    /// An answer is under way: not the first to make room.
    var isAnswering: Bool { phase == .writing }

    /// Takes over a socket and begins to watch it. On the loop's queue.
    init(taking socket: consuming OwnedDescriptor, of listener: HealthListener) throws(Fault) {
        self.listener = listener
        raw = socket.raw
        descriptor = consume socket
        let limits = listener.limits.head
        input = .allocate(capacity: limits.headBytesMax + 1)
        table = FieldTable(capacity: limits.fieldsMax)
        waitingSince = listener.loop.now
        super.init()
        watch = try listener.loop.watch(raw, for: .read, by: self)
        listener.loop.set(deadline, at: listener.loop.now + listener.limits.headTimeout)
    }

    deinit { input.deallocate() }

    // MARK: Events

    package override func ready(_ readiness: Readiness, on watch: EventLoop.Watch) {
        switch phase {
        case .reading: receive()
        case .writing: send()
        case .lingering: discard()
        case .closed: break
        }
    }

    package override func due(_ deadline: Deadline) {
        switch phase {
        case .reading where headBegun: answer(.timedOut, toHead: false, closes: true, keepsHTTP10: false)
        case .reading, .writing, .lingering, .closed: close()
        }
    }

    package override func resume() { process() }

    // MARK: Reading

    private func receive() {
        // Full of requests that wait for their turn.
        guard inputCount < input.count else { return }
        let room = UnsafeMutableRawBufferPointer(UnsafeMutableBufferPointer(rebasing: input[inputCount...]))
        switch Socket.receive(raw, into: room) {
        case .bytes(let count): inputCount += count
        case .wouldBlock: return
        case .end: inputEnded = true
        case .failed: return close()
        }
        process()
    }

    /// Answers what is whole in the input, in order; a few at a time.
    private func process() {
        var answered = 0
        while phase == .reading {
            guard answered < Self.requestsPerTurn else { return listener.loop.later(self) }
            guard answerNext() else { break }
            answered += 1
        }
        // A client that ends its direction still gets the answers to whole requests; half a request is none.
        if phase == .reading, inputEnded { close() }
    }

    /// False when more bytes are needed.
    private func answerNext() -> Bool {
        let bytes = Bytes(rebasing: input[0..<inputCount])
        do throws(HeadFault) {
            guard let head = try reader.read(bytes, into: table, limits: listener.limits.head) else {
                noteProgress()
                return false
            }
            let answer = listener.answer(to: head, in: bytes, table)
            advance(past: head.length)
            // A body is not read: where it ends does not matter when the connection does.
            let hasBody = head.framing != .none && head.framing != .length(0)
            let closes = answer.closes || hasBody || !head.wantsKeepAlive
            self.answer(answer, toHead: head.kind == .head, closes: closes, keepsHTTP10: head.minorVersion == 0)
            return true
        } catch {
            answer(.malformed(error), toHead: false, closes: true, keepsHTTP10: false)
            return true
        }
    }

    /// The first byte of a head starts its time; later ones do not prolong it.
    private func noteProgress() {
        guard !headBegun, reader.hasBegun else { return }
        headBegun = true
        listener.loop.set(deadline, at: listener.loop.now + listener.limits.headTimeout)
    }

    /// Moves what stands behind the head to the front.
    private func advance(past count: Int) {
        let left = inputCount - count
        if left > 0 { memmove(input.baseAddress!, input.baseAddress! + count, left) }
        inputCount = left
        reader = RequestReader()
        headBegun = false
    }

    // MARK: Writing

    private func answer(_ answer: HealthAnswer, toHead: Bool, closes: Bool, keepsHTTP10: Bool) {
        output = answer.write(toHead: toHead, closes: closes, keepsHTTP10: keepsHTTP10, at: .now)
        written = 0
        closesAfterOutput = closes
        send()
    }

    private func send() {
        while written < output.count {
            let sent = output.withUnsafeBytes { Socket.send(raw, UnsafeRawBufferPointer(rebasing: $0[written...])) }
            switch sent {
            case .bytes(let count):
                written += count
                waitingSince = listener.loop.now
            case .wouldBlock: return awaitRoom()
            case .failed: return close()
            }
        }
        let waited = phase == .writing
        output = []
        phase = .reading
        waitingSince = listener.loop.now
        if closesAfterOutput { return linger() }
        listener.loop.set(deadline, at: listener.loop.now + listener.limits.idleTimeout)
        guard waited else { return }
        change(to: .read)
        process()
    }

    private func awaitRoom() {
        listener.loop.set(deadline, at: listener.loop.now + listener.limits.writeTimeout)
        guard phase != .writing else { return }
        phase = .writing
        change(to: .write)
    }

    private func change(to readiness: Readiness) {
        guard let watch else { return }
        do throws(Fault) { try listener.loop.change(watch, to: readiness) } catch { close() }
    }

    // MARK: The end

    private func linger() {
        guard !inputEnded else { return close() }
        shutdown(raw, CInt(SHUT_WR))
        phase = .lingering
        change(to: .read)
        listener.loop.set(deadline, at: listener.loop.now + listener.limits.lingerTimeout)
    }

    private func discard() {
        switch Socket.receive(raw, into: UnsafeMutableRawBufferPointer(input)) {
        case .bytes(let count):
            lingered += count
            if lingered > Self.lingerBytesMax { close() }
        case .wouldBlock: break
        case .end, .failed: close()
        }
    }

    /// Ends the connection whatever it was doing. Once; later calls do nothing.
    func close() {
        guard phase != .closed else { return }
        phase = .closed
        listener.loop.drop(deadline)
        if let watch { listener.loop.forget(watch) }
        watch = nil
        descriptor = nil
        listener.remove(self)
    }
}
