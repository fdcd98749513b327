import TestSupport
import Testing

@testable import SystemTestSupport

/// A request gets a token of the account that its own configuration gives its route, or a retryable 503
/// (architecture.md 7.9).
@Suite struct ReloadPairTests {
    @Test(
        "twenty reloads in turn under load send no token to the upstream of the other configuration",
        arguments: ReloadedPairs.Change.allCases)
    func underLoad(_ change: ReloadedPairs.Change) async throws {
        let pairs = try await ReloadedPairs(change)
        try pairs.configure(0)
        let lanyard = try await pairs.users.start()
        try await lanyard.untilReady()
        let clients = PairClients(4, lanyard.data, ["/r0"])
        for round in 1...20 {
            try pairs.configure(round % 2)
            let served = clients.served
            #expect(!(try await ReloadedUsers.applied(lanyard).isEmpty))
            // Each second reload comes as soon as the one before, while requests wait for a login.
            if round % 2 == 0 { try await eventually("requests are served") { clients.served > served + 8 } }
        }
        let (_, refusals) = try await clients.stop()
        #expect(refusals.others == [])
        let wrong = try await pairs.wrongPairs()
        #expect(wrong == [])
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test(
        "requests that wait for a token during the reload get none of the next configuration's account",
        arguments: [ReloadedPairs.Change.identity, .user])
    func parked(_ change: ReloadedPairs.Change) async throws {
        let pairs = try await ReloadedPairs(change)
        try pairs.configure(0)
        let lanyard = try await pairs.users.start()
        try await lanyard.untilReady()
        try await pairs.service(of: 1).control(
            "POST", "/delays", #"{"route":"login","milliseconds":3000,"before":true}"#)
        try pairs.configure(1)
        #expect(!(try await ReloadedUsers.applied(lanyard).isEmpty))
        let clients = try (0..<4).map { _ in try RawClient(lanyard.data) }
        for client in clients { try client.send("GET /r0 HTTP/1.1\r\nHost: \(lanyard.data)\r\n\r\n") }
        try await eventually("the requests are parked") { try await lanyard.metric("lanyard_parked_requests") == 4 }
        try pairs.configure(0)
        #expect(!(try await ReloadedUsers.applied(lanyard).isEmpty))
        var refusals = ReloadedPairs.Refusals()
        for client in clients { ReloadedPairs.count(try client.response(), in: &refusals) }
        #expect(refusals.retryable == 4 && refusals.others == [])
        try await lanyard.untilReady()
        #expect(try await RawClient.ask(lanyard.data, "GET", "/r0").status == 200)
        let wrong = try await pairs.wrongPairs()
        #expect(wrong == [])
        #expect(try await lanyard.process.terminate() == .code(143))
    }
}
