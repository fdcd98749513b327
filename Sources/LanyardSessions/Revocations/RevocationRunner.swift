import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings
import Logging

/// Tells identity services of sessions that are over, and repeats that after failures: it runs `RevocationQueue`.
/// Belongs to the queue of `SessionService`.
final class RevocationRunner: @unchecked Sendable {
    /// A caller that waits for the outcome of a revocation.
    private struct Waiter {
        let token: Secret
        let until: Instant
        let reply: @Sendable (Bool) -> Void
    }

    /// The longest wait of an operator for a service that does not respond. The call itself continues.
    private static let waitMax = Duration.seconds(5)

    private unowned let sessions: SessionService
    private var queue = RevocationQueue()
    private var waiters: [Waiter] = []
    /// The revocations that the store could not take.
    private var unsaved: [StoredRevocation] = []
    /// By the token's object identity, which the queue preserves.
    private var loggers: [ObjectIdentifier: Logger] = [:]
    private lazy var timer = SessionTimer(on: sessions.loop) { [unowned self] in due() }

    init(of sessions: SessionService) { self.sessions = sessions }

    /// - Parameters:
    ///   - user: the owner of the session; nil: unknown, for example from an earlier process.
    ///   - isStored: the store holds the revocation already. Otherwise it is stored now, so that a crash does not lose
    ///     it.
    ///   - reply: called once, on the service's queue; true: the identity service knows, false: not yet.
    func enqueue(
        _ revocation: StoredRevocation, of user: String? = nil, isStored: Bool = false, _ logger: Logger,
        _ reply: @escaping @Sendable (Bool) -> Void = { _ in }
    ) {
        if !isStored, !queue.contains(revocation.refresh) { save(revocation) }
        guard sessions.service(of: revocation) != nil else {
            giveUp(revocation, logger)
            return reply(false)
        }
        loggers[ObjectIdentifier(revocation.refresh)] = logger
        waiters.append(Waiter(token: revocation.refresh, until: .now + Self.waitMax, reply: reply))
        perform(queue.add(revocation, of: user, at: .now))
    }

    /// Whether a revocation of this user's sessions is pending. A revocation from an earlier process has no known
    /// owner. It counts for any user that was not logged out in this process.
    func hasPendingRevocation(_ runner: SessionRunner) -> Bool {
        queue.contains(user: runner.name)
            || !runner.wasLoggedOutHere && queue.containsOrphan(of: runner.managedUser.settings.identity)
    }

    /// Every service has been asked at least once. What is left can wait for the next start.
    var isDrained: Bool { queue.isDrained }

    private func save(_ revocation: StoredRevocation) {
        sessions.commit(.addRevocation(revocation)) { [weak self] result in
            guard case .failure = result else { return }
            self?.sessions.loop.post { [weak self] in
                guard let self, queue.contains(revocation.refresh) else { return }
                unsaved.append(revocation)
            }
        }
    }

    /// Unsaved revocations are stored with the next call, and before the end.
    private func saveAgain() {
        let again = unsaved
        unsaved = []
        for revocation in again where queue.contains(revocation.refresh) { save(revocation) }
    }

    func stop() {
        timer.drop()
        saveAgain()
        let left = waiters
        waiters = []
        for waiter in left { waiter.reply(false) }
    }

    /// No configured service may see the token. The revocation stays in the store for a day, because another start or
    /// process may know the service.
    private func giveUp(_ revocation: StoredRevocation, _ logger: Logger) {
        if .now - revocation.since >= RevocationQueue.retryPeriod {
            sessions.commit(.removeRevocation(revocation.refresh)) { _ in }
        }
        logger.warning(
            "a session cannot be revoked, because its identity is not configured here",
            metadata: [
                "event": "session.revoke.given_up", "identity": .string(revocation.identity),
                "reason": "identity_not_configured",
            ])
    }

    private func due() {
        saveAgain()
        perform(queue.due(at: .now))
        let now = Instant.now
        notifyWaiters(false) { $0.until <= now }
    }

    private func perform(_ actions: [RevocationQueue.Action]) {
        for action in actions {
            switch action {
            case .call(let revocation): call(revocation)
            case .done(let revocation, let outcome):
                log(revocation, outcome)
                forget(revocation.refresh, outcome)
            case .postponed(let revocation, let error, let until):
                log(revocation, error, until)
                notifyWaiters(false) { $0.token == revocation.refresh }
            }
        }
        timer.set(at: min(queue.dueAt, waiters.map(\.until).min() ?? .never))
    }

    private func call(_ revocation: StoredRevocation) {
        let token = revocation.refresh
        guard let service = sessions.service(of: revocation) else {
            let error = IdentityError(.transient(retryAfter: nil), message: "the identity is not configured any more")
            return sessions.loop.post { [weak sessions] in sessions?.revocations.handleReply(.failure(error), token) }
        }
        // The service may respond at any time, even after the end of the session service.
        service.revoke(token) { [weak sessions] result in
            sessions?.loop.post { [weak sessions] in sessions?.revocations.handleReply(result, token) }
        }
    }

    private func handleReply(_ result: Result<Void, IdentityError>, _ token: Secret) {
        guard !sessions.isStopped else { return }
        perform(queue.callCompleted(token, result, at: .now))
        sessions.signalIfDrained()
    }

    /// The waiters get their reply once the store no longer holds the token.
    private func forget(_ token: Secret, _ outcome: RevocationQueue.Outcome) {
        sessions.commit(.removeRevocation(token)) { [weak self] _ in
            self?.sessions.loop.post { [weak self] in self?.notifyWaiters(outcome == .told) { $0.token == token } }
        }
    }

    private func notifyWaiters(_ isTold: Bool, where isMeant: (Waiter) -> Bool) {
        let meant = waiters.filter(isMeant)
        guard !meant.isEmpty else { return }
        waiters.removeAll(where: isMeant)
        for waiter in meant { waiter.reply(isTold) }
    }

    // MARK: Log

    private func log(_ revocation: StoredRevocation, _ outcome: RevocationQueue.Outcome) {
        let logger = loggers.removeValue(forKey: ObjectIdentifier(revocation.refresh)) ?? sessions.logger
        switch outcome {
        case .told:
            logger.info(
                "the session is revoked at the identity service",
                metadata: ["event": "session.revoke.succeeded", "identity": .string(revocation.identity)])
        case .givenUp:
            logger.warning(
                "the session could not be revoked at the identity service for a day: no further attempt",
                metadata: ["event": "session.revoke.given_up", "identity": .string(revocation.identity)])
        }
    }

    private func log(_ revocation: StoredRevocation, _ error: IdentityError, _ until: Instant) {
        let next = SessionLog.wall(of: until, .now).map(Timestamp.text) ?? ""
        let logger = loggers[ObjectIdentifier(revocation.refresh)] ?? sessions.logger
        logger.warning(
            "the session is not revoked at the identity service yet; it is tried again",
            metadata: [
                "event": "session.revoke.failed", "identity": .string(revocation.identity),
                "reason": .string(error.verdict.label), "error": .string(error.message), "next_at": .string(next),
            ])
    }
}
