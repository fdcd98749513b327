/// The request body's bytes so far, as long as all of them are kept: what a replay, or the retry of an idempotent request, sends again
/// (http-rules.md 16.5, 17.2).
///
/// A copy beside the stream, which never waits for it. Bytes that stand in the request's buffer, or find room there, cost no memory of
/// their own; what goes beyond is counted against the budget and is the first to go when memory is tight.
struct ReplayBody: ~Copyable {
    /// The first bytes, in the request's buffer.
    private var inBuffer = 0..<0
    /// Those behind them.
    private var rest = ByteQueue()
    /// Memory of `rest`, as the budget knows it.
    private var taken = 0
    private let budget: BufferBudget
    private var most = 0
    /// Every byte so far is kept.
    private(set) var isWhole = false

    init(budget: BufferBudget) { self.budget = budget }

    deinit { if taken > 0 { budget.giveBack(taken) } }

    /// A new request.
    ///
    /// - Parameter most: `replay_body_max`.
    mutating func begin(_ framing: BodyFraming, most: Int) {
        forget()
        self.most = most
        isWhole =
            switch framing {
            case .none: true
            case .length(let length): length <= most
            case .chunked, .untilClose: most > 0
            }
    }

    var count: Int { inBuffer.count + rest.count }

    /// Holds more than the request's buffer does.
    var hasMemory: Bool { taken > 0 }

    /// Whether so many more bytes may be kept: they fit under `replay_body_max`, and there is memory for them.
    mutating func makeRoom(for amount: Int) -> Bool {
        guard isWhole, count + amount <= most else { return false }
        let needed = rest.count + amount
        guard needed > taken else { return true }
        var larger = max(taken, 4 << 10)
        while larger < needed { larger *= 2 }
        guard budget.take(larger - taken) else { return false }
        taken = larger
        return true
    }

    /// Takes over the next bytes, or gives up.
    ///
    /// - Parameter place: where they stand in `buffer`; nil if they stand elsewhere, and all of `buffer` is used.
    @inline(__always)
    mutating func add(_ data: UnsafeRawBufferPointer, at place: Int?, in buffer: RequestBuffer?) {
        guard isWhole, data.count > 0 else { return }
        keep(data, at: place, in: buffer)
    }

    private mutating func keep(_ data: UnsafeRawBufferPointer, at place: Int?, in buffer: RequestBuffer?) {
        guard count + data.count <= most else { return forget() }
        if let buffer, rest.isEmpty, keepInBuffer(data, at: place, buffer) { return }
        guard makeRoom(for: data.count) else { return forget() }
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
        // Behind its bytes the buffer holds at most the framing of chunks that were taken apart.
        let start = inBuffer.isEmpty ? buffer.count : inBuffer.upperBound
        guard buffer.put(data, at: start) else { return false }
        inBuffer = (inBuffer.isEmpty ? start : inBuffer.lowerBound)..<(start + data.count)
        return true
    }

    /// Gives the copy up: there will be no replay.
    mutating func forget() {
        isWhole = false
        inBuffer = 0..<0
        guard taken > 0 else { return }
        rest.release()
        budget.giveBack(taken)
        taken = 0
    }

    /// The bytes from `offset` on, in two runs. Valid until the buffer or the copy is next changed.
    func bytes(from offset: Int, in buffer: RequestBuffer) -> (Bytes, Bytes) {
        let first = min(offset, inBuffer.count)
        let second = offset - first
        return (
            buffer.bytes[run: (inBuffer.lowerBound + first)..<inBuffer.upperBound],
            rest.isEmpty ? rest.bytes : rest.bytes[run: second..<rest.count]
        )
    }
}
