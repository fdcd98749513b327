import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// An outage with several sessions of one identity (refresh.md 4).
@Suite struct OutageProbeTests {
    /// An identity service that is down, or responds at once. All its state belongs to `Guarded` boxes.
    private final class Service: IdentityService {
        private let loop: EventLoop
        let isDown = Guarded(true)
        /// The instant of each call.
        let calls = Guarded<[Instant]>([])
        let revocations = Guarded(0)

        init(_ loop: EventLoop) { self.loop = loop }

        private func respond(_ reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void) {
            calls.withLock { $0.append(.now) }
            let isDown = isDown.withLock { $0 }
            loop.post {
                reply(
                    isDown
                        ? .failure(IdentityError(.transient(retryAfter: nil), message: "down"))
                        : .success(
                            Grant(
                                accessToken: Tokens.secret("access"), refreshToken: Tokens.secret("refresh"),
                                userID: nil, lifetime: .seconds(1800), refreshTokenExpiry: nil, serverDate: nil)))
            }
        }

        func login(
            _ credential: Credential, guarded: LoginGuard?,
            reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
        ) { respond(reply) }

        func refresh(_ refreshToken: Secret, reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void) {
            respond(reply)
        }

        func revoke(_ refreshToken: Secret, reply: @escaping @Sendable (Result<Void, IdentityError>) -> Void) {
            revocations.withLock { $0 += 1 }
        }
    }

    private static func service(_ count: Int, _ made: (EventLoop) -> Service) throws -> (SessionService, Service) {
        let contents = StoreContents(fingerprintKey: KeyedHash.newKey())
        let loop = try EventLoop(label: "test.identity")
        loop.start()
        let identity = made(loop)
        let users = (0..<count).map { number in
            ManagedUser(
                UserSettings(name: "user-\(number)", identity: "demo", login: .anonymous), source: .service(identity))
        }
        let service = try SessionService(
            users, store: KeptStore(), contents: contents, subscribers: [PublicationLog()], logger: LogRecorder().logger
        )
        return (service, identity)
    }

    @Test("while requests come one call a second asks; its success releases the others within 20 ms each")
    func outage() async throws {
        let count = 20
        let (service, identity) = try Self.service(count) { Service($0) }
        service.loop.freezeTime()
        service.start()
        defer { service.stop() }
        let users = (0..<count).map { UserIndex($0) }
        try await eventually("all have failed once") { identity.calls.withLock { $0.count } >= count }
        // Their own back-offs grow to 30 s.
        for _ in 0..<120 {
            service.loop.pass(.seconds(1))
            service.loop.perform {}
        }
        let before = identity.calls.withLock { $0.count }
        for user in users { service.tokenNeeded(by: user) }
        for _ in 0..<40 {
            service.loop.pass(.milliseconds(250))
            service.loop.perform {}
            for user in users { service.tokenNeeded(by: user) }
        }
        let asked = identity.calls.withLock { $0.count } - before
        // In 10 s: one a second, and what the sessions' own back-offs bring.
        #expect(8...30 ~= asked, "\(asked)")
        identity.isDown.withLock { $0 = false }
        let whileDown = identity.calls.withLock { $0.count }
        for _ in 0..<20 where identity.calls.withLock({ $0.count }) == whileDown {
            service.loop.pass(.milliseconds(100))
            service.loop.perform {}
        }
        // No request asks for the others any more.
        try await eventually("one has its token") { service.report.users.contains { $0.state == .valid } }
        let areReleased = service.loop.perform {
            let latest = Instant.now + .milliseconds(20) * count
            return service.runners.allSatisfy {
                !$0.coordinator.awaitsService(at: .now)
                    || ($0.coordinator.session.retryState?.nextAttemptAt ?? .never) <= latest
            }
        }
        #expect(areReleased)
        service.loop.pass(.milliseconds(20) * count)
        try await eventually("all have a token") { service.report.users.allSatisfy { $0.state == .valid } }
    }

    @Test("without requests nothing but the sessions' own back-offs asks")
    func quiet() async throws {
        let (service, identity) = try Self.service(1) { Service($0) }
        service.loop.freezeTime()
        service.start()
        defer { service.stop() }
        try await eventually("it has failed once") { identity.calls.withLock { $0.count } >= 1 }
        for _ in 0..<120 {
            service.loop.pass(.seconds(1))
            service.loop.perform {}
        }
        #expect(identity.calls.withLock { $0.count } < 60)
    }
}
