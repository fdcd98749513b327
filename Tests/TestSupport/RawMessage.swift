import Glibc

/// One HTTP/1 message as received. Nothing is merged, folded or trimmed except where a property says so.
package struct RawMessage: Sendable {
    /// The start line and the fields, including the empty line.
    package let head: [UInt8]
    /// `GET / HTTP/1.1` or `HTTP/1.1 200 OK`.
    package let startLine: String
    /// The fields in order: names as received, and values without outer spaces.
    private let names: [String]
    private let fieldValues: [String]
    /// The body without its framing. Cut at the reader's `bodyBytesMax`.
    package var body: [UInt8] = []
    /// Bytes of the whole body, including those beyond the cut.
    package var bodyCount = 0
    /// SHA-256 of the whole body, in hex.
    package var bodyDigest = ""
    /// Everything after the head as received, including chunk sizes and trailers. Cut at `bodyBytesMax`.
    package var framedBody: [UInt8] = []

    /// A head without a body. Lines end with LF. A CR before it is removed.
    ///
    /// It is read once and by memchr: `SeededGenerator.bytes` says what each step of a sequence costs under the thread sanitizer.
    package init(head: [UInt8]) {
        self.head = head
        var (first, words, names, values) = ("", [String](), [String](), [String]())
        names.reserveCapacity(16)
        values.reserveCapacity(16)
        head.withUnsafeBytes { bytes in
            // Empty lines at the end are no fields.
            var end = bytes.count
            while end > 0, bytes[end - 1] == 10 { end -= bytes[..<(end - 1)].last == 13 ? 2 : 1 }
            var start = 0
            while start < end {
                let newline = Self.index(of: 10, in: bytes, start..<end)
                let next = newline ?? end
                let lineEnd = newline != nil && next > start && bytes[next - 1] == 13 ? next - 1 : next
                if start == 0 {
                    first = Self.text(bytes, 0..<lineEnd)
                    words = Self.words(bytes, 0..<lineEnd)
                } else {
                    let colon = Self.index(of: UInt8(ascii: ":"), in: bytes, start..<lineEnd)
                    names.append(Self.text(bytes, start..<(colon ?? lineEnd)))
                    values.append(Self.text(bytes, Self.trimmed(bytes, colon.map { $0 + 1 } ?? lineEnd, lineEnd)))
                }
                start = next + 1
            }
        }
        (startLine, self.words, self.names, fieldValues) = (first, words, names, values)
    }

    /// The text after the last chunk, including its empty line; empty without chunks.
    package var trailerText: String {
        guard values("Transfer-Encoding").contains(where: { $0.lowercased() == "chunked" }) else { return "" }
        let text = String(decoding: framedBody, as: UTF8.self)
        guard let last = text.ranges(of: "\r\n0\r\n").last else { return String(text.dropFirst(2)) }
        return String(text[last.upperBound...])
    }

    /// The head as text.
    package var headText: String { String(decoding: head, as: UTF8.self) }
    /// The body as text.
    package var bodyText: String { String(decoding: body, as: UTF8.self) }
    /// The lines of the body that begin with this text.
    package func bodyLines(beginning start: String) -> [Substring] {
        body.withUnsafeBytes { bytes in
            guard let base = bytes.baseAddress else { return [] }
            var (lines, place) = ([Substring](), 0)
            let count = start.utf8.count
            while place < bytes.count {
                let end = Self.index(of: 10, in: bytes, place..<bytes.count) ?? bytes.count
                if count <= end - place, memcmp(base + place, start, count) == 0 {
                    lines.append(Self.text(bytes, place..<end)[...])
                }
                place = end + 1
            }
            return lines
        }
    }
    /// The body as JSON.
    package var json: JSON { get throws { try JSON(body) } }

    /// Words of the start line: at most three, the last with the rest of it.
    package let words: [String]
    /// A request's method.
    package var method: String { words.first ?? "" }
    /// A request's target as received.
    package var target: String { words.count > 1 ? words[1] : "" }
    /// The status of a response; 0 if the line has none.
    package var status: Int { words.count > 1 ? Int(words[1]) ?? 0 : 0 }

    /// The fields in order, with names as received and values without outer spaces.
    package var fields: [(name: String, value: String)] { Array(zip(names, fieldValues)) }

    /// All values of a field. Names are compared without case.
    package func values(_ name: String) -> [String] {
        let wanted = name.lowercased()
        var values: [String] = []
        var index = 0
        while index < names.count {
            if names[index].lowercased() == wanted { values.append(fieldValues[index]) }
            index += 1
        }
        return values
    }

    /// The first value of a field.
    package subscript(name: String) -> String? { values(name).first }

    private static func text(_ bytes: UnsafeRawBufferPointer, _ range: Range<Int>) -> String {
        String(decoding: UnsafeRawBufferPointer(rebasing: bytes[range]), as: UTF8.self)
    }

    private static func words(_ bytes: UnsafeRawBufferPointer, _ line: Range<Int>) -> [String] {
        var (words, start) = ([String](), line.lowerBound)
        while words.count < 2, let space = index(of: 32, in: bytes, start..<line.upperBound) {
            if space > start { words.append(text(bytes, start..<space)) }
            start = space + 1
        }
        if start < line.upperBound { words.append(text(bytes, start..<line.upperBound)) }
        return words
    }

    private static func index(of byte: UInt8, in bytes: UnsafeRawBufferPointer, _ range: Range<Int>) -> Int? {
        guard let base = bytes.baseAddress else { return nil }
        return memchr(base + range.lowerBound, CInt(byte), range.count).map { UnsafeRawPointer($0) - base }
    }

    private static func trimmed(_ bytes: UnsafeRawBufferPointer, _ start: Int, _ end: Int) -> Range<Int> {
        var (start, end) = (start, end)
        while start < end, bytes[start] == 32 || bytes[start] == 9 { start += 1 }
        while end > start, bytes[end - 1] == 32 || bytes[end - 1] == 9 { end -= 1 }
        return start..<end
    }
}
