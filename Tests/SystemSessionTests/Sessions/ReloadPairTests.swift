import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// A request gets a token of the account that its own configuration gives its route, or a retryable 503
/// (architecture-control.md 7.9).
@Suite struct ReloadPairTests {
    @Test(
        "requests before, between and behind two reloads send no token to the upstream of the other configuration",
        arguments: ReloadedPairs.Change.allCases)
    func inTurn(_ change: ReloadedPairs.Change) async throws {
        let pairs = try await ReloadedPairs(change)
        try pairs.configure(0)
        let lanyard = try await pairs.users.start()
        try await lanyard.untilReady()
        var refusals = ReloadedPairs.Refusals()
        for _ in 0..<3 {
            var clients = try Self.send(4, to: lanyard)
            // The second reload comes while requests wait for a login.
            for number in [1, 0] {
                try pairs.configure(number)
                #expect(!(try await ReloadedUsers.applied(lanyard).isEmpty))
                clients += try Self.send(4, to: lanyard)
            }
            for client in clients { ReloadedPairs.count(try client.response(), in: &refusals) }
            clients.forEach { $0.close() }
        }
        #expect(refusals.others == [])
        let wrong = try await pairs.wrongPairs()
        #expect(wrong == [])
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test(
        "requests that wait for a token during the reload get none of the next configuration's account",
        arguments: [ReloadedPairs.Change.identity, .user])
    func parked(_ change: ReloadedPairs.Change) async throws {
        let clock = try TestClock()
        let pairs = try await ReloadedPairs(change, under: clock)
        try pairs.configure(0)
        let lanyard = try await pairs.users.start()
        try await lanyard.untilReady()
        clock.stop()
        try await pairs.service(of: 1).control(
            "POST", "/delays", #"{"route":"login","milliseconds":3000,"before":true}"#)
        try pairs.configure(1)
        #expect(!(try await ReloadedUsers.applied(lanyard).isEmpty))
        let clients = try Self.send(4, to: lanyard)
        try await eventually("the requests are parked") { try await lanyard.metric("lanyard_parked_requests") == 4 }
        try pairs.configure(0)
        #expect(!(try await ReloadedUsers.applied(lanyard).isEmpty))
        var refusals = ReloadedPairs.Refusals()
        for client in clients { ReloadedPairs.count(try client.response(), in: &refusals) }
        #expect(refusals.retryable == 4 && refusals.others == [])
        // A user that has moved waits for its former login.
        try await clock.pass(until: "it is ready again", atMost: .seconds(60), grain: .milliseconds(100)) {
            try await RawClient.ask(lanyard.health, "GET", "/readyz").status == 200
        }
        #expect(try await RawClient.ask(lanyard.data, "GET", "/r0").status == 200)
        let wrong = try await pairs.wrongPairs()
        #expect(wrong == [])
        clients.forEach { $0.close() }
        // The end waits for the login.
        lanyard.process.signal(SIGTERM)
        try await clock.pass(until: "it ends", atMost: .seconds(60)) { lanyard.process.exit != nil }
        #expect(try await lanyard.process.waitForExit() == .code(143))
    }

    /// Clients that have sent a request each.
    private static func send(_ count: Int, to lanyard: DeviceProcess) throws -> [RawClient] {
        try (0..<count).map { _ in
            let client = try RawClient(lanyard.data)
            try client.send("GET /r0 HTTP/1.1\r\nHost: \(lanyard.data)\r\n\r\n")
            return client
        }
    }
}
