/// A JSON document that is written from front to back: log lines, health bodies, problems.
///
/// The writer adds commas. Text is escaped so that a line stays one line and a terminal shows it safely: control bytes (C0, DEL, C1) and
/// U+2028/9 as `\u…`, bytes that are not UTF-8 as the text `\xNN`. A writer that is kept and cleared with `clear` writes without
/// allocating. It must hold no secret, because its bytes are not wiped.
package struct JSONWriter: Sendable {
    /// The document so far.
    package private(set) var bytes: [UInt8]
    private var needsComma = false

    package init(capacity: Int = 256) {
        bytes = []
        bytes.reserveCapacity(capacity)
    }

    /// The document so far as text.
    package var text: String { String(decoding: bytes, as: UTF8.self) }

    /// Starts again in the same storage.
    package mutating func clear() {
        bytes.removeAll(keepingCapacity: true)
        needsComma = false
    }

    // MARK: Shape

    /// Opens an object as the next value.
    package mutating func beginObject() { open(UInt8(ascii: "{")) }
    /// Closes the innermost object.
    package mutating func endObject() { close(UInt8(ascii: "}")) }
    /// Opens an array as the next value.
    package mutating func beginArray() { open(UInt8(ascii: "[")) }
    /// Closes the innermost array.
    package mutating func endArray() { close(UInt8(ascii: "]")) }

    /// The name of a member; its value comes next.
    package mutating func key(_ name: String) {
        string(name)
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    /// The end of a log line.
    package mutating func newline() {
        bytes.append(UInt8(ascii: "\n"))
        needsComma = false
    }

    // MARK: Lines of text, which are no JSON

    /// Text as it is, without commas. It must be safe in a line.
    package mutating func raw(_ text: String) { bytes.append(contentsOf: text.utf8) }

    /// Escaped text without quotes and commas.
    package mutating func unquoted(_ value: String, bytesMax: Int) {
        var value = value
        value.withUTF8 { content(UnsafeRawBufferPointer($0), bytesMax: bytesMax) }
    }

    /// Escaped text in quotes, without commas.
    package mutating func quoted(_ value: String, bytesMax: Int) {
        needsComma = false
        string(value, bytesMax: bytesMax)
    }

    private mutating func open(_ bracket: UInt8) {
        comma()
        bytes.append(bracket)
        needsComma = false
    }

    private mutating func close(_ bracket: UInt8) {
        bytes.append(bracket)
        needsComma = true
    }

    private mutating func comma() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        needsComma = true
    }

    // MARK: Values

    /// Text as a string, cut like bytes.
    package mutating func string(_ value: String, bytesMax: Int = .max) {
        var value = value
        value.withUTF8 { string(UnsafeRawBufferPointer($0), bytesMax: bytesMax) }
    }

    /// Text as bytes, of any origin. Beyond `bytesMax` it is cut between characters and ends in `…`.
    package mutating func string(_ value: UnsafeRawBufferPointer, bytesMax: Int = .max) {
        comma()
        bytes.append(UInt8(ascii: "\""))
        content(value, bytesMax: bytesMax)
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func content(_ value: UnsafeRawBufferPointer, bytesMax: Int) {
        var end = value.count
        if end > bytesMax {
            end = max(bytesMax, 0)
            while end > 0, value[end] & 0xc0 == 0x80 { end -= 1 }
        }
        escape(UnsafeRawBufferPointer(rebasing: value[0..<end]))
        if end < value.count { bytes.append(contentsOf: "…".utf8) }
    }

    /// A whole number.
    package mutating func number(_ value: some BinaryInteger) { plain(String(value)) }

    /// JSON has neither infinity nor NaN: they become null.
    package mutating func number(_ value: Double) { plain(value.isFinite ? value.description : "null") }

    /// `true` or `false`.
    package mutating func bool(_ value: Bool) { plain(value ? "true" : "false") }

    /// `null`.
    package mutating func null() { plain("null") }

    /// A point in time as RFC 3339 text.
    package mutating func time(_ value: WallTime) {
        comma()
        bytes.append(UInt8(ascii: "\""))
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: Timestamp.count) { room in
            Timestamp.write(value, into: room.baseAddress!)
            bytes.append(contentsOf: room)
        }
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func plain(_ value: String) {
        comma()
        bytes.append(contentsOf: value.utf8)
    }

    // MARK: Escaping

    private mutating func escape(_ value: UnsafeRawBufferPointer) {
        var copied = 0
        var index = 0
        while index < value.count {
            let byte = value[index]
            if byte >= 0x20, byte < 0x7f, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\\") {
                index += 1
                continue
            }
            let length = byte < 0x80 ? 1 : JSONText.sequenceLength(at: index, of: value)
            if length > 1, !Self.isLineBreakOrControl(value, at: index) {
                index += length
                continue
            }
            bytes.append(contentsOf: value[copied..<index])
            escape(value, at: index, length: length)
            index += max(length, 1)
            copied = index
        }
        bytes.append(contentsOf: value[copied..<index])
    }

    private mutating func escape(_ value: UnsafeRawBufferPointer, at index: Int, length: Int) {
        let byte = value[index]
        switch (length, byte) {
        case (1, UInt8(ascii: "\"")), (1, UInt8(ascii: "\\")):
            bytes.append(UInt8(ascii: "\\"))
            bytes.append(byte)
        case (1, UInt8(ascii: "\n")): bytes.append(contentsOf: "\\n".utf8)
        case (1, UInt8(ascii: "\t")): bytes.append(contentsOf: "\\t".utf8)
        case (1, _): unicode(Int(byte))
        case (2, _): unicode(Int(byte & 0x1f) << 6 | Int(value[index + 1] & 0x3f))
        case (3, _):
            unicode(Int(byte & 0x0f) << 12 | Int(value[index + 1] & 0x3f) << 6 | Int(value[index + 2] & 0x3f))
        default:
            bytes.append(contentsOf: "\\\\x".utf8)
            hex(Int(byte), digits: 2)
        }
    }

    private mutating func unicode(_ scalar: Int) {
        bytes.append(contentsOf: "\\u".utf8)
        hex(scalar, digits: 4)
    }

    private mutating func hex(_ value: Int, digits: Int) {
        for place in stride(from: 4 * (digits - 1), through: 0, by: -4) {
            bytes.append(Hex.digit(UInt8(truncatingIfNeeded: value >> place & 0xf)))
        }
    }

    /// C1 controls (U+0080 … U+009F), the line separators U+2028/9, which some line readers treat as line ends, and
    /// bidirectional controls (U+061C, U+200E/F, U+202A … U+202E, U+2066 … U+2069), which show a line in another order.
    private static func isLineBreakOrControl(_ value: UnsafeRawBufferPointer, at index: Int) -> Bool {
        switch (value[index], value[index + 1]) {
        case (0xc2, let next): next < 0xa0
        case (0xd8, 0x9c): true
        case (0xe2, 0x80): value[index + 2] & 0xfe == 0x8e || (0xa8...0xae).contains(value[index + 2])
        case (0xe2, 0x81): (0xa6...0xa9).contains(value[index + 2])
        default: false
        }
    }
}
