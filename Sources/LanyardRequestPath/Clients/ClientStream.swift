import CNGHTTP2
import LanyardFoundations

/// One stream of a client's HTTP/2 connection, with its exchange. Kept for further streams, of any connection.
///
/// It knows what is queued in both directions. `HTTP2Receiver` reads and sends. Belongs to the shard's queue, which the connection checks.
final class ClientStream: ListedStream, TunnelStream {
    /// What has become of the stream.
    private enum State {
        /// The exchange has it.
        case open
        /// The codec has closed it, both sides have ended in order, and the upstream of its tunnel has not taken all of it.
        case delivering
        /// The exchange has ended it; some of it may still be queued.
        case ended
        /// The codec has closed it.
        case closed
    }

    /// The request's body, as it comes.
    private struct Intake: ~Copyable {
        /// Bytes that wait for their upstream.
        var queue: ByteQueue
        /// The end has come.
        var hasEnded = false
        /// Bytes that were handed on, and whose room the client does not have back yet.
        var uncredited = 0
        /// What has come is being handed on in a caller.
        var isDelivering = false
    }

    private(set) var exchange: ClientExchange
    private(set) var id: Int32 = 0
    /// Not counted: the receiver has the stream.
    private var receiver: Unmanaged<HTTP2Receiver>?
    private var state = State.closed
    /// Of the response.
    private var output: StreamOutput
    /// The head of the response was sent.
    private var hasHead = false
    private var intake: Intake
    /// In the receiver's lists.
    var place = -1
    var isStalled = false

    init(_ exchange: ClientExchange, budget: BufferBudget) {
        self.exchange = exchange
        output = StreamOutput(budget: budget)
        intake = Intake(queue: ByteQueue(budget: budget))
    }

    /// The end of the request's body has come.
    var hasInputEnded: Bool { intake.hasEnded }

    /// Its head has come.
    func begin(_ id: Int32, of receiver: HTTP2Receiver, hasInputEnded: Bool) {
        self.id = id
        self.receiver = .passUnretained(receiver)
        intake.hasEnded = hasInputEnded
        state = .open
    }

    /// Nothing of its client stays.
    func endLife() {
        state = .closed
        output.beginAnew()
        intake.queue.release()
        receiver = nil
        (intake.hasEnded, intake.uncredited) = (false, 0)
        (hasHead, isStalled) = (false, false)
    }

    private var held: HTTP2Receiver { receiver.unsafelyUnwrapped.takeUnretainedValue() }

    /// The codec has closed it.
    var isClosed: Bool { state == .closed }
    func close() { state = .closed }
    /// The exchange still has it.
    var isOpen: Bool { state == .open || state == .delivering }

    /// The codec has closed it. Whether its tunnel continues, because bytes of the client have not left for the upstream.
    func outlivesClose() -> Bool {
        guard exchange.state.isTunnel, state == .open, hasInputEnded, isFinished else { return false }
        state = .delivering
        return true
    }

    // MARK: The response

    /// All that was sent is in frames.
    var isFramed: Bool { output.isFramed }
    var canTake: Bool { state == .open && output.isFramed && held.canTake }
    var queuedBytes: Int { output.queuedBytes }

    /// Sends the head that was written, if there is one, and body bytes.
    ///
    /// - Parameters:
    ///   - fields: of the head; empty: it was sent before. They are taken.
    ///   - ends: the response ends with them.
    func send(_ fields: inout HTTP2FieldWriter, _ data: UnsafeRawBufferPointer, ends: Bool) -> ClientSend {
        send(&fields, data, ends: ends, nil)
    }

    /// To write the trailers of the response into.
    func makeTrailers() -> StreamTrailers { output.makeTrailers() }

    /// Sends the last body bytes, and trailers behind them.
    func send(
        _ fields: inout HTTP2FieldWriter, _ data: UnsafeRawBufferPointer, behind trailers: StreamTrailers
    ) -> ClientSend {
        guard send(&fields, data, ends: true, trailers.fields.isEmpty ? nil : trailers) == .sent else { return .failed }
        sendTrailersIfDue()
        return .sent
    }

    private func send(
        _ fields: inout HTTP2FieldWriter, _ data: UnsafeRawBufferPointer, ends: Bool, _ trailers: StreamTrailers?
    ) -> ClientSend {
        defer { fields.clear() }
        guard state == .open else { return .failed }
        let receiver = held
        let begins = !hasHead
        if begins {
            hasHead = true
            let isAlone = ends && data.isEmpty && trailers == nil
            let source = isAlone ? nil : output.place
            let isSubmitted = fields.withFields { receiver.session.respond(id, $0, source) }
            guard isSubmitted else { return .failed }
            if isAlone { output.endWithHead() }
        }
        push(data, ends: ends, trailers, resumes: !begins && (!data.isEmpty || ends))
        return .sent
    }

    /// Sends body bytes behind the head.
    func send(_ data: UnsafeRawBufferPointer, ends: Bool) -> Bool {
        guard state == .open else { return false }
        push(data, ends: ends, nil, resumes: true)
        return true
    }

    private func push(_ data: UnsafeRawBufferPointer, ends: Bool, _ trailers: StreamTrailers?, resumes: Bool) {
        let receiver = held
        output.lend(data, ends: ends, trailers)
        if resumes { receiver.session.resume(id) }
        receiver.frame()
        if output.keepRest() { receiver.noteStalled(self) }
    }

