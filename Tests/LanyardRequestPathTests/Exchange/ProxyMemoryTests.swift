import Glibc
import LanyardRequestPath
import LanyardSettings
import TestSupport
import Testing

/// What is counted against `buffer_bytes_max`, and what follows where there is no more (http-connections.md 8).
@Suite struct ProxyMemoryTests {
    private static let get = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    private static let refused = RawResponse.response(401, "Unauthorized", body: "no")

    private static func bytesHeld(_ bench: ProxyBench) -> Int { bench.count("lanyard_buffer_bytes") }

    private static func post(_ body: String) -> String {
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
    }

    @Test("an upstream whose bytes wait unread for want of memory is not blamed for silence")
    func pauseIsNoSilence() async throws {
        let tunnels = try TunnelBench(isUnix: true) {
            $0.upstream.timeouts.responseHeader = .seconds(1)
            $0.upstream.timeouts.responseIdle = .seconds(1)
            $0.timeStands = true
        }
        let (bench, budget) = (tunnels.bench, tunnels.bench.path.buffers)
        let (head, body) = (try RawClient(bench.endpoint), try RawClient(bench.endpoint))
        try body.send(Self.get)
        let ofBody = try tunnels.accept()
        _ = try ofBody.head()
        try ofBody.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhe")
        _ = try body.reader.readHead()
        #expect(try body.read(2) == Array("he".utf8))
        try head.send(Self.get)
        let ofHead = try tunnels.accept()
        _ = try ofHead.head()
        budget.add(budget.bytesMax)
        try ofBody.send("re")
        try ofHead.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate")
        bench.pass(.seconds(2.5))
        budget.release(budget.bytesMax)
        // The proxy looks for memory every 10 ms.
        bench.pass(.milliseconds(10))
        #expect(try head.response().bodyText == "late")
        #expect(try body.read(2) == Array("re".utf8))
        for client in [head, body] {
            try client.send(Self.get)
            var next: TunnelBench.End?
            try blockUntil("one of the connections has the request") {
                next = [ofHead, ofBody].first { $0.socket.receiveNow(max: 4096) != nil }
                return next != nil
            }
            try next?.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            #expect(try client.response().status == 200)
        }
    }

    @Test("the exchange of a connection that has closed, which the next client gets, keeps no memory of an upload")
    func keptExchanges() async throws {
        let tunnels = try TunnelBench()
        let bench = tunnels.bench
        func upload() throws -> RawClient {
            let client = try RawClient(bench.endpoint)
            try client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n")
            try client.send(String(repeating: "x", count: 50_000))
            return client
        }
        let before = Self.bytesHeld(bench)
        for _ in 0..<2 {
            let client = try upload()
            let upstream = try tunnels.accept()
            _ = try upstream.head()
            try blockUntil("a copy is kept") { Self.bytesHeld(bench) > before + 30_000 }
            client.reset()
            try blockUntil("the client has left") { bench.count("lanyard_client_connections") == 0 }
            // A shard keeps the buffer of a head for the next one.
            #expect(Self.bytesHeld(bench) <= before + 20_000)
        }
    }

