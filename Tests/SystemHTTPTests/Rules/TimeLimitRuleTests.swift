import Glibc
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// http-rules.md 8: times, by short settings of their keys.
@Suite(.serialized) struct TimeLimitRuleTests {
    /// So many milliseconds, by a test's own clock and in a configuration.
    private static func ms(_ count: Int) -> Duration { .milliseconds(count * Sanitizer.stretch) }
    private static func key(_ count: Int) -> String { "\(count * Sanitizer.stretch)ms" }

    private static let times =
        "connect: \(key(400)), response_header: \(key(1500)), request_idle: \(key(1500)), write: \(key(1500))"
    private static let shared = Task {
        // A listener whose queue is full: the kernel drops what else wants to connect.
        let full = try RawSocket.listen(at: .tcp(0), backlog: 0)
        let queued = try (0..<1).map { _ in try RawSocket.connect(to: .tcp(full.localPort)) }
        let bench = try await HTTPBench.start {
            $0.limits = "header_timeout: \(key(3000)), idle_timeout: \(key(3000))"
            $0.route = "timeouts: {\(times), response_idle: \(key(1500))}"
            $0.routes = """
                {name: endless, match: {path: /endless}, upstream: "UP", timeouts: {\(times), response_idle: 0s}},
                {name: full, match: {path: /full}, upstream: "http://127.0.0.1:\(full.localPort)", timeouts: {\(times)}},
                {name: full-all, match: {path: /full/all}, upstream: "http://127.0.0.1:\(full.localPort)",
                 timeouts: {connect_all: \(key(400))}},
                """
        }
        return (bench, full, queued)
    }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value.0
        try await bench.startOver()
    }

    /// At least so many milliseconds, and not for ever. What begins the time in the proxy lies within `body`: begun before, it would seem
    /// shorter than it was.
    private func lasts(
        _ least: Int, _ name: Comment? = nil, sourceLocation: SourceLocation = #_sourceLocation,
        _ body: () async throws -> Void
    ) async throws {
        let start = ContinuousClock.now
        try await body()
        let time = ContinuousClock.now - start
        #expect(time >= Self.ms(least) - .milliseconds(20), name, sourceLocation: sourceLocation)
        #expect(time < Self.ms(least + 5000), name, sourceLocation: sourceLocation)
    }

    private func post(_ path: String, _ framing: String) -> String {
        "POST \(path) HTTP/1.1\r\nHost: localhost\r\n\(framing)\r\n\r\n"
    }

    // MARK: Clients

    @Test("8 A head that is not whole in header_timeout gets 408 and the end; without a byte, just the end")
    func headerTimeout() async throws {
        for start in ["G", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: localhost\r\nA: 1\r\n"] {
            try await lasts(3000) { try await bench.refuses(start, .timeout, behind: false) }
        }
        try await lasts(3000) {
            let rest = try await bench.connect().rest()
            #expect(rest == ("", false))
        }
        // Behind another request the time runs from the first byte.
        let kept = try await bench.connect()
        #expect(try await kept.ask(HTTPBench.plain("/")).status == 200)
        try await Task.sleep(for: .milliseconds(300))
        try await lasts(3000) {
            try await kept.send("GET ")
            let response = try await kept.response()
            #expect(try Refusal.timeout.faults(of: response) == [])
            #expect(try await kept.rest() == ("", false))
        }
    }

    @Test("8.1 Drips do not prolong a head's time")
    func drips() async throws {
        let client = try await bench.connect()
        for byte in HTTPBench.plain("/drips/drips/drips") {
            // Once refused, the connection may be gone before the last drip.
            guard (try? await client.send(String(byte))) != nil else { break }
            try await Task.sleep(for: Self.ms(70))
        }
        let response = try await client.response()
        #expect(try Refusal.timeout.faults(of: response) == [])
        #expect(bench.received == [])
    }

    @Test("8 An idle kept connection is closed after idle_timeout without a response")
    func idle() async throws {
        let client = try await bench.connect()
        try await lasts(3000) {
            #expect(try await client.ask(HTTPBench.plain("/")).status == 200)
            let rest = try await client.rest()
            #expect(rest == ("", false))
        }
    }

    @Test("8 A request body without a byte for request_idle gets 408, and the upstream is aborted")
    func requestIdle() async throws {
        for text in [
            post("/cut", "Content-Length: 5") + "abc", post("/cut", "Content-Length: 5"),
            post("/cut", "Transfer-Encoding: chunked") + "3\r\nabc\r\n",
            post("/cut", "Transfer-Encoding: chunked") + "3\r\na",
            post("/cut", "Transfer-Encoding: chunked") + "1\r\na\r\n0\r\n",
        ] {
            try await lasts(1500) { try await bench.cuts(text, .timeout) }
        }
    }

    @Test("9.6 An upload that stands still does not cut an early response, nor a response its upload")
    func earlyResponse() async throws {
        let client = try await bench.connect()
        try await client.send(post("/hand", "Content-Length: 4") + "ab")
        let peer = try await bench.accept()
        _ = try await peer.head()
        try await peer.send("HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n")
        #expect(try await client.head().contains("\r\nConnection: close\r\n"))
        // Four times request_idle in all; the response moves within its own limit.
        try await peer.send(Array(repeating: "x", count: 16), to: client, every: Self.ms(375))
        #expect(try await client.rest() == ("", false))
        #expect(try await peer.rest().text == "ab")
    }

    @Test("8.2 What keeps moving, however slowly, is never cut, whatever its whole time")
    func slowButMoving() async throws {
        let client = try await bench.connect()
        try await client.send(post("/hand", "Content-Length: 24"))
        let peer = try await bench.accept()
        _ = try await peer.head()
        let numbers = (10..<22).map { "\($0)" }
        try await client.send(numbers, to: peer, every: .milliseconds(150))
        try await peer.send("HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\n")
        #expect(try await client.head().hasPrefix("HTTP/1.1 200"))
        try await peer.send(numbers, to: client, every: .milliseconds(150))
        #expect(try await client.ask(HTTPBench.plain("/next")).status == 200)
    }

    @Test("8 A client that takes no byte for write is aborted, and the upstream with it")
    func clientTakesNothing() async throws {
        let size = 64 << 20
        bench.script { _ in .large(size) }
        let client = try await bench.connect()
        try await client.send(HTTPBench.plain("/large"))
        try await eventually("the upstream connection has ended") {
            bench.upstream.records.contains { $0.ended && $0.requests.last?.target == "/large" }
        }
        #expect(try await client.rest().text.utf8.count < size)
    }

    // MARK: Upstreams

    @Test("8 An upstream that takes no byte for write, before any response: 504 connection_write_timeout")
    func upstreamTakesNothing() async throws {
        let client = try await bench.connect()
        try await client.send(post("/hand", "Content-Length: 90000000"))
        let peer = try await bench.accept()
        let upload = Task { try? await client.send([UInt8](repeating: 0x61, count: 60_000_000)) }
        let response = try await client.response()
        let refusal = Refusal(status: 504, type: "upstream-timeout", error: "connection_write_timeout")
        #expect(try refusal.faults(of: response) == [])
        client.reset()
        await upload.value
        _ = try await peer.rest()
    }

    @Test("8 Connecting takes at most connect for one address and connect_all for all: 504 connection_timeout")
    func connect() async throws {
        let refusal = Refusal(status: 504, type: "upstream-timeout", error: "connection_timeout", closes: false)
        for path in ["/full", "/full/all"] {
            try await lasts(400, Comment(rawValue: path)) {
                let client = try await bench.connect()
                let response = try await client.ask(HTTPBench.plain(path))
                #expect(try refusal.faults(of: response) == [])
                #expect(try await client.ask(HTTPBench.plain("/")).status == 200)
            }
        }
    }

    @Test(
        "8 A response head that is not whole response_header after the request's last byte: 504, the connection dropped"
    )
    func responseHeader() async throws {
        for start in ["", "HTTP/1.1 200 OK\r\nA: 1\r\n"] {
            try await lasts(1500) { try await bench.drops(start, .upstreamTimeout) }
        }
        // Drips do not prolong it.
        let client = try await bench.connect()
        try await client.send(HTTPBench.plain("/hand"))
        let peer = try await bench.accept()
        _ = try await peer.head()
        for byte in "HTTP/1.1 200 OK\r\nA: slowly\r\n" {
            guard (try? await peer.send(String(byte))) != nil else { break }
            try await Task.sleep(for: .milliseconds(80))
        }
        let response = try await client.response()
        #expect(try Refusal.upstreamTimeout.faults(of: response) == [])
    }

    @Test("8 A response body without a byte for response_idle is aborted; 0 is no limit")
    func responseIdle() async throws {
        let old = "GET /hand HTTP/1.0\r\nHost: localhost\r\n\r\n"
        for (head, isReset) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", false),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", false),
            ("HTTP/1.1 200 OK\r\n\r\nabc", false),
            ("HTTP/1.1 200 OK\r\n\r\nabc", true),
        ] {
            try await lasts(1500) {
                if isReset {
                    try await bench.aborts(head, "", isReset: true, request: old)
                } else {
                    try await bench.aborts(head, "")
                }
            }
        }
        bench.script { _ in
            RawResponse([
                .send(Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na".utf8)), .pause(Self.ms(2500)),
                .send(Array("b".utf8)),
            ])
        }
        let client = try await bench.connect()
        #expect(try await client.ask(HTTPBench.plain("/endless")).bodyText == "ab")
    }

    @Test("8 An idle pooled connection is closed a second before its Keep-Alive: timeout")
    func keepAlive() async throws {
        for (field, least) in [("timeout=2", 1), ("max=5, timeout=2", 1), ("timeout=1", 0), ("timeout=0", 0)] {
            let client = try await bench.connect()
            try await client.send(HTTPBench.plain("/hand"))
            let peer = try await bench.accept()
            _ = try await peer.head()
            try await lasts(least * 1000 / Sanitizer.stretch, Comment(rawValue: field)) {
                try await peer.send("HTTP/1.1 200 OK\r\nKeep-Alive: \(field)\r\nContent-Length: 0\r\n\r\n")
                #expect(try await client.response()["Keep-Alive"] == nil)
                #expect(try await peer.rest() == ("", false))
            }
        }
    }

    @Test("8 Requests over connections_max of a route wait in order; after connect they get 503 overloaded")
    func connectionsMax() async throws {
        let bench = try await HTTPBench.start {
            // The order is that of one shard's pool, which reuses the one connection.
            $0.shards = 1
            $0.routes =
                "{name: one, match: {path: /one}, upstream: \"UP\", connections_max: 1, timeouts: {\(Self.times)}},"
        }
        bench.script { request in
            .response(body: request.message.target).after(request.message.target == "/one/0" ? Self.ms(200) : .zero)
        }
        var clients: [Wire] = []
        for _ in 0..<4 { clients.append(try await bench.connect()) }
        for (number, client) in clients.enumerated() {
            try await client.send(HTTPBench.plain("/one/\(number)"))
            try await eventually("it has its place") {
                number == 0
                    ? bench.upstream.requests.contains { $0.target == "/one/0" } || !bench.received.isEmpty
                    : try await bench.values(of: "lanyard_parked_requests")[""] == number
                        || bench.received.joined().contains("/one/\(number)")
            }
        }
        for (number, client) in clients.enumerated() {
            #expect(try await client.response().bodyText == "/one/\(number)")
        }
        let order = bench.received.joined().matches(of: #/GET \/one\/(\d)/#).map(\.1)
        #expect(order == ["0", "1", "2", "3"])
        #expect(bench.received.count == 1)
        try await bench.startOver()
        bench.script { _ in RawResponse.response().after(Self.ms(800)) }
        let overloaded = Refusal(
            status: 503, type: "overloaded", error: "connection_limit_reached", closes: false, hasRetryAfter: true)
        try await clients[0].send(HTTPBench.plain("/one/slow"))
        try await eventually("it is under way") { !bench.received.isEmpty }
        let start = ContinuousClock.now
        let response = try await clients[1].ask(HTTPBench.plain("/one/late"))
        #expect(try overloaded.faults(of: response) == [])
        #expect(ContinuousClock.now - start >= Self.ms(400) - .milliseconds(20))
        #expect(try await clients[0].response().status == 200)
        #expect(!bench.received.joined().contains("late"))
    }

    @Test("8 A place under connections_max that becomes free on one shard goes to a request that waits on another")
    func connectionsMaxOfAllShards() async throws {
        let own = try await HTTPBench.start {
            $0.shards = 2
            $0.route = "connections_max: 1, timeouts: {connect: 20s}"
        }
        let most = Tally()
        let now = Guarded(0)
        own.script { request in
            most.raise(
                to: now.withLock {
                    $0 += 1
                    return $0
                })
            usleep(20_000)
            now.withLock { $0 -= 1 }
            return .response(body: request.message.target)
        }
        // Clients spread over the shards, so that some of each wait.
        var clients: [Wire] = []
        for _ in 0..<16 { clients.append(try await own.connect()) }
        for round in 0..<3 {
            for (number, client) in clients.enumerated() {
                try await client.send(HTTPBench.plain("/\(round)/\(number)"))
            }
            for (number, client) in clients.enumerated() {
                #expect(try await client.response().bodyText == "/\(round)/\(number)")
            }
        }
        #expect(most.value == 1)
        #expect(try await own.values(of: "lanyard_parked_requests")[""] == 0)
    }

    @Test("8 A request that waits for a place of another shard is woken though nothing else comes")
    func connectionsMaxInSilence() async throws {
        let own = try await HTTPBench.start {
            $0.shards = 3
            $0.route = "connections_max: 1, timeouts: {connect: 20s}"
        }
        own.script { _ in .text("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok") }
        var clients: [Wire] = []
        for _ in 0..<3 { clients.append(try await own.connect()) }
        for round in 0..<200 {
            let start = ContinuousClock.now
            for client in clients { try await client.send(HTTPBench.plain("/\(round)")) }
            for client in clients { #expect(try await client.response().status == 200) }
            #expect(start.duration(to: .now) < .seconds(5 * Sanitizer.stretch))
        }
        #expect(try await own.values(of: "lanyard_parked_requests")[""] == 0)
    }
}
