import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// http-forwarding.md 10.5: fields of `set_headers` whose values are in files.
@Suite struct FieldFileRuleTests {
    private let folder: TemporaryFolder
    private let clock: TestClock

    init() throws {
        folder = try TemporaryFolder()
        clock = try TestClock()
    }

    /// Two routes name one file. The clock stands from then on.
    private func start(_ key: String? = "first key\n") async throws -> HTTPBench {
        if let key { try folder.write("key", key) }
        let bench = try await HTTPBench.start {
            $0.routes = """
                {name: keyed, match: {path: /keyed}, upstream: "UP", \
                set_headers: {X-Team: blue, X-Api-Key: {file: \(folder.file("key"))}}},
                {name: also, match: {path: /also}, upstream: "UP", set_headers: {X-Second: {file: \(folder.file("key"))}}},

                """
            $0.clock = clock
        }
        clock.stop()
        return bench
    }

    private static func request(_ path: String, _ fields: String...) -> String {
        "GET \(path) HTTP/1.1\r\nHost: localhost\r\n\(fields.map { $0 + "\r\n" }.joined())\r\n"
    }

    /// The values of the field that the upstream got with a request of its own; the status if it got none.
    private func sent(_ bench: HTTPBench, _ path: String = "/keyed", field: String = "X-Api-Key") async throws
        -> [String]
    {
        let before = bench.requests.count
        let response = try await bench.ask(Self.request(path))
        let requests = bench.requests.dropFirst(before)
        return requests.isEmpty ? ["\(response.status)"] : requests.flatMap { $0.values(field) }
    }

    private func replace(by text: String) throws {
        try folder.write("new", text)
        try #require(rename(folder.file("new"), folder.file("key")) == 0)
    }

    /// Nothing that was said has one of the values.
    private func expectSilence(_ bench: HTTPBench, about values: String...) async throws {
        try await bench.lanyard.process.settle()
        for line in bench.lanyard.process.lines {
            #expect(!values.contains { line.text.contains($0) }, "\(line.text)")
        }
        for page in ["/metrics", "/readyz?verbose"] {
            let text = try await RawClient.ask(bench.lanyard.health, "GET", page).bodyText
            #expect(!values.contains { text.contains($0) }, "\(text)")
        }
    }

    @Test("10.5 The value stands in the field in place of a client's own, and other routes do not get it")
    func replaced() async throws {
        let bench = try await start()
        let fields = ["x-api-key: mine", "X_Api_Key: mine", "X-TEAM: red", "X-Own: 1"]
        #expect(try await bench.ask(Self.request("/keyed", fields[0], fields[1], fields[2], fields[3])).status == 200)
        let head = HTTPBench.forwarded("GET /keyed", ["X-Own: 1"])
            .replacing("Authorization", with: "X-Team: blue\r\nX-Api-Key: first key\r\nAuthorization")
        #expect(bench.received.joined() == head)
        #expect(try await sent(bench, "/also", field: "X-Second") == ["first key"])
        #expect(try await sent(bench, "/other") == [])
        try await expectSilence(bench, about: "first key")
    }

    @Test(
        "10.5 Another content holds from the next request on, also on a connection that stays, and behind a swapped link"
    )
    func changes() async throws {
        for name in ["one", "two"] {
            try #require(mkdir(folder.file(name), 0o700) == 0)
            try folder.write("\(name)/key", "key \(name)")
        }
        try #require(symlink("one", folder.file("..data")) == 0)
        try #require(symlink("..data/key", folder.file("key")) == 0)
        let bench = try await start(nil)
        let client = try await bench.connect()
        #expect(try await client.ask(Self.request("/keyed")).status == 200)
        try #require(symlink("two", folder.file("..data_tmp")) == 0)
        try #require(rename(folder.file("..data_tmp"), folder.file("..data")) == 0)
        try await clock.pass(LanyardProcess.fileDelay)
        #expect(try await client.ask(Self.request("/keyed")).status == 200)
        #expect(bench.requests.map { $0.values("X-Api-Key") } == [["key one"], ["key two"]])
        #expect(try await sent(bench, "/also", field: "X-Second") == ["key two"])
        client.close()
        try await expectSilence(bench, about: "key one", "key two")
    }

    @Test("10.5 A file without a value refuses the requests of its routes alone, and the log says why once")
    func unusable() async throws {
        let bench = try await start(nil)
        let response = try await bench.ask(Self.request("/keyed"))
        #expect(response.status == 503 && bench.received == [])
        #expect(response.bodyText.contains("urn:lanyard:problem:credential-refused"), "\(response.bodyText)")
        #expect(response.bodyText.contains("X-Api-Key") && response.bodyText.contains("route keyed"))
        #expect(response.bodyText.contains(#""action":"operator""#) && !response.bodyText.contains(folder.path))
        #expect(try await sent(bench, "/also") == ["503"])
        #expect(try await sent(bench, "/other") == [])
        try await clock.pass(LanyardProcess.fileDelay)
        let failed = try await bench.lanyard.process.event("upstream.field_file.failed")
        #expect(failed["level"].string == "error" && failed["route"].string == "keyed")
        #expect(failed["field"].string == "X-Api-Key")
        #expect(failed["reason"].string?.contains("\(folder.file("key")) does not exist") == true, "\(failed)")
        #expect(bench.lanyard.process.lines.count { $0.event == "upstream.field_file.failed" } == 1)
        try folder.write("key", "second key")
        try await clock.pass(until: "the value is sent") { try await sent(bench) == ["second key"] }
        // Neither is in a field whatever follows.
        for text in ["second key\nX-Evil: 1", "second\u{1}key", String(repeating: "second key", count: 10 << 10)] {
            try replace(by: text)
            try await clock.pass(until: "it is refused") { try await sent(bench) == ["503"] }
            try replace(by: "third key")
            try await clock.pass(until: "the next value is sent") { try await sent(bench) == ["third key"] }
        }
        let reasons = bench.lanyard.process.lines.filter { $0.event == "upstream.field_file.failed" }
            .compactMap { $0.json["reason"].string }
        #expect(reasons.count == 4 && reasons[1].contains("has more than one line"), "\(reasons)")
        #expect(reasons.count == 4 && reasons[2].contains("has a control character at byte 6"), "\(reasons)")
        #expect(reasons.count == 4 && reasons[3].contains("is larger than"), "\(reasons)")
        try await expectSilence(bench, about: "second key", "second\u{1}key", "third key", "X-Evil")
    }

    @Test(
        "10.5 A file that is empty for a while costs no request; after 10 s its routes are refused, until it has a value"
    )
    func transition() async throws {
        let bench = try await start()
        try folder.write("key", "")
        try await clock.pass(until: "the empty file is noticed") {
            bench.lanyard.process.lines.contains { $0.event == "upstream.field_file.kept" }
        }
        #expect(try await sent(bench) == ["first key"])
        let kept = try await bench.lanyard.process.event("upstream.field_file.kept")
        #expect(kept["level"].string == "warning" && kept["route"].string == "keyed")
        #expect(
            kept["reason"].string?.contains("the value that it held before serves for 10 s more") == true, "\(kept)")
        try await clock.pass(until: "the time has passed") { try await sent(bench) == ["503"] }
        try await bench.lanyard.process.event("upstream.field_file.failed")
        try folder.write("key", "second key")
        try await clock.pass(until: "the new value is sent") { try await sent(bench) == ["second key"] }
        try await expectSilence(bench, about: "first key", "second key")
    }
}
