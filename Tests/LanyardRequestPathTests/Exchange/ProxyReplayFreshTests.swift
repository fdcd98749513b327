import LanyardSettings
import TestSupport
import Testing

/// On which connection a request is sent again after its token was refused: what may not be repeated must not meet a stale one.
@Suite struct ProxyReplayFreshTests {
    private static let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    @Test(
        "a POST is sent again on a fresh connection in place of the one that refused it, though no other is allowed; a PUT on the same",
        arguments: ["POST", "PATCH", "FOO", "PUT", "DELETE"], ["2\r\n\r\nno", "0\r\n\r\n", "9\r\n\r\nhalf"])
    func fresh(_ method: String, _ refusal: String) async throws {
        let listener = try RawSocket.listen(at: .tcp(0))
        defer { listener.close() }
        let bench = try ProxyBench(plan: {
            $0.usesUpstream = false
            $0.upstream.endpoint = .tcp(host: "127.0.0.1", port: listener.localPort, tls: false)
            $0.upstream.connectionsMax = refusal.hasPrefix("9") ? 2 : 1
        })
        bench.renews()
        let repeats = method == "PUT" || method == "DELETE"
        try await bench.talk { client throws in
            try client.send("\(method) / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody")
            let first = try #require(listener.accept())
            let reader = RawReader(first)
            #expect(try reader.readRequest()?.bodyText == "body")
            try first.send("HTTP/1.1 401 No\r\nContent-Length: \(refusal)".utf8)
            var (second, again) = (first, reader)
            if !repeats || refusal.hasPrefix("9") {
                second = try #require(listener.accept())
                again = RawReader(second)
            }
            let request = try #require(try again.readRequest())
            #expect(request.bodyText == "body" && request["Authorization"] == "Bearer token-2")
            // What is not repeated keeps no connection to those that it does not use.
            if !repeats { #expect(try reader.readToAnyEnd().bytes == []) }
            try second.send(Self.ok.utf8)
            #expect(try client.response(to: method).status == 200)
        }
        #expect(bench.count("lanyard_replays", ["result": "replayed"]) == 1)
    }
}
