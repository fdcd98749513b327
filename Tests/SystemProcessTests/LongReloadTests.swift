import TestSupport
import Testing

@testable import SystemTestSupport

/// Reloads under load.
@Suite struct LongReloadTests {
    @Test("200 clients in a closed loop through 100 reloads that change all that may change: no failed request")
    func crowd() async throws {
        let lanyard = try await ReloadedLanyard()
        let others = try (0..<2).map { _ in try RawServer(requestsKeptMax: 0) }
        let loop = ClosedLoop(clients: 200, lanyard.process.data, "/x", pause: .milliseconds(5))
        for round in 0..<100 {
            let upstream = [lanyard.upstream, others[0], others[1]][round % 3]
            let level = ["info", "notice", "loud"][round % 3]
            let limits =
                "header_bytes_max: \(8 + round % 5)KiB, header_fields_max: \(64 + round), idle_timeout: \(60 + round)s"
            let more = (0..<(round % 4)).map { number in
                """
                {name: more\(number), match: {path: /more\(number)}, user: \(["alice", "nobody"][round % 2]), \
                upstream: "http://\(others[number % 2].endpoint)", timeouts: {connect: \(1 + round % 3)s}}
                """
            }
            try lanyard.configure(
                "log: {level: \(level), access: \(round % 2 == 0)}\nlimits: {\(limits)}",
                listener: round % 5 == 0 ? ", allowed_origins: [\"https://a.test\"]" : "",
                to: round % 7 == 0 ? nil : upstream, route: ", replay_body_max: \(round)KiB", more: more)
            #expect(try await lanyard.reload().status == (level == "loud" ? 422 : 200))
        }
        let before = loop.tally.requests
        try await eventually("each client has had a response since") {
            loop.tally.requests > before + 600
        }
        let tally = try await loop.stop()
        #expect(tally.failed == 0, "\(tally.failures)")
    }

    @Test("60 reloads that each give the route another user and remove the one before: no failed request")
    func users() async throws {
        let lanyard = try await ReloadedLanyard()
        let loop = ClosedLoop(clients: 50, lanyard.process.data, "/x", pause: .milliseconds(1))
        for round in 0..<60 {
            let user = ["bob", "alice"][round % 2]
            try lanyard.configure(route: ", user: \(user)", user: user)
            #expect(try await lanyard.reload().status == 200)
        }
        let tally = try await loop.stop()
        #expect(tally.failed == 0 && tally.requests > 300, "\(tally.failures)")
    }
}
