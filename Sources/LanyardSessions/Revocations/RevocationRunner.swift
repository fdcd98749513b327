import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings
import Logging

/// Tells identity services of sessions that have ended, and repeats that after failures: it runs `RevocationQueue`.
/// Belongs to the queue of `SessionService`, which owns it.
final class RevocationRunner: RevocationSending, @unchecked Sendable {
    /// A caller that waits for the outcome of a revocation.
    private struct Waiter {
        let token: Secret
        let until: Instant
        let reply: @Sendable (Bool) -> Void
    }

    /// A user, or an identity whose session's user is unknown.
    private struct Owner: Hashable {
        let user: String?
        let identity: String?

        init(_ user: String?, at identity: String) {
            self.user = user
            self.identity = user == nil ? identity : nil
        }
    }

    /// Outcomes that are kept: users come and go by the admin API.
    private static let outcomesMax = 4096
    /// The longest wait of an operator for a service that does not respond. The call itself continues.
    private static let waitMax = Duration.seconds(5)

    private unowned let environment: any RevocationEnvironment
    private var queue = RevocationQueue()
    private var waiters: [Waiter] = []
    /// The revocations that the store could not take.
    private var unsaved: [StoredRevocation] = []
    /// Those whose service was not configured, and for whom. A reload may bring it.
    private var givenUp: [(revocation: StoredRevocation, user: String?, logger: Logger)] = []
    /// Exactly one for each pending revocation, by the identity of the token that the queue holds.
    private var loggers: [ObjectIdentifier: Logger] = [:]
    /// Whose each pending revocation is, by the identity of its token.
    private var owners: [ObjectIdentifier: Owner] = [:]
    /// What came of each owner's revocations, since the owner had none pending last.
    private var outcomes: [Owner: RevocationState] = [:]
    private lazy var timer = SessionTimer(on: environment.loop) { [unowned self] in due() }

    init(environment: any RevocationEnvironment) { self.environment = environment }

    func enqueue(
        _ revocation: StoredRevocation, of user: String?, isStored: Bool, _ logger: Logger,
        _ reply: @escaping @Sendable (Bool) -> Void
    ) {
        environment.loop.assertIsCurrent()
        let isPending = queue.contains(revocation.token)
        if !isStored, !isPending { save(revocation) }
        let owner = Owner(user, at: revocation.identity)
        if !owners.values.contains(owner) { outcomes[owner] = nil }
        guard environment.service(of: revocation) != nil else {
            giveUp(revocation, user, logger)
            note(.givenUp, of: owner)
            return reply(false)
        }
        // The queue keeps the first object of a token. An entry for another object would never be removed.
        if !isPending {
            loggers[ObjectIdentifier(revocation.token)] = logger
            owners[ObjectIdentifier(revocation.token)] = owner
        }
        waiters.append(Waiter(token: revocation.token, until: .now + Self.waitMax, reply: reply))
        let userCount = environment.userCount(at: revocation.identity)
        perform(queue.add(revocation, of: user, userCount: userCount, at: .now))
    }

    func hasPendingRevocation(of user: String, identity: String, wasLoggedOutHere: Bool) -> Bool {
        environment.loop.assertIsCurrent()
        return queue.contains(user: user) || !wasLoggedOutHere && queue.containsOrphan(of: identity)
    }

    func revocationState(of user: String, identity: String, wasLoggedOutHere: Bool) -> RevocationState {
        environment.loop.assertIsCurrent()
        if hasPendingRevocation(of: user, identity: identity, wasLoggedOutHere: wasLoggedOutHere) { return .pending }
        return outcomes[Owner(user, at: identity)]
            ?? (wasLoggedOutHere ? nil : outcomes[Owner(nil, at: identity)]) ?? .none
    }

    func forgetOutcome(of user: String) {
        environment.loop.assertIsCurrent()
        outcomes[Owner(user, at: "")] = nil
    }

    private func note(_ state: RevocationState, of owner: Owner) {
        if outcomes.count >= Self.outcomesMax { outcomes = [:] }
        outcomes[owner] = outcomes[owner]?.joined(state) ?? state
    }

    /// Every service has been asked at least once. What is left can wait for the next start.
    var isDrained: Bool { queue.isDrained }

    private func save(_ revocation: StoredRevocation) {
        environment.commit(.addRevocation(revocation)) { [weak self] result in
            guard case .failure = result else { return }
            self?.environment.loop.post { [weak self] in
                guard let self, queue.contains(revocation.token) else { return }
                unsaved.append(revocation)
            }
        }
    }

    /// Unsaved revocations are stored with the next call, and before the end.
    private func saveAgain() {
        let again = unsaved
        unsaved = []
        for revocation in again where queue.contains(revocation.token) { save(revocation) }
    }

