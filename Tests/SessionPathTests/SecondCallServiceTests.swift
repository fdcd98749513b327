import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings
@testable import LanyardVault

/// Rule 17 in the session service: two calls of one attempt, of which the test ends each when it likes.
@Suite("Session service: second calls")
struct SecondCallServiceTests {
    private final class Service: IdentityService {
        struct Call: Sendable {
            let progress: CallProgress
            let reply: @Sendable (Result<Grant, IdentityError>) -> Void
        }

        let allowsSecondCall = true
        let revokesAccessTokens = true
        private let open = Guarded<[Call]>([])
        private let revokedTokens = Guarded<[String]>([])

        var calls: [Call] { open.withLock { $0 } }
        var revoked: [String] { revokedTokens.withLock { $0 } }

        static func grant(_ token: String) -> Result<Grant, IdentityError> {
            .success(
                Grant(
                    accessToken: Tokens.secret(token), refreshToken: nil, userID: nil, lifetime: .seconds(1_800),
                    refreshTokenExpiry: nil, serverDate: nil))
        }

        func login(
            _ credential: Credential, guarded: LoginGuard?,
            reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
        ) { reply(.failure(IdentityError(.callRefused, message: "a login without progress"))) }

        func login(
            _ credential: Credential, guarded: LoginGuard?, progress: CallProgress,
            reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
        ) { open.withLock { $0.append(Call(progress: progress, reply: reply)) } }

        func refresh(
            _ refreshToken: Secret, reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
        ) { reply(.failure(IdentityError(.callRefused, message: "there are no refresh tokens"))) }

        func revoke(_ refreshToken: Secret, reply: @escaping @Sendable (Result<Void, IdentityError>) -> Void) {
            reply(.success(()))
        }

        func revoke(accessToken: Secret, reply: @escaping @Sendable (Result<Void, IdentityError>) -> Void) {
            revokedTokens.withLock { $0.append(Tokens.text(accessToken) ?? "") }
            reply(.success(()))
        }
    }

    private struct Bench {
        let identity = Service()
        let published = PublicationLog()
        let log = LogRecorder()
        let service: SessionService

        /// - Parameter users: of one identity, for each of which a request waits.
        init(users: Int = 1) async throws {
            let identity = identity
            let managed = (0..<users).map { number in
                ManagedUser(
                    UserSettings(name: "user-\(number)", identity: "corp", login: .clientCredentials),
                    source: .service(identity), refreshTokens: RefreshTokenSettings(.none))
            }
            service = try SessionService(
                managed, store: MemoryStore(fingerprintKey: KeyedHash.newKey()),
                contents: StoreContents(fingerprintKey: KeyedHash.newKey()), subscribers: [published],
                logger: log.logger)
            service.loop.freezeTime()
            service.start()
            try await eventually("the first calls") { identity.calls.count == users }
            for number in 0..<users { service.tokenNeeded(by: UserIndex(number)) }
            service.loop.pass(.zero)
        }

        /// Passes time, and waits until so many calls were made.
        func pass(_ time: Duration, calls: Int) async throws {
            service.loop.pass(time)
            let identity = identity
            try await eventually("\(calls) calls; there were \(identity.calls.count)") { identity.calls.count == calls }
        }

        var token: String? { Tokens.text(published.token()?.token) }

        /// Of all kinds of login.
        func attempts(_ result: String) -> Double {
            service.report.samples().filter {
                $0.name == "lanyard_login_attempts" && $0.labels.contains(.init("result", result))
            }.map(\.value).reduce(0, +)
        }
    }

