import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import TestSupport
import Testing

/// What a crowd, a greedy peer and slow readers may have (http-connections.md 8, 20.5).
@Suite struct ProxyLimitTests {
    private static let get = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

    private static func bytesHeld(_ bench: ProxyBench) -> Int { bench.count("lanyard_buffer_bytes") }

    @Test("clients that are turned away linger in a bounded number, and each is told why")
    func turnedAway() async throws {
        let bench = try ProxyBench { _ in
            RawResponse([])
        } plan: {
            $0.limits.connectionsMax = 1
        }
        let busy = try RawClient(bench.endpoint)
        try busy.send(Self.get)
        try bench.awaitRequests(1)
        let crowd = try (0..<200).map { _ in try RawClient(bench.endpoint) }
        try await eventually("all are refused") {
            bench.count("lanyard_rejected_requests", ["reason": "limit"]) == crowd.count
        }
        // The last refused client is counted first and let go later in the same turn.
        bench.settle()
        #expect(bench.path.shards[0].load.value <= 1 + 64)
        for client in crowd { #expect(try client.response().status == 503) }
        busy.reset()
    }

    @Test("one peer address has its own limit of connections, which leaves room for the others")
    func perPeer() async throws {
        let bench = try ProxyBench(plan: { $0.limits.connectionsPerPeerMax = 2 })
        do {
            let own = try [RawClient(bench.endpoint), RawClient(bench.endpoint)]
            for client in own { #expect(try client.exchange("GET", "/").status == 200) }
            let third = try RawClient(bench.endpoint)
            let refused = try third.response()
            #expect(refused.status == 503)
            #expect(refused["Retry-After"] == "1")
            #expect(try refused.json["type"].string == "urn:lanyard:problem:overloaded")
            #expect(try third.readToEnd() == [])
            let other = try RawClient(bench.endpoint, from: 2)
            #expect(try other.exchange("GET", "/").status == 200)
            own[0].close()
            try blockUntil("the closed connection is gone") { bench.path.shards[0].load.value <= 3 }
            #expect(try RawClient(bench.endpoint).exchange("GET", "/").status == 200)
        }
        #expect(bench.count("lanyard_rejected_requests", ["reason": "limit"]) == 1)
    }

    @Test("slow readers cannot take more memory than the budget; who comes then gets 503, and all recovers")
    func slowReaders() async throws {
        let folder = try TemporaryFolder()
        let (bytesMax, size) = (1 << 20, 1 << 20)
        let bench = try ProxyBench(at: .unix(folder.file("up.sock"))) { _ in
            .large(size)
        } plan: {
            $0.listener = ListenerSettings(address: .unix(path: folder.file("in.sock")))
            $0.limits.bufferBytesMax = bytesMax
            $0.shards = 2
        }
        // What others hold, so that even those who stand still with one small portion each are too many.
        let budget = bench.path.buffers
        budget.add(bytesMax / 8 * 5)
        let crowd = try (0..<150).map { _ in try RawClient(bench.endpoint) }
        let peak = Tally()
        for client in crowd {
            try client.send(Self.get)
            peak.raise(to: Self.bytesHeld(bench))
        }
        try await eventually("further clients are refused") {
            peak.raise(to: Self.bytesHeld(bench))
            return bench.count("lanyard_requests", ["origin": "lanyard", "code_class": "5xx"]) > 0
        }
        // One read of each shard may be on its way in when the limit is met, and a queue's memory doubles.
        #expect(peak.value <= bytesMax + 2 * (128 << 10), "\(peak.value)")
        #expect(peak.value > bytesMax / 2)
        let served = try { () throws -> Int in
            try crowd.count { client in
                let response = try client.response()
                peak.raise(to: Self.bytesHeld(bench))
                if response.status == 200 {
                    #expect(response.bodyCount == size)
                    return true
                }
                #expect(response.status == 503)
                #expect(response["Retry-After"] == "1")
                #expect(try response.json["type"].string == "urn:lanyard:problem:overloaded")
                return false
            }
        }()
        #expect(served >= 6)
        budget.release(bytesMax / 8 * 5)
        #expect(peak.value <= bytesMax + 2 * (128 << 10), "\(peak.value)")
        #expect(try await bench.ask(Self.get).status == 200)
        #expect(Self.bytesHeld(bench) <= bytesMax * 3 / 4)
    }

    @Test("without memory for buffers reading pauses, new requests get 503, and all continues when there is some again")
    func exhausted() async throws {
        let go = Milestone()
        let bench = try ProxyBench { request in
            guard request.message.target == "/slow" else { return .response() }
            go.wait(for: "there is no memory left")
            return .response(body: "late")
        }
        let budget = bench.path.buffers
        let (waiting, uploading) = (try RawClient(bench.endpoint), try RawClient(bench.endpoint))
        try waiting.send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try uploading.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\npart")
        try blockUntil("both requests have come") {
            bench.received.contains { $0.hasSuffix("part") } && !bench.upstream.requests.isEmpty
        }
        budget.add(budget.bytesMax)
        go.set()
        try uploading.send("rest")
        for text in [Self.get, "GET / HT"] {
            let client = try RawClient(bench.endpoint)
            try client.send(text)
            #expect(try client.response().status == 503)
        }
        #expect(!waiting.hasInput && bench.upstream.requests.count == 1)
        budget.release(budget.bytesMax)
        #expect(try waiting.response().bodyText == "late")
        #expect(try uploading.response().status == 200)
        #expect(try waiting.exchange("GET", "/").status == 200)
    }
}
