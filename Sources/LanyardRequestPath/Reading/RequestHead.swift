/// The content of a request's head: the start line and the fields that frame and route the message.
///
/// Offsets count from the first byte of the head's buffer. The field lines are in the `FieldTable` that the reader
/// filled.
package struct RequestHead: Equatable, Sendable {
    // An idle connection has one: the order leaves the fewest gaps.

    package var method: Range<Int> = 0..<0
    package var target: Range<Int> = 0..<0
    /// Bytes of the head, the empty line included.
    package var length = 0
    /// The index of the `Host` line in the table, or -1.
    package var host = -1
    package var connection = ConnectionOptions()
    package var framing = BodyFraming.none
    package var kind = Method.other
    /// Which fields the field rules must look for.
    package var traits: Traits = []
    package var expectation = Expectation.none
    private var isHTTP10 = false
    /// Of a stream of HTTP/2: frames delimit its body, and no field is this hop's alone.
    package var isHTTP2 = false

    package init() {}

    /// 0 or 1; 1.2 to 1.9 count as 1.
    package var minorVersion: Int {
        get { isHTTP10 ? 0 : 1 }
        set { isHTTP10 = newValue == 0 }
    }

    /// Methods that are treated differently; `preface` is HTTP/2's `PRI`.
    package enum Method: Sendable {
        case get, head, post, put, delete, options, patch, connect, trace, preface, other
        /// PROPFIND (RFC 4918 §9.1), REPORT (RFC 3253 §3.6) and SEARCH (RFC 5323 §2): they read as GET does, and have bodies.
        case query

        /// The method is idempotent (RFC 9110 §9.2.2).
        package var isIdempotent: Bool {
            switch self {
            case .get, .head, .put, .delete, .options, .query: true
            default: false
            }
        }

        static func of(_ name: Bytes) -> Method {
            @inline(__always) func spells(_ word: StaticString) -> Bool { name.isEqual(to: word) }
            return switch name.count {
            case 3: spells("GET") ? .get : spells("PUT") ? .put : spells("PRI") ? .preface : .other
            case 4: spells("POST") ? .post : spells("HEAD") ? .head : .other
            case 5: spells("PATCH") ? .patch : spells("TRACE") ? .trace : .other
            case 6: spells("DELETE") ? .delete : spells("REPORT") || spells("SEARCH") ? .query : .other
            case 7: spells("OPTIONS") ? .options : spells("CONNECT") ? .connect : .other
            case 8: spells("PROPFIND") ? .query : .other
            default: .other
            }
        }
    }

    /// `Expect` (http-forwarding.md 11.1, 11.4).
    package enum Expectation: Sendable { case none, continue100, unknown }

    /// Fields that the head has.
    package struct Traits: OptionSet, Sendable {
        package let rawValue: UInt16
        package init(rawValue: UInt16) { self.rawValue = rawValue }
        package static let origin = Traits(rawValue: 1)
        package static let secFetchSite = Traits(rawValue: 2)
        package static let maxForwards = Traits(rawValue: 4)
        package static let via = Traits(rawValue: 8)
        package static let confusable = Traits(rawValue: 16)
        package static let forwarding = Traits(rawValue: 32)
        package static let upgrade = Traits(rawValue: 64)
        /// `TE: trailers`.
        package static let trailers = Traits(rawValue: 128)
        /// `Destination` or `If`.
        package static let references = Traits(rawValue: 256)
        /// A field of MCP (Model Context Protocol, Streamable HTTP).
        package static let mcp = Traits(rawValue: 512)
        /// Its sender has forbidden to index some of its fields (RFC 7541 §7.1.3).
        package static let neverIndexed = Traits(rawValue: 1024)
        /// A call of gRPC over HTTP/2, which needs trailers (gRPC over HTTP/2, "Requests"). That of browsers (`application/grpc-web`) does
        /// not.
        package static let grpc = Traits(rawValue: 2048)
        /// An extended CONNECT (RFC 8441), written as the upgrade that it stands for.
        package static let bridged = Traits(rawValue: 4096)
    }

    /// The client accepts trailers (RFC 9110 §6.5.1). `Connection` must name `TE`, else it was meant for an earlier
    /// hop.
    package var wantsTrailers: Bool {
        traits.contains(.trailers) && (isHTTP2 || connection.hasTE && minorVersion >= 1)
    }

    /// The client asks for a persistent connection (RFC 9112 §9.3).
    package var wantsKeepAlive: Bool {
        minorVersion >= 1 ? !connection.hasClose : connection.hasKeepAlive && !connection.hasClose
    }
}

