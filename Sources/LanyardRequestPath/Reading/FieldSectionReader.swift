/// Reads a field section, resumable at each byte: the strict parser for requests, responses and trailers
/// (http-requests.md 3, RFC 9112 §5).
///
/// Only CRLF ends a line. Refused are obs-fold, white space before the colon, and control bytes. The result does not
/// depend on how the bytes were split.
package struct FieldSectionReader {
    private enum State: UInt8 { case lineStart, name, valueStart, value, lineFeed, endLineFeed }

    private var state = State.lineStart
    private var isConfusable = false
    private var nameStart: Int32 = 0
    private var nameLength: Int32 = 0
    private var valueStart: Int32 = 0
    private var fields = 0
    /// Bytes of the line so far.
    private var lineBytes = 0
    /// Bytes of all lines before this one.
    private var sectionBytes = 0

    package init() {}

    /// Continues at `position`, which it advances past the bytes that were read.
    ///
    /// - Parameter table: receives the lines. Their offsets count from the first byte of `bytes`, so the whole section
    ///   must be contiguous there. nil: the section is only checked and may come in pieces.
    /// - Returns: true after the empty line that ends the section; false when more bytes are needed.
    /// - Throws: `malformed`, or `fieldsTooLarge` beyond `limits`: the sender of the message is at fault. Nothing after it can be read as
    ///   HTTP.
    package mutating func read(
        _ bytes: Bytes, from position: inout Int, into table: FieldTable?, limits: HeadLimits
    ) throws(HeadError) -> Bool {
        let table = table.map(Unmanaged.passUnretained)
        while position < bytes.count {
            switch state {
            case .lineStart:
                if readPlainLines(bytes, &position, table, limits) { return true }
                guard position < bytes.count else { break }
                try startLine(bytes, &position)
            case .name: try readName(bytes, &position, limits)
            case .valueStart: skipSpace(bytes, &position)
            case .value: try readValue(bytes, &position, table, limits)
            case .lineFeed:
                guard bytes[position] == 0x0a else {
                    throw .malformed("a carriage return without line feed in a field")
                }
                position += 1
                sectionBytes += lineBytes + 2
                lineBytes = 0
                guard sectionBytes <= limits.sectionBytesMax else {
                    throw HeadError(.fieldsTooLarge, "the field section is too long")
                }
                state = .lineStart
            case .endLineFeed:
                guard bytes[position] == 0x0a else { throw .malformed("a carriage return without line feed") }
                position += 1
                return true
            }
        }
        try checkLength(limits)
        return false
    }

    /// Reads lines as nearly all are: whole in `bytes`, a plain name, at most one space before the value, within the
    /// limits. The states read any other line from its start, with the same result.
    ///
    /// No sum can overflow: places and counts are far below `Int.max`, and so are the limits.
    ///
    /// - Returns: whether the empty line was read that ends the section.
    private mutating func readPlainLines(
        _ bytes: Bytes, _ position: inout Int, _ table: Unmanaged<FieldTable>?, _ limits: HeadLimits
    ) -> Bool {
        guard let base = bytes.baseAddress else { return false }
        var start = position
        let sectionStart = start &- sectionBytes
        // The last place of a line's CR: LF follows it in `bytes`, and the section is not too long.
        let endMax = min(bytes.count, sectionStart &+ limits.sectionBytesMax) &- 2
        while fields < limits.fieldsMax, start < endMax, base[start] != 0x0d {
            let colon = bytes.endOfPlainName(from: start)
            guard colon < endMax, colon > start, base[colon] == UInt8(ascii: ":") else { break }
            let hasSpace = base[colon &+ 1] == 0x20
            let valueStart = hasSpace ? colon &+ 2 : colon &+ 1
            guard !ByteClass.isSpace(base[valueStart]) else { break }
            let end = bytes.endOfValue(from: valueStart)
            guard end <= endMax, base[end] == 0x0d, base[end &+ 1] == 0x0a, end &- start <= limits.fieldLineBytesMax
            else { break }
            if let table {
                var line = Self.line(base, name: start, colon, value: valueStart, end)
                line.hasWrittenForm = hasSpace && line.end == end &+ 2
                guard table._withUnsafeGuaranteedRef({ $0.appendInRoom(line) }) else { break }
            }
            fields &+= 1
            start = end &+ 2
        }
        sectionBytes = start &- sectionStart
        let isEnd = start &+ 1 < bytes.count && base[start] == 0x0d && base[start &+ 1] == 0x0a
        position = isEnd ? start &+ 2 : start
        return isEnd
    }

    /// A field line without the spaces behind its value.
    @inline(__always)
    private static func line(
        _ base: UnsafePointer<UInt8>, name start: Int, _ nameEnd: Int, value valueStart: Int, _ lineEnd: Int
    ) -> FieldLine {
        var end = lineEnd
        while end > valueStart, ByteClass.isSpace(base[end &- 1]) { end &-= 1 }
        return FieldLine(
            nameStart: Int32(truncatingIfNeeded: start), nameLength: Int32(truncatingIfNeeded: nameEnd &- start),
            valueStart: Int32(truncatingIfNeeded: valueStart),
            valueLength: Int32(truncatingIfNeeded: end &- valueStart),
            name: FieldName.of(Bytes(start: base + start, count: nameEnd &- start)),
            isConfusable: false, hasWrittenForm: false)
    }

    private mutating func startLine(_ bytes: Bytes, _ position: inout Int) throws(HeadError) {
        let byte = bytes[position]
        if byte == 0x0d {
            position += 1
            state = .endLineFeed
        } else if ByteClass.isToken(byte) {
            nameStart = Int32(truncatingIfNeeded: position)
            nameLength = 0
            isConfusable = false
            state = .name
        } else if ByteClass.isSpace(byte) {
            throw .malformed("a line begins with white space (obs-fold)")
        } else {
            throw .malformed("a byte that is not allowed in a field name")
        }
    }

    private mutating func readName(_ bytes: Bytes, _ position: inout Int, _ limits: HeadLimits) throws(HeadError) {
        let from = position
        var index = position
        var confusable = isConfusable
        while index < bytes.count {
            let byte = bytes[index]
            if !ByteClass.isPlainName(byte) {
                guard ByteClass.isToken(byte) else { break }
                confusable = true
            }
            index += 1
        }
        position = index
        isConfusable = confusable
        nameLength &+= Int32(truncatingIfNeeded: index - from)
        lineBytes += index - from
        try checkLength(limits)
        guard index < bytes.count else { return }
        switch bytes[index] {
        case UInt8(ascii: ":"):
            position += 1
            lineBytes += 1
            state = .valueStart
        case 0x20, 0x09: throw .malformed("white space between field name and colon")
        case 0x0d, 0x0a: throw .malformed("a field line without colon")
        default: throw .malformed("a byte that is not allowed in a field name")
        }
    }

    private mutating func skipSpace(_ bytes: Bytes, _ position: inout Int) {
        while position < bytes.count, ByteClass.isSpace(bytes[position]) {
            position += 1
            lineBytes += 1
        }
        guard position < bytes.count else { return }
        valueStart = Int32(truncatingIfNeeded: position)
        state = .value
    }

    private mutating func readValue(
        _ bytes: Bytes, _ position: inout Int, _ table: Unmanaged<FieldTable>?, _ limits: HeadLimits
    ) throws(HeadError) {
        let index = bytes.endOfValue(from: position)
        lineBytes += index - position
        position = index
        try checkLength(limits)
        guard index < bytes.count else { return }
        guard bytes[index] == 0x0d else {
            throw bytes[index] == 0x0a
                ? .malformed("a line feed without carriage return in a field")
                : .malformed("a control byte in a field value")
        }
        fields += 1
        guard fields <= limits.fieldsMax else { throw HeadError(.fieldsTooLarge, "too many fields") }
        if let table, !add(to: table, bytes, end: index) { throw HeadError(.fieldsTooLarge, "too many fields") }
        position += 1
        state = .lineFeed
    }

    /// False if the table is full. The caller retains the table: reference counting for each field would cost time.
    private func add(to table: Unmanaged<FieldTable>, _ bytes: Bytes, end: Int) -> Bool {
        guard let base = bytes.baseAddress else { return false }
        let nameEnd = Int(nameStart + nameLength)
        var line = Self.line(base, name: Int(nameStart), nameEnd, value: Int(valueStart), end)
        line.isConfusable = isConfusable
        line.hasWrittenForm = valueStart == nameEnd + 2 && base[nameEnd + 1] == 0x20 && line.end == end + 2
        return table._withUnsafeGuaranteedRef { $0.append(line) }
    }

    /// Limits are checked while bytes arrive, not at the end of the line. If two limits are passed, the first one in
    /// the bytes is reported, however many bytes came at once.
    private func checkLength(_ limits: HeadLimits) throws(HeadError) {
        let left = limits.sectionBytesMax - sectionBytes
        guard lineBytes > min(left, limits.fieldLineBytesMax) else { return }
        throw left < limits.fieldLineBytesMax
            ? HeadError(.fieldsTooLarge, "the field section is too long")
            : HeadError(.fieldsTooLarge, "a field line is too long")
    }
}
