import Glibc
import LanyardFoundations
import LanyardRequestPath
import LanyardTelemetry

/// One connection of an operator listener. It reads one request after another and asks the handler what to do with each.
///
/// Belongs to the listener's loop. Its input may hold passwords and the bearer token, so consumed input is wiped at once.
final class OperatorConnection: Watcher, @unchecked Sendable {
    private enum Phase {
        /// Waits for a head or for the rest of one.
        case readingHead
        /// The head has been read and decided on; the body is arriving.
        case readingBody
        /// The call is running; nothing is read during it.
        case performing
        /// The response is a page that is made for several connections; nothing is read until then.
        case awaitingPage(MetricsPages)
        /// The response is delayed; nothing is read until it is sent.
        case delaying(OperatorResponse)
        /// The socket is full; nothing is read until it has room.
        case writing
        /// The last response is sent; further input is read and discarded (`LingeringClose`).
        case lingering
        case closed
    }

    /// The properties of a request that its response depends on.
    private struct Request {
        var call: OperatorCall?
        var isHead = false
        var keepsHTTP10 = false
        var closes = false
    }

    /// Heads and bodies that are processed before other connections run.
    private static let messagePartsPerTurnMax = 8
    /// Bytes of a response that are sent before other connections run.
    private static let bytesPerTurnMax = 256 << 10

    private let listener: OperatorListener
    private let handler: any OperatorHandler
    private let peer: PeerCredentials
    /// Counts accepted connections. It orders connections that were accepted at the same instant.
    let number: Int
    private var descriptor: OwnedDescriptor?
    private let raw: CInt
    private var watch: EventLoop.Watch?
    /// The readiness that the loop watches for.
    private var interest = IOReadiness.read
    private lazy var deadline = Deadline(of: self)

    private var phase = Phase.readingHead
    private let input: UnsafeMutableBufferPointer<UInt8>
    private var inputCount = 0
    private var reader = RequestReader()
    private let table: FieldTable
    private var hasHeadBegun = false
    /// The client has sent the end of its stream.
    private var hasInputEnded = false
    private var request = Request()
    private var body: OperatorRequestBody?

    private var output: [UInt8] = []
    /// Sent after `output`: a long body, which other connections may share.
    private var bodyOutput: [UInt8] = []
    /// Sent after `output`, in place of `bodyOutput`.
    private var secretOutput: Secret?
    /// Of all.
    private var written = 0
    private var lingeringClose: LingeringClose?

    /// It was accepted beyond `connectionsMax` and gets only a 503.
    private(set) var isRejected = false
    /// Since when the listener waits for the client: for a request, or for room to write a response.
    private(set) var waitingSince: Instant
    let acceptedAt: Instant
    var isPerforming: Bool { if case .performing = phase { true } else { false } }
    /// A response is delayed.
    var isDelaying: Bool { if case .delaying = phase { true } else { false } }
    /// A response is being written. Such a connection is closed for a new one only when no idle one is left.
    var isWriting: Bool { if case .writing = phase { true } else { false } }
    private var isReadingHead: Bool { if case .readingHead = phase { true } else { false } }
    private var isReading: Bool {
        switch phase {
        case .readingHead, .readingBody: true
        default: false
        }
    }

