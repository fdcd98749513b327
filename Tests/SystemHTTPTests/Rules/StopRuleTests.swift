import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// http-connections.md 20.1: the drain. Each test ends a process of its own.
@Suite struct StopRuleTests {
    /// A process that drain_max does not end, and its clock, which stands.
    private func start(_ shards: Int) async throws -> (HTTPBench, TestClock) {
        try await HTTPBench.startUnderClock {
            $0.rest = "shutdown: {drain_max: 1h}"
            $0.shards = shards
        }
    }

    /// Begins the end, and waits until the listener is closed.
    private func stop(_ bench: HTTPBench) async throws {
        bench.lanyard.process.signal(SIGTERM)
        try await eventually("nothing listens any more") { (try? await bench.connect()) == nil }
    }

    /// The process ends as soon as the last of its clients is gone.
    private func expectEnd(of lanyard: LanyardProcess, without clients: [Wire], _ clock: TestClock) async throws {
        clock.run()
        for client in clients { client.close() }
        #expect(try await lanyard.process.waitForExit() == .code(143))
    }

    @Test("20.1 For drain_min it is not ready but serves as ever; health answers to the end")
    func drainMin() async throws {
        let (lasting, clock) = try await HTTPBench.startUnderClock {
            $0.rest = "shutdown: {drain_min: 1h, drain_max: 2h}"
        }
        let client = try await lasting.connect()
        #expect(try await client.ask(HTTPBench.plain("/")).status == 200)
        lasting.lanyard.process.signal(SIGTERM)
        try await eventually("it is not ready") { try await lasting.lanyard.readiness().status == 503 }
        for _ in 0..<10 {
            for client in [client, try await lasting.connect()] {
                let response = try await client.ask(HTTPBench.plain("/"))
                #expect(response.status == 200)
                #expect(response["Connection"] == nil)
            }
        }
        try await clock.pass(.milliseconds(200))
        lasting.lanyard.process.signal(SIGTERM)
        clock.run()
        #expect(try await lasting.lanyard.process.waitForExit() == .code(143))
    }

    @Test("20.1 When drain_min has passed the next response is the last one")
    func drainMinEnds() async throws {
        let (bench, clock) = try await HTTPBench.startUnderClock {
            $0.rest = "shutdown: {drain_min: 60s, drain_max: 2h}"
        }
        let kept = try await bench.connect()
        #expect(try await kept.ask(HTTPBench.plain("/")).status == 200)
        bench.lanyard.process.signal(SIGTERM)
        try await bench.lanyard.process.event("shutdown.started")
        try await clock.pass(.seconds(59))
        #expect(try await kept.ask(HTTPBench.plain("/"))["Connection"] == nil)
        try await clock.pass(.seconds(1.2))
        #expect(try await kept.ask(HTTPBench.plain("/"))["Connection"] == "close")
        #expect(try await kept.rest() == ("", false))
        try await expectEnd(of: bench.lanyard, without: [], clock)
    }

    @Test(
        "20.1 Every response whose head is written from then on says close; what was begun is served to its end",
        arguments: [1, 3])
    func inProgress(_ shards: Int) async throws {
        let (bench, clock) = try await start(shards)
        let released = Milestone()
        bench.script { $0.message.target == "/slow" ? .response(body: "slow").after(released) : .response() }
        let (slow, half, streaming) = (
            try await bench.connect(), try await bench.connect(), try await bench.connect()
        )
        try await streaming.send(HTTPBench.plain("/hand"))
        let peer = try await bench.accept()
        _ = try await peer.head()
        try await peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        #expect(!(try await streaming.head()).contains("Connection"))
        #expect(try await half.ask(HTTPBench.plain("/")).status == 200)
        try await half.send("GET /half HTTP/1.1\r\nHost: lo")
        try await slow.send(HTTPBench.plain("/slow"))
        try await eventually("it is in progress") { bench.received.joined().contains("/slow") }
        try await stop(bench)
        released.set()
        let response = try await slow.response()
        #expect(response.bodyText == "slow")
        #expect(response["Connection"] == "close")
        #expect(try await slow.rest() == ("", false))
        try await half.send("calhost\r\n\r\n")
        #expect(try await half.response()["Connection"] == "close")
        #expect(try await half.rest() == ("", false))
        // The stream's head was written before: it is whole, and then the process ends.
        #expect(bench.lanyard.process.exit == nil)
        try await peer.send("1\r\nb\r\n0\r\n\r\n")
        #expect(try await streaming.read(17) == "1\r\na\r\n1\r\nb\r\n0\r\n\r\n")
        try await expectEnd(of: bench.lanyard, without: [streaming, slow, half], clock)
    }

