import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings
import Logging

/// Performs the decisions of the user registry: between operators, the runners, the store and the report. Belongs to
/// the queue of `SessionService`, which owns it.
final class UserService: AccountRegistry, @unchecked Sendable {
    typealias UserCallID = UserRegistry.UserCallID
    typealias Reply = @Sendable (Result<UserOutcome, UserError>) -> Void

    /// An operator's call that has no reply yet.
    struct PendingCall {
        let call: UserCall
        let reply: Reply
        /// A session that a login has obtained for another user of this identity, until that user has it.
        var obtained: (session: ObtainedSession, identity: StoredIdentity)?
    }

    unowned let environment: any UserEnvironment
    var registry: UserRegistry
    private(set) var pendingCalls: [UserCallID: PendingCall] = [:]
    /// Calls that wait for an access token.
    var tokenWaits: [UserCallID: TokenWait] = [:]
    private var callCount: UInt64 = 0
    /// Changes of the active user that are being stored; responses wait for them.
    private var openChoices = 0
    private var heldResponses: [(UserCallID, UserRegistry.Response)] = []
    /// Responses that wait until the name of a provisional user is free again.
    private var responsesAfterRemoval: [UserIndex: [(UserCallID, UserRegistry.Response)]] = [:]
    /// The change of the active user that the store could not take.
    private var unsavedChoice: StoreContents.ActiveChoice?
    private var choiceFailures = 0
    /// What the report shows.
    private var shown: (revision: Int, isFailing: Bool)?
    /// Only one change waits at a time, so it needs no jitter.
    private static let choiceBackoff = Backoff(first: .seconds(1), max: .seconds(30), fixedShare: 1)
    private lazy var timer = SessionTimer(on: environment.loop) { [unowned self] in saveAgain() }

    init(_ registry: UserRegistry, environment: any UserEnvironment) {
        self.registry = registry
        self.environment = environment
    }

    func perform(_ call: UserCall, _ reply: @escaping Reply) {
        environment.loop.assertIsCurrent()
        callCount += 1
        let callID = UserCallID(callCount)
        pendingCalls[callID] = PendingCall(call: call, reply: reply)
        carryOut(registry.handle(.called(call, callID)))
    }

    /// No call is pending, and no change of the active user is being stored.
    var isDrained: Bool { pendingCalls.isEmpty && openChoices == 0 }

    /// A change of the active user is being stored.
    var isWriting: Bool { openChoices > 0 }

    /// The process is about to end. The unsaved change is tried once more: at once, and for the last time.
    func retryUnsaved() {
        environment.loop.assertIsCurrent()
        saveAgain()
    }

    /// Pending calls get `outcomeUnknown`.
    func stop() {
        environment.loop.assertIsCurrent()
        timer.drop()
        if let unsavedChoice {
            environment.logger.error(
                "the process ends, and the store does not hold the active user",
                metadata: [
                    "event": "store.active.unsaved", "reason": "store_failing",
                    "active_user": .string(unsavedChoice.user ?? "none"),
                ])
        }
        for (callID, response) in heldResponses + responsesAfterRemoval.values.joined() {
            deliver(callID, response)
        }
        for callID in pendingCalls.keys { deliver(callID, .failure(.outcomeUnknown)) }
    }

    func claim(_ account: String?, for user: UserIndex) -> AccountOwnership {
        environment.loop.assertIsCurrent()
        return registry.claim(account, for: user)
    }

    /// Handles a change of a runner.
    func handleRunnerChange(_ runner: SessionRunner) {
        environment.loop.assertIsCurrent()
        let snapshot = UserRegistry.SessionSnapshot(
            state: runner.coordinator.session.state, isLoggingIn: runner.coordinator.isLoggingIn,
            accountID: runner.coordinator.context.accountID,
            provider: runner.coordinator.provider)
        carryOut(registry.handle(.changed(runner.index, snapshot)))
        removeIfIdle(runner)
    }

