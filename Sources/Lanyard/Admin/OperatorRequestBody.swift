/// The body of a call, gathered in a wiped buffer whatever its framing, up to a limit. Sees bytes, does no I/O.
struct OperatorRequestBody: ~Copyable {
    enum Progress: Equatable {
        case needsMore
        /// Whole: what stands behind it belongs to the next request.
        case whole
        case tooLarge
    }

    private var content: SecretBuffer
    private let bytesMax: Int
    /// Bytes still to come of a stated length; nil: chunked.
    private var left: Int?
    private var chunks = ChunkedReader()

    /// - Parameter bytesMax: of a chunked body; a stated length beyond it is not for this.
    init(_ framing: BodyFraming, bytesMax: Int) {
        self.bytesMax = bytesMax
        switch framing {
        case .length(let length): left = length
        case .chunked: left = nil
        case .none, .untilClose: left = 0
        }
        // In one piece from the beginning: growing would leave copies to be wiped.
        content = SecretBuffer(capacity: min(left ?? 4 << 10, bytesMax))
    }

    /// Takes what has come and says how much of it was used.
    ///
    /// - Throws: chunks that are none; nothing behind them is to be read as HTTP.
    mutating func take(_ bytes: Bytes) throws(HeadError) -> (progress: Progress, used: Int) {
        guard let left else { return try takeChunks(bytes) }
        let count = min(left, bytes.count)
        content.append(UnsafeRawBufferPointer(bytes[run: 0..<count]))
        self.left = left - count
        return (left == count ? .whole : .needsMore, count)
    }

    private mutating func takeChunks(_ bytes: Bytes) throws(HeadError) -> (progress: Progress, used: Int) {
        var position = 0
        while true {
            switch try chunks.next(bytes, from: &position) {
            case .data(let piece):
                guard content.count + piece.count <= bytesMax else { return (.tooLarge, position) }
                content.append(UnsafeRawBufferPointer(bytes[run: piece]))
            case .needsMore: return (.needsMore, position)
            case .end: return (.whole, position)
            }
        }
    }

    /// Lends what was gathered.
    borrowing func withBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result { content.withBytes(body) }
}
