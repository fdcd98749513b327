import Glibc
import LanyardEmulator
import TestSupport
import Testing

@testable import LanyardAdmin
@testable import LanyardFoundations
@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings
@testable import LanyardVault

@Suite("Session service, with the emulator")
struct SessionServiceTests {
    @Test("a configured user is logged in, and the published token opens the protected resource")
    func logsIn() async throws {
        let bench = try await SessionServiceBench()
        try await bench.becomes(.valid)
        #expect(try await bench.useToken() == 200)
        #expect(bench.published.active == UserIndex(0) && bench.service.report.activeUser == UserIndex(0))
        let alice = bench.alice
        #expect(alice.isReady() && alice.reason() == .tokenValid && alice.hasEverBeenReady && alice.accountID != nil)
        let left = try #require(alice.tokens.accessExpiry) - WallTime.now
        let next = try #require(alice.nextRefreshAt) - WallTime.now
        #expect(left > .seconds(1790) && left <= .seconds(1800))
        #expect(next > .seconds(1160) && next <= .seconds(1350))
        #expect(try #require(alice.tokens.refreshExpiry) - WallTime.now > .seconds(5_000_000))
        #expect(bench.metric("lanyard_session_state", ["user": "alice", "state": "valid"]) == 1)
        #expect(bench.metric("lanyard_session_state", ["user": "alice", "state": "stale"]) == 0)
        let logins = bench.metric("lanyard_login_attempts_total", ["provider": "email_password", "result": "success"])
        #expect(logins == 1)
        #expect(bench.metric("lanyard_access_token_expiry_timestamp_seconds", ["user": "alice"]) != nil)
        #expect(bench.metric("lanyard_refresh_token_expiry_timestamp_seconds", ["user": "alice"]) != nil)
        #expect(bench.metric("lanyard_next_refresh_timestamp_seconds", ["user": "alice"]) != nil)
        #expect(bench.metric("lanyard_refresh_inflight") == 0)
        await bench.end()
    }

    @Test("without series of each user there are the numbers of users in each state, and sums of what was counted")
    func sums() async throws {
        let bench = try await SessionServiceBench()
        try await bench.becomes(.valid)
        let samples = bench.service.report.samples(perUser: false)
        func value(_ name: String, _ labels: [MetricSample.Label]) -> Double? {
            samples.first { $0.name + $0.suffix == name && $0.labels == labels }?.value
        }
        #expect(samples.allSatisfy { sample in sample.labels.allSatisfy { $0.name != "user" && $0.name != "route" } })
        #expect(value("lanyard_session_state", [.init("state", "valid")]) == 1)
        #expect(value("lanyard_session_state", [.init("state", "stale")]) == 0)
        #expect(value("lanyard_session_action", [.init("action", "nobody")]) == 1)
        let scheduled: [MetricSample.Label] = [.init("result", "success"), .init("reason", "scheduled")]
        #expect(value("lanyard_refresh_attempts_total", scheduled) == 0)
        #expect(!samples.contains { $0.name.hasSuffix("_timestamp_seconds") })
        await bench.end()
    }

    @Test("tokens are renewed through several lives, one call each, and an expired one is never the latest")
    func renews() async throws {
        let bench = try await SessionServiceBench()
        try await bench.becomes(.valid)
        for generation: UInt64 in 2...5 {
            try await bench.passToRefresh()
            try await eventually("token \(generation)") { bench.alice.tokens.generation.number == generation }
            #expect(bench.alice.isReady(at: bench.now))
            #expect(try await bench.useToken() == 200)
        }
        let tokens = bench.published.tokens()
        #expect(Set(tokens.map(\.generation)).count == tokens.count)
        #expect(try await bench.calls("login") == 1)
        #expect(bench.metric("lanyard_refresh_attempts_total", ["result": "success", "reason": "scheduled"]) == 4)
        #expect(try await bench.calls("refresh") == 4)
        await bench.end()
    }