    @Test(
        "20.1 An idle kept connection is closed after 500 ms of silence, and a request within them is served",
        arguments: [1, 3])
    func idle(_ shards: Int) async throws {
        let (bench, clock) = try await start(shards)
        let (silent, asks) = (try await bench.connect(), try await bench.connect())
        for client in [silent, asks] {
            #expect(try await client.ask(HTTPBench.plain("/")).status == 200)
        }
        try await stop(bench)
        try await clock.pass(.milliseconds(450))
        #expect(!silent.hasInput)
        #expect(try await asks.ask(HTTPBench.plain("/"))["Connection"] == "close")
        try await clock.pass(.milliseconds(100))
        #expect(try await silent.rest() == ("", false))
        try await expectEnd(of: bench.lanyard, without: [asks, silent], clock)
    }

    @Test(
        "20.1 A client that is slow to take the end of a response is not cut by the drain, and its next request is served",
        arguments: [1, 3])
    func tails(_ shards: Int) async throws {
        let (bench, clock) = try await start(shards)
        bench.script { .large(Int($0.message.target.dropFirst()) ?? 0) }
        // How much the kernel takes is its own affair: some ends wait there, some in the proxy.
        let sizes = Array(stride(from: 100_000, through: 200_000, by: 7_000))
        var clients: [Wire] = []
        for (index, size) in sizes.enumerated() {
            let client = try await bench.connect(receiveBuffer: 4096)
            // Part of the next request waits behind some.
            try await client.send(HTTPBench.plain("/\(size)") + (index % 2 == 0 ? "GET /5 HT" : ""))
            clients.append(client)
        }
        // Their heads are written.
        for client in clients { #expect(!(try await client.head()).contains("Connection")) }
        try await stop(bench)
        try await clock.pass(.seconds(5))
        for (index, client) in clients.enumerated() {
            #expect(try await client.read(sizes[index]).utf8.count == sizes[index])
            try await client.send(index % 2 == 0 ? "TP/1.1\r\nHost: localhost\r\n\r\n" : HTTPBench.plain("/5"))
            let last = try await client.response()
            #expect(last.bodyCount == 5)
            #expect(last["Connection"] == "close")
            #expect(try await client.rest() == ("", false))
        }
        try await expectEnd(of: bench.lanyard, without: clients, clock)
    }

    @Test(
        "20.1 Connections that wait on the listener when it closes are accepted and served",
        arguments: [1, 3])
    func queued(_ shards: Int) async throws {
        let (bench, clock) = try await start(shards)
        bench.lanyard.process.signal(SIGSTOP)
        var clients: [Wire] = []
        for number in 0..<50 {
            let client = try await bench.connect()
            try await client.send(HTTPBench.plain("/\(number)"))
            clients.append(client)
        }
        bench.lanyard.process.signal(SIGTERM)
        bench.lanyard.process.signal(SIGCONT)
        for client in clients {
            let response = try await client.response()
            #expect(response.status == 200)
            client.close()
        }
        try await expectEnd(of: bench.lanyard, without: [], clock)
    }

    @Test("20.1 Only what would have to be parked anew is refused; what waits already waits on")
    func parked() async throws {
        // An identity service that takes the login call and never answers.
        let silence = try RawServer { _ in RawResponse([]) }
        let clock = try TestClock()
        let folder = try TemporaryFolder()
        let password = try folder.write("password", "secret")
        let lanyard = try await LanyardProcess.start(
            """
            identities: {demo: {app_services: {app_id: demo-abcde, base_url: "http://\(silence.endpoint)"}}}
            users: {alice: {identity: demo, login: {email_password: {email: a@example.com, password_file: \(password)}}}}
            routes: [{name: all, upstream: "http://127.0.0.1:9"}]
            refresh: {wait_max: 20s}
            shutdown: {drain_max: 1h}
            shards: 1
            """, listener: "address: \"127.0.0.1:0\", allowed_hosts: [\"localhost:80\"]", under: clock)
        clock.stop()
        let (waits, comes) = (
            try await Wire.connect(to: lanyard.data), try await Wire.connect(to: lanyard.data)
        )
        try await waits.send(HTTPBench.plain("/waits"))
        try await eventually("it is parked") {
            try await RawClient.ask(lanyard.health, "GET", "/metrics").bodyText.contains(
                "lanyard_parked_requests 1")
        }
        lanyard.process.signal(SIGTERM)
        try await eventually("nothing listens any more") {
            (try? await Wire.connect(to: lanyard.data)) == nil
        }
        let refused = try await comes.ask(HTTPBench.plain("/comes"))
        let shuttingDown = Refusal(
            status: 503, type: "shutting-down", error: "proxy_internal_response", hasRetryAfter: true)
        #expect(try shuttingDown.faults(of: refused) == [])
        #expect(try await comes.rest() == ("", false))
        // Some seconds have passed for pages of metrics.
        try await clock.pass(.seconds(14))
        #expect(!waits.hasInput)
        try await clock.pass(.seconds(7))
        let response = try await waits.response()
        #expect(try response.json["type"].string == "urn:lanyard:problem:identity-unreachable")
        #expect(response["Connection"] == "close")
        try await expectEnd(of: lanyard, without: [waits, comes], clock)
    }

    @Test(
        "20.1 At drain_max the rest is aborted; a second signal aborts at once",
        arguments: [true, false])
    func aborted(_ isByTime: Bool) async throws {
        let (bench, clock) = try await HTTPBench.startUnderClock { $0.rest = "shutdown: {drain_max: 60s}" }
        let (chunked, old) = (try await bench.connect(), try await bench.connect())
        var peers: [Wire] = []
        for (client, version) in [(chunked, "1.1"), (old, "1.0")] {
            try await client.send("GET /hand HTTP/\(version)\r\nHost: localhost\r\n\r\n")
            let peer = try await bench.accept()
            _ = try await peer.head()
            try await peer.send("HTTP/1.1 200 OK\r\n\r\n")
            _ = try await client.head()
            try await peer.send("x")
            let body = version == "1.1" ? "1\r\nx\r\n" : "x"
            #expect(try await client.read(body.utf8.count) == body)
            peers.append(peer)
        }
        bench.lanyard.process.signal(SIGTERM)
        try await bench.lanyard.process.event("shutdown.started")
        if isByTime {
            try await clock.pass(.seconds(59))
            #expect(!chunked.hasInput && !old.hasInput)
            try await clock.pass(.milliseconds(1200))
        } else {
            try await clock.pass(.milliseconds(200))
            bench.lanyard.process.signal(SIGTERM)
        }
        let rest = try await chunked.rest()
        #expect(!rest.text.hasSuffix("0\r\n\r\n"))
        // Only a reset tells HTTP/1.0 that its body was cut.
        #expect(try await old.rest().wasReset)
        clock.run()
        #expect(try await bench.lanyard.process.waitForExit() == .code(143))
        withExtendedLifetime(peers) {}
    }
}
