import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// Reloads and the end of the process while a user has a call or an unsaved change. The identity services are in this
/// process, and the loop's time stands.
@Suite struct UnfinishedSessionTests {
    /// A service with another request for its tokens than its twin.
    private final class RequestingService: IdentityService {
        let fingerprint: IdentityFingerprint?
        let tokenRequest: IdentityFingerprint?
        private let service: ScriptedService
        private let counts = Guarded((logins: 0, refreshes: 0))

        var logins: Int { counts.withLock(\.logins) }
        var refreshes: Int { counts.withLock(\.refreshes) }

        init(_ name: String, scope: String, of services: ScriptedServices) {
            service = services.service(name)
            fingerprint = service.fingerprint
            tokenRequest = IdentityFingerprint(of: [scope])
        }

        func login(
            _ credential: Credential, guarded: LoginGuard?,
            reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
        ) {
            counts.withLock { $0.logins += 1 }
            service.login(credential, guarded: guarded, reply: reply)
        }

        func refresh(_ refreshToken: Secret, reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void) {
            counts.withLock { $0.refreshes += 1 }
            service.refresh(refreshToken, reply: reply)
        }

        func revoke(_ refreshToken: Secret, reply: @escaping @Sendable (Result<Void, IdentityError>) -> Void) {
            service.revoke(refreshToken, reply: reply)
        }
    }

    private let store = KeptStore()
    private let services = ScriptedServices()
    /// They give no response.
    private let silent = ScriptedServices(isHolding: true)
    private let published = PublicationLog()

    private func configuration(_ users: [(name: String, service: RequestingService)]) -> SessionConfiguration {
        SessionConfiguration(
            users: users.map { name, service in
                ManagedUser(
                    UserSettings(
                        name: name, identity: "demo", login: .emailPassword(email: name, password: "/right")),
                    source: .service(service))
            },
            identities: users.prefix(1).map {
                ConfiguredIdentity("demo", .service($0.service, RefreshTokenSettings()))
            },
            settings: SessionSettings())
    }

    private func started(_ users: [(name: String, service: RequestingService)]) throws -> SessionService {
        let service = try SessionService(
            configuration(users).users, identities: configuration(users).identities, store: store,
            contents: store.contents, subscribers: [published], logger: LogRecorder().logger)
        service.loop.freezeTime()
        service.start()
        service.loop.settle()
        return service
    }

    private func refresh(_ name: String, of service: SessionService) {
        service.loop.perform { service.runner(named: name)?.refreshNow { _ in } }
        service.loop.settle()
    }

    private func reload(_ service: SessionService, _ users: [(name: String, service: RequestingService)]) throws {
        try #require(service.reload(configuration(users)) { _ in } == [])
        service.loop.settle()
    }

    @Test("a request that comes before the start does not keep the session from beginning", arguments: [false, true])
    func requestBeforeStart(isRefusal: Bool) throws {
        let one = RequestingService("one", scope: "a", of: services)
        let service = try SessionService(
            configuration([("alice", one)]).users, identities: configuration([("alice", one)]).identities, store: store,
            contents: store.contents, subscribers: [published], logger: LogRecorder().logger)
        defer { service.stop() }
        service.loop.freezeTime()
        let alice = UserIndex(0)
        isRefusal
            ? service.tokenRefused(by: alice, generation: 1, number: RefusalNumber.ofNewCache().next)
            : service.tokenNeeded(by: alice)
        service.loop.settle()
        service.start()
        service.loop.settle()
        #expect(service.report.users.map(\.state) == [.valid] && one.logins == 1)
    }

    // MARK: Reloads

    /// How the request changes while the user waits for the end of its former runner.
    enum Change: CaseIterable { case byUpdate, byReplacement, none }

