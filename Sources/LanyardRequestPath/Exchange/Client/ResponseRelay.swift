import LanyardFoundations

/// Reads one response for its client: an incomplete head with its reader, the end of the body, kept trailers.
///
/// It does no I/O: `ClientExchange` brings the upstream's bytes and sends what is due. The exchange checks the queue.
struct ResponseRelay: ~Copyable {
    /// Where the reading of an incomplete head continues. An object, because nearly all heads come whole, and an idle connection has none.
    private final class PartialHead {
        var reader: ResponseReader
        let table: FieldTable

        init(_ reader: ResponseReader, _ table: FieldTable) { (self.reader, self.table) = (reader, table) }
    }

    /// What the frames of a head say besides its fields.
    private struct StreamHead {
        var ends = false
        var isNeverIndexed = false
        /// It is a call's of gRPC.
        var isCall = false
    }

    /// nil: no head, or a whole one, was read.
    private var partialHead: PartialHead?
    /// The bytes of an incomplete head. Behind a body: of the trailer section.
    private var partial: ByteQueue
    // An idle connection has all of this: the order leaves the fewest gaps.

    /// Some bytes of a head were read.
    private(set) var hasAnyOfHead = false
    /// The final head was read: further bytes are the body's.
    private(set) var isInBody = false
    /// Trailers of the upstream are relayed.
    private(set) var keepsTrailers = false
    /// Of the latest head on a stream of HTTP/2.
    private var streamHead = StreamHead()
    /// The body is delimited by the close of the client's connection: a truncation must be a reset.
    private(set) var isDelimitedByClose = false
    private var body = ResponseBody(.none, delivery: .raw)
    /// The status of the final head; 0 before it.
    private(set) var status = 0
    /// Bytes of the body that were relayed.
    private(set) var bodyBytes = 0
    /// Bytes. The largest next read of a response; small for a client that stalls.
    private(set) var readSizeMax = ReadSize.large
    private let budget: BufferBudget

    /// - Parameter budget: counts buffered bytes.
    init(budget: BufferBudget) {
        self.budget = budget
        partial = ByteQueue(budget: budget)
    }

    /// A new request begins.
    mutating func beginExchange() {
        status = 0
        bodyBytes = 0
        isDelimitedByClose = false
    }

    /// The request is being sent: the next byte is the first of a head.
    mutating func expectHead() {
        endInterim()
        isInBody = false
        streamHead = StreamHead()
    }

    /// A head of a stream of HTTP/2 has come.
    mutating func noteHead(ends: Bool, isNeverIndexed: Bool) {
        streamHead = StreamHead(ends: ends, isNeverIndexed: isNeverIndexed)
    }

    /// No body follows the head of a stream.
    var endsWithHead: Bool { streamHead.ends }
    /// The response is relayed to a client of gRPC, which has its head.
    var isCall: Bool { streamHead.isCall }
    mutating func noteCall() { streamHead.isCall = true }
    /// The upstream has forbidden to index some of the head's fields.
    var isNeverIndexed: Bool { streamHead.isNeverIndexed }

    /// Drops what was buffered.
    mutating func discard() {
        partialHead = nil
        partial.release()
        isInBody = false
    }

    // MARK: Heads

    /// Reads a head at the front of `bytes`. Nil if it is not complete: then its bytes are kept by `keepHead`.
    ///
    /// - Parameter isResponseToHead: the request is a HEAD.
    mutating func readHead(
        _ bytes: Bytes, into table: FieldTable, isResponseToHead: Bool, limits: HeadLimits
    ) throws(HeadError) -> ResponseHead? {
        var reader = partialHead?.reader ?? ResponseReader()
        defer { hasAnyOfHead = reader.hasAny }
        let head = try reader.read(bytes, into: table, isResponseToHead: isResponseToHead, limits: limits)
        if head != nil {
            if partialHead != nil { partialHead = nil }
        } else if let partialHead {
            partialHead.reader = reader
        } else if reader.hasAny {
            partialHead = PartialHead(reader, table)
        }
        return head
    }

    /// The head was an interim one: the next one follows.
    mutating func endInterim() {
        hasAnyOfHead = false
        if partialHead != nil { partialHead = nil }
    }

    /// Keeps the bytes of an incomplete head. The reader continues with its table when more have come.
    mutating func keepHead(_ bytes: UnsafeRawBufferPointer) { partial.append(bytes) }

    /// The same for bytes of an earlier `takeBytes`, which are not copied.
    mutating func keepHead(_ bytes: inout ByteQueue) { swap(&bytes, &partial) }

    /// The field table of the incomplete head; nil if there is none.
    var partialTable: FieldTable? { partialHead?.table }

    /// The kept bytes.
    mutating func takeBytes() -> ByteQueue {
        var bytes = ByteQueue(budget: budget)
        swap(&bytes, &partial)
        return bytes
    }

    // MARK: Body

