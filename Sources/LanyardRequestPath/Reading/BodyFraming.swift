/// How a message's body ends (RFC 9112 §6.3).
package enum BodyFraming: Equatable, Sendable {
    /// No body.
    case none
    /// This many bytes; 0 is a `Content-Length: 0`.
    case length(Int)
    /// The chunked coding.
    case chunked
    /// The body is delimited by the close of the connection, or by the end of its stream; requests: of HTTP/2 alone.
    case untilClose

    /// The length is known at the end only.
    var isOpenEnded: Bool { self == .chunked || self == .untilClose }
}

/// Decides the framing of a request from the fields of its head (RFC 9112 §6.3, http-requests.md 5.1 to 5.5).
///
/// The fields are counted first, and their values are read last: a request that carries both fields gets that error,
/// whatever their values are.
struct RequestFraming {
    private var lengths = 0
    /// The index of the last `Content-Length` line.
    private var length = 0
    private var codings = 0
    /// The index of the last `Transfer-Encoding` line.
    private var coding = 0

    /// Line `index` is a `Content-Length`.
    mutating func addLength(_ index: Int) {
        lengths += 1
        length = index
    }

    /// Line `index` is a `Transfer-Encoding`.
    mutating func addCoding(_ index: Int) {
        codings += 1
        coding = index
    }

    /// Checks in the order of http-requests.md 5.4.
    ///
    /// - Throws: the client's error.
    func decide(_ bytes: Bytes, _ table: FieldTable, minorVersion: Int) throws(HeadError) -> BodyFraming {
        if codings > 0 {
            guard lengths == 0 else { throw .malformed("both Content-Length and Transfer-Encoding") }
            guard minorVersion > 0 else { throw .malformed("Transfer-Encoding in HTTP/1.0") }
            guard codings == 1 else { throw .malformed("more than one Transfer-Encoding field") }
            try TransferCoding.check(table.value(coding, in: bytes))
            return .chunked
        }
        guard lengths > 0 else { return .none }
        guard lengths == 1 else { throw .malformed("more than one Content-Length field") }
        guard let length = table.value(length, in: bytes).decimal else {
            throw .malformed("a Content-Length that is not a plain number")
        }
        return .length(length)
    }
}

/// Decides the framing of a response from the fields of its head (RFC 9112 §6.3, http-forwarding.md 12.1 to 12.3, 13.2 to
/// 13.4).
///
/// The order of errors differs from a request's: each value is read when its line is added. All of them give 502.
struct ResponseFraming {
    private let status: Int
    private let isResponseToHead: Bool
    private var lengths = 0
    private var length: Int?
    private var codings = 0

    /// - Parameter isResponseToHead: the request was a HEAD: its response has no body.
    init(status: Int, isResponseToHead: Bool) {
        self.status = status
        self.isResponseToHead = isResponseToHead
    }

    /// A 1xx has no body, so its framing fields are dropped unread (http-forwarding.md 11.5).
    private var isInformational: Bool { status < 200 }

    /// Adds the value of a `Content-Length`.
    mutating func addLength(_ value: Bytes) throws(HeadError) {
        guard !isInformational else { return }
        lengths += 1
        length = value.decimal
        guard length != nil else { throw .malformed("a Content-Length that is not a plain number") }
    }

    /// Adds the value of a `Transfer-Encoding`.
    mutating func addCoding(_ value: Bytes) throws(HeadError) {
        guard !isInformational else { return }
        codings += 1
        try TransferCoding.check(value)
    }

    /// - Returns: the framing, and whether a 204 announces a body (http-forwarding.md 13.4).
    func decide(minorVersion: Int) throws(HeadError) -> (framing: BodyFraming, announcesForbiddenBody: Bool) {
        guard lengths <= 1 else { throw .malformed("more than one Content-Length field") }
        guard codings <= 1 else { throw .malformed("more than one Transfer-Encoding field") }
        guard codings == 0 || lengths == 0 else { throw .malformed("both Content-Length and Transfer-Encoding") }
        guard codings == 0 || minorVersion > 0 else { throw .malformed("Transfer-Encoding in HTTP/1.0") }
        let declared: BodyFraming = codings == 1 ? .chunked : length.map { .length($0) } ?? .untilClose
        let bodiless = isResponseToHead || isInformational || status == 204 || status == 304
        return (bodiless ? .none : declared, status == 204 && declared != .untilClose && declared != .length(0))
    }
}

/// The one transfer coding that Lanyard supports (RFC 9112 §6.1, http-requests.md 5.3, http-forwarding.md 13.3).
private enum TransferCoding {
    /// Throws unless the field's value is the one word `chunked`.
    ///
    /// Checks in the order of http-requests.md 5.4: wrong syntax and a misuse of `chunked` are the sender's error (400);
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
