/// Collects the body of a call in a wiped buffer, in either framing and up to a limit. Does no I/O.
struct OperatorRequestBody: ~Copyable {
    enum Progress: Equatable {
        case needsMore
        /// Complete. Bytes after it belong to the next request.
        case whole
        case tooLarge
    }

    private var content: SecretBuffer
    private let bytesMax: Int
    /// Bytes of a `Content-Length` that have not arrived; nil: chunked.
    private var left: Int?
    private var chunks = ChunkedReader()

    /// - Parameter bytesMax: limit of a chunked body. The caller refuses a larger `Content-Length` before.
    init(_ framing: BodyFraming, bytesMax: Int) {
        self.bytesMax = bytesMax
        switch framing {
        case .length(let length): left = length
        case .chunked: left = nil
        case .none, .untilClose: left = 0
        }
        // Allocated once: growing would leave copies that need wiping.
        content = SecretBuffer(capacity: min(left ?? 4 << 10, bytesMax))
    }

    /// Appends arrived bytes and returns how many of them belong to the body.
    ///
    /// - Throws: malformed chunks. Nothing after them can be read as HTTP.
    mutating func append(_ bytes: Bytes) throws(HeadError) -> (progress: Progress, used: Int) {
        guard let left else { return try appendChunks(bytes) }
        let count = min(left, bytes.count)
        content.append(UnsafeRawBufferPointer(bytes[run: 0..<count]))
        self.left = left - count
        return (left == count ? .whole : .needsMore, count)
    }

    private mutating func appendChunks(_ bytes: Bytes) throws(HeadError) -> (progress: Progress, used: Int) {
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

    /// Calls `body` with the collected bytes.
    borrowing func withBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result { content.withBytes(body) }
}
