/// The bytes of a request body that have arrived, if all of them are kept. They are for a replay, or for the retry of
/// an idempotent request (http-connections.md 16.5, http-forwarding.md 17.2).
///
/// A copy beside the stream; the stream never waits for it. Bytes that are or fit in the request's buffer cost no
/// memory of their own. Further memory is counted against the budget and is the first to be released when memory is
/// tight.
struct ReplayBody: ~Copyable {
    /// The first bytes, in the request's buffer.
    private var inBuffer = 0..<0
    /// The bytes behind them.
    private var rest = ByteQueue()
    /// Bytes of `rest` that are counted against the budget.
    private var taken = 0
    private let budget: BufferBudget
    private var bytesMax = 0
    /// All bytes that have arrived are kept.
    private(set) var isWhole = false

    init(budget: BufferBudget) { self.budget = budget }

    deinit { if taken > 0 { budget.release(taken) } }

    /// Begins a new request.
    ///
    /// - Parameter bytesMax: `replay_body_max`.
    mutating func begin(_ framing: BodyFraming, bytesMax: Int) {
        discard()
        self.bytesMax = bytesMax
        isWhole =
            switch framing {
            case .none: true
            case .length(let length): length <= bytesMax
            case .chunked, .untilClose: bytesMax > 0
            }
    }

    var count: Int { inBuffer.count + rest.count }

    /// Memory outside of the request's buffer is in use.
    var hasMemory: Bool { taken > 0 }

    /// Whether all bytes are kept so far, and the first `amount` of the body would be within `replay_body_max`.
    func keepsWhole(_ amount: Int) -> Bool { isWhole && amount <= bytesMax }

    /// Whether `amount` more bytes can be kept: they fit `replay_body_max`, and memory is free for them.
    mutating func makeRoom(for amount: Int) -> Bool {
        guard isWhole, count + amount <= bytesMax else { return false }
        let needed = rest.count + amount
        guard needed > taken else { return true }
        var larger = max(taken, 4 << 10)
        while larger < needed { larger *= 2 }
        guard budget.acquire(larger - taken) else { return false }
        taken = larger
        return true
    }

    /// Keeps the next bytes, or discards the copy.
    ///
    /// - Parameter place: the offset of the bytes in `buffer`; nil if they are elsewhere, and all of `buffer` is used.
    @inline(__always)
    mutating func add(_ data: UnsafeRawBufferPointer, at place: Int?, in buffer: RequestBuffer?) {
        guard isWhole, data.count > 0 else { return }
        keep(data, at: place, in: buffer)
    }

    /// As `add` for the first bytes of the body, which are at `place` of the request's buffer. Requires `keepsWhole`.
    mutating func keepFirst(_ place: Range<Int>) {
        guard !place.isEmpty else { return }
        inBuffer = place
    }

    private mutating func keep(_ data: UnsafeRawBufferPointer, at place: Int?, in buffer: RequestBuffer?) {
        guard count + data.count <= bytesMax else { return discard() }
        if let buffer, rest.isEmpty, keepInBuffer(data, at: place, buffer) { return }
        guard makeRoom(for: data.count) else { return discard() }
        rest.append(data)
    }

    private mutating func keepInBuffer(
        _ data: UnsafeRawBufferPointer, at place: Int?, _ buffer: RequestBuffer
    ) -> Bool {
        if let place {
            guard inBuffer.isEmpty else { return false }
            inBuffer = place..<(place + data.count)
            return true
        }
        // Behind these bytes the buffer holds at most the framing of chunks that were decoded.
        let start = inBuffer.isEmpty ? buffer.count : inBuffer.upperBound
        guard buffer.put(data, at: start) else { return false }
        inBuffer = (inBuffer.isEmpty ? start : inBuffer.lowerBound)..<(start + data.count)
        return true
    }

    /// Discards the copy: there will be no replay.
    mutating func discard() {
        isWhole = false
        inBuffer = 0..<0
        guard taken > 0 else { return }
        rest.release()
        budget.release(taken)
        taken = 0
    }

    /// The bytes from `offset` on, in two ranges. Valid until the buffer or the copy is next changed.
    func bytes(from offset: Int, in buffer: Bytes) -> (Bytes, Bytes) {
        let first = min(offset, inBuffer.count)
        let second = offset - first
        return (
            buffer[run: (inBuffer.lowerBound + first)..<inBuffer.upperBound],
            rest.isEmpty ? rest.bytes : rest.bytes[run: second..<rest.count]
        )
    }
}
