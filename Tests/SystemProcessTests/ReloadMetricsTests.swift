import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// What `/metrics` says of reloads, and of routes after one.
@Suite struct ReloadMetricsTests {
    private struct Reloads: Equatable {
        var successes: Double?
        var failures: Double?
        var lastSuccess: Double
    }

    private static func samples(_ lanyard: ReloadedLanyard) async throws -> ExpositionReader {
        try ExpositionReader(
            try await RawClient.ask(lanyard.process.health, "GET", "/metrics").body, openMetrics: false)
    }

    private static func reloads(_ lanyard: ReloadedLanyard) async throws -> Reloads {
        let page = try await samples(lanyard)
        return Reloads(
            successes: page["lanyard_config_reloads_total", ["result": "success"]],
            failures: page["lanyard_config_reloads_total", ["result": "failure"]],
            lastSuccess: try #require(page["lanyard_config_last_reload_success_timestamp_seconds", [:]]))
    }

    @Test("reloads by SIGHUP and by the admin API are counted by result; only a success is a last success")
    func reloads() async throws {
        let before = Date().timeIntervalSince1970
        let lanyard = try await ReloadedLanyard()
        let start = try await Self.reloads(lanyard)
        #expect(start.successes == 0 && start.failures == 0)
        #expect((before...Date().timeIntervalSince1970).contains(start.lastSuccess), "the start is the last success")

        #expect(try await lanyard.reload().status == 200)
        let byAdmin = try await Self.reloads(lanyard)
        #expect(byAdmin.successes == 1 && byAdmin.failures == 0 && byAdmin.lastSuccess > start.lastSuccess)

        try lanyard.configure("log: {level: loud}")
        lanyard.process.process.signal(SIGHUP)
        try await eventually("the failure of SIGHUP") { try await Self.reloads(lanyard).failures == 1 }
        try lanyard.configure("shards: 3")
        #expect(try await lanyard.reload().status == 422)
        #expect(
            try await Self.reloads(lanyard)
                == Reloads(successes: 1, failures: 2, lastSuccess: byAdmin.lastSuccess))

        try lanyard.configure()
        lanyard.process.process.signal(SIGHUP)
        try await eventually("the success of SIGHUP") { try await Self.reloads(lanyard).successes == 2 }
        let last = try await Self.reloads(lanyard)
        #expect(last.failures == 2 && last.lastSuccess > byAdmin.lastSuccess)
    }

    @Test("a route that keeps its name keeps the counts of its upstream, also with another upstream")
    func routes() async throws {
        let lanyard = try await ReloadedLanyard()
        let names = ["lanyard_upstream_duration_seconds_count", "lanyard_upstream_connect_seconds_count"]
        func counts() async throws -> [Double?] {
            let page = try await Self.samples(lanyard)
            return names.map { page[$0, ["route": "all"]] }
        }
        #expect(try await counts() == [nil, nil])
        #expect(try await lanyard.process.get("/").status == 200)
        #expect(try await counts() == [1, 1])
        let other = try RawServer()
        try lanyard.configure(to: other)
        try await lanyard.reload(applies: "routes[0].upstream")
        #expect(try await counts() == [1, 1])
        #expect(try await lanyard.process.get("/").status == 200)
        #expect(try await counts() == [2, 2])
        #expect(try await Self.samples(lanyard)["lanyard_upstream_waits_total", ["route": "all"]] == 0)
    }
}