    func sendInterim(_ fields: inout HTTP2FieldWriter) -> ClientSend {
        defer { fields.clear() }
        guard state == .open else { return .failed }
        let receiver = held
        let isSubmitted = fields.withFields { receiver.session.respondInterim(id, $0) }
        guard isSubmitted else { return .failed }
        receiver.frame()
        return .sent
    }

    /// Removes from the queue what the codec has made into frames since.
    func takeFramed() { output.takeFramed() }

    func sendTrailersIfDue() {
        guard state != .closed, let trailers = output.takeDueTrailers() else { return }
        let receiver = held
        _ = trailers.fields.withFields { receiver.session.submitTrailers(id, $0) }
        output.reuse(trailers)
        receiver.frame()
    }

    /// All of the response is in frames, its trailers too.
    var isFinished: Bool { output.isFinished }

    /// The exchange has ended in order. What is queued of the response is still sent.
    func end() {
        guard state == .open else { return }
        state = .ended
        exchange.endStream()
        held.noteEnd(of: self)
        if !isFinished { beginWriteTimeout() }
    }

    /// The response is cut off, or there is none.
    func reset(_ code: HTTP2Session.Code) {
        guard state != .closed else { return }
        if state == .open { exchange.endStream() }
        state = .ended
        held.session.reset(id, code)
        held.noteOutput()
    }

    /// The tunnel has ended.
    ///
    /// - Parameter resets: an orderly end would state that all bytes have come.
    func endTunnel(_ end: Tunnel.End, resets: Bool) {
        switch state {
        case .open: break
        case .delivering:
            exchange.endStream()
            state = .closed
            return held.noteEnd(of: self)
        case .ended, .closed: return
        }
        // The client's own direction may not have ended, though it has all of the other one.
        if resets || end.isFailure && !hasInputEnded { return reset(end.code) }
        if !output.hasEnd { _ = send(UnsafeRawBufferPointer(start: nil, count: 0), ends: true) }
        self.end()
    }

    // MARK: Progress of the client

    func restartProgress() { output.restartProgress() }
    func hasProgress() -> Bool { output.hasProgress() }
    func keepsPace() -> Bool { output.keepsPace() }

    private func beginWriteTimeout() {
        restartProgress()
        exchange.lendDeadline(until: exchange.shard.loop.now + exchange.waits.writeTimeout)
    }

    /// The client took nothing, or too little, of what is left of an ended response.
    func handleDeadline() {
        guard state == .ended, !isFinished else { return }
        if keepsPace() { beginWriteTimeout() } else { reset(.cancel) }
    }

    // MARK: The request's body

    /// The trailers of the request have come, and with them its end.
    func receiveTrailers(_ text: UnsafeRawBufferPointer, fault: Problem?) {
        intake.hasEnded = true
        guard state == .open else { return }
        if exchange.input.head.traits.contains(.bridged) { return refuseTrailers() }
        guard exchange.receiveTrailers(text, fault: fault) else { return }
        receive(UnsafeRawBufferPointer(start: nil, count: 0), ends: true)
    }

    /// A tunnel has none (RFC 9113 §8.5).
    private func refuseTrailers() {
        held.session.reset(id, .protocolError)
        held.noteOutput()
        state = .closed
        exchange.handleClientReset()
    }

    /// Bytes have come, or the end.
    func receive(_ bytes: UnsafeRawBufferPointer, ends: Bool) {
        if ends { intake.hasEnded = true }
        guard state == .open else { return drop(bytes.count) }
        guard intake.queue.isEmpty, !intake.isDelivering, exchange.wantedInput != .none else {
            return intake.queue.append(bytes)
        }
        hand(on: bytes)
        deliver()
    }

    /// Hands on what waits, as far as the exchange takes it.
    func deliver() {
        guard !intake.isDelivering, isOpen else { return }
        creditIfTaken()
        guard !intake.queue.isEmpty || hasInputEnded, exchange.wantedInput != .none else { return }
        guard !intake.queue.isEmpty else { return hand(on: UnsafeRawBufferPointer(start: nil, count: 0)) }
        var bytes = ByteQueue()
        swap(&bytes, &intake.queue)
        hand(on: UnsafeRawBufferPointer(bytes.bytes))
        creditIfTaken()
    }

    private func hand(on bytes: UnsafeRawBufferPointer) {
        intake.isDelivering = true
        defer { intake.isDelivering = false }
        intake.uncredited += bytes.count
        exchange.receiveBody(UnsafeMutableRawBufferPointer(mutating: bytes), ends: hasInputEnded)
        creditIfTaken()
    }

    /// The client gets room for as many bytes as have left on the other side (H20).
    private func creditIfTaken() {
        guard intake.uncredited > 0, state != .closed, exchange.wantedInput != .none || hasInputEnded || state == .ended
        else {
            return
        }
        held.credit(intake.uncredited, of: self)
        intake.uncredited = 0
    }

    private func drop(_ count: Int) { if let receiver { receiver.takeUnretainedValue().credit(count, of: self) } }

    /// Bytes that never reach an upstream, and whose room the connection gets back.
    var undelivered: Int { intake.queue.count + intake.uncredited }

    /// Nothing refers to its exchange any more.
    var isUnused: Bool { isKnownUniquelyReferenced(&exchange) }
}
