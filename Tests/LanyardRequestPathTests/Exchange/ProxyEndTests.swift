import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import TestSupport
import Testing

/// Clients and upstreams that go, stand still, or response early.
@Suite(.timeLimit(.minutes(2))) struct ProxyEndTests {
    private static let get = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

    @Test("a client that has said all and half-closes still gets its responses, refusals in between included")
    func halfClosed() async throws {
        let bench = try ProxyBench { _ in RawResponse.response().after(.milliseconds(50)) }
        let refused = "GET / HTTP/1.1\r\nHost: evil\r\n\r\n"
        let text = try await bench.talk { client in
            try client.send(Self.get + refused + refused + Self.get)
            client.halfClose()
            return String(decoding: try client.readToEnd(), as: UTF8.self)
        }
        #expect(text.ranges(of: "HTTP/1.1 200 ").count == 2)
        #expect(text.ranges(of: "HTTP/1.1 421 ").count == 2)
        let first = try await bench.talk { client in
            try client.send(refused + refused + Self.get)
            client.halfClose()
            return String(decoding: try client.readToEnd(), as: UTF8.self)
        }
        #expect(first.ranges(of: "HTTP/1.1 421 ").count == 2)
        #expect(first.ranges(of: "HTTP/1.1 200 ").count == 1)
    }

    @Test("a client's reset closes the upstream's connection, while it is silent, and while it uploads")
    func clientReset() async throws {
        let bench = try ProxyBench { _ in RawResponse.response().after(.seconds(60)) }
        for upload in [false, true] {
            let before = bench.upstream.connectionCount
            try await bench.talk { client in
                let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90\r\n\r\npart"
                try client.send(upload ? head : Self.get)
                try blockUntil("the upstream has it") {
                    bench.received.last?.hasSuffix(upload ? "part" : "\r\n\r\n") == true
                }
                client.reset()
            }
            try await eventually("the connection is given up") { bench.count("lanyard_upstream_connections") == 0 }
            #expect(bench.upstream.connectionCount == before + 1)
        }
    }

    @Test("an early 413 reaches the client in the middle of its upload, which is never read as a request")
    func earlyResponse() async throws {
        let listener = try RawSocket.listen(at: .tcp(0))
        let port = listener.localPort
        let bench = try ProxyBench(plan: {
            $0.usesUpstream = false
            $0.upstream.endpoint = .tcp(host: "127.0.0.1", port: port, tls: false)
        })
        async let upstream: Void = offPool {
            let socket = try #require(listener.accept())
            try socket.receive(atLeast: 100_000)
            try socket.send("HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig".utf8)
            socket.close()
        }
        let response = try await bench.talk { client in
            try client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n")
            let request = Array(repeating: Array(Self.get.utf8), count: 5_000).joined()
            // The upload goes on until no byte is taken any more.
            for _ in 0..<50 where (try? client.socket.send(request, within: .milliseconds(300))) == nil { break }
            return try client.response()
        }
        try await upstream
        #expect(response.status == 413)
        #expect(response.bodyText == "big")
        #expect(response["Connection"] == "close")
        listener.close()
    }

    /// Waits until something was sent and, for half a second, nothing more. Too early an end does no harm: less has been sent then.
    private static func untilHeldUp(_ sent: Tally) async throws -> Int {
        var before = -1
        try await eventually("the sender is held up", within: .seconds(30)) {
            before = sent.value
            try await Task.sleep(for: .milliseconds(500))
            return before > 0 && before == sent.value
        }
        return before
    }

    @Test(
        "a reader that stands still holds the sender up, and gets everything in the end; others are answered meanwhile")
    func slowReader() async throws {
        let listener = try RawSocket.listen(at: .tcp(0))
        let port = listener.localPort
        let bench = try ProxyBench(plan: {
            $0.usesUpstream = false
            $0.upstream.endpoint = .tcp(host: "127.0.0.1", port: port, tls: false)
        })
        let size = 64 << 20
        let sent = Tally()
        async let upstream: Void = offPool {
            let socket = try #require(listener.accept())
            _ = try socket.receive(through: "\r\n\r\n")
            try socket.send("HTTP/1.1 200 OK\r\nContent-Length: \(size)\r\n\r\n".utf8)
            let block = [UInt8](repeating: 7, count: 1 << 20)
            for _ in 0..<(size >> 20) {
                try socket.send(block, within: .seconds(30))
                sent.add()
            }
        }
        let slow = try RawClient(bench.endpoint)
        try slow.send(Self.get)
        let before = try await Self.untilHeldUp(sent)
        #expect(before < size >> 20)
        #expect(try await bench.ask("GET / HTTP/1.1\r\nHost: evil\r\n\r\n").status == 421)
        let response = try await offPool { try slow.response(within: .seconds(30)) }
        #expect(response.bodyCount == size)
        try await upstream
        listener.close()
    }

    @Test("an upstream that stands still holds the uploader up, and gets everything in the end")
    func slowUpstream() async throws {
        let listener = try RawSocket.listen(at: .tcp(0))
        let port = listener.localPort
        let bench = try ProxyBench(plan: {
            $0.usesUpstream = false
            $0.upstream.endpoint = .tcp(host: "127.0.0.1", port: port, tls: false)
        })
        let size = 40 << 20
        let stuck = Milestone()
        async let upstream = offPool { () throws -> Int in
            let socket = try #require(listener.accept())
            stuck.wait(for: "the upload is held up")
            try socket.receive(through: "\r\n\r\n", andThen: size)
            try socket.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
            return size
        }
        let sent = Tally()
        async let client = bench.talk { client in
            try client.send("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(size)\r\n\r\n")
            let block = [UInt8](repeating: 7, count: 1 << 20)
            for _ in 0..<(size >> 20) {
                try client.socket.send(block, within: .seconds(30))
                sent.add()
            }
            return try client.response(within: .seconds(30)).bodyText
        }
        #expect(try await Self.untilHeldUp(sent) < size >> 20)
        stuck.set()
        let ends = try await (upstream, client)
        #expect(ends.0 == size)
        #expect(ends.1 == "ok")
        listener.close()
    }

    @Test("an upstream that is down is 502 with the reason; the client goes on")
    func down() async throws {
        let closed = try RawSocket.listen(at: .tcp(0))
        let port = closed.localPort
        closed.close()
        let bench = try ProxyBench(plan: {
            $0.usesUpstream = false
            $0.upstream.endpoint = .tcp(host: "127.0.0.1", port: port, tls: false)
        })
        try await bench.talk { client in
            for method in ["GET", "POST"] {
                let response = try client.exchange(method, "/")
                #expect(response.status == 502)
                #expect(response["Proxy-Status"] == "lanyard; error=connection_refused")
                #expect(try response.json["type"].string == "urn:lanyard:problem:upstream-unreachable")
            }
        }
    }

    @Test("a unix upstream that is missing is 502, one that is there serves; a unix listener takes any Host")
    func unix() async throws {
        let folder = try TemporaryFolder()
        let bench = try ProxyBench(
            at: .unix(folder.file("up.sock")),
            plan: { $0.listener = ListenerSettings(address: .unix(path: folder.file("in.sock"))) })
        #expect(try await bench.ask("GET / HTTP/1.1\r\nHost: anything:1\r\n\r\n").bodyText == "ok")
        #expect(bench.upstream.requests[0]["Host"] == "up.test")
        let missing = try ProxyBench(plan: {
            $0.usesUpstream = false
            $0.upstream.endpoint = .unix(path: folder.file("none.sock"))
        })
        let statuses = try await missing.talk { client in
            try client.send(String(repeating: Self.get, count: 50))
            return try (0..<50).map { _ in try client.response().status }
        }
        #expect(statuses == Array(repeating: 502, count: 50))
    }

    @Test("a silent upstream is 504, one that stops in the middle of a response is cut off")
    func silent() async throws {
        let bench = try ProxyBench { request in
            let head = RawResponse.text("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbody")
            let silence = RawResponse.response().after(.seconds(30))
            return request.message.target == "/half" ? RawResponse(head.steps + silence.steps) : silence
        } plan: {
            $0.upstream.timeouts.responseHeader = .milliseconds(200)
            $0.upstream.timeouts.responseIdle = .milliseconds(200)
        }
        try await bench.talk { client in
            let response = try client.exchange("GET", "/")
            #expect(response.status == 504)
            #expect(response["Proxy-Status"] == "lanyard; error=http_response_timeout")
            try client.send("GET /half HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(String(decoding: try client.readToEnd(), as: UTF8.self).hasSuffix("\r\n\r\nbody"))
        }
    }

    @Test("an upload without a byte is 408, and the upstream's connection is given up")
    func idleUpload() async throws {
        let bench = try ProxyBench(plan: { $0.upstream.timeouts.requestIdle = .milliseconds(200) })
        let text = try await bench.askToEnd("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nbody")
        #expect(text.hasPrefix("HTTP/1.1 408 "))
        try await eventually("the connection ends") { bench.upstream.openCount == 0 }
        #expect(bench.upstream.requests.isEmpty)
    }

    @Test("at the limit of connections requests wait in order, then get 503; a free one serves the first in line")
    func limit() async throws {
        let bench = try ProxyBench { request in
            RawResponse.response(body: request.message.target).after(
                .milliseconds(request.message.target == "/long" ? 2_000 : 250))
        } plan: {
            $0.upstream.connectionsMax = 1
            $0.upstream.timeouts.connect = .milliseconds(600)
        }
        async let first = bench.ask("GET /1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try await eventually("the first is on its way") { bench.upstream.requests.count == 1 }
        async let second = bench.ask("POST /2 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        let statuses = try await [first.status, second.status]
        #expect(statuses == [200, 200])
        #expect(bench.upstream.connectionCount == 1)
        async let long = bench.ask("GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try await eventually("the long one is on its way") { bench.upstream.requests.count == 3 }
        let refused = try await bench.ask(Self.get)
        #expect(refused.status == 503)
        #expect(refused["Retry-After"] == "1")
        #expect(refused["Proxy-Status"] == "lanyard; error=connection_limit_reached")
        let status = try await long.status
        #expect(status == 200)
    }

    @Test("every request is counted once, also one whose client went in the middle of the response")
    func counted() async throws {
        let bench = try ProxyBench { $0.message.target == "/large" ? .large(64 << 20) : .response() }
        try await bench.talk { client throws in
            for _ in 0..<3 { #expect(try client.exchange("GET", "/").status == 200) }
            #expect(try client.exchange("GET", "/", host: "evil").status == 421)
            try client.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
            _ = try client.read(1_000)
            client.reset()
        }
        try await eventually("the connection is given up") { bench.count("lanyard_upstream_connections") == 0 }
        #expect(bench.count("lanyard_requests") == 5)
        #expect(bench.count("lanyard_requests", ["code_class": "2xx", "origin": "upstream", "route": "all"]) == 4)
        #expect(bench.count("lanyard_requests", ["code_class": "4xx", "origin": "lanyard"]) == 1)
        #expect(bench.count("lanyard_requests") == 5)
        #expect(bench.count("lanyard_rejected_requests", ["reason": "host"]) == 1)
    }

    /// How far a response has come when its client goes.
    enum PendingState: CaseIterable { case parked, silent, interim, held }

    @Test(
        "a request whose client goes before the response is counted once, without a class",
        arguments: PendingState.allCases)
    func countedWithoutResponse(_ state: PendingState) async throws {
        let bench = try ProxyBench { _ in
            switch state {
            case .parked, .silent: .response().after(.seconds(60))
            case .interim: RawResponse([.send(Array("HTTP/1.1 103 Hint\r\n\r\n".utf8)), .pause(.seconds(60))])
            case .held: .response(401, "Who?")
            }
        } plan: {
            if state == .parked { ($0.publishes, $0.tokenWaitMax) = (false, .seconds(60)) }
            if state == .held { $0.tokenWaitMax = .seconds(60) }
        }
        // The refresh that the 401 asks for goes on for ever.
        bench.tokens.onRefused.withLock { [path = bench.path] in
            $0 = { old in
                path.publish(
                    ProxyBench.availability(old, ProxyBench.token, renewal: .underWay), for: ProxyBench.user)
            }
        }
        try await bench.talk { client throws in
            try client.send(Self.get)
            switch state {
            case .parked, .held: try blockUntil("it is parked") { bench.count("lanyard_parked_requests") > 0 }
            case .silent: try blockUntil("it is asked") { !bench.upstream.requests.isEmpty }
            case .interim: _ = try client.read(10)
            }
            client.reset()
        }
        try await eventually("the client is gone") { bench.path.shards[0].load.value == 0 }
        #expect(
            bench.count("lanyard_requests", ["code_class": "none", "origin": "lanyard", "route": "all"]) == 1)
        #expect(bench.count("lanyard_requests") == 1)
    }

    @Test("an upstream's name is resolved beside the shard, for however many requests at once")
    func named() async throws {
        let server = try RawServer()
        let bench = try ProxyBench(plan: {
            $0.usesUpstream = false
            $0.upstream.endpoint = .tcp(host: "localhost", port: server.endpoint.port, tls: false)
        })
        let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<20 { group.addTask { try await bench.ask(Self.get).status } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(statuses == Array(repeating: 200, count: 20))
        #expect(server.requests.count == 20)
    }
}
