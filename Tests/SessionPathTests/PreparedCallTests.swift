import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings
@testable import LanyardVault

@Suite("Session service: refreshes that are prepared")
struct PreparedCallTests {
    /// A service whose refreshes end when the test says so.
    private final class Service: IdentityService {
        typealias Reply = @Sendable (Result<Grant, IdentityError>) -> Void

        struct Call: Sendable {
            let progress: CallProgress
            let reply: Reply
        }

        let asksBeforeSending = true
        private let open = Guarded<[Call]>([])

        var calls: [Call] { open.withLock { $0 } }

        static func grant(_ refresh: String) -> Grant {
            Grant(
                accessToken: Tokens.secret("access of \(refresh)"), refreshToken: Tokens.secret(refresh), userID: "a",
                lifetime: .seconds(1_800), refreshTokenExpiry: nil, serverDate: nil)
        }

        func login(_ credential: Credential, guarded: LoginGuard?, reply: @escaping Reply) {
            reply(.success(Self.grant("one")))
        }

        func refresh(_ refreshToken: Secret, reply: @escaping Reply) {
            reply(.failure(IdentityError(.callRefused, message: "a refresh without progress")))
        }

        func refresh(_ refreshToken: Secret, progress: CallProgress, reply: @escaping Reply) {
            open.withLock { $0.append(Call(progress: progress, reply: reply)) }
        }

        func revoke(_ refreshToken: Secret, reply: @escaping @Sendable (Result<Void, IdentityError>) -> Void) {
            reply(.success(()))
        }
    }

    private struct Bench {
        let identity = Service()
        let store = MemoryStore(fingerprintKey: KeyedHash.newKey())
        let service: SessionService
        let log = LogRecorder()

        /// A user whose refresh has begun.
        init() async throws {
            let user = ManagedUser(
                UserSettings(name: "alice", identity: "corp", login: .anonymous), source: .service(identity),
                refreshTokens: RefreshTokenSettings(.oneUse))
            let service = try SessionService(
                [user], store: store, contents: StoreContents(fingerprintKey: KeyedHash.newKey()),
                subscribers: [PublicationLog()], logger: log.logger)
            self.service = service
            service.start()
            try await eventually("the login") { service.report.users[0].state == .valid }
            service.loop.post { service.runner(named: "alice")?.refreshNow { _ in } }
            let identity = identity
            try await eventually("the call") { !identity.calls.isEmpty }
        }

        func stored() async throws -> StoredUser {
            let stored = await withCheckedContinuation { done in store.read("alice") { done.resume(returning: $0) } }
            return try #require(try stored.get())
        }
    }

    @Test("a stop does not wait for a connection, and the call that is given up changes nothing when it ends")
    func stop() async throws {
        let bench = try await Bench()
        let (service, call) = (bench.service, bench.identity.calls[0])
        let drain = Task { service.drain(within: .seconds(3_600)) }
        try await eventually("the call is given up") { call.progress.gate?.isCancelled == true }
        await drain.value
        #expect(service.loop.perform { service.runner(named: "alice")?.isDrained } == true)
        call.reply(.success(Service.grant("two")))
        let user = try await bench.stored()
        #expect(Tokens.text(user.session?.refresh) == "one" && user.intent == nil)
        service.stop()
    }

    @Test("a logout gives the call up: what comes later is no result")
    func logout() async throws {
        let bench = try await Bench()
        let (service, call) = (bench.service, bench.identity.calls[0])
        service.loop.post { service.runner(named: "alice")?.logOut { _ in } }
        try await eventually("the call is given up") { call.progress.gate?.isCancelled == true }
        #expect(call.progress.gate?.ask {} == .refused)
        call.reply(.failure(IdentityError(.transient(retryAfter: nil), message: "given up")))
        service.drain(within: .seconds(3_600))
        #expect(try await bench.stored().isLoggedOut)
        service.stop()
    }

    @Test("a response that comes before the intent is stored counts once it is", arguments: [false, true])
    func earlyResponse(isRefused: Bool) async throws {
        let bench = try await Bench()
        let (service, call) = (bench.service, bench.identity.calls[0])
        // The session is asked, and the response follows at once: the store has not answered then.
        service.loop.perform {
            #expect(call.progress.gate?.ask {} == .pending)
            call.reply(
                isRefused
                    ? .failure(IdentityError(.sessionDead, message: "early")) : .success(Service.grant("two")))
        }
        let isLate = { bench.log.lines.contains { $0.contains("response.late") } }
        // After the refusal the token is that of a login.
        try await eventually("the result") { service.report.users[0].tokens.generation == 2 || isLate() }
        try #require(!isLate(), "\(bench.log.lines)")
        let user = try await bench.stored()
        #expect(user.intent == nil && Tokens.text(user.session?.refresh) == (isRefused ? "one" : "two"))
        // The call has ended for a stop, too.
        let hasDrained = Milestone()
        let drain = Task {
            service.drain(within: .seconds(3_600))
            hasDrained.set()
        }
        try await eventually("the end of the drain") { hasDrained.isSet }
        await drain.value
        service.stop()
    }
}
