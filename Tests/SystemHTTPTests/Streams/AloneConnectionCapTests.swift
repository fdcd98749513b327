import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// What a new client costs when `limits.connections_max` is reached, so that each one closes the client that waits longest.
@Suite(.serialized) struct AloneConnectionCapTests {
    private static let few = 512
    private static let many = 4096
    /// Clients of one turn.
    private static let accepts = 1500
    /// What other programs do to the caches shows in one turn or another.
    private static let turns = 4
    /// Eight times as many idle clients: a scan of all of them costs several times as much.
    private static let ratioMax = 2.0

    @Test(
        "a client that is accepted at the cap costs the same with 512 and with 4,096 idle ones",
        .enabled("needs 15,000 descriptors") { Descriptors.raise(to: 15_000) })
    func constant() async throws {
        let few = try await Self.microseconds(idle: Self.few)
        let many = try await Self.microseconds(idle: Self.many)
        print("a client accepted at the cap: \(few) µs of CPU with \(Self.few) idle ones, \(many) µs with \(Self.many)")
        #expect(many / few < Self.ratioMax, "\(few) µs and \(many) µs")
    }

    /// The CPU time of the process for each accepted client, of the best turn.
    private static func microseconds(idle: Int) async throws -> Double {
        let upstream = try RawServer(requestsKeptMax: 0)
        let lanyard = try await LanyardProcess.start(
            before: "http://\(upstream.endpoint)",
            rest: "shards: 1\nlimits: {connections_max: \(idle), idle_timeout: 10m, header_timeout: 10m}\n")
        #expect(lanyard.process.log(of: "limits.lowered").isEmpty)
        let (data, pid) = (lanyard.data, lanyard.process.pid)
        var clients = try (0..<idle).map { _ in try RawClient(data) }
        try untilAccepted(clients[idle - 1], data)
        var best = Duration.seconds(60)
        for _ in 0..<turns {
            let start = try ProcessorTime.preciseUsed(by: pid)
            let new = try (0..<accepts).map { _ in try RawClient(data) }
            try untilAccepted(new[accepts - 1], data)
            best = min(best, try ProcessorTime.preciseUsed(by: pid) - start)
            clients = Array((clients + new).suffix(idle))
        }
        #expect(try await lanyard.process.terminate() == .code(143))
        return best / .microseconds(accepts)
    }

    /// One listener and one shard: a client that connected before has been accepted before.
    private static func untilAccepted(_ client: RawClient, _ data: RawEndpoint) throws {
        let response = try client.exchange("GET", "/", host: "\(data)")
        guard response.status == 200 else { throw TestFailure(response.headText) }
    }
}