    @Test(
        "Rule 16: a session handed over whose refresh token is revoked: login-required within one refresh, then no call"
    )
    func revokedWithoutCredential() async throws {
        let bench = try await SessionServiceBench(hasLogin: false)
        // The report follows what is published.
        try await eventually("it is published and reported") {
            bench.published.refusal() == .loginRequired && bench.alice.reason() == .loggedOut
        }
        #expect(bench.alice.state == .loggedOut)
        bench.service.adopt(try await bench.foreignSession(), for: UserIndex(0))
        try await bench.becomes(.valid)
        #expect(try await bench.useToken() == 200)
        try await bench.control("/sessions/revoke", "{}")
        try await bench.control("/counts", "", method: "DELETE")
        try await bench.passToRefresh()
        try await bench.becomes(.loginRequired)
        #expect(bench.published.refusal() == .loginRequired)
        #expect(!bench.alice.isReady() && bench.alice.reason() == .loginRequired && bench.alice.lastError != nil)
        let readyz = HealthReport(HealthSnapshot(bench.service.report, followsActiveUser: true, pinnedUsers: [])).ready
        #expect(readyz.status == 503)
        #expect(String(decoding: readyz.body, as: UTF8.self).contains("\"reason\":\"login_required\""))
        for _ in 0..<100 { bench.service.tokenNeeded(by: UserIndex(0)) }
        try await bench.pass(.seconds(86_400))
        #expect(try await bench.calls("refresh") == 1)
        #expect(try await bench.calls() <= 3)
        let died = bench.metric("lanyard_refresh_attempts_total", ["result": "session_dead", "reason": "scheduled"])
        #expect(died == 1)
        #expect(bench.log.lines.contains { $0.contains("session.dead") && $0.contains("action") })
        #expect(bench.metric("lanyard_session_action", ["user": "alice", "action": "user"]) == 1)
        await bench.end()
    }

    @Test("Rule 16: a revoked session with a credential is replaced silently, and there is a valid token all the time")
    func revokedWithCredential() async throws {
        let bench = try await SessionServiceBench()
        try await bench.becomes(.valid)
        try await bench.control("/sessions/revoke", "{}")
        try await bench.passToRefresh()
        try await eventually("a second token") {
            #expect(bench.alice.isReady(at: bench.now))
            return bench.alice.tokens.generation == 2
        }
        #expect(try await bench.useToken() == 200)
        #expect(try await bench.calls("login") == 2)
        #expect(bench.log.lines.contains { $0.contains("session.dead") && $0.contains("nobody") })
        #expect(bench.metric("lanyard_session_action", ["user": "alice", "action": "nobody"]) == 1)
        #expect(bench.metric("lanyard_session_action", ["user": "alice", "action": "user"]) == 0)
        await bench.end()
    }

    @Test("a service that is down at the start: logging in, unreachable, and ready automatically once it is back")
    func downAtStart() async throws {
        let bench = try await SessionServiceBench(startsService: false)
        await bench.emulator.stop()
        bench.service.start()
        try await eventually("unreachable") { bench.alice.reason() == .identityUnreachable }
        #expect(bench.alice.state == .loggingIn && !bench.alice.isReady() && !bench.alice.hasEverBeenReady)
        guard case .identityUnreachable(let next, _, _, _)? = bench.published.refusal() else {
            Issue.record("not refused as unreachable")
            return
        }
        #expect(next <= Instant.now + .seconds(1))
        let back = try await bench.emulator.restart()
        try await bench.becomes(.valid)
        await back.stop()
        await bench.end()
    }

    @Test("a wrong password is refused, once, until its file changes")
    func wrongPassword() async throws {
        let bench = try await SessionServiceBench(password: "wrong horse")
        try await bench.becomes(.refused)
        let message =
            """
            the identity service responded with 401 InvalidPassword to the login: the credential is wrong, or its account \
            was deleted; check the credential and the account (email_password.password_file \(bench.passwordFile))
            """
        #expect(bench.published.refusal() == .credentialRefused(because: message))
        #expect(bench.alice.reason() == .credentialRefused)
        let logins = try await bench.calls("login")
        bench.service.tokenNeeded(by: UserIndex(0))
        // This request follows on the same queue: when it gets its reply, the earlier one has been handled.
        let response = await withCheckedContinuation { done in
            bench.service.perform(.activate("alice")) { done.resume(returning: $0) }
        }
        guard case .failure(.notLoggedIn) = response else {
            Issue.record("a refused user was activated: \(response)")
            return
        }
        #expect(bench.alice.state == .refused)
        #expect(try await bench.calls("login") == logins)
        _ = try bench.folder.write("password", SessionServiceBench.password)
        try await bench.pass(FileWatch.interval + FileSettling.settlingDelay)
        try await bench.becomes(.valid)
        #expect(bench.alice.lastError == nil)
        await bench.end()
    }

