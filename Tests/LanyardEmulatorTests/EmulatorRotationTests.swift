import LanyardEmulator
import TestSupport
import Testing

@Suite struct EmulatorRotationTests {
    typealias Fixture = EmulatorFixture

    private static let dead = ["401", "InvalidSession", "invalid session: failed to find refresh token"]

    private func alice(_ it: Fixture) async -> EmulatorStatistics.Account {
        await it.emulator.statistics().total
    }

    /// Refreshes and gives the refresh token that came.
    private func successor(_ it: Fixture, of token: String) async throws -> String {
        let response = try await it.refresh(token)
        guard response.status == 201, let next = try response.json["refresh_token"].string else {
            throw TestFailure(response.bodyText)
        }
        return next
    }

    @Test("without rotation the refresh token stays, however often it is used")
    func none() async throws {
        let it = try await Fixture()
        let (_, refresh) = try await it.tokens()
        for _ in 0..<3 { #expect(try await it.refresh(refresh).json["refresh_token"] == .null) }
        let account = await alice(it)
        #expect(account.refreshes == 3 && account.repeats == 0 && account.logins == ["local-userpass": 1])
        await it.emulator.stop()
    }

    @Test(
        "under rotation each refresh brings a new refresh token with the session's claims",
        arguments: ["grace", "one_use"])
    func rotates(rotation: String) async throws {
        let it = try await Fixture { $0.rotation = RefreshRotation(rawValue: rotation)! }
        let (_, first) = try await it.tokens()
        let second = try await successor(it, of: first)
        let third = try await successor(it, of: second)
        #expect(Set([first, second, third]).count == 3)
        let claims = try [first, second, third].map(Fixture.claims)
        #expect(Set(claims.map { $0["baas_id"].string }).count == 1 && Set(claims.map { $0["exp"].int }).count == 1)
        let session = try #require(await it.emulator.sessions().first)
        #expect(session.refreshTokenSerial == 3 && session.refreshes == 2 && session.end == nil)
        #expect(await alice(it).repeats == 0)
        await it.emulator.stop()
    }

    @Test("within the grace time an old refresh token brings the same successor again, and that is counted")
    func withinGrace() async throws {
        let it = try await Fixture { $0.rotation = .grace }
        let (_, first) = try await it.tokens()
        let second = try await successor(it, of: first)
        for _ in 0..<2 { #expect(try await successor(it, of: first) == second) }
        _ = try await successor(it, of: second)
        #expect(try await Fixture.error(it.refresh(first)) == Self.dead, "its successor has been used")
        let account = await alice(it)
        #expect(account.repeatsWithinGrace == 2 && account.repeatsAfterGrace == 1 && account.refreshes == 4)
        await it.emulator.stop()
    }

    @Test("after the grace time an old refresh token is refused, and the session lives on")
    func afterGrace() async throws {
        let it = try await Fixture { $0.rotation = .grace }
        let (_, first) = try await it.tokens()
        let second = try await successor(it, of: first)
        try await it.control("PUT", "/settings", #"{"clock_offset_seconds":15}"#)
        #expect(try await successor(it, of: first) == second)
        try await it.control("PUT", "/settings", #"{"clock_offset_seconds":31}"#)
        #expect(try await Fixture.error(it.refresh(first)) == Self.dead)
        _ = try await successor(it, of: second)
        #expect(await alice(it).repeatsAfterGrace == 1)
        await it.emulator.stop()
    }

    @Test("with one-use tokens a repeat ends the whole session, and other sessions of the account continue")
    func familyKill() async throws {
        let it = try await Fixture { $0.rotation = .oneUse }
        let (_, first) = try await it.tokens()
        let (_, other) = try await it.tokens()
        let second = try await successor(it, of: first)
        #expect(try await Fixture.error(it.refresh(first)) == Self.dead)
        #expect(try await Fixture.error(it.refresh(second)) == Self.dead)
        _ = try await successor(it, of: other)
        let account = await alice(it)
        #expect(account.familyKills == 1 && account.callsOfDeadSessions == 1)
        #expect(await it.emulator.sessions().map(\.end) == [.familyKilled, nil])
        await it.emulator.stop()
    }

    @Test("a logout counts, ends its session only, and may be told from one with an old token")
    func logout() async throws {
        let it = try await Fixture { $0.rotation = .grace }
        let (_, first) = try await it.tokens()
        let (_, other) = try await it.tokens()
        _ = try await successor(it, of: first)
        #expect(try await it.call("DELETE", Fixture.session, bearer: first).status == 204)
        #expect(try await Fixture.error(it.refresh(first)) == Self.dead)
        _ = try await successor(it, of: other)
        let account = await alice(it)
        #expect(account.revocations == 1 && account.repeatsAtLogout == 1 && account.callsOfDeadSessions == 1)
        await it.emulator.stop()
    }

    @Test("logins are counted by kind and account, also anonymous ones")
    func logins() async throws {
        let it = try await Fixture()
        _ = try await it.tokens()
        _ = try await it.tokens()
        _ = try await it.login("api-key", #"{"key":"\#(Fixture.key)"}"#)
        let anonymous = try await it.login("anon-user", "{}").json["user_id"].string!
        _ = try await it.login("local-userpass", #"{"username":"alice@example.com","password":"wrong"}"#)
        let statistics = await it.emulator.statistics()
        #expect(
            statistics.accounts.mapValues(\.logins) == [
                "alice@example.com": ["local-userpass": 2], "ci": ["api-key": 1], anonymous: ["anon-user": 1],
            ])
        #expect(statistics.total.loginCount == 4)
        #expect(try await it.control("GET", "/ledger")["total"]["logins"]["local-userpass"].int == 2)
        try await it.control("DELETE", "/counts")
        #expect(await it.emulator.statistics().accounts.isEmpty)
        await it.emulator.stop()
    }
}
