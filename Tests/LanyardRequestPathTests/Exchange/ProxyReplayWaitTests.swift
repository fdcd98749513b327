import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import TestSupport
import Testing

/// Refused tokens while the request's body still comes, in place of 100, and clients that disconnect then. The upstream is played by hand.
@Suite struct ProxyReplayWaitTests {
    /// A bench whose upstream the test plays itself.
    private struct Stage: Sendable {
        let bench: ProxyBench
        let listener: RawSocket

        init(_ configure: (inout ProxyBench.Plan) -> Void = { _ in }) throws {
            let listener = try RawSocket.listen(at: .tcp(0))
            self.listener = listener
            bench = try ProxyBench(plan: {
                configure(&$0)
                $0.usesUpstream = false
                $0.upstream.endpoint = .tcp(host: "127.0.0.1", port: listener.localPort, tls: false)
            })
        }

        /// Plays both sides on one thread.
        func play<Value: Sendable>(_ work: @escaping @Sendable (RawClient, Stage) throws -> Value) async throws -> Value
        {
            defer { listener.close() }
            return try await bench.talk { client in try work(client, self) }
        }

        /// Blocks until the session path has been told that the token was refused.
        func awaitRefusal() throws {
            try blockUntil("the refusal is told") { !bench.tokens.refused.isEmpty }
        }

        /// Blocks until a request waits for a token: here one whose response is held.
        func awaitHeldResponse() throws {
            try blockUntil("the answer is held") { bench.count("lanyard_parked_requests") > 0 }
        }

        func accept() throws -> Peer {
            let socket = try #require(listener.accept())
            return (socket, RawReader(socket))
        }
    }

    private typealias Peer = (socket: RawSocket, reader: RawReader)

    private static let refused = "HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno"
    private static let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    private static func head(_ framing: String) -> String {
        "POST /p HTTP/1.1\r\nHost: localhost\r\n\(framing)\r\n\r\n"
    }
    private static func why(_ words: String) -> String {
        "lanyard; received-status=401; details=\"replay-not-possible: \(words)\""
    }

    private static let framings = [
        ("Content-Length: 10", "12345", "67890"),
        ("Transfer-Encoding: chunked", "5\r\n12345\r\n", "5\r\n67890\r\n0\r\n\r\n"),
    ]

    @Test("17.6 a body that grows too large for a replay ends in a problem, and the request behind it is the next one")
    func growsTooLarge() async throws {
        let stage = try Stage { ($0.route.unauthorized, $0.route.replayBodyMax) = (.problem, 20) }
        stage.bench.renews()
        try await stage.play { client, stage in
            try client.send(Self.head("Transfer-Encoding: chunked"))
            let early = try stage.accept()
            _ = try early.reader.readHead()
            try client.send("5\r\n12345\r\n")
            _ = try early.socket.receive(atLeast: 5)
            try early.socket.send(Self.refused.utf8)
            try stage.awaitRefusal()
            stage.bench.settle()
            // In the body is the text of another request, which is none.
            let body = "GET /inside HTTP/1.1\r\nHost: localhost\r\n\r\n"
            try client.send(
                "\(String(body.utf8.count, radix: 16))\r\n\(body)\r\n0\r\n\r\nGET /next HTTP/1.1\r\nHost: localhost\r\n\r\n"
            )
            #expect(try client.response(to: "POST").status == 503)
            let late = try stage.accept()
            #expect(try late.reader.readRequest()?.target == "/next")
            try late.socket.send(Self.ok.utf8)
            #expect(try client.response().bodyText == "ok")
        }
    }

    @Test("a body that ends within a second of its refusal is sent whole with the new token", arguments: framings)
    func arrives(_ framing: String, _ first: String, _ second: String) async throws {
        let stage = try Stage()
        stage.bench.renews()
        try await stage.play { client, stage in
            try client.send(Self.head(framing))
            let early = try stage.accept()
            _ = try early.reader.readHead()
            try client.send(first)
            _ = try early.socket.receive(atLeast: 5)
            try early.socket.send(Self.refused.utf8)
            try stage.awaitRefusal()
            try client.send(second)
            let late = try stage.accept()
            let request = try #require(try late.reader.readRequest())
            #expect(request.bodyText == "1234567890" && request["Authorization"] == "Bearer token-2")
            try late.socket.send(Self.ok.utf8)
            let response = try client.response(to: "POST")
            #expect(response.status == 200 && response["Connection"] == nil)
            // The rejected upload's connection was out of step, the other one serves on.
            try client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(try late.reader.readRequest()?.method == "GET")
            try late.socket.send(Self.ok.utf8)
            #expect(try client.response().status == 200)
        }
    }

