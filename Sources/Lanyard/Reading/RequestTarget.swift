/// The parts of a request target (RFC 9112 §3.2). It is not parsed again as a URL: path and query are forwarded byte
/// for byte.
package struct RequestTarget: Equatable, Sendable {
    package enum Form: Equatable, Sendable {
        case origin
        /// `http://authority/path`; the ranges are offsets in the target.
        case absolute(scheme: Range<Int>, authority: Range<Int>)
        /// `*`, which only OPTIONS may have.
        case asterisk
    }

    package var form: Form
    /// The range of the path; empty if an absolute target has none (forwarded as `/`).
    package var path: Range<Int>
    /// The range of `?` and the query; empty if there is none.
    package var query: Range<Int>

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
        guard let colon = target.firstIndex(of: UInt8(ascii: ":")), colon > 0, colon + 3 <= target.count,
            target[colon + 1] == UInt8(ascii: "/"), target[colon + 2] == UInt8(ascii: "/"),
            ByteClass.isLetter(target[0]), target[run: 0..<colon].allSatisfy(Self.isSchemeByte)
        else { throw .malformed("a target that is neither a path nor a URL") }
        let start = colon + 3
        var end = start
        while end < target.count, target[end] != UInt8(ascii: "/"), target[end] != UInt8(ascii: "?") { end += 1 }
        guard end > start else { throw .malformed("an absolute target without authority") }
        guard !target[run: start..<end].contains(UInt8(ascii: "@")) else {
            throw .malformed("user information in the target")
        }
        return RequestTarget(form: .absolute(scheme: 0..<colon, authority: start..<end), pathFrom: end, target)
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