    @Test("a missing password file is refused with its path, until it appears")
    func missingPassword() async throws {
        let bench = try await SessionServiceBench(password: nil)
        try await bench.becomes(.refused)
        #expect(bench.alice.lastError?.contains(bench.passwordFile) == true)
        #expect(try await bench.calls("login") == 0)
        _ = try bench.folder.write("password", SessionServiceBench.password)
        try await bench.pass(FileWatch.interval + FileSettling.settlingDelay)
        try await bench.becomes(.valid)
        await bench.end()
    }

    @Test("each decision is one log line with event, reason and next time, and no line holds a secret")
    func logLines() async throws {
        let bench = try await SessionServiceBench()
        try await bench.becomes(.valid)
        try await bench.passToRefresh()
        try await eventually("two tokens") { bench.alice.tokens.generation == 2 }
        let token = try #require(Tokens.text(bench.published.token()?.token))
        let lines = bench.log.lines
        #expect(lines.contains { $0.contains("session.login.succeeded") && $0.contains("next_at") })
        #expect(lines.contains { $0.contains("session.refresh.succeeded") && $0.contains("scheduled") })
        #expect(!lines.contains { $0.contains(SessionServiceBench.password) || $0.contains(token) })
        await bench.end()
    }

    @Test("after stop no call is made any more")
    func stops() async throws {
        let bench = try await SessionServiceBench()
        try await bench.becomes(.valid)
        bench.service.stop()
        let calls = try await bench.calls()
        try await bench.pass(.seconds(86_400))
        #expect(try await bench.calls() == calls)
        await bench.end()
    }

    @Test(
        "a static token is valid without an expiry, refused while its file is gone, and new content is a new generation"
    )
    func staticToken() async throws {
        let folder = try TemporaryFolder()
        let file = try folder.write("token", "one")
        let loop = try EventLoop(label: "test.identity")
        loop.start()
        let published = PublicationLog()
        let managedUser = ManagedUser(
            UserSettings(name: "fixed", identity: "fixed"),
            source: .feed(StaticIdentity(name: "fixed", tokenFile: file, on: loop)))
        let service = try SessionService(
            [managedUser], store: MemoryStore(fingerprintKey: KeyedHash.newKey()),
            contents: StoreContents(fingerprintKey: KeyedHash.newKey()), subscribers: [published],
            logger: LogRecorder().logger)
        service.start()
        let loops = [loop, service.loop]
        loops.freezeTime()
        /// Every look at the file, and what follows from it.
        func look() { loops.pass(FileWatch.interval + FileSettling.settlingDelay) }
        look()
        #expect(published.token()?.generation == 1)
        #expect(published.token()?.usableUntil == .never && Tokens.text(published.token()?.token) == "one")
        #expect(service.report.users[0].isReady())
        #expect(service.report.users[0].nextRefreshAt == nil)
        _ = try folder.write("token", "two")
        look()
        #expect(published.token()?.generation == 2)
        try #require(unlink(file) == 0)
        let message = "\(file) does not exist; create it, it is read again by itself"
        look()
        #expect(Tokens.text(published.token()?.token) == "two" && service.report.users[0].isReady())
        #expect(service.report.users[0].reason() == .refreshFailing)
        loops.pass(TokenTransition.durationMax)
        #expect(published.refusal() == .credentialRefused(because: message))
        #expect(service.report.users[0].reason() == .credentialRefused)
        _ = try folder.write("token", "three")
        look()
        #expect(Tokens.text(published.token()?.token) == "three")
        service.stop()
        loop.stop()
    }
}
