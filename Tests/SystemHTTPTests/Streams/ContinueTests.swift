import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// `Expect: 100-continue` from a client, decided by an upstream whose every byte the test writes.
@Suite(.serialized) struct ContinueTests {
    private static func request(_ framing: String) -> String {
        "PUT /hand/large HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n\(framing)\r\n\r\n"
    }

    /// What the connections linger passes.
    private static func stop(_ bench: HTTPBench, _ clock: TestClock) async throws {
        bench.lanyard.process.signal(SIGTERM)
        try await clock.pass(until: "it ends", atMost: .seconds(60)) { bench.lanyard.process.exit != nil }
        #expect(try await bench.lanyard.process.waitForExit() == .code(143))
    }

    private static let framings = ["Content-Length: 1000000", "Transfer-Encoding: chunked"]

    @Test(
        "11.3 An upstream that refuses the body: its response reaches the client, no body byte goes up, neither connection is used again",
        arguments: framings)
    func refused(_ framing: String) async throws {
        let (bench, clock) = try await HTTPBench.startUnderClock()
        let client = try await bench.connect()
        async let responded = bench.acceptAndRespond("HTTP/1.1 413 Too Large\r\nContent-Length: 8\r\n\r\ntoo big\n")
        try await client.send(Self.request(framing))
        let (upstream, head) = try await responded
        #expect(head.contains("\r\nExpect: 100-continue\r\n") && head.contains("\r\n\(framing)\r\n"))
        let response = try await client.response()
        #expect(response.status == 413 && response.bodyText == "too big\n")
        #expect(response["Connection"] == "close")
        // It may have begun to send before the response came, and a request in it is none.
        try await client.send("18\r\nGET /smuggled HTTP/1.1\r\n\r\n")
        let upstreamRest = try await upstream.rest()
        #expect(upstreamRest.text.isEmpty)
        let rest = try await client.rest()
        #expect(rest.text.isEmpty && !rest.wasReset)
        // The next request comes on another connection.
        let other = try await bench.connect()
        try await other.send(HTTPBench.plain("/hand/next"))
        let fresh = try await bench.accept()
        #expect(try await fresh.head().hasPrefix("GET /hand/next "))
        try await fresh.send("HTTP/1.1 204 No Content\r\n\r\n")
        #expect(try await other.response().status == 204)
        try await Self.stop(bench, clock)
    }

    @Test(
        "11.1 An upstream that wants the body: its 100 reaches the client, then the body goes up, and both connections are kept"
    )
    func granted() async throws {
        let (bench, clock) = try await HTTPBench.startUnderClock()
        let client = try await bench.connect()
        try await client.send(Self.request("Content-Length: 11"))
        let upstream = try await bench.accept()
        _ = try await upstream.head()
        try await upstream.send("HTTP/1.1 100 Continue\r\n\r\n")
        #expect(try await client.response().status == 100)
        try await client.send("hello ")
        #expect(try await upstream.read(6) == "hello ")
        try await client.send("world")
        #expect(try await upstream.read(5) == "world")
        try await upstream.send("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
        let response = try await client.response()
        #expect(response.status == 201 && response["Connection"] == nil)
        try await client.send(HTTPBench.plain("/hand/next"))
        #expect(try await upstream.head().hasPrefix("GET /hand/next "))
        try await upstream.send("HTTP/1.1 204 No Content\r\n\r\n")
        #expect(try await client.response().status == 204)
        try await Self.stop(bench, clock)
    }

    @Test(
        "11.2 A client that does not wait for 100 is served at once, and gets the final response alone if the upstream says no 100"
    )
    func impatient() async throws {
        let (bench, clock) = try await HTTPBench.startUnderClock()
        let client = try await bench.connect()
        try await client.send(Self.request("Content-Length: 5") + "hello")
        let upstream = try await bench.accept()
        _ = try await upstream.head()
        #expect(try await upstream.read(5) == "hello")
        try await upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        #expect(try await client.response().status == 200)
        try await Self.stop(bench, clock)
    }
}
