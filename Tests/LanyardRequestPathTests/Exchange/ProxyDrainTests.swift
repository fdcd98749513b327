import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import TestSupport
import Testing

/// The end of a request path, and the limits of its connections.
@Suite struct ProxyDrainTests {
    @Test("a drain under load fails no request, and ends", arguments: [1, 2])
    func underLoad(_ shards: Int) async throws {
        let (hasBegun, responses) = (Milestone(), Tally())
        defer { hasBegun.set() }
        // The last requests are on their way when the drain begins.
        let bench = try ProxyBench { _ in
            responses.value > 200 ? .response().after(hasBegun, "the drain has begun") : .response()
        } plan: {
            $0.shards = shards
        }
        let finished = Milestone()
        let failures = await withTaskGroup(of: [String].self) { group in
            for _ in 0..<12 {
                group.addTask {
                    Self.askUntilClosed(bench.endpoint, responses)
                }
            }
            try? await eventually("some are answered") { responses.value > 200 }
            bench.path.drain { finished.set() }
            hasBegun.set()
            return await group.reduce(into: []) { $0 += $1 }
        }
        #expect(failures == [])
        try await eventually("the drain ends") { finished.isSet }
        #expect(throws: TestFailure.self) { try RawClient(bench.endpoint) }
    }

    @Test("a drain does not end before the response to a request that came before it")
    func waits() async throws {
        let gate = Milestone()
        let bench = try ProxyBench { _ in
            gate.wait(for: "the drain has begun")
            return .response()
        }
        let finished = Milestone()
        let (endedEarly, response) = try await bench.talk { client throws in
            try client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            try blockUntil("the upstream is connected") { bench.upstream.connectionCount == 1 }
            bench.path.drain { finished.set() }
            // The listener's stop, then the drain of the clients.
            bench.settle()
            bench.settle()
            let endedEarly = finished.isSet
            gate.set()
            return (endedEarly, try client.response())
        }
        #expect(!endedEarly)
        #expect(response.status == 200 && response["Connection"] == "close")
        try await eventually("the drain ends") { finished.isSet }
    }

    /// A closed loop: it connects anew when told that the connection closes, and ends when connections are refused.
    private static func askUntilClosed(_ endpoint: RawEndpoint, _ responses: Tally) -> [String] {
        var failures: [String] = []
        while let client = try? RawClient(endpoint) {
            defer { client.close() }
            while true {
                do {
                    let response = try client.exchange("GET", "/")
                    responses.add()
                    if response.status != 200 { failures.append(response.startLine) }
                    if response["Connection"] == "close" { break }
                } catch {
                    failures.append("\(error)")
                    break
                }
            }
        }
        return failures
    }

    @Test("a head that is half here when the drain begins has its whole time")
    func halfHead() async throws {
        // What is sent over a unix socket has arrived.
        let folder = try TemporaryFolder()
        let bench = try ProxyBench(plan: {
            $0.listener = ListenerSettings(address: .unix(path: folder.file("in.sock")))
            $0.limits.headerTimeout = .seconds(3600)
            $0.timeStands = true
        })
        let client = try RawClient(bench.endpoint)
        try client.send("GET / HT")
        try await eventually("it is accepted") { bench.path.shards[0].load.value == 1 }
        let late = try RawClient(bench.endpoint)
        try await eventually("it is accepted, too") { bench.path.shards[0].load.value == 2 }
        bench.drain()
        try late.send("GET / HTTP/1.1\r\n")
        bench.pass(.seconds(3600) - .nanoseconds(1))
        try client.send("TP/1.1\r\nHost: localhost\r\n\r\n")
        try late.send("Host: localhost\r\n\r\n")
        let statuses = [try client.response(), try late.response()].map { ($0.status, $0["Connection"]) }
        #expect(statuses.map(\.0) == [200, 200])
        #expect(statuses.map(\.1) == ["close", "close"])
    }

    @Test("connections spread over the shards, whatever the kernel's spread")
    func spread() async throws {
        let bench = try ProxyBench(plan: { $0.shards = 2 })
        let clients = try (0..<60).map { _ in try RawClient(bench.endpoint) }
        for client in clients { #expect(try client.exchange("GET", "/").status == 200) }
        let loads = bench.path.shards.map(\.load.value)
        #expect(loads.reduce(0, +) == 60)
        #expect((loads.min() ?? 0) >= 15, "\(loads)")
        for client in clients { client.close() }
        try await eventually("all are gone") { bench.path.shards.allSatisfy { $0.load.value == 0 } }
    }
}
