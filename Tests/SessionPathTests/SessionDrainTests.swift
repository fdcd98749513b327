import IdentityTestSupport
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings
@testable import LanyardVault

@Suite("Session service: slow services, and the end")
struct SessionDrainTests {
    private static func identity(_ port: String, on loop: EventLoop, total: Duration) -> AppServicesIdentity {
        let app = IdentitySettings.AppServices(appID: "demo-abcde", baseURL: port)
        var limits = CurlLimits()
        limits.totalTimeout = total
        return AppServicesIdentity(
            IdentitySettings(name: "slow", kind: .appServices(app)), app: app, version: "1", on: loop, limits: limits,
            logger: LogRecorder().logger)
    }

    @Test(
        "Rule 7: a service that never answers delays no other user, and its call ends by its own limit though no request waits for it"
    )
    func detached() async throws {
        let bench = try await SessionServiceBench()
        try await bench.becomes(.valid)
        let silent = try RawServer { _ in RawResponse([]) }
        // libcurl has a clock of its own, so this limit is waited for.
        let slow = Self.identity("http://\(silent.endpoint)", on: bench.loop, total: .seconds(2))
        let login = UserSettings.Login.anonymous
        let service = try SessionService(
            [
                ManagedUser(UserSettings(name: "bob", identity: "slow", login: login), source: .service(slow)),
                ManagedUser(
                    UserSettings(name: "carol", identity: "demo", login: login), source: .service(bench.identity)),
            ],
            store: bench.store, contents: StoreContents(fingerprintKey: KeyedHash.newKey()),
            subscribers: [PublicationLog()], logger: bench.log.logger)
        service.start()
        try await eventually("carol's first token") { service.report.users[1].tokens.generation == 1 }
        for generation: UInt64 in 2...3 {
            try await bench.passToRefresh(of: service, user: 1)
            try await eventually("carol's token \(generation)") {
                service.report.users[1].tokens.generation.number == generation
            }
        }
        try await eventually("bob's failure") { service.report.users[0].reason == .identityUnreachable }
        #expect(service.report.users[1].isReady(at: service.loop.perform { .now }))
        service.stop()
        slow.stop()
        silent.stop()
        await bench.end()
    }

    /// A user with a refresh in progress whose response waits for `mayRespond`.
    private struct Refreshing {
        let bench: IdentityBench
        let store = MemoryStore(fingerprintKey: KeyedHash.newKey())
        let service: SessionService

        init(_ rotation: RefreshTokenRotation, _ mayRespond: Milestone) async throws {
            let bench = try IdentityBench { _, path in
                path == IdentityBench.sessionPath
                    ? IdentityBench.json(
                        201, #"{"access_token":"\#(Tokens.access())","refresh_token":"c3VjY2Vzc29y"}"#
                    ).after(mayRespond, "the end has begun") : nil
            }
            self.bench = bench
            let managedUser = ManagedUser(
                UserSettings(name: "alice", identity: "demo", login: .anonymous), source: .service(bench.identity),
                refreshTokens: RefreshTokenSettings(rotation))
            let service = try SessionService(
                [managedUser], store: store, contents: StoreContents(fingerprintKey: KeyedHash.newKey()),
                subscribers: [PublicationLog()], logger: bench.log.logger)
            self.service = service
            service.start()
            try await eventually("the login") { service.report.users[0].state == .valid }
            service.loop.post { service.runner(named: "alice")?.refreshNow { _ in } }
            try await eventually("the call") {
                bench.server.requests.contains { $0.target == IdentityBench.sessionPath }
            }
        }

        func stored() async throws -> StoredUser {
            let stored = await withCheckedContinuation { done in store.read("alice") { done.resume(returning: $0) } }
            return try #require(try stored.get())
        }
    }

    @Test("a refresh that may bring another refresh token has the rest of the drain, any other one the short limit")
    func rotating() async throws {
        for rotation in [RefreshTokenRotation.none, .auto, .oneUse] {
            let mayRespond = Milestone()
            defer { mayRespond.set() }
            let refreshing = try await Refreshing(rotation, mayRespond)
            let service = refreshing.service
            let drain = Task { service.drain(within: .milliseconds(20), rotations: .seconds(60)) }
            try await eventually("the short limit has passed") {
                service.loop.perform {
                    switch service.life {
                    case .starting, .serving, .draining(.everything): false
                    case .draining, .stopped: true
                    }
                }
            }
            let isAwaited = service.loop.perform { service.runner(named: "alice")?.isRotating }
            #expect(isAwaited == (rotation != .none))
            if rotation == .none {
                // It does not wait for the response.
                await drain.value
                #expect(try await refreshing.stored().intent?.kind == .refresh)
            } else {
                mayRespond.set()
                await drain.value
                let user = try await refreshing.stored()
                #expect(Tokens.text(user.session?.refresh) == "c3VjY2Vzc29y" && user.intent == nil)
            }
            service.stop()
        }
    }

