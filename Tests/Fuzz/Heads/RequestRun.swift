import LanyardRequestPath
import LanyardSettings

/// `RequestReader` and what a request's head promises.
struct RequestRun: HeadRun {
    static let limits = HeadLimits(LimitSettings())

    private var reader = RequestReader()

    init() {}

    mutating func read(_ bytes: Bytes, _ table: FieldTable, _ limits: HeadLimits) throws(HeadError) -> RequestHead? {
        try reader.read(bytes, into: table, limits: limits)
    }

    static func check(_ head: RequestHead, _ table: FieldTable, _ bytes: Bytes) throws(BrokenPromise) {
        let method = bytes[run: head.method]
        let target = bytes[run: head.target]
        try BrokenPromise.unless(
            method.count > 0 && method.count <= 64 && method.allSatisfy(ByteClass.isToken), "a method that is no token")
        try BrokenPromise.unless(
            target.count > 0 && target.allSatisfy(ByteClass.isTarget), "a target with bytes that it cannot have")
        let facts = FramingFacts(table, bytes)
        try BrokenPromise.unless(facts.hosts <= 1, "more than one Host")
        try BrokenPromise.unless(facts.hosts == 1 || head.minorVersion == 0, "HTTP/1.1 without Host")
        try BrokenPromise.unless(
            (head.host >= 0) == (facts.hosts == 1), "the Host line is not the one that stands there")
        try BrokenPromise.unless(head.framing == facts.framing(head.minorVersion), "framing that the fields do not say")
    }

    static func writeStartLine(_ head: RequestHead, _ bytes: Bytes, _ text: HeadText) {
        text.add(bytes[run: head.method])
        text.add(" ")
        text.add(bytes[run: head.target])
        text.add(head.minorVersion == 0 ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n")
    }
}

extension RequestHead: FuzzedHead {
    var withoutPlaces: RequestHead {
        var head = self
        (head.method, head.target, head.length) = (0..<0, 0..<0, 0)
        return head
    }
}
