/// Reads a response head, resumable at each byte (http-forwarding.md 12, 13; RFC 9112 §4). Each error means "502 drop".
package struct ResponseReader {
    private enum State: UInt8 { case statusLine, reason, lineFeed, fields }

    private static let prefix: StaticString = "HTTP/"
    /// Behind the status' last digit.
    private static let statusEnd = 12

    private var state = State.statusLine
    private var matched = 0
    private var major: UInt8 = 0
    private var fields = FieldSectionReader()
    private var head = ResponseHead()
    private var position = 0

    package init() {}

    /// At least one byte was read.
    package var hasAny: Bool { position > 0 }

    /// Continues in `bytes`, the head's buffer from its first byte.
    ///
    /// - Parameter isResponseToHead: the request was a HEAD: its response has no body.
    /// - Returns: the head when it is complete; nil when more bytes are needed.
    /// - Throws: `malformed`, or `fieldsTooLarge` beyond `limits`: the upstream is at fault (502), and its connection is closed.
    package mutating func read(
        _ bytes: Bytes, into table: FieldTable, isResponseToHead: Bool, limits: HeadLimits = .response
    ) throws(HeadError) -> ResponseHead? {
        while position < bytes.count {
            switch state {
            case .statusLine where position == 0 && readPlainLine(bytes, limits):
                table.removeAll()
                state = .fields
            case .statusLine: try readStatus(bytes[position])
            case .reason: try readReason(bytes, limits)
            case .lineFeed:
                guard bytes[position] == 0x0a else { throw .malformed("the status line does not end in CRLF") }
                position += 1
                table.removeAll()
                state = .fields
            case .fields:
                guard try fields.read(bytes, from: &position, into: table, limits: limits) else { return nil }
                head.length = position
                try interpret(bytes, table, isResponseToHead: isResponseToHead)
                return head
            }
        }
        return nil
    }

    /// Reads a status line as nearly all are: whole in `bytes`, of HTTP/1.0 or 1.1, with a space behind its status, within
    /// the limits.
    ///
    /// False: it is another one. The states read it from its start, with the same result.
    private mutating func readPlainLine(_ bytes: Bytes, _ limits: HeadLimits) -> Bool {
        guard bytes.count >= Self.statusEnd + 3, bytes[run: 0..<7].isEqual(to: "HTTP/1."),
            bytes[7] | 1 == UInt8(ascii: "1"), bytes[8] == 0x20, bytes[Self.statusEnd] == 0x20
        else { return false }
        let (hundreds, tens, ones) = (bytes[9] &- 0x30, bytes[10] &- 0x30, bytes[11] &- 0x30)
        guard 1...9 ~= hundreds, tens < 10, ones < 10 else { return false }
        let end = bytes.endOfValue(from: Self.statusEnd + 1)
        guard end <= limits.startLineBytesMax, end + 1 < bytes.count, bytes[end] == 0x0d, bytes[end + 1] == 0x0a
        else { return false }
        head.minorVersion = Int(bytes[7] - 0x30)
        head.status = Int(hundreds) * 100 + Int(tens) * 10 + Int(ones)
        head.reason = (Self.statusEnd + 1)..<end
        position = end + 2
        return true
    }

    /// `HTTP/1.x SP 3DIGIT`, then SP or the line's end.
    private mutating func readStatus(_ byte: UInt8) throws(HeadError) {
        switch matched {
        case 0..<5:
            guard byte == Self.prefix.utf8Start[matched] else { throw .malformed("not an HTTP response") }
        case 5:
            guard byte == UInt8(ascii: "1") else { throw .malformed("not HTTP/1.x") }
        case 6:
            guard byte == UInt8(ascii: ".") else { throw .malformed("not an HTTP response") }
        case 7:
            guard ByteClass.isDigit(byte) else { throw .malformed("not an HTTP response") }
            head.minorVersion = byte == UInt8(ascii: "0") ? 0 : 1
        case 8:
            guard byte == 0x20 else { throw .malformed("a status line without its separators") }
        case 9..<12:
            guard ByteClass.isDigit(byte) else { throw .malformed("a status that is not three digits") }
            head.status = head.status * 10 + Int(byte - 0x30)
        default:
            guard head.status >= 100 else { throw .malformed("a status below 100") }
            head.reason = (position + 1)..<(position + 1)
            if byte == 0x0d {
                state = .lineFeed
            } else if byte == 0x20 {
                state = .reason
            } else {
                throw .malformed("a status that is not three digits")
            }
        }
        matched += 1
        position += 1
    }

    private mutating func readReason(_ bytes: Bytes, _ limits: HeadLimits) throws(HeadError) {
        position = bytes.endOfValue(from: position)
        guard position <= limits.startLineBytesMax else {
            throw HeadError(.fieldsTooLarge, "the status line is too long")
        }
        guard position < bytes.count else { return }
        guard bytes[position] == 0x0d else { throw .malformed("a control byte in the status line") }
        head.reason = head.reason.lowerBound..<position
        position += 1
        state = .lineFeed
    }

    private mutating func interpret(_ bytes: Bytes, _ table: FieldTable, isResponseToHead: Bool) throws(HeadError) {
        var framing = ResponseFraming(status: head.status, isResponseToHead: isResponseToHead)
        let lines = table.all
        for index in 0..<lines.count where lines[index].name != .other {
            let line = lines[index]
            switch line.name {
            case .connection: try head.connection.add(line.value(in: bytes))
            case .contentLength: try framing.addLength(line.value(in: bytes))
            case .transferEncoding: try framing.addCoding(line.value(in: bytes))
            case .keepAlive: readKeepAlive(line.value(in: bytes))
            default: break
            }
        }
        (head.framing, head.announcesForbiddenBody) = try framing.decide(minorVersion: head.minorVersion)
    }

    /// `Keep-Alive: timeout=5, max=100` (RFC 2068's field, still sent by nginx and Apache).
    private mutating func readKeepAlive(_ value: Bytes) {
        for member in FieldList(value) where member.hasPrefix(lowered: "timeout=") {
            if let seconds = member[run: 8..<member.count].trimmed.decimal { head.keepAliveSeconds = seconds }
        }
    }
}

/// The content of a response's head. Offsets count from the first byte of the head's buffer.
package struct ResponseHead: Equatable, Sendable {
    package var status = 0
    package var reason: Range<Int> = 0..<0
    package var minorVersion = 1
    package var framing = BodyFraming.none
    package var connection = ConnectionOptions()
    /// A 204 that announces a body: its connection is not used again (http-forwarding.md 13.4).
    package var announcesForbiddenBody = false
    /// Seconds of `Keep-Alive: timeout=`, or -1.
    package var keepAliveSeconds = -1
    package var length = 0

    package init() {}

    /// A 1xx other than 101: more heads follow.
    package var isInterim: Bool { status < 200 && status != 101 }

    /// The upstream keeps the connection open (RFC 9112 §9.3).
    package var keepsAlive: Bool {
        minorVersion >= 1 ? !connection.hasClose : connection.hasKeepAlive && !connection.hasClose
    }
}
