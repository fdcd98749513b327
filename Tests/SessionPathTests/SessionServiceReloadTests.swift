import Dispatch
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// Reloads while something of the users is in progress, with a store that the test slows down (architecture-control.md 7.9).
@Suite struct SessionServiceReloadTests {
    private typealias Life = SessionServiceUserTests.Life

    /// A token that is always there.
    private final class ConstantFeed: TokenFeed {
        func start(_ onChange: @escaping @Sendable (Result<Secret, IdentityError>) -> Void) {
            onChange(.success(Tokens.secret("robot")))
        }

        func stop() {}
    }

    private let bench: SessionServiceBench
    private let store = KeptStore()
    /// The same emulator under another address: another account space.
    private let moved: AppServicesIdentity

    init() async throws {
        bench = try await SessionServiceBench(startsService: false)
        let app = IdentitySettings.AppServices(appID: "demo-abcde", baseURL: "http://localhost:\(bench.port)")
        moved = AppServicesIdentity(
            IdentitySettings(name: "demo", kind: .appServices(app)), app: app, version: "1", on: bench.loop,
            logger: bench.log.logger)
    }

    private func end(_ life: Life) async {
        life.service.stop()
        moved.stop()
        await bench.end()
    }

    /// Alice with her session.
    private func started() async throws -> Life {
        let life = try Life(bench, on: store)
        try await life.becomes(["alice:active"])
        return life
    }

    /// Reloads with alice's login at this source, and with these users beside her.
    private func reload(
        _ life: Life, _ source: ManagedUser.Source, others: [String] = [], refresh: RefreshSettings = RefreshSettings()
    ) async throws -> [String] {
        let login = UserSettings.Login.emailPassword(
            email: SessionServiceBench.email, password: bench.passwordFile)
        let users = (["alice"] + others).map { name in
            ManagedUser(
                UserSettings(name: name, identity: "demo", login: name == "alice" ? login : nil), source: source)
        }
        let kind: ConfiguredIdentity.Kind =
            switch source {
            case .service(let service): .service(service, RefreshTokenSettings())
            case .feed: .staticToken
            }
        let configuration = SessionConfiguration(
            users: users, identities: [ConfiguredIdentity("demo", kind)], settings: SessionSettings(refresh: refresh))
        return life.service.reload(configuration) { life.published.activate($0) }
    }

    /// The result of a reload that no caller waits for.
    private final class Outcome: Sendable {
        private let state = Guarded<(obstacles: [String]?, isKnown: Bool)>((nil, false))

        var isKnown: Bool { state.withLock(\.isKnown) }
        /// nil: it was given up, or its outcome is not known yet.
        var obstacles: [String]? { state.withLock(\.obstacles) }

        func set(_ obstacles: [String]?) { state.withLock { $0 = (obstacles, true) } }
    }

    @Test("a reload that waits for the store blocks no other work, and changes nothing once it is given up")
    func storeHangs() async throws {
        let life = try await started()
        let configuration = SessionConfiguration(
            users: [ManagedUser(UserSettings(name: "bob", identity: "demo"), source: .service(bench.identity))],
            identities: [ConfiguredIdentity("demo", .service(bench.identity, RefreshTokenSettings()))],
            settings: SessionSettings())
        for isGivenUp in [true, false] {
            store.holdNextRead()
            let outcome = Outcome()
            let served = Guarded(0)
            life.service.reload(configuration, begins: { !isGivenUp }) { _ in
                served.withLock { $0 += 1 }
            } reply: {
                outcome.set($0)
            }
            try await eventually("the store is read") { store.holdsRead }
            // The queue of the sessions is not blocked.
            try await life.becomes(["alice:active"])
            #expect(!outcome.isKnown)
            store.releaseRead()
            try await eventually("the outcome is known") { outcome.isKnown }
            #expect(outcome.obstacles == (isGivenUp ? nil : []))
            #expect(served.withLock { $0 } == (isGivenUp ? 0 : 1))
            try await life.becomes(isGivenUp ? ["alice:active"] : ["bob:logged_out"])
        }
        await end(life)
    }