    @Test("the end waits for a call in progress and stores its result, and begins nothing")
    func settles() async throws {
        let mayRespond = Milestone()
        defer { mayRespond.set() }
        let refreshing = try await Refreshing(.oneUse, mayRespond)
        let (bench, service) = (refreshing.bench, refreshing.service)
        let hasEnded = Milestone()
        let drain = Task {
            service.drain()
            hasEnded.set()
        }
        try await eventually("the end has begun") { service.loop.perform { service.isDraining } }
        #expect(!hasEnded.isSet)
        mayRespond.set()
        await drain.value
        let user = try await refreshing.stored()
        #expect(Tokens.text(user.session?.refresh) == "c3VjY2Vzc29y" && user.intent == nil && user.generation == 2)
        service.loop.post { service.runner(named: "alice")?.refreshNow { _ in } }
        service.drain(within: .milliseconds(300))
        #expect(bench.server.requests.count { $0.target == IdentityBench.sessionPath } == 1)
        service.stop()
    }

    /// A refresh token that only the process has is tried again and again; an access token, and the generation, only once.
    @Test(
        "what the store could not take is tried for the last time when no user's call is left",
        arguments: [true, false])
    func lastWrites(rotates: Bool) async throws {
        let mayRespond = Milestone()
        defer { mayRespond.set() }
        let successor = rotates ? #","refresh_token":"c3VjY2Vzc29y""# : ""
        let bench = try IdentityBench { _, path in
            path == IdentityBench.sessionPath
                ? IdentityBench.json(201, #"{"access_token":"\#(Tokens.access())"\#(successor)}"#) : nil
        }
        let held = try RawServer { _ in RawResponse([]).closing.after(mayRespond, "the store works again") }
        let slow = Self.identity("http://\(held.endpoint)", on: bench.loop, total: .seconds(30))
        let store = KeptStore()
        let service = try SessionService(
            [
                ManagedUser(
                    UserSettings(name: "alice", identity: "demo", login: .anonymous), source: .service(bench.identity),
                    refreshTokens: RefreshTokenSettings(.oneUse)),
                ManagedUser(UserSettings(name: "bob", identity: "slow", login: .anonymous), source: .service(slow)),
            ],
            store: store, contents: store.contents, subscribers: [PublicationLog()], logger: bench.log.logger)
        service.start()
        try await eventually("alice's login") { service.report.users[0].state == .valid }
        try await eventually("bob's call") { !held.requests.isEmpty }
        store.fails(true)
        service.loop.post { service.runner(named: "alice")?.refreshNow { _ in } }
        try await eventually("alice's refresh") { service.report.users[0].tokens.generation == 2 }
        let drain = Task { service.drain(within: .seconds(30)) }
        try await eventually("the end has begun") { service.loop.perform { service.isDraining } }
        #expect(store.contents["alice"]?.generation == 1)
        store.fails(false)
        mayRespond.set()
        await drain.value
        #expect(store.contents["alice"]?.generation == 2)
        #expect((Tokens.text(store.contents["alice"]?.session?.refresh) == "c3VjY2Vzc29y") == rotates)
        service.stop()
        slow.stop()
        held.stop()
    }

    @Test(
        "a stop repeats the write of a refresh token that only the process has, and ends with it, or when its time is up"
    )
    func unsavedToken() async throws {
        for isStored in [true, false] {
            let bench = try IdentityBench { _, path in
                path == IdentityBench.sessionPath
                    ? IdentityBench.json(201, #"{"access_token":"\#(Tokens.access())","refresh_token":"c3VjY2Vzc29y"}"#)
                    : nil
            }
            let store = KeptStore()
            let managedUser = ManagedUser(
                UserSettings(name: "alice", identity: "demo", login: .anonymous), source: .service(bench.identity),
                refreshTokens: RefreshTokenSettings(.oneUse))
            let service = try SessionService(
                [managedUser], store: store, contents: store.contents, subscribers: [PublicationLog()],
                logger: bench.log.logger)
            service.start()
            try await eventually("alice's login") { service.report.users[0].state == .valid }
            store.fails(true)
            service.loop.post { service.runner(named: "alice")?.refreshNow { _ in } }
            try await eventually("alice's refresh") { service.report.users[0].tokens.generation == 2 }
            let hasEnded = Milestone()
            let drain = Task {
                service.drain(within: .milliseconds(20), rotations: isStored ? .seconds(600) : .milliseconds(700))
                hasEnded.set()
            }
            try await eventually("the stop waits") { bench.log.lines.contains { $0.contains("store.stop_waiting") } }
            if isStored {
                #expect(!hasEnded.isSet)
                store.fails(false)
            }
            await drain.value
            let stored = Tokens.text(store.contents["alice"]?.session?.refresh)
            #expect((stored == "c3VjY2Vzc29y") == isStored)
            service.stop()
        }
    }
}
