import Glibc
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// http-connections.md 8: times, by settings of a minute and a clock that passes it.
@Suite(.serialized) struct TimeLimitRuleTests {
    private static let minute = Duration.seconds(60)
    private static let times = "connect: 30s, response_header: 60s, request_idle: 60s, write: 60s"
    private static let shared = Task {
        // A listener whose queue is full: the kernel drops what else wants to connect.
        let full = try RawSocket.listen(at: .tcp(0), backlog: 0)
        let queued = try (0..<1).map { _ in try RawSocket.connect(to: .tcp(full.localPort)) }
        let (bench, clock) = try await HTTPBench.startUnderClock {
            $0.limits = "header_timeout: 60s, idle_timeout: 600s"
            $0.route = "timeouts: {\(times), response_idle: 60s}"
            $0.routes = """
                {name: endless, match: {path: /endless}, upstream: "UP", timeouts: {\(times), response_idle: 0s}},
                {name: full, match: {path: /full}, upstream: "http://127.0.0.1:\(full.localPort)",
                 timeouts: {connect: 30s, connect_all: 1h}},
                {name: full-all, match: {path: /full/all}, upstream: "http://127.0.0.1:\(full.localPort)",
                 timeouts: {connect: 1h, connect_all: 30s}},
                """
        }
        return (bench, clock, full, queued)
    }
    private let bench: HTTPBench
    private let clock: TestClock

    init() async throws {
        (bench, clock, _, _) = try await Self.shared.value
        try await bench.startOver()
    }

    private func post(_ path: String, _ framing: String) -> String {
        "POST \(path) HTTP/1.1\r\nHost: localhost\r\n\(framing)\r\n\r\n"
    }

    /// Sends each text on one connection, 50 s after the one before, and reads it at the other one's end.
    private func send(_ texts: [String], on sender: Wire, to receiver: Wire) async throws {
        for text in texts {
            try await clock.pass(.seconds(50))
            try await sender.send(text)
            #expect(try await receiver.read(text.utf8.count) == text)
        }
    }

    // MARK: Clients

    @Test("8 A head that is not whole in header_timeout gets 408 and the end; without a byte, just the end")
    func headerTimeout() async throws {
        for start in ["G", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: localhost\r\nA: 1\r\n"] {
            try await bench.refuses(start, .timeout, behind: false, after: Self.minute)
        }
        let silent = try await bench.connect()
        try await bench.pass(Self.minute, sparing: silent)
        #expect(try await silent.rest() == ("", false))
        // Behind another request the time runs from the first byte.
        let kept = try await bench.connect()
        #expect(try await kept.ask(HTTPBench.plain("/")).status == 200)
        try await clock.pass(.seconds(20))
        try await kept.send("GET ")
        try await bench.pass(Self.minute, sparing: kept)
        let response = try await kept.response()
        #expect(try Refusal.timeout.faults(of: response) == [])
        #expect(try await kept.rest() == ("", false))
    }

    @Test("8.1 Drips do not prolong a head's time")
    func drips() async throws {
        let client = try await bench.connect()
        for byte in "GET /" {
            try await client.send(String(byte))
            try await clock.pass(.seconds(11))
        }
        #expect(!client.hasInput)
        try await client.send("d")
        try await clock.pass(.seconds(6))
        let response = try await client.response()
        #expect(try Refusal.timeout.faults(of: response) == [])
        #expect(bench.received == [])
    }

    @Test("8 An idle kept connection is closed after idle_timeout without a response")
    func idle() async throws {
        let client = try await bench.connect()
        #expect(try await client.ask(HTTPBench.plain("/")).status == 200)
        try await bench.pass(.seconds(600), sparing: client)
        #expect(try await client.rest() == ("", false))
    }

    @Test("8 A request body without a byte for request_idle gets 408, and the upstream is aborted")
    func requestIdle() async throws {
        for text in [
            post("/cut", "Content-Length: 5") + "abc", post("/cut", "Content-Length: 5"),
            post("/cut", "Transfer-Encoding: chunked") + "3\r\nabc\r\n",
            post("/cut", "Transfer-Encoding: chunked") + "3\r\na",
            post("/cut", "Transfer-Encoding: chunked") + "1\r\na\r\n0\r\n",
        ] {
            try await bench.cuts(text, .timeout, after: Self.minute)
        }
    }

    @Test("9.6 An upload that stands still does not cut an early response, nor a response its upload")
    func earlyResponse() async throws {
        let client = try await bench.connect()
        try await client.send(post("/hand", "Content-Length: 4") + "ab")
        let peer = try await bench.accept()
        _ = try await peer.head()
        try await peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
        #expect(try await client.head().contains("\r\nConnection: close\r\n"))
        // Three times request_idle in all; the response moves within its own limit.
        try await send(["w", "x", "y", "z"], on: peer, to: client)
        #expect(try await client.rest() == ("", false))
        #expect(try await peer.rest().text == "ab")
    }