    /// A refresh of alice's session reaches the emulator and gets no response before the milestone.
    private func beginHangingRefresh(_ life: Life, until isReleased: Milestone) async throws {
        try bench.gate.set(.holdResponse(until: isReleased))
        life.service.loop.post { life.service.runner(named: "alice")?.refreshNow { _ in } }
        try await eventually("the refresh hangs") { try await bench.calls("refresh") == 1 }
    }

    @Test("a user that DELETE is taking out of the store cannot be configured in that time")
    func removalFromStore() async throws {
        store.edit { $0.users.append(StoredUser(name: "bob", of: StoredIdentity("demo", bench.identity.fingerprint))) }
        let life = try await started()
        store.holdNextRead()
        let removal = Task { await life.ask(.remove("bob")) }
        try await eventually("the removal reads the store") { store.holdsRead }
        let obstacles = try await reload(life, .service(bench.identity), others: ["bob"])
        #expect(obstacles.count == 1 && obstacles.first?.hasPrefix("users.bob: ") == true, "\(obstacles)")
        store.releaseRead()
        guard case .success(.removed(isStored: true)) = await removal.value else {
            throw TestFailure("bob was not removed")
        }
        #expect(try await reload(life, .service(bench.identity), others: ["bob"]) == [])
        try await life.becomes(["alice:active", "bob:logged_out"])
        await end(life)
    }

    @Test("a session that is handed to a user who waits for its former call is revoked if the process ends first")
    func waitingSession() async throws {
        let life = try await started()
        let grant = try await bench.foreignSession()
        let isReleased = Milestone()
        defer { isReleased.set() }
        try await beginHangingRefresh(life, until: isReleased)
        #expect(try await reload(life, .service(moved)) == [])
        life.service.adopt(grant, for: life.service.report.users[0].index)
        // The end waits for the call. `adopt` was first on the service's queue.
        life.service.loop.post { isReleased.set() }
        life.service.drain()
        #expect(try await bench.calls("logout") == 1)
        await end(life)
    }

    @Test("a user that a reload moves is logging in, not logged out, until it has begun at its new place")
    func beforeStart() async throws {
        let life = try await started()
        let isReleased = Milestone()
        defer { isReleased.set() }
        try await beginHangingRefresh(life, until: isReleased)
        #expect(try await reload(life, .service(moved)) == [])
        let status = life.service.report.users.map { [$0.state.rawValue, $0.reason.rawValue] }
        #expect(status == [["logging_in", "logging_in"]])
        isReleased.set()
        await end(life)
    }

    @Test("a session that ends while its user leaves the service is revoked there")
    func endOfRetired() async throws {
        let life = try await started()
        store.takes(.milliseconds(700))
        let logout = Task { await life.ask(.logOut("alice")) }
        try await life.becomes(["alice:logged_out"])
        #expect(try await reload(life, .service(moved)) == [])
        let outcome = await logout.value
        guard case .success(.loggedOut(_, .confirmed, isStored: true)) = outcome else {
            throw TestFailure("the service was not told: \(outcome)")
        }
        #expect(try await bench.calls("logout") == 1)
        await end(life)
    }

    @Test("reloads while a user waits for its former call do not take its generation back")
    func generation() async throws {
        let life = try await started()
        let isReleased = Milestone()
        defer { isReleased.set() }
        try await beginHangingRefresh(life, until: isReleased)
        let feed = ConstantFeed()
        #expect(try await reload(life, .feed(feed)) == [])
        var refresh = RefreshSettings()
        refresh.cooldown = .seconds(1)
        #expect(try await reload(life, .feed(feed), refresh: refresh) == [])
        isReleased.set()
        try await eventually("the static token is served") { life.published.tokens().count > 1 }
        #expect(life.published.tokens().map(\.generation) == [1, 2])
        await end(life)
    }
}

extension SessionService {
    /// Reloads, and blocks the thread until the outcome is known.
    func reload(_ configuration: SessionConfiguration?, serve: @escaping ServeRoutes) -> [String] {
        let done = DispatchSemaphore(value: 0)
        let outcome = Guarded<[String]>([])
        reload(configuration, begins: { true }, serve: serve) { obstacles in
            outcome.withLock { $0 = obstacles ?? [] }
            done.signal()
        }
        done.wait()
        return outcome.withLock { $0 }
    }
}
