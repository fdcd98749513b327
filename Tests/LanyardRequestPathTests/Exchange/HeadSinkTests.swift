import CNGHTTP2
import LanyardSettings
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardRequestPath

/// What a head says does not depend on the form in which it is written.
@Suite struct HeadSinkTests {
    /// A form that is no text: the start, then a list of fields.
    private struct Listing: HeadSink, ~Copyable {
        static var copiesLines: Bool { false }

        private(set) var start = ""
        private(set) var fields: [String] = []
        private(set) var isComplete = false
        private var name: String?
        private var value: [UInt8] = []

        private var text: String { String(decoding: value, as: UTF8.self) }

        mutating func beginRequest(_ method: Bytes) { start = String(decoding: method, as: UTF8.self) + " " }
        mutating func beginAuthority() {
            start += text + " "
            value = []
        }
        mutating func beginResponse(_ status: Int, reason: Bytes) { start = "\(status)" }
        mutating func beginField(_ name: Bytes) { self.name = String(decoding: name, as: UTF8.self) }
        mutating func beginField(_ name: StaticString) { self.name = "\(name)" }
        mutating func beginField(_ start: FieldStart) {
            name = String(decoding: start.name, as: UTF8.self)
            value = Array(start.value)
        }
        mutating func write(_ byte: UInt8) { value.append(byte) }
        mutating func write(_ bytes: Bytes) { value += bytes }
        mutating func write(_ text: StaticString) { value += "\(text)".utf8 }
        mutating func write(_ bytes: [UInt8]) { value += bytes }
        mutating func write(_ secret: Secret) { secret.withBytes { value += $0 } }
        mutating func write(decimal number: Int) { value += "\(number)".utf8 }
        mutating func write(hex number: UInt64) {
            let digits = String(number, radix: 16)
            value += (String(repeating: "0", count: 16 - digits.count) + digits).utf8
        }
        mutating func endField() {
            if let name { fields.append("\(name): \(text)") } else { start += text }
            (name, value) = (nil, [])
        }
        mutating func writeChunkStart(of size: Int, ends: Bool, hasTrailers: Bool) -> StaticString { "" }
        mutating func writeUnknownLength() {}
        mutating func writeOptions(wantsTrailers: Bool, upgrade: [UInt8]?) {}
        mutating func writeSwitch(to upgrade: [UInt8]) {}
        mutating func writeUpgradeOption() {}
        mutating func writePersistence(closes: Bool, clientMinorVersion: Int) {}
        mutating func endHead() { isComplete = true }
    }

    /// Fields of HTTP/1.1 alone.
    private static func isOfHTTP1(_ line: Substring) -> Bool {
        line.hasPrefix("Connection:") || line.hasPrefix("Transfer-Encoding:") || line.hasPrefix("TE:")
    }

    /// The lines of a head in the text of HTTP/1.1 without those fields.
    private static func lines(_ bytes: UnsafeRawBufferPointer) -> [String] {
        String(decoding: bytes, as: UTF8.self).split(separator: "\r\n").filter { !isOfHTTP1($0) }.map { String($0) }
    }

    private let context = HeadContext(
        viaName: Array("lanyard-1".utf8), counters: ShardCounters(countsHandshakes: false))

    @Test(
        "a request has the same fields in another form, in the same order",
        arguments: [
            "GET /api/a?b=c HTTP/1.1\r\nHost: client.test\r\nAccept:  x \r\nX-Own:y\r\nAuthorization: Basic eA==\r\n\r\n",
            "POST /api HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\nVia: 1.1 other\r\nConnection: x-a\r\nX-A: 1\r\nX-B: 2\r\n\r\n",
            "PUT /api/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTE: trailers\r\nConnection: TE\r\nX-B: 2\r\n\r\n",
        ], [nil, "/base"])
    func request(_ text: String, base: String?) throws {
        var settings = RouteSettings(name: "r")
        (settings.path, settings.upstreamPath) = ("/api", base)
        settings.setHeaders = [.init(name: "X-Fixed", value: "one: two")]
        settings.requestIDHeader = "X-Request-Id"
        let route = Route(settings, index: 0, user: nil)
        let token = AccessToken(
            user: UserIndex(0), generation: 1, token: Tokens.secret("token"), waitsFrom: .never, usableUntil: .never,
            renewal: .possible(from: .past))
        let table = FieldTable(capacity: 20)
        var out = HeadWriter()
        var listing = Listing()
        try Array(text.utf8).withUnsafeBufferPointer { bytes in
            var reader = RequestReader()
            let head = try #require(try reader.read(bytes, into: table, limits: RequestReading.limits))
            let target = try RequestTarget.parse(bytes[run: head.target], method: head.kind)
            let writer = RequestHeadWriter(
                bytes: bytes, head: head, lines: table.all, target: target, isClientTLS: false)
            let peer = ForwardedPeer(nil)
            _ = writer.write(
                into: &out, on: route, in: context, token: token, authority: Array("up.test".utf8),
                requestID: RequestID(7), upgrade: nil, peer: peer)
            _ = writer.write(
                into: &listing, on: route, in: context, token: token, authority: Array("up.test".utf8),
                requestID: RequestID(7), upgrade: nil, peer: peer)
        }
        let lines = Self.lines(out.bytes)
        let start = lines[0].split(separator: " ")
        #expect(listing.start == "\(start[0]) \(start[1]) up.test" && lines[1] == "Host: up.test")
        #expect(listing.fields == Array(lines.dropFirst(2)) && listing.isComplete)
        #expect(listing.fields.contains("Authorization: Bearer token") && listing.fields.contains("X-Fixed: one: two"))
    }

