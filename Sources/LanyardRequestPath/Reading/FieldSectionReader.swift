/// Reads a field section, resumable at each byte: the strict parser for requests, responses and trailers
/// (http-rules.md 3, RFC 9112 §5).
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
    package mutating func read(
        _ bytes: Bytes, from position: inout Int, into table: FieldTable?, limits: HeadLimits
    ) throws(HeadError) -> Bool {
        let table = table.map(Unmanaged.passUnretained)
        while position < bytes.count {
            switch state {
            case .lineStart:
                readPlainLines(bytes, &position, table, limits)
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
    private mutating func readPlainLines(
        _ bytes: Bytes, _ position: inout Int, _ table: Unmanaged<FieldTable>?, _ limits: HeadLimits
    ) {
        var start = position
        while true {
            let colon = bytes.endOfPlainName(from: start)
            guard colon > start, colon < bytes.count, bytes[colon] == UInt8(ascii: ":") else { break }
            var valueStart = colon + 1
            if valueStart < bytes.count, bytes[valueStart] == 0x20 { valueStart += 1 }
            guard valueStart < bytes.count, !ByteClass.isSpace(bytes[valueStart]) else { break }
            let end = bytes.endOfValue(from: valueStart)
            guard end + 1 < bytes.count, bytes[end] == 0x0d, bytes[end + 1] == 0x0a else { break }
            let length = end - start
            guard length <= limits.fieldLineBytesMax, sectionBytes + length + 2 <= limits.sectionBytesMax,
                fields < limits.fieldsMax
            else { break }
            if let table {
                let line = Self.line(bytes, name: start..<colon, value: valueStart..<end, isConfusable: false)
                guard table._withUnsafeGuaranteedRef({ $0.append(line) }) else { break }
            }
            fields += 1
            sectionBytes += length + 2
            start = end + 2
        }
        position = start
    }

    /// A field line without the spaces behind its value.
    @inline(__always)
    private static func line(_ bytes: Bytes, name: Range<Int>, value: Range<Int>, isConfusable: Bool) -> FieldLine {
        var end = value.upperBound
        while end > value.lowerBound, ByteClass.isSpace(bytes[end - 1]) { end -= 1 }
        return FieldLine(
            nameStart: Int32(truncatingIfNeeded: name.lowerBound), nameLength: Int32(truncatingIfNeeded: name.count),
            valueStart: Int32(truncatingIfNeeded: value.lowerBound),
            valueLength: Int32(truncatingIfNeeded: end - value.lowerBound), name: FieldName.of(bytes[run: name]),
            isConfusable: isConfusable)
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
        let line = Self.line(
            bytes, name: Int(nameStart)..<Int(nameStart + nameLength), value: Int(valueStart)..<end,
            isConfusable: isConfusable)
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