    @Test(
        "the second call brings the token: the first is cancelled, counted once, and what it brings is never used or revoked"
    )
    func second() async throws {
        let bench = try await Bench()
        try await bench.pass(.seconds(2), calls: 2)
        let calls = bench.identity.calls
        #expect(!calls[0].progress.isSecond && calls[1].progress.isSecond)
        #expect(bench.log.lines.contains { $0.contains("session.call.second") })
        calls[1].reply(Service.grant("second"))
        try await eventually("the token") { bench.token == "second" }
        #expect(calls[0].progress.cancellation.isCancelled && !calls[1].progress.cancellation.isCancelled)
        calls[0].reply(Service.grant("late"))
        bench.service.loop.pass(.seconds(1))
        #expect(bench.token == "second" && bench.published.tokens().count == 1 && bench.identity.revoked.isEmpty)
        #expect(!bench.log.lines.contains { $0.contains("response.late") }, "\(bench.log.lines)")
        #expect(bench.attempts("success") == 1 && bench.attempts("late") == 0)
        bench.service.stop()
    }

    @Test("the first call brings the token: the second is cancelled")
    func first() async throws {
        let bench = try await Bench()
        try await bench.pass(.seconds(2), calls: 2)
        bench.identity.calls[0].reply(Service.grant("first"))
        try await eventually("the token") { bench.token == "first" }
        #expect(bench.identity.calls[1].progress.cancellation.isCancelled)
        bench.identity.calls[1].reply(.failure(IdentityError(.transient(retryAfter: nil), message: "cancelled")))
        bench.service.loop.pass(.zero)
        #expect(bench.service.report.users[0].state == .valid)
        bench.service.stop()
    }

    @Test("the second fails, then the first: one failure, and the next attempt may have two calls again")
    func bothFail() async throws {
        let bench = try await Bench()
        try await bench.pass(.seconds(2), calls: 2)
        let failure = Result<Grant, IdentityError>.failure(IdentityError(.transient(retryAfter: nil), message: "lost"))
        bench.identity.calls[1].reply(failure)
        bench.service.loop.pass(.zero)
        #expect(bench.service.report.users[0].lastError == nil)
        bench.identity.calls[0].reply(failure)
        try await eventually("the failure") { bench.service.report.users[0].lastError != nil }
        #expect(bench.attempts("transient") == 1)
        bench.service.tokenNeeded(by: UserIndex(0))
        // The back-off before the second attempt is at most a second.
        try await bench.pass(.seconds(1), calls: 3)
        bench.service.tokenNeeded(by: UserIndex(0))
        try await bench.pass(.seconds(2), calls: 4)
        bench.service.stop()
    }

    @Test("of two sessions of an identity one makes its second call, and the other a second later")
    func oneInASecond() async throws {
        let bench = try await Bench(users: 2)
        try await bench.pass(.seconds(2), calls: 3)
        bench.service.loop.pass(.milliseconds(999))
        #expect(bench.identity.calls.count == 3)
        try await bench.pass(.milliseconds(1), calls: 4)
        bench.service.stop()
    }

    @Test("another second call takes the place of one without a response, which is cancelled; the first call stays")
    func renewed() async throws {
        let bench = try await Bench()
        try await bench.pass(.seconds(2), calls: 2)
        try await bench.pass(.seconds(5), calls: 3)
        let calls = bench.identity.calls
        #expect(calls.map(\.progress.cancellation.isCancelled) == [false, true, false])
        calls[1].reply(Service.grant("late"))
        bench.service.loop.pass(.seconds(1))
        #expect(bench.token == nil && bench.identity.revoked.isEmpty)
        calls[2].reply(Service.grant("third"))
        try await eventually("the token") { bench.token == "third" }
        #expect(calls[0].progress.cancellation.isCancelled && bench.attempts("success") == 1)
        bench.service.stop()
    }