    /// Takes ownership of a socket and starts to watch it. On the loop's queue.
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
        acceptedAt = listener.loop.now
        super.init()
        watch = try listener.loop.watch(raw, for: interest, by: self)
        listener.loop.set(deadline, at: listener.loop.now + listener.limits.headTimeout)
    }

    /// Sends a response without a request, then closes. At most once, directly after `init`.
    func reject(_ refusal: OperatorResponse) {
        listener.loop.assertIsCurrent()
        isRejected = true
        request.closes = true
        respond(refusal)
    }

    deinit {
        Secret.wipe(UnsafeMutableRawBufferPointer(input))
        input.deallocate()
    }

    // MARK: Events

    override func ready(_ readiness: IOReadiness, on watch: EventLoop.Watch) {
        listener.loop.assertIsCurrent()
        switch phase {
        case .readingHead, .readingBody: receive()
        case .writing:
            send()
            resumeReading()
        case .lingering: readAndDiscard()
        // Only an error or a hang-up can be reported here: the client is gone. Its call continues.
        case .performing, .awaitingPage, .delaying: close()
        case .closed: break
        }
    }

    override func due(_ deadline: Deadline) {
        listener.loop.assertIsCurrent()
        switch phase {
        case .readingHead where hasHeadBegun:
            request = Request(closes: true)
            respond(.timedOut)
        case .readingBody: respond(.bodyTimedOut)
        case .delaying(let refusal):
            respond(refusal)
            resumeReading()
        case .readingHead, .performing, .awaitingPage, .writing, .lingering, .closed: close()
        }
    }

    override func resume() {
        listener.loop.assertIsCurrent()
        process()
    }

    // MARK: Reading

    private func receive() {
        // The input buffer is full of requests that are not processed yet.
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

    /// Processes complete heads and bodies in order, a few at a time, so that a client with many requests does not delay others.
    private func process() {
        var steps = 0
        while isReading {
            guard steps < Self.messagePartsPerTurnMax else { return listener.loop.resumeLater(self) }
            guard isReadingHead ? readHead() : readBody() else { break }
            steps += 1
        }
        // A client that has ended its stream still gets responses to complete requests. An incomplete request gets none.
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
            let decision = decide(head, in: bytes)
            wipeConsumed(head.length)
            switch decision {
            case .call(let call): begin(call, head)
            case .response(let response):
                endWithBody(head)
                self.respond(response)
            case .page(let pages, let format):
                endWithBody(head)
                awaitPage(pages, format)
            case .delayed(let response, let delay):
                endWithBody(head)
                delayResponse(response, for: delay)
            }
        } catch {
            request = Request(closes: true)
            respond(.malformed(error))
        }
        return true
    }

    /// Closes the connection after the response if the request has a body: the body is not read.
    private func endWithBody(_ head: RequestHead) {
        let hasBody = head.framing != .none && head.framing != .length(0)
        request.closes = request.closes || hasBody
    }

    /// The client may go, or be closed for another one: the page is not made for it then.
    private func awaitPage(_ pages: MetricsPages, _ format: MetricsFormat) {
        phase = .awaitingPage(pages)
        waitingSince = listener.loop.now
        listener.loop.set(deadline, at: .never)
        change(to: [])
        if case .closed = phase { return }
        pages.add(number, format) { [self] page in
            respond(page)
            resumeReading()
        }
    }

    /// A delayed response occupies a connection, but no thread.
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

    /// Starts `headTimeout` at the first byte of a head. Later bytes do not extend it.
    private func noteProgress() {
        guard !hasHeadBegun, reader.hasBegun else { return }
        hasHeadBegun = true
        listener.loop.set(deadline, at: listener.loop.now + listener.limits.headTimeout)
    }

    private func begin(_ call: OperatorCall, _ head: RequestHead) {
        guard head.expectation != .unknown else { return respond(.expectationFailed) }
        if case .length(let length) = head.framing, length > call.bodyBytesMax { return respond(.bodyTooLarge) }
        request.call = call
        body = OperatorRequestBody(head.framing, bytesMax: call.bodyBytesMax)
        phase = .readingBody
        listener.loop.set(deadline, at: listener.loop.now + call.bodyTimeout)
        guard head.expectation == .continue100, inputCount == 0 else { return }
        // 25 bytes fit into an empty socket buffer. If they do not, the connection is broken.
        let sent = Array("HTTP/1.1 100 Continue\r\n\r\n".utf8).withUnsafeBytes { Socket.send(raw, $0) }
        if case .bytes(25) = sent { return }
        close()
    }

    /// False when more bytes are needed.
    private func readBody() -> Bool {
        let bytes = Bytes(rebasing: input[0..<inputCount])
        do throws(HeadError) {
            guard let (progress, used) = try body?.append(bytes) else { return false }
            wipeConsumed(used)
            switch progress {
            case .needsMore: return false
            case .tooLarge: respond(.bodyTooLarge)
            case .whole: perform()
            }
        } catch {
            respond(.malformed(error))
        }
        return true
    }

    /// Wipes the first `count` bytes of the input and moves the rest to the front.
    private func wipeConsumed(_ count: Int) {
        let left = inputCount - count
        if left > 0 { memmove(input.baseAddress!, input.baseAddress! + count, left) }
        Secret.wipe(UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(input)[left..<inputCount]))
        inputCount = left
    }

    // MARK: Calls

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
                    self.respond(response)
                    resumeReading()
                }
            }
        }
    }

    // MARK: Writing

    private func respond(_ response: OperatorResponse) {
        request.closes = request.closes || response.closes
        body = nil
        output = response.write(
            isResponseToHead: request.isHead, closes: request.closes, keepsHTTP10: request.keepsHTTP10, at: .now)
        bodyOutput = request.isHead ? [] : response.separateBody
        secretOutput = request.isHead ? nil : response.secretBody
        written = 0
        phase = .writing
        send()
    }

    private var outputCount: Int { output.count + (secretOutput?.count ?? bodyOutput.count) }

    private func sendSome() -> Socket.Sent {
        func rest(_ bytes: UnsafeRawBufferPointer, _ start: Int) -> UnsafeRawBufferPointer {
            UnsafeRawBufferPointer(rebasing: bytes[start...].prefix(Self.bytesPerTurnMax))
        }
        if written < output.count { return output.withUnsafeBytes { Socket.send(raw, rest($0, written)) } }
        let start = written - output.count
        if let secretOutput { return secretOutput.withBytes { Socket.send(raw, rest($0, start)) } }
        return bodyOutput.withUnsafeBytes { Socket.send(raw, rest($0, start)) }
    }

    private func send() {
        let turnEnd = written + Self.bytesPerTurnMax
        while written < outputCount {
            // The loop reports at once that there is room for more.
            guard written < turnEnd else { return waitForRoom() }
            switch sendSome() {
            case .bytes(let count):
                written += count
                waitingSince = listener.loop.now
            case .wouldBlock: return waitForRoom()
            case .failed: return close()
            }
        }
        (output, bodyOutput, secretOutput) = ([], [], nil)
        waitingSince = listener.loop.now
        if request.closes { return linger() }
        (phase, reader, hasHeadBegun) = (.readingHead, RequestReader(), false)
        listener.loop.set(deadline, at: listener.loop.now + listener.limits.idleTimeout)
        change(to: .read)
    }

    /// Nothing is read until the whole response is written.
    private func waitForRoom() {
        listener.loop.set(deadline, at: listener.loop.now + listener.limits.writeTimeout)
        change(to: .write)
    }

    /// Processes input that has already arrived. The loop reports no event for it.
    private func resumeReading() {
        if isReadingHead, inputCount > 0 || hasInputEnded { listener.loop.resumeLater(self) }
    }

    private func change(to readiness: IOReadiness) {
        guard let watch, interest != readiness else { return }
        interest = readiness
        do throws(SystemError) { try listener.loop.change(watch, to: readiness) } catch { close() }
    }

    // MARK: Closing

    private func linger() {
        guard !hasInputEnded else { return close() }
        Socket.endWriting(raw)
        phase = .lingering
        let now = listener.loop.now
        let lingering = LingeringClose(
            at: now, timeout: listener.limits.lingerTimeout, bytesMax: listener.limits.lingerBytesMax)
        lingeringClose = lingering
        listener.loop.set(deadline, at: lingering.deadline(at: now))
        change(to: .read)
    }

    private func readAndDiscard() {
        switch Socket.receive(raw, into: UnsafeMutableRawBufferPointer(input)) {
        case .bytes(let count):
            if lingeringClose?.recordDiscarded(count, at: listener.loop.now) == nil { close() }
        case .wouldBlock: break
        case .end, .failed: close()
        }
    }

    /// Closes the connection in any phase. A running call continues without it. Later calls do nothing.
    func close() {
        listener.loop.assertIsCurrent()
        switch phase {
        case .closed: return
        case .awaitingPage(let pages): pages.remove(number)
        default: break
        }
        phase = .closed
        body = nil
        (output, bodyOutput, secretOutput) = ([], [], nil)
        listener.loop.drop(deadline)
        if let watch { listener.loop.forget(watch) }
        watch = nil
        listener.remove(self) { descriptor = nil }
    }
}