    /// The final head has come.
    ///
    /// - Parameters:
    ///   - head: the request's.
    ///   - trailers: the limits of the trailer section.
    ///   - isStream: frames delimit the body.
    mutating func beginBody(
        of response: ResponseHead, to head: RequestHead, trailers: HeadLimits, isStream: Bool = false
    ) {
        let hasUnknownEnd = response.framing.isOpenEnded
        let delivery: ResponseBody.Delivery =
            head.isHTTP2 ? .framed : hasUnknownEnd && head.minorVersion > 0 ? .chunked : .raw
        isDelimitedByClose = hasUnknownEnd && head.minorVersion == 0
        keepsTrailers =
            (response.framing == .chunked || isStream) && (head.isHTTP2 || head.wantsTrailers && delivery == .chunked)
        body = ResponseBody(isStream ? .untilClose : response.framing, delivery: delivery, trailers: trailers)
        body.endsWithNext = endsWithHead
        isInBody = true
    }

    /// The end of the stream has come: the next bytes of the body are its last ones.
    mutating func expectEnd() { body.endsWithNext = true }

    /// A trailer section of a stream has come, as text.
    mutating func keepTrailers(_ text: UnsafeRawBufferPointer) { if keepsTrailers { partial.append(text) } }

    /// The head, of which `status` is the status, is relayed now.
    mutating func beginRelay(_ status: Int) { self.status = status }

    /// Bytes of the body were sent or queued.
    @inline(__always)
    mutating func recordBody(_ count: Int) { bodyBytes &+= count }

    /// Finds the body's bytes at the front of `input`, as `ResponseBody.consume`.
    mutating func consume(
        _ input: UnsafeMutableRawBufferPointer
    ) throws(HeadError) -> (used: Int, data: UnsafeRawBufferPointer) { try body.consume(input) }

    /// How the body reaches the client.
    var delivery: ResponseBody.Delivery { body.delivery }

    /// The last byte of the body was read.
    var hasEnded: Bool { body.isEnded }

    /// The end of the upstream's connection completes the body.
    var endsWithConnection: Bool { isInBody && body.framing == .untilClose }

    /// Adapts the size of the next read to what the client takes.
    ///
    /// Bytes that a client does not take are buffered here. After a stall the next read is as large as what the client
    /// took of the latest; it doubles with each read that the client takes whole. Many slow clients so need less memory
    /// over time, and one that stalls now and then gets large reads.
    ///
    /// - Parameter queued: bytes of the read that the client has not taken.
    mutating func adaptReadSize(afterReading count: Int, queued: Int) {
        if queued > 0 {
            readSizeMax = max(count - queued, ReadSize.small)
        } else if count >= readSizeMax {
            readSizeMax = min(readSizeMax * 2, ReadSize.large)
        }
    }

    /// Bytes of an incomplete head or trailer section.
    var partialBytes: Int {
        // `Connection` lines alone are small. They are no reason to end a stream.
        !isInBody || partial.count > 4 << 10 ? partial.count : 0
    }

    // MARK: Trailers (http-requests.md 6.5, 6.6)

    /// Keeps the head's `Connection` lines in front of the trailer section: a field that they name is not forwarded as
    /// a trailer either (http-forwarding.md 10.1). Does nothing if the head names none.
    mutating func keepNominations(_ response: ResponseHead, _ headBytes: Bytes, _ table: FieldTable) {
        guard keepsTrailers, response.connection.nominatesFields else { return }
        for index in 0..<table.count where table[index].name == .connection {
            keep("Connection: ")
            partial.append(table.value(index, in: headBytes))
            keep("\r\n")
        }
    }

    private mutating func keep(_ text: StaticString) {
        partial.append(Bytes(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    /// The last `consume` found part of a trailer section, which has to be buffered until the rest comes.
    var awaitsTrailers: Bool {
        keepsTrailers && !body.isEnded && !body.trailerBytes.isEmpty
    }

    /// Keeps the bytes of the trailer section that the last `consume` found in `input`. The reader's limit of a trailer
    /// section bounds them.
    mutating func keepTrailers(in input: UnsafeRawBufferPointer) {
        guard keepsTrailers else { return }
        let place = body.trailerBytes
        guard !place.isEmpty else { return }
        partial.append(UnsafeRawBufferPointer(rebasing: input[place]))
    }

    /// The body has ended, and a trailer section was kept.
    var hasTrailers: Bool { hasEnded && !partial.isEmpty }

    /// Writes the fields of the kept trailer section that may be forwarded. The section is read a second time.
    ///
    /// - Parameters:
    ///   - table: is overwritten.
    ///   - limits: of responses.
    mutating func writeTrailers(
        into out: inout some HeadSink & ~Copyable, on route: Route, _ table: FieldTable, limits: HeadLimits
    ) {
        let section = takeBytes()
        let bytes = section.bytes
        table.removeAll()
        var reader = FieldSectionReader()
        var position = 0
        // The section was checked on arrival. The head's `Connection` lines, which had the same limits, stand before it.
        let both = HeadLimits(
            startLineBytesMax: 0, fieldLineBytesMax: limits.fieldLineBytesMax + 64,
            sectionBytesMax: 2 * limits.sectionBytesMax + 64, fieldsMax: table.capacity)
        guard (try? reader.read(bytes, from: &position, into: table, limits: both)) == true else { return }
        TrailerFilter.write(table, in: bytes, into: &out, on: route)
    }
}
