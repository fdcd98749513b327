/// Finds the end of a request's body.
struct RequestBody {
    private(set) var framing: BodyFraming
    private var left: Int
    private var chunks = ChunkedReader()
    private(set) var isEnded: Bool
    /// Body bytes that have arrived.
    private(set) var total = 0

    /// - Parameter framing: as the request's head states it.
    init(_ framing: BodyFraming) {
        self.framing = framing
        if case .length(let length) = framing { left = length } else { left = 0 }
        isEnded = framing == .none || framing == .length(0)
    }

    /// Finds the body's bytes at the front of `bytes`.
    ///
    /// Chunk data is moved together at the front of `bytes`, so that one read is sent as one chunk.
    /// - Returns: how many bytes of input were used, and the body bytes.
    mutating func consume(
        _ bytes: UnsafeMutableRawBufferPointer
    ) throws(HeadError) -> (used: Int, data: UnsafeRawBufferPointer) {
        guard !isEnded else { return (0, UnsafeRawBufferPointer(rebasing: bytes[0..<0])) }
        if framing != .chunked {
            let count = min(left, bytes.count)
            left -= count
            total += count
            if left == 0 { isEnded = true }
            return (count, UnsafeRawBufferPointer(rebasing: bytes[0..<count]))
        }
        var position = 0
        let count = try chunks.gather(bytes, from: &position)
        total += count
        isEnded = chunks.isDone
        return (position, UnsafeRawBufferPointer(rebasing: bytes[0..<count]))
    }
}