    @Test(
        "a body that has not ended after 1 s is late: the response passes, the upload continues", arguments: framings
    )
    func late(_ framing: String, _ first: String, _ second: String) async throws {
        let stage = try Stage { $0.timeStands = true }
        stage.bench.renews()
        try await stage.play { client, stage in
            try client.send(Self.head(framing))
            let (socket, reader) = try stage.accept()
            _ = try reader.readHead()
            try socket.send("HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nn".utf8)
            try stage.awaitRefusal()
            stage.bench.pass(.milliseconds(500))
            // A byte now and then does not prolong the wait.
            try client.send(first)
            try stage.bench.fence()
            stage.bench.pass(.milliseconds(500) - .nanoseconds(1))
            #expect(client.socket.receiveNow(max: 1) == nil)
            stage.bench.pass(.nanoseconds(1))
            let head = try #require(try client.reader.readHead())
            let text = String(decoding: head, as: UTF8.self)
            #expect(
                text.contains("Proxy-Status: \(Self.why("body late"))\r\n") && text.contains("Connection: close\r\n"))
            try client.send(second)
            // What came while the response was held was only kept; the upstream gets it all, in order.
            let wire = framing.contains("chunked") ? "5\r\n12345\r\n5\r\n67890\r\n0\r\n\r\n" : "1234567890"
            #expect(String(decoding: try reader.read(wire.utf8.count), as: UTF8.self) == wire)
            try socket.send("o".utf8)
            #expect(String(decoding: try client.readToEnd(), as: UTF8.self) == "no")
        }
        #expect(stage.bench.count("lanyard_replays", ["result": "body_late"]) == 1)
    }

    @Test("the time in which a client is not read for want of memory does not make its body late")
    func paused() async throws {
        let stage = try Stage { $0.timeStands = true }
        stage.bench.renews()
        let budget = stage.bench.path.buffers
        try await stage.play { client, stage in
            try client.send(Self.head("Content-Length: 10") + "12345")
            let (socket, reader) = try stage.accept()
            _ = try reader.readHead()
            try socket.send(Self.refused.utf8)
            try stage.awaitRefusal()
            budget.add(budget.bytesMax)
            try client.send("67890")
            stage.bench.pass(.zero)
            stage.bench.pass(.seconds(3))
            // Otherwise no other connection comes.
            try #require(client.socket.receiveNow(max: 1) == nil)
            budget.release(budget.bytesMax)
            stage.bench.pass(.milliseconds(10))
            let late = try stage.accept()
            let request = try #require(try late.reader.readRequest())
            #expect(request.bodyText == "1234567890" && request["Authorization"] == "Bearer token-2")
            try late.socket.send(Self.ok.utf8)
            #expect(try client.response(to: "POST").status == 200)
        }
        #expect(stage.bench.count("lanyard_replays", ["result": "body_late"]) == 0)
    }

    @Test(
        "a body that outgrows its copy while it is waited for is relayed to the upstream as it was", arguments: framings
    )
    func outgrows(_ framing: String, _ first: String, _ second: String) async throws {
        let isChunked = framing.contains("chunked")
        // With a length it is known from the start; only a chunked body can outgrow.
        let stage = try Stage { $0.route.replayBodyMax = isChunked ? 8 : 100 }
        stage.bench.renews()
        try await stage.play { client, stage in
            try client.send(Self.head(isChunked ? framing : "Content-Length: 101"))
            let (socket, reader) = try stage.accept()
            _ = try reader.readHead()
            try socket.send(Self.refused.utf8)
            if isChunked {
                try stage.awaitRefusal()
                try client.send(first)
                try stage.bench.fence()
                try client.send(second)
            }
            let response = try client.response(to: "POST")
            #expect(response.status == 401 && response["Proxy-Status"] == Self.why("body too large"))
            #expect(stage.bench.tokens.refused == [1])
            guard isChunked else { return }
            // The last piece was the one too large: the upstream never got it, so neither connection is in step.
            #expect(response["Connection"] == "close")
            #expect(try client.readToEnd().isEmpty)
            _ = try? reader.readToAnyEnd()
            stage.bench.settle()
            #expect(stage.bench.count("lanyard_upstream_connections") == 0)
        }
    }

    @Test("a refresh that fails while the body comes lets the upload continue where it stopped", arguments: framings)
    func resumed(_ framing: String, _ first: String, _ second: String) async throws {
        let stage = try Stage()
        try await stage.play { client, stage in
            try client.send(Self.head(framing))
            let (socket, reader) = try stage.accept()
            _ = try reader.readHead()
            try socket.send("HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nn".utf8)
            try stage.awaitRefusal()
            try client.send(first)
            try stage.bench.fence()
            stage.bench.path.publish(.none(.loginRequired), for: ProxyBench.user)
            let head = String(decoding: try #require(try client.reader.readHead()), as: UTF8.self)
            #expect(head.contains(Self.why("refresh failed")))
            try client.send(second)
            let wire = framing.contains("chunked") ? "5\r\n12345\r\n5\r\n67890\r\n0\r\n\r\n" : "1234567890"
            #expect(String(decoding: try reader.read(wire.utf8.count), as: UTF8.self) == wire)
            try socket.send("o".utf8)
            #expect(String(decoding: try client.readToEnd(), as: UTF8.self) == "no")
        }
    }

    @Test("a refusal in place of 100 is replayed with a body of any size, which then comes once")
    func continue100() async throws {
        let stage = try Stage()
        stage.bench.renews(after: .milliseconds(50))
        let body = [UInt8](repeating: 7, count: 300_000)
        try await stage.play { client, stage in
            try client.send(Self.head("Expect: 100-continue\r\nContent-Length: \(body.count)"))
            let first = try stage.accept()
            _ = try first.reader.readHead()
            try first.socket.send(Self.refused.utf8)
            let second = try stage.accept()
            let head = String(decoding: try #require(try second.reader.readHead()), as: UTF8.self)
            #expect(head.contains("Expect: 100-continue\r\n") && head.contains("Bearer token-2\r\n"))
            // The connection that awaits a body is gone.
            #expect(try first.reader.readToAnyEnd().bytes == [])
            try second.socket.send("HTTP/1.1 100 Continue\r\n\r\n".utf8)
            #expect(try client.reader.readResponse().status == 100)
            try client.send(body)
            #expect(try second.reader.read(body.count) == body)
            try second.socket.send(Self.ok.utf8)
            let response = try client.response(to: "POST")
            #expect(response.status == 200 && response["Connection"] == nil)
        }
    }

    @Test("a refusal in place of 100 that is not replayed reaches the client before any body")
    func continueRefused() async throws {
        let stage = try Stage()
        stage.bench.publish(generation: 1, renewal: .impossible)
        try await stage.play { client, stage in
            try client.send(Self.head("Expect: 100-continue\r\nContent-Length: 300000"))
            let (socket, reader) = try stage.accept()
            _ = try reader.readHead()
            try socket.send(Self.refused.utf8)
            let response = try client.reader.readResponse(to: "POST")
            #expect(response.status == 401 && response["Connection"] == "close")
            #expect(response["Proxy-Status"] == Self.why("refresh failed"))
        }
    }

    /// A request, the beginning of its refusal, and the replay: both connections that reached the upstream.
    private static func replay(_ client: RawClient, _ stage: Stage, _ refusal: String) throws -> (Peer, Peer) {
        try client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        let first = try stage.accept()
        _ = try first.reader.readRequest()
        try first.socket.send(refusal.utf8)
        let second = try stage.accept()
        _ = try second.reader.readRequest()
        return (first, second)
    }

    @Test("the rejected body is read to its end behind the replay, and its connection used again")
    func discarded() async throws {
        let stage = try Stage()
        stage.bench.renews()
        try await stage.play { client, stage in
            let (first, second) = try Self.replay(
                client, stage, "HTTP/1.1 401 No\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")
            try first.socket.send("cde\r\n0\r\n\r\n".utf8)
            try second.socket.send(Self.ok.utf8)
            #expect(try client.response().status == 200)
            try blockUntil("both connections are idle") {
                stage.bench.count("lanyard_upstream_connections", ["state": "idle"]) == 2
            }
        }
    }

    @Test(
        "a rejected body that is too long, or does not end within a second, costs its connection",
        arguments: [70_000, 10])
    func notDiscarded(_ size: Int) async throws {
        let stage = try Stage { $0.timeStands = true }
        stage.bench.renews()
        try await stage.play { client, stage in
            let (first, second) = try Self.replay(
                client, stage, "HTTP/1.1 401 No\r\nContent-Length: \(size + 1)\r\n\r\n")
            try first.socket.send([UInt8](repeating: 1, count: size))
            try second.socket.send(Self.ok.utf8)
            #expect(try client.response().status == 200)
            if size == 10 {
                stage.bench.pass(.seconds(1) - .nanoseconds(1))
                #expect(stage.bench.count("lanyard_upstream_connections", ["state": "open"]) == 2)
                stage.bench.pass(.nanoseconds(1))
            }
            #expect(try first.reader.readToAnyEnd().bytes == [])
            stage.bench.settle()
            #expect(stage.bench.count("lanyard_upstream_connections", ["state": "open"]) == 1)
        }
    }

    @Test("a client that goes while its response is held takes everything with it")
    func clientGone() async throws {
        let stage = try Stage { $0.tokenWaitMax = .seconds(20) }
        try await stage.play { client, stage in
            try client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            let (socket, reader) = try stage.accept()
            _ = try reader.readRequest()
            try socket.send(Self.refused.utf8)
            try stage.awaitHeldResponse()
            client.reset()
            #expect(try reader.readToAnyEnd().bytes == [])
            stage.bench.settle()
            #expect(stage.bench.count("lanyard_parked_requests") == 0)
            #expect(stage.bench.count("lanyard_upstream_connections") == 0)
            stage.bench.publish(generation: 2, token: "token-2")
        }
    }

    @Test("a drain lets a held response become a replay, which closes the connection")
    func drain() async throws {
        let stage = try Stage { $0.tokenWaitMax = .seconds(20) }
        try await stage.play { client, stage in
            try client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            let (socket, reader) = try stage.accept()
            _ = try reader.readRequest()
            try socket.send(Self.refused.utf8)
            try stage.awaitHeldResponse()
            stage.bench.drain()
            stage.bench.publish(generation: 2, token: "token-2")
            #expect(try reader.readRequest()?["Authorization"] == "Bearer token-2")
            try socket.send(Self.ok.utf8)
            let response = try client.response()
            #expect(response.status == 200 && response["Connection"] == "close")
        }
    }

    @Test(
        "an upstream that ends while its response is held: the replay takes another connection, a relayed response is cut as it was"
    )
    func upstreamEnds() async throws {
        for renews in [true, false] {
            let stage = try Stage { $0.tokenWaitMax = .seconds(20) }
            try await stage.play { client, stage in
                try client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                let (socket, reader) = try stage.accept()
                _ = try reader.readRequest()
                try socket.send("HTTP/1.1 401 No\r\nContent-Length: 9\r\n\r\nhalf".utf8)
                try stage.awaitHeldResponse()
                socket.close()
                try stage.bench.fence()
                if renews {
                    stage.bench.publish(generation: 2, token: "token-2")
                    let second = try stage.accept()
                    _ = try second.reader.readRequest()
                    try second.socket.send(Self.ok.utf8)
                    #expect(try client.response().status == 200)
                } else {
                    stage.bench.path.publish(.none(.loginRequired), for: ProxyBench.user)
                    let head = String(decoding: try #require(try client.reader.readHead()), as: UTF8.self)
                    #expect(head.hasPrefix("HTTP/1.1 401 No\r\n"))
                    #expect(String(decoding: try client.reader.readToAnyEnd().bytes, as: UTF8.self) == "half")
                }
            }
        }
    }

    @Test("a stale connection costs a held PUT one more sending; three sendings at most")
    func stale() async throws {
        let stage = try Stage()
        stage.bench.renews()
        try await stage.play { client, stage in
            try client.send("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody")
            let first = try stage.accept()
            _ = try first.reader.readRequest()
            try first.socket.send(Self.refused.utf8)
            // The replay comes on the same connection, which ends without a byte.
            #expect(try first.reader.readRequest()?.bodyText == "body")
            first.socket.close()
            let third = try stage.accept()
            let request = try #require(try third.reader.readRequest())
            #expect(request.bodyText == "body" && request["Authorization"] == "Bearer token-2")
            third.socket.close()
            #expect(try client.response(to: "PUT").status == 502)
        }
        #expect(stage.bench.count("lanyard_replays", ["result": "replayed"]) == 1)
    }
}
