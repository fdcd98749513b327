/// Finds the end of a request's body.
struct RequestBody {
    private(set) var framing: BodyFraming
    private var left: Int
    /// nil: the body has no chunks.
    private var chunks: ChunkedReader?
    private(set) var isEnded: Bool
    /// Body bytes that have arrived.
    private(set) var total = 0
    /// The end of the stream has come: the bytes of the next `consume` are the last ones.
    var endsWithNext = false
    /// Trailers may follow the last byte of a known length: the body ends with its stream.
    var awaitsStreamEnd = false

    /// - Parameters:
    ///   - framing: as the request's head states it.
    ///   - trailers: the limits of the trailer section.
    @inline(__always)
    init(_ framing: BodyFraming, trailers: HeadLimits = .trailers) {
        self.framing = framing
        chunks = framing == .chunked ? ChunkedReader(trailers: trailers) : nil
        if case .length(let length) = framing { left = length } else { left = 0 }
        isEnded = framing == .none || framing == .length(0)
    }

    /// The offsets of trailer bytes in the last `consume`.
    var trailerBytes: Range<Int> { chunks?.trailerBytes ?? 0..<0 }

    /// Bytes of the next read: what is left, and at most 64 KiB of what follows the body (http-connections.md 9.3).
    var readSize: Int { ReadSize.standard + min(left, ReadSize.large - ReadSize.standard) }

    /// Finds the body's bytes at the front of `bytes`.
    ///
    /// Chunk data is moved together at the front of `bytes`, so that one read is sent as one chunk.
    /// - Returns: how many bytes of input were used, and the body bytes.
    mutating func consume(
        _ bytes: UnsafeMutableRawBufferPointer
    ) throws(HeadError) -> (used: Int, data: UnsafeRawBufferPointer) {
        guard !isEnded else { return (0, UnsafeRawBufferPointer(rebasing: bytes[0..<0])) }
        var position = 0
        if framing == .untilClose {
            total += bytes.count
            isEnded = endsWithNext
            return (bytes.count, UnsafeRawBufferPointer(bytes))
        }
        guard let count = try chunks?.gather(bytes, from: &position) else {
            let count = min(left, bytes.count)
            left -= count
            total += count
            if left == 0, !awaitsStreamEnd || endsWithNext { isEnded = true }
            return (count, UnsafeRawBufferPointer(rebasing: bytes[0..<count]))
        }
        total += count
        isEnded = chunks?.isDone ?? true
        return (position, UnsafeRawBufferPointer(rebasing: bytes[0..<count]))
    }
}

/// Finds the end of a response's body, and says how the client learns of it.
struct ResponseBody {
    /// How the body reaches the client.
    enum Delivery: Equatable {
        case raw, chunked
        /// By the frames of HTTP/2.
        case framed
    }

    let framing: BodyFraming
    let delivery: Delivery
    private var left: Int
    /// nil: the body has no chunks.
    private var chunks: ChunkedReader?
    private(set) var isEnded: Bool
    /// The end of the stream has come: the bytes of the next `consume` are the last ones.
    var endsWithNext = false

    /// - Parameter trailers: the limits of the trailer section.
    @inline(__always)
    init(_ framing: BodyFraming, delivery: Delivery, trailers: HeadLimits = .trailers) {
        chunks = framing == .chunked ? ChunkedReader(takesTrailingBlanks: true, trailers: trailers) : nil
        self.framing = framing
        self.delivery = delivery
        if case .length(let length) = framing { left = length } else { left = 0 }
        isEnded = framing == .none || framing == .length(0)
    }

    /// The offsets of trailer bytes in the last `consume`. Inlined: a call would copy the whole value.
    @inline(__always) var trailerBytes: Range<Int> { chunks?.trailerBytes ?? 0..<0 }

    /// As `RequestBody.consume`. A body that is delimited by the close takes all bytes.
    mutating func consume(
        _ bytes: UnsafeMutableRawBufferPointer
    ) throws(HeadError) -> (used: Int, data: UnsafeRawBufferPointer) {
        switch framing {
        case _ where isEnded, .none: return (0, UnsafeRawBufferPointer(rebasing: bytes[0..<0]))
        case .untilClose:
            isEnded = endsWithNext
            return (bytes.count, UnsafeRawBufferPointer(bytes))
        case .length:
            let count = min(left, bytes.count)
            left -= count
            if left == 0 { isEnded = true }
            return (count, UnsafeRawBufferPointer(rebasing: bytes[0..<count]))
        case .chunked:
            var position = 0
            let count = try chunks?.gather(bytes, from: &position) ?? 0
            isEnded = chunks?.isDone ?? true
            return (position, UnsafeRawBufferPointer(rebasing: bytes[0..<count]))
        }
    }
}
