import LanyardSettings
import TestSupport
import Testing

/// Connections that are used again, on both sides.
@Suite struct ProxyPersistenceTests {
    private static let get = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

    @Test("pipelined requests continue behind a response of our own that came late")
    func behindRefusal() async throws {
        let isSent = Milestone()
        defer { isSent.set() }
        let bench = try ProxyBench { request in
            request.message.target == "/bad"
                ? RawResponse.text("nonsense\r\n").after(isSent, "both requests have arrived") : .response()
        }
        let statuses = try await bench.talk { client throws in
            try client.send("GET /bad HTTP/1.1\r\nHost: localhost\r\n\r\n" + Self.get)
            try bench.awaitRequests(1)
            bench.pass(.zero)
            isSent.set()
            return [try client.response().status, try client.response().status]
        }
        #expect(statuses == [502, 200])
    }

    @Test("a request that comes while the one before is being refused late is served")
    func arrivedMeanwhile() async throws {
        let isSent = Milestone()
        defer { isSent.set() }
        let bench = try ProxyBench { request in
            request.message.target == "/bad"
                ? RawResponse.text("nonsense\r\n").after(isSent, "the second request has arrived") : .response()
        }
        let statuses = try await bench.talk { client throws in
            try client.send("GET /bad HTTP/1.1\r\nHost: localhost\r\n\r\n")
            try bench.awaitRequests(1)
            try client.send(Self.get)
            bench.pass(.zero)
            isSent.set()
            return [try client.response().status, try client.response().status]
        }
        #expect(statuses == [502, 200])
    }

    @Test("a retry is not retried")
    func retriedOnce() async throws {
        let bench = try ProxyBench { $0.connection == 0 && $0.index == 0 ? .response() : .reset }
        try await bench.talk { client throws in
            #expect(try client.exchange("GET", "/").status == 200)
            #expect(try client.exchange("GET", "/").status == 502)
        }
        #expect(bench.upstream.requests.count == 3)
    }

    @Test("the configured number of requests per connection ends it")
    func requestsMax() async throws {
        let bench = try ProxyBench(plan: { $0.limits.requestsPerConnectionMax = 2 })
        try await bench.talk { client throws in
            #expect(try client.exchange("GET", "/")["Connection"] == nil)
            #expect(try client.exchange("GET", "/")["Connection"] == "close")
            #expect(try client.readToEnd() == [])
        }
    }
}