/// The parts of a request target (RFC 9112 §3.2). It is not parsed again as a URL: path and query are forwarded byte
/// for byte.
package struct RequestTarget: Equatable, Sendable {
    package enum Form: Equatable, Sendable {
        case origin
        /// `http://authority/path`; the range has offsets in the target.
        case absolute(authority: Range<Int>)
        /// `*`, which only OPTIONS may have.
        case asterisk
    }

    package var form: Form
    /// The range of the path; empty if an absolute target has none (forwarded as `/`).
    package var path: Range<Int>
    /// The range of `?` and the query; empty if there is none.
    package var query: Range<Int>

    /// The range of an absolute target's scheme; empty if it is not absolute.
    package var scheme: Range<Int> {
        guard case .absolute(let authority) = form else { return 0..<0 }
        return 0..<(authority.lowerBound - Self.schemeEnd)
    }

    /// Bytes of `://`.
    private static let schemeEnd = 3

    /// A placeholder where the target is not used.
    package static let root = RequestTarget(form: .origin, path: 0..<0, query: 0..<0)

    private init(form: Form, path: Range<Int>, query: Range<Int>) {
        self.form = form
        self.path = path
        self.query = query
    }

    /// - Throws: the client's error: the target has none of the allowed forms. CONNECT is refused before.
    package static func parse(_ target: Bytes, method: RequestHead.Method) throws(HeadError) -> RequestTarget {
        if target[0] == UInt8(ascii: "/") {
            return RequestTarget(form: .origin, pathFrom: 0, target)
        }
        if target.count == 1, target[0] == UInt8(ascii: "*") {
            guard method == .options else { throw .malformed("the target * is allowed for OPTIONS only") }
            return RequestTarget(form: .asterisk, pathFrom: 1, target)
        }
        guard let colon = target.firstIndex(of: UInt8(ascii: ":")), colon > 0, colon + schemeEnd <= target.count,
            target[colon + 1] == UInt8(ascii: "/"), target[colon + 2] == UInt8(ascii: "/"),
            ByteClass.isLetter(target[0]), target[run: 0..<colon].allSatisfy(Self.isSchemeByte)
        else { throw .malformed("a target that is neither a path nor a URL") }
        let start = colon + schemeEnd
        var end = start
        while end < target.count, target[end] != UInt8(ascii: "/"), target[end] != UInt8(ascii: "?") { end += 1 }
        guard end > start else { throw .malformed("an absolute target without authority") }
        guard !target[run: start..<end].contains(UInt8(ascii: "@")) else {
            throw .malformed("user information in the target")
        }
        return RequestTarget(form: .absolute(authority: start..<end), pathFrom: end, target)
    }

    private init(form: Form, pathFrom start: Int, _ target: Bytes) {
        self.form = form
        var end = start
        while end < target.count, target[end] != UInt8(ascii: "?") { end += 1 }
        path = start..<end
        query = end..<target.count
    }

    private static func isSchemeByte(_ byte: UInt8) -> Bool {
        ByteClass.isAlphanumeric(byte) || byte == UInt8(ascii: "+") || byte == UInt8(ascii: "-")
            || byte == UInt8(ascii: ".")
    }

    /// Whether the request is for the server as a whole (`OPTIONS *`, or OPTIONS of an origin). Lanyard responds
    /// itself.
    package func targetsServer(_ method: RequestHead.Method) -> Bool {
        if form == .asterisk { return true }
        if case .absolute = form { return method == .options && path.isEmpty && query.isEmpty }
        return false
    }
}
