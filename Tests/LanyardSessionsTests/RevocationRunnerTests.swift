import Logging
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions

@Suite struct RevocationRunnerTests {
    private typealias Reply = @Sendable (Result<Void, IdentityError>) -> Void

    /// A store that takes every change, and an identity service whose responses the test gives.
    private final class Environment: RevocationEnvironment, IdentityService {
        let loop: EventLoop
        let log = LogRecorder()
        let calls = Guarded<[Reply]>([])
        /// The outcomes that the callers got.
        let outcomes = Guarded<[Bool]>([])

        init() throws {
            loop = try EventLoop(label: "test.revocations")
            loop.start()
        }

        var logger: Logger { log.logger }
        var isStopped: Bool { false }

        func commit(
            _ change: StoreChange, reply: @escaping @Sendable (Result<StoreChange.Verdict, StoreError>) -> Void
        ) {
            reply(.success(.stored(nil)))
        }

        func signalIfDrained() {}

        func service(of revocation: StoredRevocation) -> (any IdentityService)? { self }

        func userCount(at identity: String) -> Int { 1 }

        func login(
            _ credential: Credential, guarded: LoginGuard?,
            reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
        ) {}

        func refresh(_ refreshToken: Secret, reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void) {}

        func revoke(_ refreshToken: Secret, reply: @escaping @Sendable (Result<Void, IdentityError>) -> Void) {
            calls.withLock { $0.append(reply) }
        }

        /// Runs on the loop, and waits for it.
        func perform(_ work: @escaping @Sendable () -> Void) async {
            await withCheckedContinuation { done in
                loop.post {
                    work()
                    done.resume()
                }
            }
        }
    }

    /// A log that lives as long as a logger refers to it.
    private final class WeakLog: @unchecked Sendable {
        weak var log: LogRecorder?

        init(_ log: LogRecorder) { self.log = log }
    }

    /// Enqueues a revocation whose token is an object of its own, with a log of its own.
    private static func enqueue(
        _ token: String, to runner: RevocationRunner, in environment: Environment
    ) async -> WeakLog {
        let log = LogRecorder()
        let revocation = StoredRevocation(identity: "demo", token: Tokens.secret(token), since: .now)
        await environment.perform { [logger = log.logger] in
            runner.enqueue(revocation, of: "alice", isStored: true, logger) { outcome in
                environment.outcomes.withLock { $0.append(outcome) }
            }
        }
        return WeakLog(log)
    }

    @Test("a service that cannot revoke is asked once: the caller learns that nothing is revoked, and so does the log")
    func unsupported() async throws {
        let environment = try Environment()
        let runner = RevocationRunner(environment: environment)
        let log = LogRecorder()
        let revocation = StoredRevocation(identity: "demo", token: Tokens.secret("one"), since: .now)
        await environment.perform { [logger = log.logger] in
            runner.enqueue(revocation, of: "alice", isStored: true, logger) { outcome in
                environment.outcomes.withLock { $0.append(outcome) }
            }
        }
        var error = IdentityError(.callRefused, message: "no revocation endpoint")
        error.isUnsupported = true
        environment.calls.withLock { $0 }.first?(.failure(error))
        try await eventually("the caller knows") { environment.outcomes.withLock { $0 } == [false] }
        await environment.perform {
            #expect(!runner.hasPendingRevocation(of: "alice", identity: "demo", wasLoggedOutHere: true))
            #expect(
                runner.revocationState(of: "alice", identity: "demo", wasLoggedOutHere: true) == .notSupported
                    && runner.revocationState(of: "bob", identity: "demo", wasLoggedOutHere: true) == .none)
            runner.stop()
        }
        #expect(log.lines.count == 1 && log.lines[0].contains("session.revoke.not_supported"), "\(log.lines)")
        environment.loop.stop()
    }

    @Test(
        "a revocation is confirmed only when the service has confirmed each session that ended; a later one begins anew"
    )
    func state() async throws {
        let environment = try Environment()
        let runner = RevocationRunner(environment: environment)
        func state(_ user: String = "alice", here: Bool = true) async -> RevocationState {
            await withCheckedContinuation { done in
                environment.loop.post {
                    done.resume(returning: runner.revocationState(of: user, identity: "demo", wasLoggedOutHere: here))
                }
            }
        }
        func respond(_ result: Result<Void, IdentityError>, outcomes: Int) async throws {
            environment.calls.withLock { $0.removeFirst() }(result)
            try await eventually("the caller knows") { environment.outcomes.withLock { $0.count } == outcomes }
        }
        var unsupported = IdentityError(.callRefused, message: "none")
        unsupported.isUnsupported = true
        #expect(await state() == .none)
        _ = await Self.enqueue("one", to: runner, in: environment)
        _ = await Self.enqueue("two", to: runner, in: environment)
        #expect(await state() == .pending)
        try await respond(.success(()), outcomes: 1)
        #expect(await state() == .pending)
        try await respond(.failure(unsupported), outcomes: 2)
        #expect(await state() == .notSupported)
        _ = await Self.enqueue("three", to: runner, in: environment)
        try await respond(.failure(IdentityError(.sessionDead, message: "gone")), outcomes: 3)
        #expect(await state() == .confirmed)
        await environment.perform { runner.forgetOutcome(of: "alice") }
        #expect(await state() == .none)
        // A session of an earlier process counts for each user that was not logged out here.
        let revocation = StoredRevocation(identity: "demo", token: Tokens.secret("four"), since: .now)
        await environment.perform { runner.enqueue(revocation, of: nil, isStored: true, environment.logger) { _ in } }
        #expect(await state("bob", here: false) == .pending)
        #expect(await state("bob") == .none)
        environment.calls.withLock { $0.removeFirst() }(.success(()))
        try await eventually("it is told") { await state("bob", here: false) == .confirmed }
        await environment.perform { runner.stop() }
        environment.loop.stop()
    }

    @Test(
        "beyond the share of an identity a revocation is given up: its caller learns that nothing is revoked, and the log says why"
    )
    func share() async throws {
        let environment = try Environment()
        let runner = RevocationRunner(environment: environment)
        let log = LogRecorder()
        await environment.perform { [logger = log.logger] in
            for number in 0...StoreShare.spareRevocationsMax + 1 {
                let revocation = StoredRevocation(
                    identity: "demo", token: Tokens.secret("token-\(number)"), since: .now)
                runner.enqueue(revocation, of: nil, isStored: true, logger) { outcome in
                    environment.outcomes.withLock { $0.append(outcome) }
                }
            }
        }
        try await eventually("the first is given up") { environment.outcomes.withLock { $0 } == [false] }
        await environment.perform { runner.stop() }
        let lines = log.lines.filter { $0.contains("session.revoke.given_up") }
        #expect(lines.count == 1 && lines[0].contains("share_used_up"), "\(log.lines)")
        environment.loop.stop()
    }

    @Test("a second revocation of the same token makes no second call, and leaves nothing behind")
    func twice() async throws {
        let environment = try Environment()
        let runner = RevocationRunner(environment: environment)
        let logs = [
            await Self.enqueue("one", to: runner, in: environment),
            await Self.enqueue("one", to: runner, in: environment),
        ]
        let calls = environment.calls.withLock { $0 }
        #expect(calls.count == 1)
        calls.first?(.success(()))
        try await eventually("both callers know") { environment.outcomes.withLock { $0 } == [true, true] }
        try await eventually("no logger is kept") { logs.allSatisfy { $0.log == nil } }
        await environment.perform { runner.stop() }
        environment.loop.stop()
    }
}