    /// Removes the runner of a forgotten user once nothing of it is in progress.
    private func removeIfIdle(_ runner: SessionRunner) {
        guard registry.isBeingRemoved(runner.index), runner.coordinator.isIdle else { return }
        environment.drop(runner)
        carryOut(registry.handle(.removalCompleted(runner.index)))
        for (callID, response) in responsesAfterRemoval.removeValue(forKey: runner.index) ?? [] {
            later { self.deliver(callID, response) }
        }
    }

    // MARK: Actions

    func carryOut(_ actions: [UserRegistry.Action]) {
        environment.loop.assertIsCurrent()
        var dropped: UserIndex?
        for action in actions {
            switch action {
            case .admit(let user): environment.addRunner(for: user)
            case .logIn(let callID, let user): logIn(callID, user)
            case .adopt(let callID, let user): adopt(callID, user)
            case .activate(let choice, let user): activate(choice, user)
            case .follow(let user): environment.activate(user)
            case .refresh(let callID, let user):
                runner(of: user, for: callID)?.refreshNow { [unowned self] in
                    handleReply(refresh: $0, of: callID, user)
                }
            case .callAccount(let callID, let user): callAccount(callID, user)
            case .manageAccount(let callID, let identity): manageAccount(callID, identity)
            case .logOut(let callID, let user), .hide(let callID, let user):
                runner(of: user, for: callID)?.logOut { [unowned self] in
                    handleReply(leaving: $0, of: callID, user)
                }
            case .readStored(let callID, let user): readStored(callID, user)
            case .forget(let callID, let user): forget(callID, user)
            case .removeStored(let callID, let name): removeStored(callID, name)
            case .drop(let user):
                dropped = user
                if let runner = environment.runner(at: user) { removeIfIdle(runner) }
            case .respond(let callID, let response): self.respond(callID, response, after: dropped)
            }
        }
        show()
    }

    /// - Parameter leaving: a user that is being removed; its name must be free when the response is sent.
    private func respond(_ callID: UserCallID, _ response: UserRegistry.Response, after leaving: UserIndex?) {
        if let leaving, registry.isBeingRemoved(leaving), environment.runner(at: leaving) != nil {
            responsesAfterRemoval[leaving, default: []].append((callID, response))
        } else if openChoices > 0 {
            heldResponses.append((callID, response))
        } else {
            later { self.deliver(callID, response) }
        }
    }

    private func show() {
        let (revision, isFailing) = (registry.shownRevision, unsavedChoice != nil)
        guard shown?.revision != revision || shown?.isFailing != isFailing else { return }
        shown = (revision, isFailing)
        environment.show(registry.shown, isFailing: isFailing)
    }

    /// The runner of a user that the registry knows. If it is missing, which would be a defect of ours, the call
    /// gets `noSuchUser`.
    func runner(of user: UserIndex, for callID: UserCallID?) -> SessionRunner? {
        environment.loop.assertIsCurrent()
        if let runner = environment.runner(at: user) { return runner }
        if let callID { later { self.deliver(callID, .error(.noSuchUser)) } }
        return nil
    }

    private func logIn(_ callID: UserCallID, _ user: UserIndex) {
        guard let runner = environment.runner(at: user), let credential = credential(for: callID, runner) else {
            return carryOut(registry.handle(.failed(callID, .noCredential)))
        }
        let identity = runner.managedUser.storedIdentity
        runner.login(credential) { [unowned self] in handleReply(login: $0, of: callID, at: identity) }
    }

    private func credential(for callID: UserCallID, _ runner: SessionRunner) -> Credential? {
        switch pendingCalls[callID]?.call {
        case .add(_, _, let given, _)?, .login(_, let given?, _)?: .given(given)
        default: runner.managedUser.settings.login.map { .configured($0) }
        }
    }

