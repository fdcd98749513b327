/// How a message's body ends (RFC 9112 §6.3).
package enum BodyFraming: Equatable, Sendable {
    /// No body.
    case none
    /// This many bytes; 0 is a `Content-Length: 0`.
    case length(Int)
    /// The chunked coding.
    case chunked
    /// The body is delimited by the close of the connection; responses only.
    case untilClose
}

/// The one transfer coding that Lanyard supports (RFC 9112 §6.1, http-rules.md 5.3, 13.3).
enum TransferCoding {
    /// Throws unless the field's value is the one word `chunked`.
    ///
    /// Checks in the order of http-rules.md 5.4: wrong syntax and a misuse of `chunked` are the sender's error (400);
    /// another coding is not implemented (501).
    static func check(_ value: Bytes) throws(HeadError) {
        if value.equals(lowered: "chunked") { return }
        var rest = value
        var sawOther = false
        var chunked = 0
        var last = false
        while true {
            let comma = rest.firstIndex(of: UInt8(ascii: ","))
            let member = rest[run: 0..<(comma ?? rest.count)].trimmed
            guard member.count > 0 else { throw .malformed("an empty member in Transfer-Encoding") }
            guard member.allSatisfy(ByteClass.isToken) else {
                throw .malformed("a Transfer-Encoding that is not one plain word")
            }
            last = member.equals(lowered: "chunked")
            if last { chunked += 1 } else { sawOther = true }
            guard let comma else { break }
            rest = rest[run: (comma + 1)..<rest.count]
        }
        guard chunked <= 1, chunked == 0 || last else {
            throw .malformed("chunked is not the last coding, or occurs twice")
        }
        if sawOther { throw HeadError(.notImplemented, "a transfer coding other than chunked") }
        throw .malformed("a Transfer-Encoding that is not one plain word")
    }
}
