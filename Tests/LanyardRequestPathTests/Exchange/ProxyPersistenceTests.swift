import LanyardSettings
import TestSupport
import Testing

/// Connections that are used again, on both sides.
@Suite(.timeLimit(.minutes(1))) struct ProxyPersistenceTests {
    private static let get = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

    @Test("a hundred pipelined requests are answered in order, over one upstream connection")
    func pipelined() async throws {
        let bench = try ProxyBench { .response(body: $0.message.target) }
        let targets = (0..<100).map { "/\($0)" }
        let responses = try await bench.talk { client throws in
            try client.send(targets.map { "GET \($0) HTTP/1.1\r\nHost: localhost\r\n\r\n" }.joined())
            return try targets.map { _ in try client.response().bodyText }
        }
        #expect(responses == targets)
        #expect(bench.upstream.connectionCount == 1)
        #expect(bench.upstream.requests.allSatisfy { $0.values("authorization").count == 1 })
    }

    @Test("pipelined requests with bodies of every framing stay apart")
    func pipelinedBodies() async throws {
        let bench = try ProxyBench { .response(body: "\($0.message.method) \($0.message.bodyText)") }
        let head = "HTTP/1.1\r\nHost: localhost\r\n"
        let responses = try await bench.talk { client throws in
            try client.send(
                """
                POST / \(head)Content-Length: 3\r\n\r\nabcGET / \(head)Transfer-Encoding: chunked\r\n\r\n1;x\r\nd\r\n\
                2\r\nef\r\n0\r\nT: 1\r\n\r\n
                """
                    + "\r\nDELETE / \(head)Content-Length: 1\r\n\r\ngOPTIONS / \(head)Content-Length: 0\r\n\r\nPUT / \(head)\r\n"
            )
            return try (0..<5).map { _ in try client.response().bodyText }
        }
        #expect(responses == ["POST abc", "GET def", "DELETE g", "OPTIONS ", "PUT "])
        #expect(bench.upstream.connectionCount == 1)
    }

    @Test("a faulty pipelined request takes away no response before it")
    func faultBehind() async throws {
        let bench = try ProxyBench { _ in .response(body: "slow").after(.milliseconds(100)) }
        let text = try await bench.askToEnd(Self.get + Self.get + "GET / HTTP/1.1\r\nbad\r\n\r\n" + Self.get)
        #expect(text.ranges(of: "HTTP/1.1 200 ").count == 2)
        #expect(text.ranges(of: "HTTP/1.1 400 ").count == 1)
        #expect(bench.upstream.requests.count == 2)
    }

    @Test("pipelined requests go on behind a response of our own that came late")
    func behindRefusal() async throws {
        let bench = try ProxyBench { request in
            request.message.target == "/bad" ? RawResponse.text("nonsense\r\n").after(.milliseconds(50)) : .response()
        }
        let statuses = try await bench.talk { client throws in
            try client.send("GET /bad HTTP/1.1\r\nHost: localhost\r\n\r\n" + Self.get)
            return [try client.response().status, try client.response().status]
        }
        #expect(statuses == [502, 200])
    }

    @Test("a request that comes while the one before is being refused late is served")
    func arrivedMeanwhile() async throws {
        let bench = try ProxyBench { request in
            request.message.target == "/bad" ? RawResponse.text("nonsense\r\n").after(.milliseconds(200)) : .response()
        }
        let statuses = try await bench.talk { client throws in
            try client.send("GET /bad HTTP/1.1\r\nHost: localhost\r\n\r\n")
            try bench.awaitRequests(1)
            try client.send(Self.get)
            return [try client.response().status, try client.response().status]
        }
        #expect(statuses == [502, 200])
    }

    @Test("connections of both sides are kept and used again")
    func kept() async throws {
        let bench = try ProxyBench()
        try await bench.talk { client throws in
            for _ in 0..<20 {
                let response = try client.exchange("GET", "/")
                #expect(response.status == 200)
                #expect(response["Connection"] == nil)
            }
        }
        for _ in 0..<3 { _ = try await bench.ask(Self.get) }
        #expect(bench.upstream.connectionCount == 1)
    }

    @Test(
        "close is said and carried out; nothing behind that request is processed",
        arguments: ["Connection: close", "Connection: x, Close", "A: 1\r\nConnection: x\r\nConnection: close"])
    func close(_ field: String) async throws {
        let bench = try ProxyBench()
        let text = try await bench.askToEnd("GET / HTTP/1.1\r\nHost: localhost\r\n\(field)\r\n\r\n" + Self.get)
        #expect(text.ranges(of: "HTTP/1.1 200 ").count == 1)
        #expect(text.contains("\r\nConnection: close\r\n"))
        #expect(bench.upstream.requests.count == 1)
    }

    @Test("HTTP/1.0 closes unless keep-alive and a known length; then it is told so")
    func version10() async throws {
        let bench = try ProxyBench { request in
            request.message.target == "/chunked"
                ? .text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n") : .response()
        }
        let closed = try await bench.askToEnd("GET / HTTP/1.0\r\n\r\n")
        #expect(closed.hasSuffix("\r\nConnection: close\r\n\r\nok"))
        let text = try await bench.askToEnd(
            "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /chunked HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        #expect(text.contains("\r\nConnection: keep-alive\r\n\r\nok"))
        #expect(text.hasSuffix("\r\nConnection: close\r\n\r\nab"))
        #expect(!text.contains("chunked"))
    }

    @Test("a stale pooled connection: a GET goes once more, on a fresh one; a POST does not")
    func stale() async throws {
        // The second request of each connection gets no response, only the end.
        let bench = try ProxyBench { $0.index == 0 ? .response(body: "\($0.connection)") : .close }
        try await bench.talk { client throws in
            #expect(try client.exchange("GET", "/").bodyText == "0")
            #expect(try client.exchange("GET", "/").bodyText == "1")
            #expect(try client.exchange("POST", "/", body: Array("x".utf8)).status == 502)
            #expect(try client.exchange("GET", "/").bodyText == "2")
            #expect(try client.exchange("POST", "/").status == 502)
        }
        #expect(bench.upstream.requests.map(\.method) == ["GET", "GET", "GET", "POST", "GET", "POST"])
        #expect(bench.upstream.requests.allSatisfy { $0.values("authorization").count == 1 })
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

    @Test("an idle upstream connection that ends or speaks is let go, and its bytes reach no client")
    func idleEnds() async throws {
        let late = "HTTP/1.1 408 Timeout\r\nContent-Length: 0\r\n\r\n"
        let bench = try ProxyBench { request in
            var response = RawResponse.response(body: "\(request.connection)")
            if request.connection == 0 { response.steps += [.pause(.milliseconds(50)), .send(Array(late.utf8))] }
            if request.connection == 1 { response.steps += [.pause(.milliseconds(50)), .close] }
            return response
        }
        for connection in 0..<3 {
            #expect(try await bench.ask(Self.get).bodyText == "\(connection)")
            guard connection < 2 else { break }
            try await eventually("the connection is let go") { bench.count("lanyard_upstream_connections") == 0 }
        }
        #expect(try await bench.ask("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n").bodyText == "2")
    }

    @Test("a connection with bytes behind the response, or that says close, is not used again")
    func notReused() async throws {
        let bench = try ProxyBench { request in
            switch request.connection {
            case 0:
                .text("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother")
            case 1: .text("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nb")
            case 2: .text("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nc")
            case 3: .text("HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\n")
            case 4: .text("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\ne")
            default: .response(body: "new")
            }
        }
        let bodies = try await bench.talk { client throws in
            try (0..<6).map { _ in try client.exchange("GET", "/").bodyText }
        }
        #expect(bodies == ["a", "b", "c", "", "e", "ok"] || bodies == ["a", "b", "c", "", "e", "e"])
        #expect(bench.upstream.connectionCount == 5)
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
