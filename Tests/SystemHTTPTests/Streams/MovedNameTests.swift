import Foundation
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// An upstream's name gets another address while Lanyard runs.
@Suite(
    .serialized,
    .enabled(if: MountNamespace.isPossible, "needs root and a mount namespace of its own"))
struct MovedNameTests {
    private static let refresh = Duration.seconds(2)
    private static let first = "127.0.0.2 upstream.test"
    private static let second = "127.0.0.3 upstream.test"

    /// When a server was asked last, and how often.
    private final class Sightings: Sendable {
        private let state = Guarded<(last: ContinuousClock.Instant, count: Int)>((.now, 0))

        func note() { state.withLock { $0 = (.now, $0.count + 1) } }
        var last: ContinuousClock.Instant { state.withLock { $0.last } }
        var count: Int { state.withLock { $0.count } }
    }

    private let hosts: OwnHostsFile
    private let old: RawServer
    private let new: RawServer
    private let oldSeen = Sightings()
    private let newSeen = Sightings()

    init() throws {
        hosts = try OwnHostsFile([Self.first])
        let (oldSeen, newSeen) = (oldSeen, newSeen)
        old = try RawServer(at: .loopback(2, 0), requestsKeptMax: 0) { _ in
            oldSeen.note()
            return .response(body: "old")
        }
        // Another program that listens at this port of this address would be a rare accident, and be told.
        new = try RawServer(at: .loopback(3, old.endpoint.port), requestsKeptMax: 0) { _ in
            newSeen.note()
            return .response(body: "new")
        }
    }

    private func lanyard(shards: String = "auto") async throws -> LanyardProcess {
        try await .start(
            before: "http://upstream.test:\(old.endpoint.port)", route: "unsafe_plain: true",
            rest: "upstream_dns: {refresh: \(Self.refresh.components.seconds)s}\nshards: \(shards)\n",
            launcher: hosts.launcher)
    }

    @Test(
        "under load, requests go to a name's new address within upstream_dns.refresh, and none fails while both respond"
    )
    func underLoad() async throws {
        let lanyard = try await lanyard()
        let loop = ClosedLoop(clients: 8, lanyard.data, "/", pause: .milliseconds(5))
        try await eventually("the old address is asked") { oldSeen.count > 200 }
        // More than one lookup of the old address is behind us.
        try await Task.sleep(for: Self.refresh * 1.5)
        #expect(newSeen.count == 0)
        try hosts.write([Self.second])
        let moved = ContinuousClock.now
        try await Task.sleep(for: Self.refresh * 2)
        try await eventually("the new address is asked") { newSeen.count > 100 }
        #expect(oldSeen.last - moved < Self.refresh, "\(oldSeen.last - moved) after the move")
        // Pooled connections to it are given up, not only left alone.
        #expect(old.openCount == 0)
        old.stop()
        try await Task.sleep(for: Self.refresh)
        let tally = try await loop.stop()
        #expect(tally.failed == 0, "\(tally.failures)")
        try await lanyard.process.terminate()
    }

    @Test(
        "after a pause the first request already goes to the new address, and idle connections to the old one are closed"
    )
    func afterPause() async throws {
        let lanyard = try await lanyard()
        #expect(try await lanyard.get("/").bodyText == "old")
        #expect(old.openCount == 1)
        try hosts.write([Self.second])
        try await eventually("the idle connection is closed") {
            old.openCount == 0
        }
        #expect(try await lanyard.get("/").bodyText == "new")
        // Nothing is open for longer than the response serves: a request that comes then asks anew.
        new.closeAll()
        try await Task.sleep(for: Self.refresh)
        try hosts.write([Self.first])
        #expect(try await lanyard.get("/").bodyText == "old")
        try await lanyard.process.terminate()
    }

    @Test("a name that can no longer be resolved keeps its last addresses")
    func lost() async throws {
        let lanyard = try await lanyard()
        #expect(try await lanyard.get("/").bodyText == "old")
        try hosts.write([])
        for _ in 0..<5 {
            old.closeAll()
            try await Task.sleep(for: Self.refresh / 2)
            #expect(try await lanyard.get("/").bodyText == "old")
        }
        try hosts.write([Self.second])
        try await eventually("it is resolved again") {
            try await lanyard.get("/").bodyText == "new"
        }
        try await lanyard.process.terminate()
    }

    @Test("an address that is added leaves connections to the others alone")
    func added() async throws {
        let lanyard = try await lanyard(shards: "1")
        #expect(try await lanyard.get("/").bodyText == "old")
        try hosts.write([Self.first, Self.second])
        for _ in 0..<6 {
            try await Task.sleep(for: .milliseconds(500))
            #expect(try await lanyard.get("/").bodyText == "old")
        }
        #expect(old.connectionCount == 1)
        try await lanyard.process.terminate()
    }
}