    private func adopt(_ callID: UserCallID, _ user: UserIndex) {
        guard let (obtained, identity) = pendingCalls[callID]?.obtained, let runner = environment.runner(at: user)
        else {
            return carryOut(registry.handle(.overtaken(callID)))
        }
        pendingCalls[callID]?.obtained = nil
        runner.adopt(obtained) { [unowned self] in handleReply(login: $0, of: callID, at: identity) }
    }

    /// If the store cannot be read, the user may have a session: it is ended.
    private func readStored(_ callID: UserCallID, _ user: UserIndex) {
        guard let runner = runner(of: user, for: callID) else { return }
        let identity = runner.managedUser.storedIdentity
        environment.store.read(runner.name) { [weak self] result in
            let hasSession: Bool =
                switch result {
                case .success(let stored): stored.map { $0.belongs(to: identity) && $0.session != nil } ?? false
                case .failure: true
                }
            self?.later { [weak self] in
                guard let self else { return }
                carryOut(registry.handle(.storeRead(callID, user, hasSession: hasSession)))
            }
        }
    }

    private func forget(_ callID: UserCallID?, _ user: UserIndex) {
        guard let runner = runner(of: user, for: callID) else { return }
        if case .feed = runner.managedUser.source {
            environment.drop(runner)
            carryOut(registry.handle(.removalCompleted(user)))
            if let callID { deliver(callID, .success(.removed(isStored: true))) }
            return
        }
        runner.remove { [unowned self] in
            if let callID { handleReply(leaving: $0, of: callID, user) }
        }
    }

    // MARK: Replies of runners

    private func handleReply(login reply: SessionReply, of callID: UserCallID, at identity: StoredIdentity) {
        switch reply {
        case .loggedIn: carryOut(registry.handle(.loggedIn(callID)))
        case .belongs(let name, let obtained):
            pendingCalls[callID]?.obtained = (obtained, identity)
            carryOut(registry.handle(.belongs(callID, to: name)))
        case .failed(let error): carryOut(registry.handle(.failed(callID, .identity(error))))
        case .accountInUse(let name): carryOut(registry.handle(.failed(callID, .accountInUse(by: name))))
        case .nameInUse(true): carryOut(registry.handle(.nameExists(callID)))
        case .nameInUse(false): carryOut(registry.handle(.failed(callID, .nameInUse)))
        case .loginInProgress: carryOut(registry.handle(.failed(callID, .loginInProgress)))
        case .notSupported: carryOut(registry.handle(.failed(callID, .notSupported)))
        case .stopping: carryOut(registry.handle(.failed(callID, .stopping)))
        case .overtaken, .notLoggedIn, .loginRequired, .refreshed, .terminated, .linked, .deletionBegun, .storeFailing:
            carryOut(registry.handle(.overtaken(callID)))
        }
    }

    private func handleReply(refresh reply: SessionReply, of callID: UserCallID, _ user: UserIndex) {
        later { [self] in
            if let error = reply.refreshError { return deliver(callID, .failure(error)) }
            deliver(callID, .success(.refreshed(environment.runner(at: user)?.status.tokens.accessExpiry)))
        }
    }

    private func handleReply(leaving reply: SessionReply, of callID: UserCallID, _ user: UserIndex) {
        later { [self] in
            guard case .terminated(let isRevoked, let isStored) = reply else {
                // The runner has ended, and the user is not logged out.
                let isStopping = if case .stopping = reply { true } else { false }
                return deliver(callID, .failure(isStopping ? .stopping : .noSuchUser))
            }
            switch pendingCalls[callID]?.call {
            case .remove?, .deleteAccount?: return deliver(callID, .success(.removed(isStored: isStored)))
            default: break
            }
            let reported = environment.reportedUser(user)
            // A session before this one may not be revoked yet.
            let revocation = environment.runner(at: user).map(revocationState) ?? (isRevoked ? .confirmed : .pending)
            deliver(callID, .success(.loggedOut(reported, revocation, isStored: isStored)))
        }
    }