    @Test("copies of bodies go first when memory is tight, but not one that a replay in the making needs")
    func copies() async throws {
        let go = Milestone()
        let bench = try ProxyBench { request in
            guard request.message["Authorization"] != "Bearer token-2" else {
                return .response(body: "\(request.message.bodyCount)")
            }
            if request.message.bodyText.hasPrefix("w") { go.wait(for: "the copy has been given up") }
            return Self.refused
        } plan: {
            $0.tokenWaitMax = .seconds(20)
        }
        let budget = bench.path.buffers
        let amount = budget.bytesMax / 4 * 3
        do {
            let (waiting, held) = (try RawClient(bench.endpoint), try RawClient(bench.endpoint))
            // One whose response has not come, one whose response is held until the token is renewed.
            try waiting.send(Self.post(String(repeating: "w", count: 40_000)))
            try held.send(Self.post(String(repeating: "h", count: 40_000)))
            try bench.awaitRequests(2)
            try blockUntil("its answer is held") { bench.count("lanyard_parked_requests") > 0 }
            // Each has 16 KiB in the request's buffer and a block of 32 KiB.
            let before = Self.bytesHeld(bench)
            #expect(before >= 96 << 10)
            budget.add(amount)
            bench.settle()
            bench.settle()
            #expect(before + amount - Self.bytesHeld(bench) == 32 << 10)
            go.set()
            let lost = try waiting.response(to: "POST")
            #expect(lost.status == 401)
            #expect(
                lost["Proxy-Status"]
                    == "lanyard; received-status=401; details=\"replay-not-possible: body too large\"")
            bench.publish(generation: 2, token: "token-2")
            let response = try held.response(to: "POST")
            #expect(response.status == 200 && response.bodyText == "40000")
            // While memory is tight no copy is made; the request still goes through.
            let other = try waiting.exchange("POST", "/", body: [UInt8](repeating: 7, count: 40_000))
            #expect(other.status == 200)
            budget.release(amount)
        }
        #expect(Self.bytesHeld(bench) < 100_000)
    }

    @Test("a response that is held, and a trailer section that is not whole, are counted and given back")
    func counted() async throws {
        let bench = try ProxyBench { request in
            if request.message["Authorization"] == "Bearer token-2" { return .response(body: "ok") }
            return .response(401, "Unauthorized", body: String(repeating: "n", count: 50_000))
        } plan: {
            $0.tokenWaitMax = .seconds(20)
        }
        let isCounted = Milestone()
        defer { isCounted.set() }
        let trailers = try ProxyBench { request in
            guard request.message.target == "/trailers" else { return .response(body: "ok") }
            return RawResponse([
                .send(Array("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n".utf8)),
                .send(Array("X-Sum: \(String(repeating: "t", count: 12_000))".utf8)),
                .perform { isCounted.wait(for: "the trailer section is counted") }, .send(Array("\r\n\r\n".utf8)),
            ])
        }
        let client = try RawClient(bench.endpoint)
        #expect(try RawClient(trailers.endpoint).exchange("GET", "/").status == 200)
        let rest = Self.bytesHeld(bench)
        try client.send(Self.get)
        try blockUntil("its answer is held") { bench.count("lanyard_parked_requests") > 0 }
        // As much of it as has come; the rest waits in the kernel.
        #expect(Self.bytesHeld(bench) > rest)
        bench.publish(generation: 2, token: "token-2")
        #expect(try client.response().bodyText == "ok")
        #expect(Self.bytesHeld(bench) <= rest + (16 << 10))
        let asking = try RawClient(trailers.endpoint)
        let idle = Self.bytesHeld(trailers)
        try asking.send(
            "GET /trailers HTTP/1.1\r\nHost: localhost\r\nTE: trailers\r\nConnection: TE\r\n\r\n")
        try blockUntil("the trailer section is counted") { Self.bytesHeld(trailers) >= idle + 12_000 }
        isCounted.set()
        _ = try asking.reader.readHead()
        #expect(String(decoding: try asking.read(6), as: UTF8.self) == "1\r\na\r\n")
        let section = try asking.read(3 + 7 + 12_000 + 4)
        #expect(section.suffix(5) == Array("t\r\n\r\n".utf8))
        #expect(try asking.exchange("GET", "/").status == 200)
        #expect(Self.bytesHeld(trailers) <= idle + (16 << 10))
    }

    @Test("parts of heads and of trailer sections are given up when memory is crowded, the largest first")
    func partialHeads() async throws {
        let bench = try ProxyBench { request in
            switch request.message.target {
            case "/large":
                .text(
                    "HTTP/1.1 200 OK\r\n"
                        + String(repeating: "A: \(String(repeating: "b", count: 25_000))\r\n", count: 4))
            case "/small": .text("HTTP/1.1 200 OK\r\nA")
            case "/trailers":
                .text(
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: \(String(repeating: "t", count: 12_000))"
                )
            default: .response()
            }
        } plan: {
            $0.limits.bufferBytesMax = 1 << 20
        }
        let budget = bench.path.buffers
        let crowd = 7 << 17
        try {
            func begin(_ text: String, holds bytes: Int) throws -> RawClient {
                let client = try RawClient(bench.endpoint)
                // While a queue grows, its old and its new memory count: only between two turns of the loop the figure is what is held.
                func held() -> Int {
                    bench.settle()
                    return Self.bytesHeld(bench)
                }
                let before = held()
                try client.send(text)
                try blockUntil("\(bytes) bytes are held") { held() >= before + bytes }
                return client
            }
            func ask(_ path: String) -> String {
                "GET \(path) HTTP/1.1\r\nHost: localhost\r\nTE: trailers\r\nConnection: TE\r\n\r\n"
            }
            let half = try begin("GET / HTTP/1.1\r\nHost: local", holds: 16 << 10)
            let small = try begin(ask("/small"), holds: 20 << 10)
            let large = try (0..<2).map { _ in try begin(ask("/large"), holds: 128 << 10) }
            let trailers = try begin(ask("/trailers"), holds: 12_000)
            _ = try trailers.reader.readHead()
            #expect(String(decoding: try trailers.read(6), as: UTF8.self) == "1\r\na\r\n")
            // One of the large ones would not do.
            let first = crowd + (64 << 10) - Self.bytesHeld(bench)
            budget.add(first)
            for client in large {
                let response = try client.response()
                #expect(response.status == 503)
                #expect(try response.json["type"].string == "urn:lanyard:problem:overloaded")
                #expect(response["Connection"] == nil)
            }
            bench.settle()
            #expect(!budget.isUnder(.optionalFreed))
            let second = crowd + 1 - Self.bytesHeld(bench)
            budget.add(second)
            #expect(try trailers.readToEnd() == [])
            for client in [half, small] { #expect(try client.response().status == 503) }
            // Nor does what comes now find any.
            budget.add(budget.bytesMax)
            for text in [ask("/large"), "GET / HT"] {
                let client = try RawClient(bench.endpoint)
                try client.send(text)
                #expect(try client.response().status == 503)
            }
            budget.release(first + second + budget.bytesMax)
            for client in large { #expect(try client.exchange("GET", "/").status == 200) }
            #expect(try small.exchange("GET", "/").status == 200)
        }()
    }
}
