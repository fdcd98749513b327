import Glibc

/// Reads HTTP/1 messages from a socket. It is simple enough to be trusted in tests, and not made for hostile input.
///
/// Used by one thread at a time.
package final class RawReader {
    private let socket: RawSocket
    private let waitsForever: Bool
    private var buffer: [UInt8] = []
    private var ended = false
    /// Called with all bytes at their arrival.
    var onBytes: (([UInt8]) -> Void)?
    /// When the kernel received the last bytes that were read, in seconds since 1970; nil unless the socket stamps arrivals.
    package private(set) var lastArrival: Double?

    /// Takes a socket that no other reader uses.
    ///
    /// - Parameter waitsForever: for a server, whose clients may be silent for as long as they like; else each call has a `Patience`.
    package init(_ socket: RawSocket, waitsForever: Bool = false) {
        self.socket = socket
        self.waitsForever = waitsForever
    }

    /// How a message's body ends.
    enum Framing: Equatable { case none, length(Int), chunked, untilClose }

    /// Whether unread bytes wait, or the peer has ended.
    package var hasInput: Bool { !buffer.isEmpty || socket.hasInput }

    /// Exactly `count` bytes.
    package func read(_ count: Int) throws -> [UInt8] {
        let patience = Patience()
        while buffer.count < count {
            guard try fill(with: patience) else { throw endedEarly("\(count) bytes") }
        }
        return take(count)
    }

    /// Everything up to the end of the stream.
    package func readToEnd() throws -> [UInt8] {
        let patience = Patience()
        while try fill(with: patience) {}
        return take(buffer.count)
    }

    /// Everything up to the end of the stream, and whether that was a reset in place of an orderly end.
    package func readToAnyEnd() throws -> (bytes: [UInt8], wasReset: Bool) {
        let patience = Patience()
        do {
            while try fill(with: patience) {}
        } catch let failure as TestFailure where failure.description.hasSuffix("errno \(ECONNRESET)") {
            return (take(buffer.count), true)
        }
        return (take(buffer.count), false)
    }

    /// A head with its empty line; nil if the stream ends before its first byte.
    package func readHead() throws -> [UInt8]? {
        let patience = Patience()
        while true {
            if let length = headLength() { return take(length) }
            guard try fill(with: patience) else {
                if buffer.isEmpty { return nil }
                throw endedEarly("the end of a head")
            }
        }
    }

    /// A whole request; nil if the client has closed between two requests.
    package func readRequest(bodyBytesMax: Int = 1 << 20) throws -> RawMessage? {
        guard let head = try readHead() else { return nil }
        var message = RawMessage(head: head)
        let framing: Framing =
            if message["Transfer-Encoding"] != nil { .chunked } else {
                .length(message["Content-Length"].flatMap(Int.init) ?? 0)
            }
        try readBody(framing, into: &message, bodyBytesMax: bodyBytesMax)
        return message
    }

    /// A whole response. Interim ones (1xx except 101) are separate messages.
    ///
    /// - Parameter method: the request's method: a response to HEAD has no body.
    package func readResponse(
        to method: String = "GET", bodyBytesMax: Int = 1 << 24
    ) throws -> RawMessage {
        guard
            let message = try readResponseIfAny(to: method, bodyBytesMax: bodyBytesMax)
        else { throw endedEarly("a response") }
        return message
    }

    /// The same; nil if the stream ends before its first byte.
    package func readResponseIfAny(
        to method: String = "GET", bodyBytesMax: Int = 1 << 24
    ) throws -> RawMessage? {
        guard let head = try readHead() else { return nil }
        var message = RawMessage(head: head)
        let framing: Framing =
            if method == "HEAD" || message.status < 200 || message.status == 204 || message.status == 304 {
                .none
            } else if message["Transfer-Encoding"]?.lowercased().hasSuffix("chunked") == true {
                .chunked
            } else if let length = message["Content-Length"].flatMap(Int.init) {
                .length(length)
            } else {
                .untilClose
            }
        try readBody(framing, into: &message, bodyBytesMax: bodyBytesMax)
        return message
    }

    private func readBody(
        _ framing: Framing, into message: inout RawMessage, bodyBytesMax: Int
    ) throws {
        let sink = BodySink(bodyBytesMax: bodyBytesMax)
        switch framing {
        case .none: break
        case .length(let length): try pass(length, to: sink)
        case .chunked: try passChunks(to: sink)
        case .untilClose:
            while try !buffer.isEmpty || fill(with: Patience()) { sink.body(take(buffer.count)) }
        }
        sink.finish(&message)
    }

    private func pass(_ length: Int, to sink: BodySink) throws {
        var rest = length
        while rest > 0 {
            if buffer.isEmpty, try !fill(with: Patience()) { throw endedEarly("\(rest) more bytes of a body") }
            let part = take(min(rest, buffer.count))
            rest -= part.count
            sink.body(part)
        }
    }

    private func passChunks(to sink: BodySink) throws {
        while true {
            let line = try readLine()
            sink.framing(line)
            let text = String(decoding: line, as: UTF8.self).prefix {
                $0 != ";" && $0 != "\r" && $0 != "\r\n" && $0 != "\n"
            }
            guard let size = Int(text, radix: 16) else { throw TestFailure("no chunk size: \(text)") }
            if size == 0 { break }
            try pass(size, to: sink)
            sink.framing(try readLine())
        }
        while true {
            let trailer = try readLine()
            sink.framing(trailer)
            if trailer.count <= 2 { return }
        }
    }

    private func readLine() throws -> [UInt8] {
        let patience = Patience()
        while true {
            if let newline = newline(from: 0) { return take(newline + 1) }
            guard try fill(with: patience) else { throw endedEarly("the end of a line") }
        }
    }

    /// The length of a head up to its empty line; nil: it is incomplete. Lines end with CRLF or bare LF.
    private func headLength() -> Int? {
        var lineStart = 0
        // By memchr: `SeededGenerator.bytes` says what each step of a sequence costs under the thread sanitizer.
        while let index = newline(from: lineStart) {
            let length = index - lineStart
            if lineStart > 0, length == 0 || (length == 1 && buffer[lineStart] == 13) { return index + 1 }
            lineStart = index + 1
        }
        return nil
    }

    /// Where the first LF from `start` on stands; nil: there is none.
    private func newline(from start: Int) -> Int? {
        buffer.withUnsafeBytes { bytes in
            guard start < bytes.count, let base = bytes.baseAddress else { return nil }
            return memchr(base + start, 10, bytes.count - start).map { UnsafeRawPointer($0) - base }
        }
    }

    private func take(_ count: Int) -> [UInt8] {
        if count == buffer.count {
            defer { buffer = [] }
            return buffer
        }
        defer { buffer.removeFirst(count) }
        return Array(buffer.prefix(count))
    }

    /// Reads more bytes; false at the end of the stream.
    private func fill(with patience: Patience) throws -> Bool {
        if ended { return false }
        let (bytes, arrival) = try socket.receiveStamped(max: 1 << 18, with: waitsForever ? nil : patience)
        if !bytes.isEmpty { lastArrival = arrival }
        ended = bytes.isEmpty
        if !ended { onBytes?(bytes) }
        buffer += bytes
        return !ended
    }

    private func endedEarly(_ what: String) -> TestFailure {
        TestFailure("the stream ended before \(what); had: \(String(decoding: buffer.prefix(500), as: UTF8.self))")
    }
}

/// Counts and digests a body, and keeps its start.
private final class BodySink {
    private let bodyBytesMax: Int
    private let digest = SHA256Digest()
    private var count = 0
    private var kept: [UInt8] = []
    private var framed: [UInt8] = []

    init(bodyBytesMax: Int) { self.bodyBytesMax = bodyBytesMax }

    func body(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes(digest.update)
        count += bytes.count
        kept += bytes.prefix(bodyBytesMax - kept.count)
        framing(bytes)
    }

    func framing(_ bytes: [UInt8]) { framed += bytes.prefix(bodyBytesMax - framed.count) }

    func finish(_ message: inout RawMessage) {
        message.body = kept
        message.bodyCount = count
        message.bodyDigest = digest.hex()
        message.framedBody = framed
    }
}
