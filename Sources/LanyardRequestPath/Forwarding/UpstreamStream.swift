import CNGHTTP2
import LanyardFoundations

/// One stream of an upstream's HTTP/2 connection: the place that one exchange has on it. Kept for further streams, of any connection.
///
/// It knows what is queued in both directions. `UpstreamMultiplexer` reads and sends. Belongs to the shard's queue, which the connection
/// checks.
package final class UpstreamStream: ListedStream {
    /// Why a response does not come to its end.
    package enum Failure: Equatable {
        /// The upstream has not processed the request (RFC 9113 §8.7).
        case notProcessed
        /// It must be sent by HTTP/1.1 (H4).
        case needsHTTP1
        /// The upstream has reset the stream.
        case reset
        /// Its connection was cut off.
        case cut
        /// The upstream has sent what is no response.
        case malformed(HeadError)

        /// - Parameter code: with which the stream was closed before its end.
        init(_ code: UInt32) {
            switch HTTP2Session.Code(rawValue: code) {
            case .refusedStream: self = .notProcessed
            case .http11Required: self = .needsHTTP1
            default: self = .reset
            }
        }
    }

    /// What has come next. The bytes are valid until the next `take`.
    enum Arrival {
        case none
        /// A head as text. `ends`: no body follows.
        case head(UnsafeMutableRawBufferPointer, isNeverIndexed: Bool, ends: Bool)
        case body(UnsafeMutableRawBufferPointer, ends: Bool)
        /// A trailer section as text, with the end.
        case trailers(UnsafeRawBufferPointer)
        case failed(Failure)
    }

    /// Heads that may wait: interim ones of an upstream that sends them faster than the client takes them.
    private static let waitingHeadsMax = 64

    /// Not counted: the connection has it.
    private var multiplexer: Unmanaged<UpstreamMultiplexer>?
    private(set) var id: Int32 = 0
    /// Who uses it; nil: none any more.
    private(set) var owner: (any UpstreamOwner)?
    /// The codec has closed it, or it was never opened.
    private(set) var isClosed = true
    private var output: StreamOutput
    private let budget: BufferBudget
    private var intake: StreamIntake
    /// What `take` has returned last.
    private var taken: ByteQueue
    /// In the multiplexer's lists.
    var place = -1
    var isStalled = false
    /// `UpstreamMultiplexer.takenBytes` at the latest check of the upstream's progress.
    private var checkedTaken: UInt64 = 0
    /// The token in its head may be sent until then.
    private(set) var headExpiresAt = Instant.never

    init(budget: BufferBudget) {
        self.budget = budget
        output = StreamOutput(budget: budget)
        intake = StreamIntake(body: ByteQueue(budget: budget))
        taken = ByteQueue(budget: budget)
    }

    private var held: UpstreamMultiplexer { multiplexer.unsafelyUnwrapped.takeUnretainedValue() }

    /// The place is taken; no head was sent on it.
    func begin(on multiplexer: UpstreamMultiplexer) { self.multiplexer = .passUnretained(multiplexer) }

    func begin(by owner: any UpstreamOwner) { self.owner = owner }

    /// Nothing of the exchange stays.
    func beginAnew() {
        output.beginAnew()
        intake.body.release()
        taken.release()
        intake.heads.removeAll()
        (intake.trailers, intake.failure, intake.present, intake.presentHead) = (nil, nil, nil, nil)
        intake.takenSection = nil
        (intake.hasEnd, intake.isOver, intake.uncredited) = (false, false, 0)
        (multiplexer, owner, id, isClosed, isStalled) = (nil, nil, 0, true, false)
        headExpiresAt = .never
    }

    // MARK: The request

    /// The upstream takes further bytes: none is queued for it.
    var isFlushed: Bool { output.isFramed && (id == 0 || !isClosed && held.canTake) }
    var queuedBytes: Int { output.queuedBytes }
    /// More of the body is to come from the client.
    var isUploading: Bool { !output.hasEnd }

    /// Sends the head that was written, and the first bytes of the body, in two runs.
    ///
    /// - Parameters:
    ///   - expiresAt: the head is not sent later.
    ///   - ends: the request ends with them.
    ///   - trailers: follow the end.
    /// - Returns: false: the connection takes no request any more, and nothing was sent.
    func begin(
        _ fields: inout HTTP2FieldWriter, until expiresAt: Instant, _ first: UnsafeRawBufferPointer,
        _ second: UnsafeRawBufferPointer, ends: Bool, _ trailers: StreamTrailers?
    ) -> Bool {
        defer { fields.clear() }
        let multiplexer = held
        let isAlone = ends && first.isEmpty && second.isEmpty && trailers == nil
        let source = isAlone ? nil : output.place
        if isAlone { output.endWithHead() }
        let reference = Unmanaged.passUnretained(self).toOpaque()
        guard let number = fields.withFields({ multiplexer.session.request($0, source, by: reference) }) else {
            return false
        }
        (id, isClosed, headExpiresAt) = (number, false, expiresAt)
        multiplexer.noteBegun(self)
        if isAlone { multiplexer.frame() } else { _ = send(first, second, ends: ends, trailers, begins: true) }
        return true
    }

    /// To write the trailers of the request into.
    func makeTrailers() -> StreamTrailers { output.makeTrailers() }

    /// Sends bytes of the body, in two runs.
    ///
    /// - Returns: false: the stream is closed.
    func send(
        _ first: UnsafeRawBufferPointer, _ second: UnsafeRawBufferPointer, ends: Bool, _ trailers: StreamTrailers?,
        begins: Bool = false
    ) -> Bool {
        guard !isClosed else { return false }
        let trailers = trailers.flatMap { $0.fields.isEmpty ? nil : $0 }
        if !first.isEmpty, !second.isEmpty {
            push(first, ends: false, nil, begins: begins)
            push(second, ends: ends, trailers)
        } else {
            push(first.isEmpty ? second : first, ends: ends, trailers, begins: begins)
        }
        sendTrailersIfDue()
        return true
    }

    private func push(_ data: UnsafeRawBufferPointer, ends: Bool, _ trailers: StreamTrailers?, begins: Bool = false) {
        let multiplexer = held
        output.lend(data, ends: ends, trailers)
        if !begins { multiplexer.session.resume(id) }
        multiplexer.frame()
        if output.keepRest() { multiplexer.noteStalled(self) }
    }

    /// Removes from the queue what the codec has made into frames since.
    func takeFramed() { output.takeFramed() }
    var isFramed: Bool { output.isFramed }

    func sendTrailersIfDue() {
        guard !isClosed, let trailers = output.takeDueTrailers() else { return }
        let multiplexer = held
        _ = trailers.fields.withFields { multiplexer.session.submitTrailers(id, $0) }
        output.reuse(trailers)
        multiplexer.frame()
    }

    /// Bytes of a list of fields that the upstream takes, as far as it has said so.
    var peerListBytesMax: Int { held.session.peerListBytesMax }
    /// Another request was carried by its connection before.
    var isReused: Bool { held.isReused }

    func restartProgress() {
        output.restartProgress()
        checkedTaken = held.takenBytes
    }

    /// Some of its bytes were made into frames, or the socket has taken some of the frames, since the last check.
    func hasProgress() -> Bool {
        let before = checkedTaken
        checkedTaken = held.takenBytes
        return output.hasProgress() || output.isFramed && checkedTaken != before
    }

    // MARK: The response

    /// The multiplexer has read an event.
    ///
    /// - Returns: whether the head waits for the first bytes of its body, so that both are relayed together. `deliverHead` ends that.
    func receiveHead(_ text: UnsafeRawBufferPointer, isNeverIndexed: Bool, ends: Bool) -> Bool {
        // An interim one goes first.
        deliverHead()
        if ends { intake.hasEnd = true }
        let head = StreamIntake.PresentHead(text: text, isNeverIndexed: isNeverIndexed)
        if !ends, owner != nil, intake.failure == nil, isIntakeEmpty {
            intake.presentHead = head
            return true
        }
        deliver(.head(head))
        return false
    }

    /// The owner is told of a head that waits. The codec's memory is not used behind this.
    func deliverHead() {
        guard intake.presentHead != nil else { return }
        owner?.handleStream(self)
        keepPresentHead()
    }

    private func keepPresentHead() {
        guard let head = intake.presentHead else { return }
        intake.presentHead = nil
        if owner != nil { keep(.head(head)) }
    }

    func receiveBody(_ bytes: UnsafeRawBufferPointer, ends: Bool) {
        if ends { intake.hasEnd = true }
        deliver(.body(bytes))
    }

    func receiveTrailers(_ text: UnsafeRawBufferPointer) {
        intake.hasEnd = true
        deliver(.trailers(text))
    }

    private func deliver(_ event: StreamIntake.Event) {
        guard let owner, intake.failure == nil else {
            intake.presentHead = nil
            return drop(event)
        }
        if isIntakeEmpty {
            intake.present = event
            owner.handleStream(self)
            keepPresentHead()
            guard let present = intake.present else { return }
            intake.present = nil
            // The owner may have given it up.
            if self.owner == nil { drop(present) } else { keep(present) }
        } else {
            keep(event)
        }
    }

    private var isIntakeEmpty: Bool { intake.heads.isEmpty && intake.body.isEmpty && intake.trailers == nil }

    private func keep(_ event: StreamIntake.Event) {
        switch event {
        case .head(let head):
            guard intake.heads.count < Self.waitingHeadsMax else {
                return fail(.malformed(HeadError(.fieldsTooLarge, "too many interim responses")))
            }
            intake.heads.append(StreamIntake.Section(head.text, isNeverIndexed: head.isNeverIndexed, budget: budget))
        case .body(let bytes): intake.body.append(bytes)
        case .trailers(let text): intake.trailers = StreamIntake.Section(text, budget: budget)
        }
    }

    private func drop(_ event: StreamIntake.Event) {
        if case .body(let bytes) = event { held.session.consume(bytes.count) }
    }

    /// The response does not come to its end. What has come of it is taken before.
    func fail(_ failure: Failure) {
        keepPresentHead()
        guard intake.failure == nil, !intake.hasEnd, !intake.isOver else { return }
        intake.failure = failure
        owner?.handleStream(self)
    }

    /// The codec has closed the stream.
    ///
    /// - Parameter failure: if the response has not ended.
    func close(_ failure: Failure) {
        isClosed = true
        fail(failure)
    }

    /// What has come next. Called while the client takes bytes: those of the call before have left.
    func take() -> Arrival {
        creditTaken()
        if !intake.heads.isEmpty {
            return takenHead(intake.heads.removeFirst())
        }
        if let head = intake.presentHead {
            intake.presentHead = nil
            return .head(
                UnsafeMutableRawBufferPointer(mutating: head.text), isNeverIndexed: head.isNeverIndexed, ends: false)
        }
        if case .head(let head)? = intake.present {
            intake.present = nil
            let ends = intake.hasEnd
            if ends { intake.isOver = true }
            return .head(
                UnsafeMutableRawBufferPointer(mutating: head.text), isNeverIndexed: head.isNeverIndexed, ends: ends)
        }
        if !intake.body.isEmpty {
            taken.release()
            swap(&taken, &intake.body)
            return takenBody(taken.mutableBytes)
        }
        if case .body(let bytes)? = intake.present {
            intake.present = nil
            return takenBody(UnsafeMutableRawBufferPointer(mutating: bytes))
        }
        if let trailers = intake.trailers {
            (intake.trailers, intake.isOver, intake.takenSection) = (nil, true, trailers)
            return .trailers(UnsafeRawBufferPointer(trailers.text.mutableBytes))
        }
        if case .trailers(let text)? = intake.present {
            (intake.present, intake.isOver) = (nil, true)
            return .trailers(text)
        }
        guard !intake.isOver else { return .none }
        if intake.hasEnd {
            intake.isOver = true
            return .body(UnsafeMutableRawBufferPointer(start: nil, count: 0), ends: true)
        }
        return takeFailure().map { .failed($0) } ?? .none
    }

    /// The first bytes of the body, if they came with the head that was taken; nil: they did not.
    func takeBodyBehindHead() -> (bytes: UnsafeMutableRawBufferPointer, ends: Bool)? {
        guard isIntakeEmpty, case .body(let bytes)? = intake.present else { return nil }
        intake.present = nil
        return noteTaken(UnsafeMutableRawBufferPointer(mutating: bytes))
    }

    /// Why the response does not come to its end; nil: it may, or that was taken. What waits of it is of no use.
    func takeFailure() -> Failure? {
        guard !intake.isOver, let failure = intake.failure else { return nil }
        intake.isOver = true
        return failure
    }

    private func takenHead(_ head: StreamIntake.Section) -> Arrival {
        intake.takenSection = head
        let ends = intake.hasEnd && isIntakeEmpty && intake.present == nil
        if ends { intake.isOver = true }
        return .head(head.text.mutableBytes, isNeverIndexed: head.isNeverIndexed, ends: ends)
    }

    private func takenBody(_ bytes: UnsafeMutableRawBufferPointer) -> Arrival {
        let (bytes, ends) = noteTaken(bytes)
        return .body(bytes, ends: ends)
    }

    private func noteTaken(
        _ bytes: UnsafeMutableRawBufferPointer
    ) -> (bytes: UnsafeMutableRawBufferPointer, ends: Bool) {
        intake.uncredited += bytes.count
        let ends = intake.hasEnd && intake.trailers == nil && !hasPresentTrailers
        if ends { intake.isOver = true }
        return (bytes, ends)
    }

    private var hasPresentTrailers: Bool { if case .trailers? = intake.present { true } else { false } }

    /// The upstream gets room for as many bytes as have left on the other side (H20).
    private func creditTaken() {
        guard intake.uncredited > 0 else { return }
        held.credit(intake.uncredited, of: self)
        intake.uncredited = 0
    }

    // MARK: The end

    /// Its exchange does not use it any more: one that has not ended is reset. What has come of it gives its room back.
    func release() {
        (owner, intake.presentHead) = (nil, nil)
        let multiplexer = held
        multiplexer.session.consume(intake.uncredited + intake.body.count)
        intake.uncredited = 0
        intake.body.release()
        let isWhole = intake.hasEnd && output.isFinished
        if !isClosed, !isWhole { multiplexer.session.reset(id, intake.hasEnd ? .noError : .cancel) }
        multiplexer.noteReleased(self)
    }
}
