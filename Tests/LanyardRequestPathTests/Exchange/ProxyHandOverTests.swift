import CLinux
import Dispatch
import Glibc
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardRequestPath
@testable import LanyardSettings

/// A client that one shard hands to another while the drain begins.
@Suite struct ProxyHandOverTests {
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

    /// The client that connects to `listener` now.
    private static func accept(on listener: borrowing ListeningSocket) throws -> OwnedDescriptor {
        var raw: CInt = -1
        try blockUntil("a client is accepted") {
            raw = lanyard_accept(listener.raw, nil, nil)
            return raw >= 0
        }
        return OwnedDescriptor(taking: raw)
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
        do {
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
            let accepted = try Self.accept(on: listener)
            let before = Barrier(on: other)
            other.clients.handOver(accepted, listener: 0, isTCP: true, others: [other.clients])
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

    @Test("at the cap, the client that has waited longest is closed, whichever shard has it")
    func longestOfAllShards() async throws {
        let bench = try ProxyBench { _ in
            .response()
        } plan: {
            ($0.shards, $0.limits.connectionsMax) = (3, 2)
        }
        let shards = bench.path.shards
        let listener = try ListeningSocket(ListenerSettings(address: .tcp(host: "127.0.0.1", port: 0)))
        @Sendable func connect(to index: Int) throws -> RawClient {
            let client = try RawClient(.tcp(try #require(listener.port)))
            let accepted = try Self.accept(on: listener)
            let others = shards.map(\.clients).filter { $0 !== shards[index].clients }
            shards[index].clients.handOver(accepted, listener: 0, isTCP: true, others: others[...])
            for _ in 0..<2 { for shard in shards { Self.settle(shard) } }
            return client
        }
        for (first, second, third) in [(0, 1, 1), (1, 0, 2), (2, 2, 0), (1, 2, 2)] {
            let earlier = try connect(to: first)
            let later = try connect(to: second)
            let latest = try connect(to: third)
            #expect(
                try earlier.readToEnd().isEmpty, "\(first) \(second) \(third): the one that waited longest stays")
            for client in [later, latest] {
                try client.send("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                #expect(try client.response().status == 200, "\(first) \(second) \(third)")
            }
            for client in [earlier, later, latest] { client.close() }
            for shard in shards { try Self.awaitNoClients(shard) }
        }
    }

    private static func awaitNoClients(_ shard: Shard) throws {
        try blockUntil("no client is left") { shard.load.value == 0 }
    }
}