    func stop() {
        environment.loop.assertIsCurrent()
        timer.drop()
        saveAgain()
        let left = waiters
        waiters = []
        for waiter in left { waiter.reply(false) }
    }

    /// No configured service may see the token. The revocation stays in the store for a day, because another start or
    /// process may know the service.
    private func giveUp(_ revocation: StoredRevocation, _ user: String?, _ logger: Logger) {
        if .now - revocation.since >= ClockPolicy.Revocations.period {
            environment.commit(.removeRevocation(revocation.token)) { _ in }
        } else if !givenUp.contains(where: { $0.revocation.token == revocation.token }) {
            givenUp.append((revocation, user, logger))
            while let surplus = StoreShare.surplus(
                of: givenUp.map(\.revocation).filter { $0.identity == revocation.identity },
                userCount: environment.userCount(at: revocation.identity))
            {
                givenUp.removeAll { $0.revocation.token == surplus.token }
            }
        }
        logger.warning(
            "a session cannot be revoked, because its identity is not configured here",
            metadata: [
                "event": "session.revoke.given_up", "identity": .string(revocation.identity),
                "reason": "identity_not_configured",
            ])
    }

    /// A reload has changed the identities: the sessions whose service is configured now are revoked.
    func retryGivenUp() {
        environment.loop.assertIsCurrent()
        let known = givenUp.filter { environment.service(of: $0.revocation) != nil }
        givenUp.removeAll { entry in known.contains { $0.revocation.token == entry.revocation.token } }
        for (revocation, user, logger) in known {
            enqueue(revocation, of: user, isStored: false, logger) { _ in }
        }
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
                if let owner = owners.removeValue(forKey: ObjectIdentifier(revocation.token)) {
                    note(outcome.state, of: owner)
                }
                log(revocation, outcome)
                forget(revocation.token, outcome)
            case .postponed(let revocation, let error, let until):
                log(revocation, error, until)
                notifyWaiters(false) { $0.token == revocation.token }
            }
        }
        timer.set(at: min(queue.dueAt, waiters.map(\.until).min() ?? .never))
    }

    private func call(_ revocation: StoredRevocation) {
        let token = revocation.token
        // The service may respond at any time, even after the end of the session service.
        let complete: @Sendable (Result<Void, IdentityError>) -> Void = { [weak self, weak environment] result in
            environment?.loop.post { [weak self, weak environment] in
                guard let self, let environment, !environment.isStopped else { return }
                perform(queue.handleCallCompleted(token, result, at: .now))
                environment.signalIfDrained()
            }
        }
        guard let service = environment.service(of: revocation) else {
            let error = IdentityError(.transient(retryAfter: nil), message: "the identity is not configured any more")
            return complete(.failure(error))
        }
        switch revocation.kind {
        case .refreshToken: service.revoke(token, reply: complete)
        case .accessToken: service.revoke(accessToken: token, reply: complete)
        }
    }

    /// The waiters get their reply once the store no longer holds the token.
    private func forget(_ token: Secret, _ outcome: RevocationQueue.Outcome) {
        environment.commit(.removeRevocation(token)) { [weak self] _ in
            self?.environment.loop.post { [weak self] in self?.notifyWaiters(outcome == .told) { $0.token == token } }
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
        let logger = loggers.removeValue(forKey: ObjectIdentifier(revocation.token)) ?? environment.logger
        switch outcome {
        case .told:
            logger.info(
                "the session is revoked at the identity service",
                metadata: ["event": "session.revoke.succeeded", "identity": .string(revocation.identity)])
        case .notSupported:
            logger.info(
                "the session is not revoked, because the identity service has no revocation",
                metadata: ["event": "session.revoke.not_supported", "identity": .string(revocation.identity)])
        case .givenUp:
            logger.warning(
                "the session could not be revoked at the identity service for a day: no further attempt",
                metadata: ["event": "session.revoke.given_up", "identity": .string(revocation.identity)])
        case .shareUsedUp:
            logger.warning(
                """
                a session is not revoked, because the identity has more revocations than its share; its service does not \
                confirm them, or ends sessions faster than it confirms
                """,
                metadata: [
                    "event": "session.revoke.given_up", "identity": .string(revocation.identity),
                    "reason": .string(outcome.rawValue), "by": revocation.isByOperator ? "operator" : "lanyard",
                ])
        }
    }

    private func log(_ revocation: StoredRevocation, _ error: IdentityError, _ until: Instant) {
        let next = SessionLog.wall(of: until, .now).map(Timestamp.text) ?? ""
        let logger = loggers[ObjectIdentifier(revocation.token)] ?? environment.logger
        logger.warning(
            "the session is not revoked at the identity service yet; it is tried again",
            metadata: [
                "event": "session.revoke.failed", "identity": .string(revocation.identity),
                "reason": .string(error.verdict.label), "error": .string(error.message), "next_at": .string(next),
            ])
    }
}