    @Test("8.2 What keeps moving, however slowly, is never cut, whatever its whole time")
    func slowButMoving() async throws {
        let client = try await bench.connect()
        try await client.send(post("/hand", "Content-Length: 4"))
        let peer = try await bench.accept()
        _ = try await peer.head()
        try await send(["a", "b", "c", "d"], on: client, to: peer)
        try await peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
        #expect(try await client.head().hasPrefix("HTTP/1.1 200"))
        try await send(["e", "f", "g", "h"], on: peer, to: client)
        #expect(try await client.ask(HTTPBench.plain("/next")).status == 200)
    }

    @Test("8 A client that takes no byte for write is aborted, and the upstream with it")
    func clientTakesNothing() async throws {
        let size = 64 << 20
        bench.script { _ in .large(size) }
        let client = try await bench.connect()
        try await client.send(HTTPBench.plain("/large"))
        func hasEnded() -> Bool {
            bench.upstream.records.contains { $0.ended && $0.requests.last?.target == "/large" }
        }
        try await clock.pass(Self.minute - .seconds(1))
        #expect(!hasEnded())
        try await clock.pass(.seconds(2))
        try await bench.passAgain(Self.minute) { hasEnded() }
        try await eventually("the upstream connection has ended") { hasEnded() }
        #expect(try await client.rest().text.utf8.count < size)
    }

    // MARK: Upstreams

