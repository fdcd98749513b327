import CLinux
import Dispatch
import Glibc
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardRequestPath
@testable import LanyardSettings

/// A client that one shard hands to another while the drain begins.
@Suite(.timeLimit(.minutes(1))) struct ProxyHandOverTests {
    /// A shard whose queue is blocked until `open`.
    private final class Barrier: Sendable {
        private let reached = DispatchSemaphore(value: 0)
        private let gate = DispatchSemaphore(value: 0)

        init(on shard: Shard) {
            let (reached, gate) = (reached, gate)
            shard.loop.post {
                reached.signal()
                gate.wait()
            }
        }

        /// Blocks until the shard has done all that was posted before.
        func awaitShard() { reached.wait() }

        func open() { gate.signal() }
    }

    private static func settle(_ shard: Shard) {
        let done = DispatchSemaphore(value: 0)
        shard.loop.post { done.signal() }
        done.wait()
    }

    @Test("at the cap, a client on its way between shards when the drain begins is answered before the drain ends")
    func drainAtCap() async throws {
        let responses = DispatchSemaphore(value: 0)
        let bench = try ProxyBench { request in
            if request.message.target == "/busy" { responses.wait() }
            return .response()
        } plan: {
            ($0.shards, $0.limits.connectionsMax) = (2, 1)
        }
        let finished = Milestone()
        let listener = try ListeningSocket(ListenerSettings(address: .tcp(host: "127.0.0.1", port: 0)))
        let rules = ListenerRules(hosts: AllowedHosts(nil), port: nil, allowedOrigins: [])
        try await offPool { () throws in
            let busy = try RawClient(bench.endpoint)
            try busy.send("GET /busy HTTP/1.1\r\nHost: localhost\r\n\r\n")
            try bench.awaitRequests(1)
            // One shard has the busy client; the other one gets the next.
            let (owner, other) =
                bench.path.shards[0].load.value == 1
                ? (bench.path.shards[0], bench.path.shards[1]) : (bench.path.shards[1], bench.path.shards[0])
            let accepting = Barrier(on: owner)
            bench.path.drain { finished.set() }
            Self.settle(other)
            // What the owner does while it accepts for the last time: it hands a client over.
            let late = try RawClient(.tcp(try #require(listener.port)))
            try late.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            var raw: CInt = -1
            while raw < 0 { raw = lanyard_accept(listener.raw, nil, nil) }
            let before = Barrier(on: other)
            other.handOver(OwnedDescriptor(taking: raw), rules: rules, isTCP: true, others: [other])
            accepting.open()
            Self.settle(owner)
            Self.settle(owner)
            // The client is handed on behind this one.
            let behind = Barrier(on: other)
            before.open()
            behind.awaitShard()
            responses.signal()
            #expect(try busy.response().status == 200)
            busy.close()
            try Self.awaitNoClients(owner)
            Self.settle(owner)
            #expect(!finished.isSet, "the drain has ended with a client on its way")
            behind.open()
            #expect(try late.response().status == 200)
            late.close()
        }
        try await eventually("the drain ends") { finished.isSet }
    }

    private static func awaitNoClients(_ shard: Shard) throws {
        let end = ContinuousClock.now + .seconds(10)
        while shard.load.value > 0 {
            guard ContinuousClock.now < end else { throw TestFailure("a client stays") }
            usleep(1_000)
        }
    }
}
