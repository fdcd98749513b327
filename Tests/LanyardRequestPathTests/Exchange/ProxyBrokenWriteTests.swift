import TestSupport
import Testing
import TornSockets

/// A fresh connection that breaks before it has taken a byte (http-connections.md 16.4): as between an accept and the server's death.
@Suite(.enabled(if: !Sanitizer.isThread, "the thread sanitizer needs the calls that break"))
struct ProxyBrokenWriteTests {
    @Test(
        "without a byte written a request of any method goes to one more connection, and no further",
        arguments: ["GET", "POST", "PATCH", "FOO"], [(1, ""), (1, "body"), (2, ""), (2, "body")])
    func broken(_ method: String, _ plan: (count: Int, body: String)) async throws {
        let folder = try TemporaryFolder()
        let bench = try ProxyBench(at: .unix(folder.file("up")))
        lanyard_break_path(folder.file("up"), Int32(plan.count))
        let body = plan.body
        let response = try await bench.ask(
            "\(method) / HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)",
            method: method)
        #expect(response.status == (plan.count == 1 ? 200 : 502))
        try await eventually("both are accepted") { bench.upstream.connectionCount == 2 }
        #expect(bench.upstream.requests.map(\.bodyText) == (plan.count == 1 ? [body] : []))
        if plan.count == 2 { #expect(response["Proxy-Status"] == "lanyard; error=connection_terminated") }
        lanyard_break_path(folder.file("up"), 0)
        #expect(try await bench.ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 200)
    }
}
