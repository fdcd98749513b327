import LanyardFoundations
import LanyardRequestPath

/// A request target as the health and admin listeners accept it: a path or an absolute http URL (RFC 9112 §3.2.1, §3.2.2).
struct OperatorTarget {
    /// The authority of an absolute target, which replaces `Host`; nil for a path.
    let authority: Bytes?
    /// Without query.
    let path: Bytes
    /// Without its question mark; nil: there is none.
    let query: Bytes?

    /// nil: the target has neither form.
    init?(_ target: Bytes) {
        var start = 0
        if target.hasPrefix(lowered: "http://") {
            let end = target[7...].firstIndex(of: UInt8(ascii: "/")) ?? target.count
            guard end > 7 else { return nil }
            authority = target[run: 7..<end]
            start = end
        } else if target[0] == UInt8(ascii: "/") {
            authority = nil
        } else {
            return nil
        }
        let end = target[start...].firstIndex(of: UInt8(ascii: "?")) ?? target.count
        path = target[run: start..<end]
        query = end < target.count ? target[run: (end + 1)..<target.count] : nil
    }

    /// nil: the request names one of `hosts`. The authority of an absolute target replaces `Host`.
    ///
    /// HTTP/1.0 requests need neither, because no browser sends HTTP/1.0.
    ///
    /// - Parameter unknown: the response for other hosts.
    func refusal(
        by hosts: AllowedHosts, _ head: RequestHead, in bytes: Bytes, _ table: FieldTable, unknown: OperatorResponse
    ) -> OperatorResponse? {
        let host = authority ?? (head.host >= 0 ? table.value(head.host, in: bytes) : nil)
        return switch host.map(hosts.check) ?? .allowed {
        case .allowed: nil
        case .unknown: unknown
        case .malformed: .malformed(.malformed("a Host that is not host[:port]"))
        }
    }

    /// Whether a web page has sent the request: no page may read health and metrics, call the admin API or send a form to it
    /// (http-requests.md 4.4). An address typed into a browser is none.
    func isFromWebPage(_ head: RequestHead, in bytes: Bytes, _ table: FieldTable) -> Bool {
        if head.traits.contains(.origin) { return true }
        return head.traits.contains(.secFetchSite) && table.all.isFromOtherSite(in: bytes)
    }
}

extension OperatorResponse {
    /// The request comes from a web page.
    static let originNotAllowed = problem(
        403, "origin-not-allowed", "Origin not allowed", "Requests of web pages are refused.")
}

/// Collects the body of a call in a wiped buffer, in either framing and up to a limit. Does no I/O.
struct OperatorRequestBody: ~Copyable {
    enum Progress: Equatable {
        case needsMore
        /// Complete. Bytes after it belong to the next request.
        case whole
        case tooLarge
    }

    private var content: SecretBuffer
    private let bytesMax: Int
    /// Bytes of a `Content-Length` that have not arrived; nil: chunked.
    private var left: Int?
    private var chunks = ChunkedReader()

    /// - Parameter bytesMax: limit of a chunked body. The caller refuses a larger `Content-Length` before.
    init(_ framing: BodyFraming, bytesMax: Int) {
        self.bytesMax = bytesMax
        switch framing {
        case .length(let length): left = length
        case .chunked: left = nil
        case .none, .untilClose: left = 0
        }
        // Allocated once: growing would leave copies that need wiping.
        content = SecretBuffer(capacity: min(left ?? 4 << 10, bytesMax))
    }

    /// Appends arrived bytes and returns how many of them belong to the body.
    ///
    /// - Throws: malformed chunks. Nothing after them can be read as HTTP.
    mutating func append(_ bytes: Bytes) throws(HeadError) -> (progress: Progress, used: Int) {
        guard let left else { return try appendChunks(bytes) }
        let count = min(left, bytes.count)
        content.append(UnsafeRawBufferPointer(bytes[run: 0..<count]))
        self.left = left - count
        return (left == count ? .whole : .needsMore, count)
    }

    private mutating func appendChunks(_ bytes: Bytes) throws(HeadError) -> (progress: Progress, used: Int) {
        var position = 0
        while true {
            switch try chunks.next(bytes, from: &position) {
            case .data(let piece):
                guard content.count + piece.count <= bytesMax else { return (.tooLarge, position) }
                content.append(UnsafeRawBufferPointer(bytes[run: piece]))
            case .needsMore: return (.needsMore, position)
            case .end: return (.whole, position)
            }
        }
    }

    /// Calls `body` with the collected bytes.
    borrowing func withBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result { content.withBytes(body) }
}
