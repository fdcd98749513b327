import LanyardRequestPath

/// `ResponseReader` and what a response's head promises.
struct ResponseRun: HeadRun {
    static let limits = HeadLimits.response

    private var reader = ResponseReader()

    init() {}

    mutating func read(_ bytes: Bytes, _ table: FieldTable, _ limits: HeadLimits) throws(HeadError) -> ResponseHead? {
        try reader.read(bytes, into: table, isResponseToHead: false, limits: limits)
    }

    static func check(_ head: ResponseHead, _ table: FieldTable, _ bytes: Bytes) throws(BrokenPromise) {
        try BrokenPromise.unless((100..<1000).contains(head.status), "a status outside 100 to 999")
        try BrokenPromise.unless(
            bytes[run: head.reason].allSatisfy(ByteClass.isValue), "a reason with bytes that it cannot have")
        // A 1xx's framing fields are dropped unread (http-forwarding.md 11.5): whatever they say is accepted.
        guard !(100..<200).contains(head.status) else {
            try BrokenPromise.unless(
                head.framing == .none && !head.announcesForbiddenBody, "a 1xx that is said to have a body")
            return try checkToHead(head, table.count, bytes)
        }
        let facts = FramingFacts(table, bytes)
        guard let declared = facts.framing(head.minorVersion) else {
            throw BrokenPromise("fields that contradict each other were accepted")
        }
        let isBodiless = head.status == 204 || head.status == 304
        let expected = isBodiless ? BodyFraming.none : declared == .none ? .untilClose : declared
        try BrokenPromise.unless(head.framing == expected, "framing that the fields do not say")
        try BrokenPromise.unless(
            head.announcesForbiddenBody
                == (head.status == 204 && declared != .none && declared != .length(0)),
            "a 204 that announces a body, or none that does")
        try checkToHead(head, table.count, bytes)
    }

    /// A response to HEAD differs in its body only.
    private static func checkToHead(_ head: ResponseHead, _ fields: Int, _ bytes: Bytes) throws(BrokenPromise) {
        let table = FieldTable(capacity: max(fields, 1))
        var reader = ResponseReader()
        guard let bodiless = try? reader.read(bytes, into: table, isResponseToHead: true) else {
            throw BrokenPromise("the same head is refused when it answers HEAD")
        }
        var expected = head
        expected.framing = .none
        try BrokenPromise.unless(bodiless == expected, "a head that differs when it answers HEAD")
    }

    static func writeStartLine(_ head: ResponseHead, _ bytes: Bytes, _ text: HeadText) {
        text.add(head.minorVersion == 0 ? "HTTP/1.0 " : "HTTP/1.1 ")
        text.add(decimal: head.status)
        text.add(" ")
        text.add(bytes[run: head.reason])
        text.add("\r\n")
    }
}

extension ResponseHead: FuzzedHead {
    var withoutPlaces: ResponseHead {
        var head = self
        (head.reason, head.length) = (0..<0, 0)
        return head
    }
}