    /// The value of a field that a file holds.
    private static let secret = "key-of-the-upstream 1"

    /// What is written for a request with fields of its own, on a route with one field in a file between two texts.
    private func write(_ out: inout some HeadSink & ~Copyable) throws {
        var settings = RouteSettings(name: "r")
        settings.setHeaders = [
            .init(name: "X-First", value: "one"), .init(name: "X-Api-Key", file: "/run/key"),
            .init(name: "X-Last", value: ""), .init(name: "X-Other-Key", file: "/run/other"),
        ]
        let values = [FieldValue(Tokens.secret(Self.secret)), FieldValue(Tokens.secret("other"))]
        let token = AccessToken(
            user: UserIndex(0), generation: 1, token: Tokens.secret("token"), waitsFrom: .never, usableUntil: .never,
            renewal: .possible(from: .past))
        let text =
            "GET / HTTP/1.1\r\nHost: a\r\nx-API-key: mine\r\nX_Api_Key: mine\r\nX-Open: 1\r\nX-Last: mine\r\n\r\n"
        let table = FieldTable(capacity: 20)
        try Array(text.utf8).withUnsafeBufferPointer { bytes in
            var reader = RequestReader()
            let head = try #require(try reader.read(bytes, into: table, limits: RequestReading.limits))
            let writer = RequestHeadWriter(
                bytes: bytes, head: head, lines: table.all,
                target: try RequestTarget.parse(bytes[run: head.target], method: head.kind), isClientTLS: false)
            _ = writer.write(
                into: &out, on: Route(settings, index: 0, user: nil), in: context, token: token,
                authority: Array("up.test".utf8), requestID: RequestID(7), upgrade: nil, peer: nil, values: values)
        }
    }

    @Test("the value of a field's file stands in place of a client's own, among the other fields of the route")
    func fileFields() throws {
        var out = HeadWriter()
        try write(&out)
        let text = String(decoding: out.bytes, as: UTF8.self)
        let lines = text.split(separator: "\r\n", omittingEmptySubsequences: false)
        #expect(
            lines == [
                "GET / HTTP/1.1", "Host: up.test", "X-Open: 1", "Via: 1.1 lanyard-1", "X-First: one",
                "X-Api-Key: \(Self.secret)", "X-Last: ", "X-Other-Key: other", "Authorization: Bearer token", "", "",
            ])
    }

    @Test("in HTTP/2 the fields of the route, those of files included, and the bearer field are never indexed")
    func neverIndexed() throws {
        var fields = HTTP2FieldWriter()
        try write(&fields)
        let written = fields.withFields { list in
            list.map { field in
                let text = { (start: UnsafeMutablePointer<UInt8>?, count: Int) in
                    String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
                }
                let isNeverIndexed = UInt32(field.flags) & NGHTTP2_NV_FLAG_NO_INDEX.rawValue != 0
                return
                    "\(isNeverIndexed ? "never " : "")\(text(field.name, field.namelen)): \(text(field.value, field.valuelen))"
            }
        }
        #expect(
            written == [
                ":method: GET", ":scheme: http", ":path: /", ":authority: up.test", "x-open: 1", "via: 1.1 lanyard-1",
                "never x-first: one", "never x-api-key: \(Self.secret)", "never x-last: ", "never x-other-key: other",
                "never authorization: Bearer token",
            ])
    }

    @Test("a problem has the same fields in another form", arguments: [false, true])
    func problem(isResponseToHead: Bool) {
        let writer = ProblemWriter(
            context: context, problem: .overloaded("too many"), requestID: RequestID(7),
            isResponseToHead: isResponseToHead, closes: true, clientMinorVersion: 1)
        var out = HeadWriter()
        var listing = Listing()
        let (body, same) = (writer.writeHead(into: &out), writer.writeHead(into: &listing))
        let lines = Self.lines(out.bytes)
        #expect(body?.bytes == same?.bytes && (body == nil) == isResponseToHead)
        #expect(listing.isComplete && listing.start == "503")
        #expect(listing.fields.filter { !$0.hasPrefix("Date:") } == lines.dropFirst().filter { !$0.hasPrefix("Date:") })
        #expect(listing.fields.contains { $0.hasPrefix("Retry-After: ") })
    }
}
