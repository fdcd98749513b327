import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// http-connections.md 20.3 to 20.5: counters of each route, descriptors, queues, and crowds that must not starve others.
@Suite(.serialized) struct CrowdRuleTests {
    private static let shared = Task { try await HTTPBench.start() }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value
        try await bench.startOver()
    }

    @Test("20.3 Each request counts once, by route, class and origin, and each refusal by its reason")
    func counters() async throws {
        func counts() async throws -> [String: Int] {
            var all: [String: Int] = [:]
            for label in ["route", "code_class", "origin"] {
                for (name, value) in try await bench.values(of: "lanyard_requests_total", by: label) {
                    all["\(label) \(name)"] = value
                }
            }
            for (name, value) in try await bench.rejections() { all["refused " + name] = value }
            return all
        }
        let before = try await counts()
        bench.script { $0.message.target == "/missing" ? .response(404, "Not Found") : .response() }
        let client = try await bench.connect()
        for _ in 0..<3 { #expect(try await client.ask(HTTPBench.plain("/")).status == 200) }
        #expect(try await client.ask(HTTPBench.plain("/missing")).status == 404)
        #expect(try await client.ask("GET / HTTP/1.1\r\nHost: evil\r\n\r\n").status == 421)
        #expect(try await client.ask("GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 400)
        #expect(try await client.ask("GET /\r\n\r\n").status == 400)
        bench.script { _ in .text("rubbish") }
        #expect(try await bench.ask(HTTPBench.plain("/bad")).status == 502)
        // Two whose clients leave before a response has begun: one that is silent, one in the middle of its upload.
        for text in [HTTPBench.plain("/hand"), "PUT /hand HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\na"] {
            let leaving = try await bench.connect()
            try await leaving.send(text)
            let peer = try await bench.accept()
            _ = try await peer.head()
            leaving.reset()
            _ = try await peer.rest()
        }
        let after = try await counts()
        let grown = after.mapValues { $0 }.merging(before) { $0 - $1 }.filter { $0.value != 0 }
        #expect(
            grown == [
                "route all": 5, "route hand": 2, "route none": 3, "code_class 2xx": 3, "code_class 4xx": 4,
                "code_class 5xx": 1, "code_class none": 2, "origin upstream": 4, "origin lanyard": 6, "refused host": 1,
                "refused malformed": 2,
            ])
    }

    @Test("20.3 What a route itself refuses counts as the route's, and its line of the log names it")
    func refusedByRoute() async throws {
        let own = try await HTTPBench.start {
            $0.route = """
                deny: [{path: /no}], forwarded: reject, client_authorization: reject, body_bytes_max: 3B
                """
        }
        for (line, field, status) in [
            ("GET /no", "A: 1", 403), ("GET /", "Forwarded: for=a", 403), ("GET /", "Authorization: a", 403),
            ("POST /", "Content-Length: 4", 413),
        ] {
            try await own.startOver()
            #expect(try await own.ask("\(line) HTTP/1.1\r\nHost: localhost\r\n\(field)\r\n\r\n").status == status)
            try await eventually("the log names the route") {
                own.lines.contains { $0.event == "request.refused" && $0.json["route"].string == "all" }
            }
        }
        let counts = try await own.values(of: "lanyard_requests_total", by: "route").filter { $0.value > 0 }
        #expect(counts == ["all": 4])
    }

    // MARK: 20.4

    @Test("20.4 The soft limit of descriptors is raised at the start, and SIGPIPE is ignored")
    func start() async throws {
        let own = try await HTTPBench.start { $0.launcher = ["/usr/bin/prlimit", "--nofile=300:3000"] }
        #expect(try await own.values(of: "process_max_fds")[""] == 3000)
        let status = try String(contentsOfFile: "/proc/\(own.lanyard.process.pid)/status", encoding: .utf8)
        let ignored = try #require(status.firstMatch(of: #/SigIgn:\s+([0-9a-f]+)/#)?.1)
        #expect((UInt64(ignored, radix: 16) ?? 0) >> UInt64(SIGPIPE - 1) & 1 == 1)
    }

    @Test("20.4 A thousand clients fit into the listener's queue")
    func backlog() async throws {
        let own = try await HTTPBench.start()
        own.lanyard.process.signal(SIGSTOP)
        try await eventually("all of it has stopped") { Set(own.lanyard.process.threadStates) == ["T"] }
        var clients: [Wire] = []
        for _ in 0..<1000 { clients.append(try await own.connect()) }
        // The kernel shows the length of a listener's queue as bytes that are not read (proc_net_tcp). A full one drops what comes.
        try await eventually("all of them are in the queue") {
            try KernelSocket.find(local: own.lanyard.data.port, remote: nil)?.receiveQueue == 1000
        }
        own.lanyard.process.signal(SIGCONT)
        for client in clients.suffix(20) { #expect(try await client.ask(HTTPBench.plain("/")).status == 200) }
    }

    @Test(
        "20.4 Out of descriptors requests in progress continue, and one that finds no upstream socket gets 503"
    )
    func descriptors() async throws {
        let own = try await HTTPBench.start()
        let (busy, asks) = (try await own.connect(), try await own.connect())
        #expect(try await asks.ask("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 200)
        try await busy.send(HTTPBench.plain("/hand"))
        let peer = try await own.accept()
        _ = try await peer.head()
        try await Starving.closeRest(of: own.lanyard)
        let waiting = try await own.connect()
        try await waiting.send(HTTPBench.plain("/waiting"))
        try await own.lanyard.process.event("listener.paused")
        let overloaded = Refusal(
            status: 503, type: "overloaded", error: "connection_limit_reached", closes: false, hasRetryAfter: true)
        let response = try await asks.ask(HTTPBench.plain("/no-socket"))
        #expect(try overloaded.faults(of: response) == [])
        // Not to its end: its upstream connection, idle then, would go for the client that waits.
        try await peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbu")
        #expect(try await busy.head().hasPrefix("HTTP/1.1 200"))
        #expect(try await busy.read(2) == "bu")
        // A listener that waits for a descriptor does not spin.
        try await own.lanyard.process.settle()
        // Each shard accepts by itself, and says so once.
        #expect((1...HTTPBench.shards).contains(own.lanyard.process.lines.count { $0.event == "listener.paused" }))
        try Starving.limit(own.lanyard, 2000)
        try await peer.send("sy")
        #expect(try await busy.read(2) == "sy")
        #expect(try await waiting.response().bodyText == "ok")
    }

    // MARK: 20.5

    @Test("20.5 At the cap who has waited longest for a request gives way; if none waits, the new client gets 503")
    func cap() async throws {
        let bench = try await HTTPBench.start { $0.limits = "connections_max: 2" }
        let first = try await bench.connect()
        #expect(try await first.ask(HTTPBench.plain("/")).status == 200)
        // The response is there before its shard, interrupted just then, says that the client waits.
        try await bench.lanyard.process.settle()
        let second = try await bench.connect()
        // Half a head waits, too, but not as long.
        try await second.send("GET / HTTP/1.1\r\nHo")
        let third = try await bench.connect()
        #expect(try await third.ask(HTTPBench.plain("/")).status == 200)
        #expect(try await first.rest().text == "")
        try await second.send("st: localhost\r\nConnection: close\r\n\r\n")
        #expect(try await second.response().status == 200)
        #expect(try await second.rest() == ("", false))
        second.close()
        try await eventually("its place is free") {
            try await bench.values(of: "lanyard_client_connections").values.reduce(0, +) == 1
        }
        // Two that are being answered.
        var upstreams: [Wire] = []
        let busy = [third, try await bench.connect()]
        for client in busy {
            try await client.send(HTTPBench.plain("/hand"))
            upstreams.append(try await bench.accept())
        }
        let refused = try await bench.connect().response()
        #expect(refused.status == 503 && refused["Retry-After"] == "1" && refused["Connection"] == "close")
        #expect(try refused.json["type"].string == "urn:lanyard:problem:overloaded")
        #expect(refused["Proxy-Status"] == "lanyard; error=connection_limit_reached")
        for (client, upstream) in zip(busy, upstreams) {
            _ = try await upstream.request()
            try await upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            #expect(try await client.response().status == 200)
        }
    }

    @Test("20.5 At the cap who waits gives way on whichever shard it is")
    func capOfShards() async throws {
        let bench = try await HTTPBench.start { ($0.limits, $0.shards) = ("connections_max: 6", 3) }
        for round in 0..<8 {
            var idle: [Wire] = []
            for _ in 0..<6 {
                idle.append(try await bench.connect())
                #expect(try await idle.last?.ask(HTTPBench.plain("/")).status == 200)
            }
            try await bench.lanyard.process.settle()
            // Each new client is answered from then on: one that waits fewer, wherever those are that are left.
            var busy: [(client: Wire, upstream: Wire)] = []
            for _ in 0..<6 {
                let client = try await bench.connect()
                try await client.send(HTTPBench.plain("/hand"))
                busy.append((client, try await bench.accept()))
            }
            #expect(try await bench.connect().response().status == 503, "round \(round)")
            for (client, upstream) in busy {
                client.close()
                upstream.close()
            }
            try await eventually("their places are free") {
                try await bench.values(of: "lanyard_client_connections").values.reduce(0, +) == 0
            }
        }
    }

    @Test("20.5 A lingering close keeps its place until it ends: who is turned away does not add to the connections")
    func lingering() async throws {
        let (bench, clock) = try await HTTPBench.startUnderClock { $0.limits = "connections_max: 2" }
        let clients = [try await bench.connect(), try await bench.connect()]
        for client in clients {
            try await client.send("GET / HTTP/1.1\r\n\r\n")
            #expect(try await client.response().status == 400)
        }
        // Two seconds never pass without a byte, so that they linger for ten.
        for _ in 0..<9 {
            let refused = try await bench.connect().ask(HTTPBench.plain("/"))
            #expect(refused.status == 503 && refused["Proxy-Status"] == "lanyard; error=connection_limit_reached")
            try await clock.pass(.seconds(1))
            for client in clients { try await client.send("x") }
        }
        // Those that are turned away linger for two.
        #expect(try await bench.values(of: "lanyard_client_connections").values.reduce(0, +) <= 2 + 3)
        try await clock.pass(.seconds(2))
        #expect(try await bench.ask(HTTPBench.plain("/")).status == 200)
    }

    @Test("20.5 Hundreds of half-sent heads delay no client")
    func halfHeads() async throws {
        // They stay until they are reset: a client that they delayed would never be served.
        let bench = try await HTTPBench.start { $0.limits = "header_timeout: 1h" }
        var slow: [Wire] = []
        for number in 0..<400 {
            let client = try await bench.connect()
            try await client.send(number % 2 == 0 ? "GET / HTTP/1.1\r\nHo" : "POST /")
            slow.append(client)
        }
        let client = try await bench.connect()
        for _ in 0..<20 { #expect(try await client.ask(HTTPBench.plain("/")).status == 200) }
        #expect(slow.allSatisfy { !$0.hasInput })
        for client in slow { client.reset() }
    }

    @Test("20.5 One connection that floods does not starve another: each has its turn")
    func turns() async throws {
        let flood = try await bench.connect()
        // It does not end by itself.
        let size = 1 << 50
        try await flood.send("POST /hand HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(size)\r\n\r\n")
        let peer = try await bench.accept()
        _ = try await peer.head()
        let upload = Task {
            let run = [UInt8](repeating: 0x61, count: 1 << 20)
            while (try? await flood.send(run)) != nil {}
        }
        let swallow = Task { while (try? await peer.read(1 << 20)) != nil {} }
        let client = try await bench.connect()
        for _ in 0..<20 { #expect(try await client.ask(HTTPBench.plain("/")).status == 200) }
        flood.reset()
        peer.reset()
        await upload.value
        await swallow.value
    }

    @Test("20.5 A flood of faults logs a sample and a count")
    func sample() async throws {
        let own = try await HTTPBench.start()
        let fault = "GET / HTTP/1.1\r\nHost: evil\r\n\r\n"
        let client = try await own.connect()
        let count = 3000
        for _ in 0..<(count / 100) {
            try await client.send(String(repeating: fault, count: 100))
            for _ in 0..<100 { #expect(try await client.response().status == 421) }
        }
        func lines() -> [LogLine] { own.lanyard.process.lines.filter { $0.event == "request.refused" } }
        // One for each logged request. A line without a request has only a count.
        func refusals() -> [LogLine] { lines().filter { $0.json["request_id"].string != nil } }
        try await eventually("all are accounted for") {
            refusals().count + lines().reduce(0) { $0 + ($1.json["left_out"].int ?? 0) } == count
        }
        #expect(try await own.rejections()["host"] == count)
        // One connection is served a request at a time, so that it may take several seconds, each with its sample.
        #expect(refusals().count >= 200)
    }
}
