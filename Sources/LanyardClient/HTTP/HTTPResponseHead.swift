/// The head of a response, as far as commands need it. Pure.
///
/// Only the framings that Lanyard's own listeners use are read: `Content-Length`, or the end of the connection. Any other is refused.
struct HTTPResponseHead: Equatable {
    /// Bytes of a head; more is not HTTP.
    private static let bytesMax = 64 << 10

    /// Bytes of the head, the empty line included.
    let byteCount: Int
    let status: Int
    /// The media type without parameters, in lower case; empty: there is none.
    let contentType: String
    /// `Retry-After` in seconds (RFC 9110 §10.2.3); nil: none, or a date.
    let retryAfter: Int?
    /// Bytes of the body; nil: up to the end of the connection (RFC 9112 §6.3).
    let bodyCount: Int?

    /// The head at the beginning of `bytes`; nil: its end has not arrived.
    static func read(_ bytes: UnsafeRawBufferPointer) throws(HTTPClientError) -> HTTPResponseHead? {
        guard let end = endOfHead(bytes) else {
            guard bytes.count <= bytesMax, mayBegin(bytes) else { throw .notHTTP }
            return nil
        }
        let text = String(decoding: UnsafeRawBufferPointer(rebasing: bytes[..<(end - 4)]), as: UTF8.self)
        let lines = text.split(separator: "\r\n", omittingEmptySubsequences: false)
        let words = lines[0].split(separator: " ", maxSplits: 2)
        guard words.count >= 2, words[0].hasPrefix("HTTP/1."), words[1].utf8.count == 3, let status = Int(words[1]),
            status >= 200
        else { throw .notHTTP }
        var fields = Fields()
        for line in lines.dropFirst() { try fields.add(line) }
        return HTTPResponseHead(
            byteCount: end, status: status, contentType: fields.contentType, retryAfter: fields.retryAfter,
            bodyCount: status == 204 || status == 304 ? 0 : fields.length)
    }

    /// Whether these bytes can be the beginning of a response.
    static func mayBegin(_ bytes: UnsafeRawBufferPointer) -> Bool {
        zip(bytes, "HTTP/1.".utf8).allSatisfy { $0 == $1 }
    }

    /// The fields that matter here.
    private struct Fields {
        var length: Int?
        var contentType = ""
        var retryAfter: Int?

        mutating func add(_ line: Substring) throws(HTTPClientError) {
            guard let colon = line.firstIndex(of: ":") else { throw .notHTTP }
            let value = Self.trimmed(line[line.index(after: colon)...])
            switch line[..<colon].lowercased() {
            case "content-length":
                guard let count = Self.digits(value), length == nil || length == count else { throw .notHTTP }
                length = count
            case "transfer-encoding": throw .notHTTP
            case "content-type": contentType = Self.trimmed(value.prefix { $0 != ";" }).lowercased()
            case "retry-after": retryAfter = Self.digits(value)
            default: break
            }
        }

        /// Nine digits at most: more than any response that is read.
        private static func digits(_ text: Substring) -> Int? {
            (1...9).contains(text.utf8.count) && text.utf8.allSatisfy { (0x30...0x39).contains($0) } ? Int(text) : nil
        }

        private static func trimmed(_ text: Substring) -> Substring {
            let start = text.drop { $0 == " " || $0 == "\t" }
            let end = start.lastIndex { $0 != " " && $0 != "\t" }
            return end.map { start[...$0] } ?? ""
        }
    }

    /// The number of bytes up to the first empty line, that line included.
    private static func endOfHead(_ bytes: UnsafeRawBufferPointer) -> Int? {
        guard bytes.count >= 4 else { return nil }
        for index in 0...(min(bytes.count, bytesMax) - 4)
        where bytes[index] == 13 && bytes[index + 1] == 10 && bytes[index + 2] == 13 && bytes[index + 3] == 10 {
            return index + 4
        }
        return nil
    }
}
