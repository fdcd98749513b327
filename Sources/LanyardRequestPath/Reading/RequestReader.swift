/// Reads a request head, resumable at each byte (http-requests.md 1, 3, 5; RFC 9112 §§2, 3).
///
/// The head's bytes must be contiguous from the first one on. Pass the same buffer again, longer, when more bytes have
/// come.
package struct RequestReader {
    private enum State: UInt8 { case leading, leadingLineFeed, method, target, version, lineFeed, fields }

    /// Empty lines that are skipped before a request (RFC 9112 §2.2).
    private static let emptyLinesMax = 4
    private static let methodBytesMax = 64
    private static let versionText: StaticString = "HTTP/"

    private var state = State.leading
    private var emptyLines: UInt8 = 0
    private var versionMatched = 0
    private var major: UInt8 = 0
    private var minor: UInt8 = 0
    private var lineStart = 0
    private var targetStart = 0
    private var fields = FieldSectionReader()
    private var head = RequestHead()
    /// The offset of the next byte to read.
    private var position = 0

    /// Of a stream of HTTP/2 that has a body: without a length it ends with the stream.
    package var hasStreamBody = false

    package init() {}

    /// A byte of the request itself was read, not only an empty line before it.
    package var hasBegun: Bool { state.rawValue >= State.method.rawValue }

    /// The request's method after it was read; `other` before.
    package var method: RequestHead.Method { head.kind }

    /// At least one byte was read.
    package var hasAny: Bool { position > 0 }

    /// Continues in `bytes`, the head's buffer from its first byte.
    ///
    /// - Returns: the head when it is complete, with its `length`; nil when more bytes are needed.
    /// - Throws: the client's error. No byte behind it may be read as HTTP.
    package mutating func read(
        _ bytes: Bytes, into table: FieldTable, limits: HeadLimits
    ) throws(HeadError) -> RequestHead? {
        while position < bytes.count {
            switch state {
            case .leading where readPlainLine(bytes, limits):
                table.removeAll()
                state = .fields
            case .leading, .leadingLineFeed: try skipEmptyLine(bytes[position])
            case .method: try readMethod(bytes, limits)
            case .target: try readTarget(bytes, limits)
            case .version: try readVersion(bytes[position])
            case .lineFeed:
                guard bytes[position] == 0x0a else { throw .malformed("the request line does not end in CRLF") }
                position += 1
                table.removeAll()
                state = .fields
            case .fields:
                guard try fields.read(bytes, from: &position, into: table, limits: limits) else { return nil }
                head.length = position
                try interpret(bytes, table)
                return head
            }
        }
        return nil
    }

    /// Reads a request line as nearly all are: whole in `bytes`, with a path, of HTTP/1.0 or 1.1, within the limits.
    ///
    /// False: it is another one. The states read it from its start, with the same result.
    private mutating func readPlainLine(_ bytes: Bytes, _ limits: HeadLimits) -> Bool {
        let methodEnd = bytes.endOfPlainName(from: position)
        let targetStart = methodEnd + 1
        guard methodEnd > position, methodEnd - position <= Self.methodBytesMax, targetStart < bytes.count,
            bytes[methodEnd] == 0x20, bytes[targetStart] == UInt8(ascii: "/")
        else { return false }
        let kind = RequestHead.Method.of(bytes[run: position..<methodEnd])
        let targetEnd = bytes.endOfTarget(from: targetStart)
        // Behind the target stands " HTTP/1.1" and CRLF.
        guard kind != .preface, targetEnd + 11 <= bytes.count, targetEnd <= position + limits.startLineBytesMax - 9,
            bytes[run: targetEnd..<targetEnd + 8].isEqual(to: " HTTP/1."),
            bytes[targetEnd + 8] | 1 == UInt8(ascii: "1"), bytes[targetEnd + 9] == 0x0d, bytes[targetEnd + 10] == 0x0a
        else { return false }
        head.method = position..<methodEnd
        head.kind = kind
        head.target = targetStart..<targetEnd
        (major, minor) = (1, bytes[targetEnd + 8] - 0x30)
        lineStart = position
        position = targetEnd + 11
        return true
    }

    private mutating func skipEmptyLine(_ byte: UInt8) throws(HeadError) {
        if state == .leadingLineFeed {
            guard byte == 0x0a else { throw .malformed("a carriage return without line feed before the request") }
            emptyLines += 1
            state = .leading
            position += 1
        } else if byte == 0x0d {
            guard emptyLines < Self.emptyLinesMax else { throw .malformed("too many empty lines before the request") }
            state = .leadingLineFeed
            position += 1
        } else {
            lineStart = position
            state = .method
        }
    }

    private mutating func readMethod(_ bytes: Bytes, _ limits: HeadLimits) throws(HeadError) {
        while position < bytes.count, ByteClass.isToken(bytes[position]) {
            position += 1
            guard position - lineStart <= Self.methodBytesMax else {
                throw HeadError(.notImplemented, "the method is longer than 64 bytes")
            }
        }
        guard position < bytes.count else { return }
        guard bytes[position] == 0x20, position > lineStart else {
            throw .malformed("the request line is not METHOD SP TARGET SP HTTP/1.x")
        }
        head.method = lineStart..<position
        head.kind = .of(bytes[run: head.method])
        // The first word of HTTP/2's preface, which no client may send to a server of HTTP/1 (RFC 9113 §3.4). The refusal is one of
        // HTTP/1: clients of gRPC take GOAWAY as a first frame for a reason to connect again.
        guard head.kind != .preface else {
            throw HeadError(.versionNotSupported, "this address does not speak HTTP/2; see protocols of the listener")
        }
        position += 1
        targetStart = position
        state = .target
    }

    private mutating func readTarget(_ bytes: Bytes, _ limits: HeadLimits) throws(HeadError) {
        if position == targetStart, !canBeginTarget(bytes[position]) {
            throw .malformed("a target that is neither a path nor a URL")
        }
        // The end of the line, " HTTP/1.1", is counted too.
        let targetEndMax = lineStart + limits.startLineBytesMax - 9
        while position < bytes.count, ByteClass.isTarget(bytes[position]) {
            position += 1
            guard position <= targetEndMax else { throw HeadError(.lineTooLong, "the request line is too long") }
        }
        guard position < bytes.count else { return }
        guard bytes[position] == 0x20, position > targetStart else {
            throw .malformed("the request line is not METHOD SP TARGET SP HTTP/1.x")
        }
        head.target = targetStart..<position
        position += 1
        state = .version
    }

    /// Whether the target can be a path, a URL or `*`. CONNECT has an authority and is refused as CONNECT. A space and
    /// bytes that no target has are refused by the form of the line.
    private func canBeginTarget(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "/") || ByteClass.isLetter(byte) || byte == UInt8(ascii: "*") || head.kind == .connect
            || !ByteClass.isTarget(byte)
    }

    private mutating func readVersion(_ byte: UInt8) throws(HeadError) {
        switch versionMatched {
        case 0..<5:
            guard byte == Self.versionText.utf8Start[versionMatched] else {
                throw .malformed("the request line does not end in HTTP/1.x")
            }
        case 5, 7:
            guard ByteClass.isDigit(byte) else { throw .malformed("a version that is not HTTP/digit.digit") }
            if versionMatched == 5 { major = byte - 0x30 } else { minor = byte - 0x30 }
        case 6:
            guard byte == UInt8(ascii: ".") else { throw .malformed("a version that is not HTTP/digit.digit") }
        default:
            guard byte == 0x0d else { throw .malformed("the request line does not end in CRLF") }
            state = .lineFeed
        }
        versionMatched += 1
        position += 1
    }

    // MARK: Fields

    /// Checks in the order of http-requests.md 4.5: version, framing, Host.
    private mutating func interpret(_ bytes: Bytes, _ table: FieldTable) throws(HeadError) {
        guard major == 1 else {
            throw HeadError(.versionNotSupported, "only HTTP/1.0 and HTTP/1.1 are supported; HTTP/2 and gRPC are not")
        }
        head.minorVersion = minor == 0 ? 0 : 1
        var seen = SeenFields()
        let lines = table.all
        for index in 0..<lines.count {
            if lines[index].isConfusable { head.traits.insert(.confusable) }
            guard lines[index].name != .other else { continue }
            try recordField(lines[index].name, index, lines[index].value(in: bytes), &seen)
        }
        head.framing = try seen.framing.decide(bytes, table, minorVersion: head.minorVersion)
        if hasStreamBody, head.framing == .none { head.framing = .untilClose }
        guard seen.hosts <= 1 else { throw .malformed("more than one Host field") }
        guard seen.hosts == 1 || head.minorVersion == 0 else { throw .malformed("no Host field") }
        if seen.expectations > 0 { head.expectation = seen.expectsContinue ? .continue100 : .unknown }
        // RFC 9110 §10.1.1: the expectation is ignored if there is no body, and from HTTP/1.0.
        if head.framing == .none || head.framing == .length(0) || head.minorVersion == 0 { head.expectation = .none }
    }

    private mutating func recordField(
        _ name: FieldName, _ index: Int, _ value: Bytes, _ seen: inout SeenFields
    ) throws(HeadError) {
        switch name {
        case .connection: try head.connection.add(value)
        case .contentLength: seen.framing.addLength(index)
        case .transferEncoding: seen.framing.addCoding(index)
        case .host:
            seen.hosts += 1
            head.host = index
        case .expect:
            seen.expectations += 1
            seen.expectsContinue = seen.expectations == 1 && value.equals(lowered: "100-continue")
        case .origin: head.traits.insert(.origin)
        case .secFetchSite: head.traits.insert(.secFetchSite)
        case .maxForwards: head.traits.insert(.maxForwards)
        case .via: head.traits.insert(.via)
        case .upgrade: head.traits.insert(.upgrade)
        case .te:
            for member in FieldList(value) where member.equals(lowered: "trailers") { head.traits.insert(.trailers) }
        case .forwarded, .xForwarded, .xRealIP: head.traits.insert(.forwarding)
        case .destination, .condition: head.traits.insert(.references)
        case .mcp: head.traits.insert(.mcp)
        default: break
        }
    }

    /// Counts of the fields that may occur only once.
    private struct SeenFields {
        var framing = RequestFraming()
        var hosts = 0
        var expectations = 0
        var expectsContinue = false
    }
}