    @Test("8 An upstream that takes no byte for write, before any response: 504 connection_write_timeout")
    func upstreamTakesNothing() async throws {
        let client = try await bench.connect()
        try await client.send(post("/hand", "Content-Length: 90000000"))
        let peer = try await bench.accept()
        let upload = Task { try? await client.send([UInt8](repeating: 0x61, count: 60_000_000)) }
        try await eventually("the upload stands") {
            try await clock.settle()
            return try KernelSocket.find(local: client.localPort, remote: bench.lanyard.data.port)?.sendQueue ?? 0 > 0
        }
        try await bench.pass(Self.minute, sparing: client)
        try await bench.passAgain(Self.minute) { client.hasInput }
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
            let client = try await bench.connect()
            try await client.send(HTTPBench.plain(path))
            try await bench.pass(.seconds(30), sparing: client)
            let response = try await client.response()
            #expect(try refusal.faults(of: response) == [])
            #expect(try await client.ask(HTTPBench.plain("/")).status == 200)
        }
    }

    @Test(
        "8 A response head that is not whole response_header after the request's last byte: 504, the connection dropped"
    )
    func responseHeader() async throws {
        for start in ["", "HTTP/1.1 200 OK\r\nA: 1\r\n"] {
            try await bench.drops(start, .upstreamTimeout, after: Self.minute)
        }
        // Drips do not prolong it.
        let client = try await bench.connect()
        try await client.send(HTTPBench.plain("/hand"))
        let peer = try await bench.accept()
        _ = try await peer.head()
        for byte in "HTTP/" {
            try await peer.send(String(byte))
            try await clock.pass(.seconds(11))
        }
        #expect(!client.hasInput)
        try await peer.send("1")
        try await clock.pass(.seconds(6))
        let response = try await client.response()
        #expect(try Refusal.upstreamTimeout.faults(of: response) == [])
    }

    @Test("11.6 Interim responses restart the wait for the final head, however many come and however long it takes")
    func interims() async throws {
        for (interim, count) in [
            ("HTTP/1.1 102 Processing", 10), ("HTTP/1.1 103 Early Hints\r\nLink: l", 2), ("HTTP/1.1 100 Continue", 2),
        ] {
            let client = try await bench.connect()
            try await client.send(HTTPBench.plain("/hand"))
            let peer = try await bench.accept()
            _ = try await peer.head()
            for _ in 0..<count {
                try await peer.send("\(interim)\r\n\r\n")
                #expect(try await client.head() == "\(interim)\r\n\r\n")
                try await clock.pass(Self.minute - .seconds(5))
            }
            #expect(!client.hasInput)
            try await peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            #expect(try await client.response().bodyText == "ok")
            peer.close()
        }
        // Silence behind one ends the wait, and drips of the next one do not prolong it.
        for drips in ["", "HTTP/1.1 10"] {
            let client = try await bench.connect()
            try await client.send(HTTPBench.plain("/hand"))
            let peer = try await bench.accept()
            _ = try await peer.head()
            try await peer.send("HTTP/1.1 102 Processing\r\n\r\n")
            _ = try await client.head()
            for byte in drips {
                try await peer.send(String(byte))
                try await clock.pass(.seconds(4))
            }
            try await clock.pass(.seconds(61 - 4 * drips.count))
            let response = try await client.response()
            #expect(try Refusal.upstreamTimeout.faults(of: response) == [])
        }
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
            if isReset {
                try await bench.aborts(head, "", isReset: true, request: old, after: Self.minute)
            } else {
                try await bench.aborts(head, "", after: Self.minute)
            }
        }
        bench.script { _ in RawResponse([.send(Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na".utf8))]) }
        let client = try await bench.connect()
        try await client.send(HTTPBench.plain("/endless"))
        #expect(try await client.head().hasPrefix("HTTP/1.1 200"))
        #expect(try await client.read(1) == "a")
        try await clock.pass(.seconds(600))
        #expect(!client.hasInput)
    }

    @Test("8 An idle pooled connection is closed a second before its Keep-Alive: timeout")
    func keepAlive() async throws {
        for (field, least) in [("timeout=20", 19), ("max=5, timeout=20", 19), ("timeout=1", 0), ("timeout=0", 0)] {
            let client = try await bench.connect()
            try await client.send(HTTPBench.plain("/hand"))
            let peer = try await bench.accept()
            _ = try await peer.head()
            try await peer.send("HTTP/1.1 200 OK\r\nKeep-Alive: \(field)\r\nContent-Length: 0\r\n\r\n")
            #expect(try await client.response()["Keep-Alive"] == nil)
            if least > 0 { try await bench.pass(.seconds(least), sparing: peer) }
            #expect(try await peer.rest() == ("", false))
        }
    }

    @Test("8 Requests over connections_max of a route wait in order; after connect they get 503 overloaded")
    func connectionsMax() async throws {
        let (bench, _) = try await HTTPBench.startUnderClock {
            // The order is that of one shard's pool, which reuses the one connection.
            $0.shards = 1
            $0.routes =
                "{name: one, match: {path: /one}, upstream: \"UP\", connections_max: 1, timeouts: {\(Self.times)}},"
        }
        let (first, slow) = (Milestone(), Milestone())
        bench.script { request in
            let response = RawResponse.response(body: request.message.target)
            return request.message.target == "/one/0" ? response.after(first) : response
        }
        var clients: [Wire] = []
        for _ in 0..<4 { clients.append(try await bench.connect()) }
        for (number, client) in clients.enumerated() {
            try await client.send(HTTPBench.plain("/one/\(number)"))
            try await eventually("it has its place") {
                number == 0
                    ? !bench.received.isEmpty
                    : try await bench.values(of: "lanyard_parked_requests")[""] == number
            }
        }
        first.set()
        for (number, client) in clients.enumerated() {
            #expect(try await client.response().bodyText == "/one/\(number)")
        }
        let order = bench.received.joined().matches(of: #/GET \/one\/(\d)/#).map(\.1)
        #expect(order == ["0", "1", "2", "3"])
        #expect(bench.received.count == 1)
        try await bench.startOver()
        bench.script { _ in .response().after(slow) }
        let overloaded = Refusal(
            status: 503, type: "overloaded", error: "connection_limit_reached", closes: false, hasRetryAfter: true)
        try await clients[0].send(HTTPBench.plain("/one/slow"))
        try await eventually("it is in progress") { !bench.received.isEmpty }
        try await clients[1].send(HTTPBench.plain("/one/late"))
        try await bench.pass(.seconds(30), sparing: clients[1])
        let response = try await clients[1].response()
        #expect(try overloaded.faults(of: response) == [])
        slow.set()
        #expect(try await clients[0].response().status == 200)
        #expect(!bench.received.joined().contains("late"))
    }

    @Test("8 A place under connections_max that becomes free on one shard goes to a request that waits on another")
    func connectionsMaxOfAllShards() async throws {
        let own = try await HTTPBench.start {
            $0.shards = 2
            $0.route = "connections_max: 1, timeouts: {connect: 1h}"
        }
        let most = Tally()
        let present = Guarded(0)
        let gates = (0..<3).map { _ in Milestone() }
        own.script { request in
            most.raise(
                to: present.withLock {
                    $0 += 1
                    return $0
                })
            let round = request.message.target.split(separator: "/").first.flatMap { Int($0) } ?? 0
            gates[round].wait(for: "every other request of round \(round) waits")
            present.withLock { $0 -= 1 }
            return .response(body: request.message.target)
        }
        // Clients spread over the shards, so that some of each wait.
        var clients: [Wire] = []
        for _ in 0..<16 { clients.append(try await own.connect()) }
        for (round, gate) in gates.enumerated() {
            for (number, client) in clients.enumerated() {
                try await client.send(HTTPBench.plain("/\(round)/\(number)"))
            }
            try await eventually("one request has the connection, the others wait") {
                guard present.withLock({ $0 }) == 1 else { return false }
                return try await own.values(of: "lanyard_parked_requests")[""] == clients.count - 1
            }
            gate.set()
            for (number, client) in clients.enumerated() {
                #expect(try await client.response().bodyText == "/\(round)/\(number)")
            }
        }
        #expect(most.value == 1)
        #expect(try await own.values(of: "lanyard_parked_requests")[""] == 0)
    }

    @Test("8 A request that waits for a place of another shard is woken though nothing else comes")
    func connectionsMaxInSilence() async throws {
        // No time passes, so that no timer wakes the request.
        let (own, _) = try await HTTPBench.startUnderClock {
            $0.shards = 3
            $0.route = "connections_max: 1, timeouts: {connect: 1h}"
        }
        own.script { _ in .text("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok") }
        var clients: [Wire] = []
        for _ in 0..<3 { clients.append(try await own.connect()) }
        for round in 0..<200 {
            for client in clients { try await client.send(HTTPBench.plain("/\(round)")) }
            for client in clients { #expect(try await client.response().status == 200) }
        }
        #expect(try await own.values(of: "lanyard_parked_requests")[""] == 0)
    }
}