    // MARK: Responses

    /// Runs after the current event, so that the report already shows what the response says. From anywhere.
    func later(_ work: @escaping @Sendable () -> Void) { environment.loop.post(work) }

    private func deliver(_ callID: UserCallID, _ response: UserRegistry.Response) {
        switch response {
        case .added(let user):
            let reported = environment.reportedUser(user)
            deliver(callID, reported.map { .success(.added($0, isStored: isStored(user))) } ?? .failure(.noSuchUser))
        case .user(let user):
            let reported = environment.reportedUser(user)
            deliver(callID, reported.map { .success(.user($0, isStored: isStored(user))) } ?? .failure(.noSuchUser))
        case .loggedOutBefore(let user):
            if case .deleteAccount? = pendingCalls[callID]?.call {
                return deliver(callID, .success(.removed(isStored: true)))
            }
            let reported = environment.reportedUser(user)
            let runner = environment.runner(at: user)
            let revocation = runner.map(revocationState) ?? .none
            let isStored = runner?.coordinator.isUnsaved != true
            deliver(callID, .success(.loggedOut(reported, revocation, isStored: isStored)))
        case .error(let error): deliver(callID, .failure(error))
        }
    }

    private func revocationState(_ runner: SessionRunner) -> RevocationState {
        environment.revocations.revocationState(
            of: runner.name, identity: runner.managedUser.settings.identity, wasLoggedOutHere: runner.wasLoggedOutHere)
    }

    /// Whether a restart will find the user as it is now: with this session, and active.
    private func isStored(_ user: UserIndex) -> Bool {
        unsavedChoice == nil && environment.runner(at: user)?.coordinator.isStored != false
    }

    func deliver(_ callID: UserCallID, _ result: Result<UserOutcome, UserError>) {
        environment.loop.assertIsCurrent()
        guard let pendingCall = pendingCalls.removeValue(forKey: callID) else { return }
        endTokenWait(callID)
        // No runner took the session.
        if let (obtained, identity) = pendingCall.obtained, let token = obtained.grant.refreshToken {
            environment.revocations.enqueue(
                StoredRevocation(
                    identity: identity.name, token: token, since: .now, fingerprint: identity.fingerprint
                ).byOperator,
                environment.logger)
        }
        pendingCall.reply(result)
        environment.signalIfDrained()
    }

    // MARK: The active user

    /// Requests follow the new active user at once. The response waits until the change survives a crash.
    private func activate(_ choice: StoreContents.ActiveChoice, _ user: UserIndex?) {
        environment.activate(user)
        save(choice)
    }

    private func save(_ choice: StoreContents.ActiveChoice) {
        openChoices += 1
        environment.commit(.activate(choice)) { [weak self] result in
            self?.environment.loop.post { [weak self] in self?.handleSaved(choice, result) }
        }
    }

    private func handleSaved(_ choice: StoreContents.ActiveChoice, _ result: Result<StoreChange.Verdict, StoreError>) {
        guard !environment.isStopped else { return }
        openChoices -= 1
        switch result {
        case .success:
            (unsavedChoice, choiceFailures) = (nil, 0)
            timer.set(at: .never)
        case .failure(let error):
            unsavedChoice = choice
            choiceFailures += 1
            timer.set(at: .now + Self.choiceBackoff.delay(after: choiceFailures, chance: 0))
            environment.logger.error(
                "the active user could not be stored; it is tried again",
                metadata: ["event": "store.active.failed", "reason": "store_failing", "error": .string(error.message)])
        }
        guard openChoices == 0 else { return }
        let responses = heldResponses
        heldResponses = []
        show()
        for (callID, response) in responses { later { self.deliver(callID, response) } }
        environment.signalIfDrained()
    }

    private func saveAgain() {
        if let unsavedChoice, openChoices == 0 { save(unsavedChoice) }
    }
}