    @Test("the service asks the second call for a pause: a first call that stays silent does not hold it up")
    func pause() async throws {
        let bench = try await Bench()
        try await bench.pass(.seconds(2), calls: 2)
        let calls = bench.identity.calls
        calls[1].reply(.failure(IdentityError(.transient(retryAfter: nil), status: 503, message: "later")))
        bench.service.loop.pass(.zero)
        bench.service.loop.pass(.seconds(4))
        #expect(bench.service.report.users[0].lastError == nil && !calls[0].progress.cancellation.isCancelled)
        bench.service.loop.pass(.seconds(1))
        try await eventually("the failure") { bench.service.report.users[0].lastError != nil }
        #expect(calls[0].progress.cancellation.isCancelled && bench.attempts("transient") == 1)
        calls[0].reply(Service.grant("late"))
        bench.service.loop.pass(.zero)
        #expect(bench.token == nil && bench.attempts("success") == 0)
        bench.service.stop()
    }

    @Test("a call that is slower than each second call brings the token")
    func slow() async throws {
        let bench = try await Bench()
        try await bench.pass(.seconds(2), calls: 2)
        for count in 3...6 { try await bench.pass(.seconds(5), calls: count) }
        bench.identity.calls[0].reply(Service.grant("first"))
        try await eventually("the token") { bench.token == "first" }
        let areCancelled = bench.identity.calls.map(\.progress.cancellation.isCancelled)
        #expect(areCancelled == [false, true, true, true, true, true])
        bench.service.stop()
    }

    @Test("three sessions at once have second calls while none has a response; each keeps its own")
    func three() async throws {
        let bench = try await Bench(users: 5)
        try await bench.pass(.seconds(2), calls: 6)
        try await bench.pass(.seconds(1), calls: 7)
        try await bench.pass(.seconds(1), calls: 8)
        bench.service.loop.pass(.seconds(2))
        #expect(bench.identity.calls.count == 8)
        for count in 9...14 { try await bench.pass(.seconds(count < 12 ? 1 : count == 12 ? 3 : 1), calls: count) }
        let calls = bench.identity.calls.map(\.progress)
        #expect(calls.map(\.isSecond) == calls.indices.map { $0 >= 5 })
        // The first calls, and the latest second ones.
        #expect(calls.map(\.cancellation.isCancelled) == calls.indices.map { 5..<11 ~= $0 })
        bench.service.stop()
    }

    @Test(
        "once a second call has had its response, those of the other sessions follow without the limit of one in a second"
    )
    func released() async throws {
        let bench = try await Bench(users: 5)
        try await bench.pass(.seconds(2), calls: 6)
        try await bench.pass(.seconds(1), calls: 7)
        let open = bench.identity.calls
        open[6].reply(Service.grant("second"))
        // The session whose second call was made a second ago still waits for that.
        try await bench.pass(.milliseconds(100), calls: 10)
        try await bench.pass(.seconds(1), calls: 11)
        bench.service.stop()
    }

    @Test("a logout while both are open: the token that comes is revoked as that of one login, the other is dropped")
    func logout() async throws {
        let bench = try await Bench()
        try await bench.pass(.seconds(2), calls: 2)
        let (service, calls) = (bench.service, bench.identity.calls)
        service.loop.post { service.runner(named: "user-0")?.logOut { _ in } }
        service.loop.pass(.zero)
        calls[1].reply(Service.grant("second"))
        calls[0].reply(Service.grant("first"))
        try await eventually("the revocation") { bench.identity.revoked == ["second"] }
        service.loop.pass(.seconds(1))
        #expect(bench.token == nil && bench.identity.revoked == ["second"])
        service.stop()
    }

    @Test("a stop while both are open waits for one result")
    func stop() async throws {
        let bench = try await Bench()
        try await bench.pass(.seconds(2), calls: 2)
        let (service, calls) = (bench.service, bench.identity.calls)
        service.loop.post { service.runner(named: "user-0")?.drain() }
        calls[1].reply(Service.grant("second"))
        try await eventually("the end of the call") {
            service.loop.perform { service.runner(named: "user-0")?.isDrained } == true
        }
        calls[0].reply(Service.grant("late"))
        service.loop.pass(.zero)
        #expect(bench.identity.revoked.isEmpty)
        service.stop()
    }
}
