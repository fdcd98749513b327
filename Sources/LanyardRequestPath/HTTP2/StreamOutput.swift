import CNGHTTP2
import LanyardFoundations

/// The body that is sent on one stream, and the trailers behind it: what the codec has not made into frames yet is queued.
///
/// It does no I/O: its stream asks the codec for frames. Belongs to the queue of the stream's connection, which that checks.
struct StreamOutput: ~Copyable {
    /// The codec reads it, and keeps its place until the stream is closed.
    private let source: UnsafeMutablePointer<lanyard_h2_source>
    /// Bytes that wait for a window.
    private var queue: ByteQueue
    /// Follow the body.
    private var trailers: StreamTrailers?
    /// Those of an earlier message, for the next one: each call of gRPC has some.
    private var spareTrailers: StreamTrailers?
    /// `source.framed` at the latest call of those that check the progress.
    private var checkedBytes: UInt64 = 0

    init(budget: BufferBudget) {
        source = .allocate(capacity: 1)
        source.initialize(to: lanyard_h2_source())
        queue = ByteQueue(budget: budget)
    }

    deinit { source.deallocate() }

    /// The stream is closed, and its connection may have another one.
    mutating func beginAnew() {
        queue.release()
        source.pointee = lanyard_h2_source()
        (trailers, checkedBytes) = (nil, 0)
    }

    /// What the head is submitted with.
    var place: UnsafeMutablePointer<lanyard_h2_source> { source }

    /// All bytes that were handed on are in frames.
    var isFramed: Bool { queue.isEmpty }
    var queuedBytes: Int { queue.count }
    /// All of it is in frames, its trailers too.
    var isFinished: Bool { source.pointee.has_ended != 0 && trailers == nil }
    /// The last byte was handed on.
    var hasEnd: Bool { source.pointee.ends != 0 || source.pointee.has_ended != 0 }

    /// The message ends with its head.
    func endWithHead() { source.pointee.has_ended = 1 }

    /// The codec may read the queue, and `data` until `keepRest`.
    ///
    /// - Parameters:
    ///   - ends: the body ends with them.
    ///   - trailers: follow the end; nil: none do.
    mutating func lend(_ data: UnsafeRawBufferPointer, ends: Bool, _ trailers: StreamTrailers?) {
        takeFramed()
        lend(data)
        if ends { source.pointee.ends = 1 }
        if let trailers {
            source.pointee.has_trailers = 1
            self.trailers = trailers
        }
    }

    private mutating func lend(_ data: UnsafeRawBufferPointer) {
        let queued = queue.bytes
        source.pointee.first = queued.baseAddress
        source.pointee.first_count = queued.count
        source.pointee.second = data.baseAddress?.assumingMemoryBound(to: UInt8.self)
        source.pointee.second_count = data.count
    }

    /// Queues what was not made into frames. Returns whether there is some.
    mutating func keepRest() -> Bool {
        takeFramed()
        let rest = UnsafeRawBufferPointer(start: source.pointee.second, count: source.pointee.second_count)
        source.pointee.second_count = 0
        guard !rest.isEmpty else { return false }
        queue.append(rest)
        lend(UnsafeRawBufferPointer(start: nil, count: 0))
        return true
    }

    /// Removes from the queue what the codec has made into frames since.
    mutating func takeFramed() {
        let framed = queue.count - source.pointee.first_count
        if framed > 0 { queue.consume(framed) }
        source.pointee.first = queue.bytes.baseAddress
    }

    /// The trailers, once the body is in frames: its end needs a window, which trailers do not. nil: there are none, or not yet.
    mutating func takeDueTrailers() -> StreamTrailers? {
        guard queue.isEmpty, source.pointee.ends != 0, let trailers else { return nil }
        self.trailers = nil
        source.pointee.has_ended = 1
        return trailers
    }

    /// To write the trailers of a message into.
    mutating func makeTrailers() -> StreamTrailers { spareTrailers.take() ?? StreamTrailers() }

    /// The codec has copied them.
    mutating func reuse(_ trailers: StreamTrailers) {
        guard trailers.isReusable else { return }
        trailers.fields.clear()
        spareTrailers = trailers
    }

    // MARK: Progress of the peer

    /// A peer that takes fewer bytes within a write timeout is too slow (http2-rules.md H24): a few bytes of window now and then would
    /// hold a stream with all that waits for it.
    private static let paceBytes: UInt64 = 1024

    mutating func restartProgress() { checkedBytes = source.pointee.framed }

    /// Some bytes were made into frames since the last check.
    mutating func hasProgress() -> Bool {
        let before = checkedBytes
        restartProgress()
        return checkedBytes != before
    }

    /// Enough bytes for a write timeout were made into frames since the last check.
    mutating func keepsPace() -> Bool {
        let before = checkedBytes
        restartProgress()
        return checkedBytes - before >= Self.paceBytes
    }
}
