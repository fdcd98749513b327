import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// Requests that wait for one of few upstream connections.
@Suite(.serialized) struct ConnectionLimitTests {
    @Test("requests that compete for one connection in rounds with silence between them: none waits for long")
    func rounds() async throws {
        let bench = try await SilentRounds.start(pairs: 2, shards: 4, isUnix: true)
        let outcome = try await bench.run(rounds: 4000)
        // A request that misses its wake-up gets 503.
        #expect(outcome.failures == [])
        #expect(outcome.rounds > 500)
        #expect(try await bench.parked() == 0)
    }

    @Test("1,500 requests wait for a connection, then each dial fails at once: all get 502, pipelined ones too")
    func manyFailAtOnce() async throws {
        let count = 1500
        let folder = try TemporaryFolder()
        let path = folder.file("up")
        let upstream = try RawSocket.listen(at: .unix(path))
        let lanyard = try await LanyardProcess.start(
            before: "unix:\(path)", route: "connections_max: 1, timeouts: {connect: 60s}",
            rest: "limits: {parked_requests_max: \(count)}\nshards: 1\n",
            // The stack of a worker thread where the default is small: a call for each waiter would not fit.
            launcher: ["/usr/bin/prlimit", "--stack=524288:524288"])
        let data = lanyard.data
        let request = Array("GET / HTTP/1.1\r\nHost: \(data)\r\n\r\n".utf8)
        // The first holds the connection.
        let first = try RawSocket.connect(to: data)
        try first.send(request)
        let held = try #require(upstream.accept())
        let clients = try (0..<count).map { _ in
            let client = try RawSocket.connect(to: data)
            try client.send(request + request)
            return client
        }
        try await eventually("all wait") {
            try await RawClient.ask(lanyard.health, "GET", "/metrics").bodyText.contains(
                "\nlanyard_parked_requests \(count)\n")
        }
        unlink(path)
        upstream.close()
        held.close()
        var statuses: [Int: Int] = [:]
        for client in [first] + clients {
            let reader = RawReader(client)
            for _ in 0..<(client === first ? 1 : 2) {
                statuses[try reader.readResponse(to: "GET").status, default: 0] += 1
            }
        }
        #expect(statuses == [502: 2 * count + 1])
        #expect(try await lanyard.readiness().status == 200)
    }
}

/// Many rounds of requests that compete for the one connection of a route: each is woken when the connection is free.
@Suite(.serialized) struct LongConnectionLimitTests {
    /// Together they fit into the part's time on two CPUs.
    private static let limit = Duration.seconds(400)

    @Test(
        "a million rounds of two requests for one connection: none waits for long, none gets 503",
        arguments: [(true, 800_000), (false, 200_000)])
    func rounds(_ isUnix: Bool, _ count: Int) async throws {
        let bench = try await SilentRounds.start(
            pairs: 4, shards: 4, isUnix: isUnix, binary: Products.release("lanyard"))
        let outcome = try await bench.run(rounds: count)
        #expect(outcome.failures == [])
        #expect(outcome.slowest < SilentRounds.slowestMax)
        #expect(outcome.rounds >= count, "the time had ended")
        #expect(try await bench.parked() == 0)
    }
}
