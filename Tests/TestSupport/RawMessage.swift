/// One HTTP/1 message as received. Nothing is merged, folded or trimmed except where a property says so.
package struct RawMessage: Sendable {
    /// The start line and the fields, including the empty line.
    package let head: [UInt8]
    /// The lines of the head without the empty one.
    private let lines: [String]
    /// The body without its framing. Cut at the reader's `bodyBytesMax`.
    package var body: [UInt8] = []
    /// Bytes of the whole body, including those beyond the cut.
    package var bodyCount = 0
    /// SHA-256 of the whole body, in hex.
    package var bodyDigest = ""
    /// Everything after the head as received, including chunk sizes and trailers. Cut at `bodyBytesMax`.
    package var framedBody: [UInt8] = []

    /// A head without a body.
    package init(head: [UInt8]) {
        self.head = head
        lines = Self.lines(of: head)
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
    /// The body as JSON.
    package var json: JSON { get throws { try JSON(body) } }

    /// `GET / HTTP/1.1` or `HTTP/1.1 200 OK`.
    package var startLine: String { lines.first ?? "" }
    /// Words of the start line.
    package var words: [String] { startLine.split(separator: " ", maxSplits: 2).map(String.init) }
    /// A request's method.
    package var method: String { words.first ?? "" }
    /// A request's target as received.
    package var target: String { words.count > 1 ? words[1] : "" }
    /// The status of a response; 0 if the line has none.
    package var status: Int { words.count > 1 ? Int(words[1]) ?? 0 : 0 }

    /// The fields in order, with names as received and values without outer spaces.
    package var fields: [(name: String, value: String)] {
        lines.dropFirst().map { line in
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            return (String(parts[0]), parts.count > 1 ? Self.trimmed(parts[1]) : "")
        }
    }

    /// All values of a field. Names are compared without case.
    package func values(_ name: String) -> [String] {
        fields.filter { $0.name.lowercased() == name.lowercased() }.map(\.value)
    }

    /// The first value of a field.
    package subscript(name: String) -> String? { values(name).first }

    /// Lines end with LF. A CR before it is removed.
    private static func lines(of head: [UInt8]) -> [String] {
        var lines = head.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map { line in
            String(decoding: line.last == UInt8(ascii: "\r") ? line.dropLast() : line, as: UTF8.self)
        }
        while lines.last?.isEmpty == true { lines.removeLast() }
        return lines
    }

    private static func trimmed(_ text: Substring) -> String {
        let blank: (Character) -> Bool = { $0 == " " || $0 == "\t" }
        var text = text.drop(while: blank)
        while let last = text.last, blank(last) { text.removeLast() }
        return String(text)
    }
}