    @Test("a user that waits for its former call begins with tokens of the present request", arguments: Change.allCases)
    func changedRequest(_ change: Change) throws {
        let (former, other) = (
            RequestingService("one", scope: "a", of: services), RequestingService("two", scope: "a", of: services)
        )
        let present = change == .none ? former : RequestingService("one", scope: "b", of: services)
        let service = try started([("alice", former)])
        defer { service.stop() }
        try #require(store.contents["alice"]?.session != nil)
        services.hold(true)
        refresh("alice", of: service)
        try reload(service, [("alice", other)])
        if change == .byUpdate { try reload(service, [("alice", former)]) }
        try reload(service, [("alice", present)])
        #expect(service.loop.perform { service.runner(named: "alice")?.isWaiting } == true)
        services.hold(false)
        service.loop.settle()
        #expect(service.report.users.map(\.state) == [.valid])
        // The session continues: nothing logs in again.
        #expect(former.logins == 1 && present.logins == (change == .none ? 1 : 0) && other.logins == 0)
        #expect(former.refreshes == 1 && present.refreshes == 1)
    }

    @Test("a user that waits for its former call and then logs in has the present request: no renewal follows")
    func changedRequestOfLogin() throws {
        let (former, other) = (
            RequestingService("one", scope: "a", of: services), RequestingService("two", scope: "a", of: services)
        )
        let present = RequestingService("two", scope: "b", of: services)
        let service = try started([("alice", former)])
        defer { service.stop() }
        services.hold(true)
        refresh("alice", of: service)
        try reload(service, [("alice", other)])
        try reload(service, [("alice", present)])
        services.hold(false)
        service.loop.settle()
        #expect(service.report.users.map(\.state) == [.valid])
        #expect(present.logins == 1 && present.refreshes == 0 && other.logins == 0)
    }

    // MARK: The end

    @Test("the end does not wait for a user that has left and whose last write fails")
    func retiredWithUnsavedChange() throws {
        let one = RequestingService("one", scope: "a", of: services)
        let service = try started([("alice", one), ("bob", one)])
        defer { service.stop() }
        store.fails(true)
        refresh("alice", of: service)
        try reload(service, [("bob", one)])
        #expect(service.loop.perform { service.runnerTable.retiring.map(\.name) } == ["alice"])
        service.drain(within: .seconds(10), rotations: .seconds(60))
        let step = service.loop.perform { if case .draining(let step) = service.life { "\(step)" } else { "" } }
        #expect(step == "\(DrainStep.lastWrites)", "the limit has passed")
    }

    @Test(
        "what the store could not take is tried for the last time when the time of a stop is up",
        arguments: [Duration.zero, .seconds(60)])
    func lastWritesBesideCall(rotations: Duration) throws {
        let (one, slow) = (
            RequestingService("one", scope: "a", of: services), RequestingService("two", scope: "a", of: silent)
        )
        let service = try started([("alice", one), ("bob", slow)])
        defer { service.stop() }
        try #require(service.report.users.map(\.state) == [.valid, .loggingIn])
        services.hold(true)
        refresh("alice", of: service)
        // The result, and the try at the beginning of the end.
        store.fails(times: 2)
        services.hold(false)
        service.loop.settle()
        let generation = service.report.users[0].tokens.generation.number
        try #require(store.contents["alice"]?.generation.number == generation - 1)
        service.drain(within: .milliseconds(20), rotations: rotations)
        #expect(store.contents["alice"]?.generation.number == generation)
    }

    @Test(
        "a store that does not respond delays the end of a stop whose time is up by a second",
        arguments: [Duration.zero, .seconds(20)])
    func hangingLastWrite(operators: Duration) throws {
        let (one, slow) = (
            RequestingService("one", scope: "a", of: services),
            RequestingService("two", scope: "a", of: silent)
        )
        let service = try started([("alice", one), ("bob", slow)])
        defer { service.stop() }
        store.fails(true)
        refresh("alice", of: service)
        store.takes(.seconds(3600))
        let began = Instant.now
        service.drain(within: .milliseconds(20), operators: operators, rotations: operators)
        #expect(.now - began < .seconds(15), "no operator waits, and nothing rotates")
        #expect(service.loop.perform { service.runner(named: "alice")?.coordinator.isUnsaved } == true)
    }
}
