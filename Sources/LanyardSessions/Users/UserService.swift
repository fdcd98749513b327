import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings
import Logging

/// Performs the decisions of the user registry: between operators, the runners, the store and the report. Belongs to
/// the queue of `SessionService`, which owns it.
final class UserService: AccountRegistry, @unchecked Sendable {
    typealias OperatorRequestID = UserRegistry.OperatorRequestID
    typealias Reply = @Sendable (Result<UserOutcome, UserError>) -> Void

    /// An operator's request that has no reply yet.
    struct PendingRequest {
        let request: UserRequest
        let reply: Reply
        /// A session that a login has obtained for another user of this identity, until that user has it.
        var obtained: (session: ObtainedSession, identity: StoredIdentity)?
    }

    unowned let environment: any UserEnvironment
    var registry: UserRegistry
    private(set) var pendingRequests: [OperatorRequestID: PendingRequest] = [:]
    private var requestCount: UInt64 = 0
    /// Changes of the active user that are being stored; responses wait for them.
    private var openChoices = 0
    private var heldResponses: [(OperatorRequestID, UserRegistry.Response)] = []
    /// Responses that wait until the name of a provisional user is free again.
    private var responsesAfterRemoval: [UserIndex: [(OperatorRequestID, UserRegistry.Response)]] = [:]
    /// The change of the active user that the store could not take.
    private var unsavedChoice: StoreContents.ActiveChoice?
    private var choiceFailures = 0
    /// Only one change waits at a time, so it needs no jitter.
    private static let choiceBackoff = Backoff(first: .seconds(1), max: .seconds(30), fixedShare: 1)
    private lazy var timer = SessionTimer(on: environment.loop) { [unowned self] in saveAgain() }

    init(_ registry: UserRegistry, environment: any UserEnvironment) {
        self.registry = registry
        self.environment = environment
    }

    func perform(_ request: UserRequest, _ reply: @escaping Reply) {
        environment.loop.assertIsCurrent()
        requestCount += 1
        let requestID = OperatorRequestID(requestCount)
        pendingRequests[requestID] = PendingRequest(request: request, reply: reply)
        carryOut(registry.handle(.requested(request, requestID)))
    }

    /// No request is pending, and no change of the active user is being stored.
    var isDrained: Bool { pendingRequests.isEmpty && openChoices == 0 }

    /// The process is about to end. The unsaved change is tried once more.
    func drain() {
        environment.loop.assertIsCurrent()
        saveAgain()
    }

    /// Pending requests get `outcomeUnknown`.
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
        for (requestID, response) in heldResponses + responsesAfterRemoval.values.joined() {
            deliver(requestID, response)
        }
        for requestID in pendingRequests.keys { deliver(requestID, .failure(.outcomeUnknown)) }
    }

    func claim(_ account: String, for user: UserIndex) -> AccountOwnership { registry.claim(account, for: user) }

    /// Handles a change of a runner.
    func runnerChanged(_ runner: SessionRunner) {
        environment.loop.assertIsCurrent()
        let snapshot = UserRegistry.SessionSnapshot(
            state: runner.coordinator.session.state, isLoggingIn: runner.coordinator.isLoggingIn,
            accountID: runner.coordinator.context.accountID,
            provider: runner.coordinator.provider)
        carryOut(registry.handle(.changed(runner.index, snapshot)))
        removeIfIdle(runner)
    }

    /// Removes the runner of a forgotten user once nothing of it is under way.
    private func removeIfIdle(_ runner: SessionRunner) {
        guard registry.isBeingRemoved(runner.index), runner.coordinator.isIdle else { return }
        environment.drop(runner)
        carryOut(registry.handle(.removalCompleted(runner.index)))
        for (requestID, response) in responsesAfterRemoval.removeValue(forKey: runner.index) ?? [] {
            later { self.deliver(requestID, response) }
        }
    }

    // MARK: Actions

    func carryOut(_ actions: [UserRegistry.Action]) {
        environment.loop.assertIsCurrent()
        var dropped: UserIndex?
        for action in actions {
            switch action {
            case .admit(let user): environment.addRunner(for: user)
            case .logIn(let requestID, let user): logIn(requestID, user)
            case .adopt(let requestID, let user): adopt(requestID, user)
            case .activate(let choice, let user): activate(choice, user)
            case .follow(let user): environment.activate(user)
            case .refresh(let requestID, let user):
                runner(of: user, for: requestID)?.refreshNow { [unowned self] in
                    handleReply(refresh: $0, of: requestID, user)
                }
            case .callAccount(let requestID, let user): callAccount(requestID, user)
            case .manageAccount(let requestID, let identity): manageAccount(requestID, identity)
            case .logOut(let requestID, let user), .hide(let requestID, let user):
                runner(of: user, for: requestID)?.logOut { [unowned self] in
                    handleReply(leaving: $0, of: requestID, user)
                }
            case .readStored(let requestID, let user): readStored(requestID, user)
            case .forget(let requestID, let user): forget(requestID, user)
            case .removeStored(let requestID, let name): removeStored(requestID, name)
            case .drop(let user):
                dropped = user
                if let runner = environment.runner(at: user) { removeIfIdle(runner) }
            case .respond(let requestID, let response): self.respond(requestID, response, after: dropped)
            }
        }
        show()
    }

    /// - Parameter leaving: a user that is being removed; its name must be free when the response is sent.
    private func respond(_ requestID: OperatorRequestID, _ response: UserRegistry.Response, after leaving: UserIndex?) {
        if let leaving, registry.isBeingRemoved(leaving), environment.runner(at: leaving) != nil {
            responsesAfterRemoval[leaving, default: []].append((requestID, response))
        } else if openChoices > 0 {
            heldResponses.append((requestID, response))
        } else {
            later { self.deliver(requestID, response) }
        }
    }

    private func show() { environment.show(registry.shown, isFailing: unsavedChoice != nil) }

    /// The runner of a user that the registry knows. If it is missing, which would be a defect of ours, the request
    /// gets `noSuchUser`.
    func runner(of user: UserIndex, for requestID: OperatorRequestID?) -> SessionRunner? {
        if let runner = environment.runner(at: user) { return runner }
        if let requestID { later { self.deliver(requestID, .error(.noSuchUser)) } }
        return nil
    }

    private func logIn(_ requestID: OperatorRequestID, _ user: UserIndex) {
        guard let runner = environment.runner(at: user), let credential = credential(for: requestID, runner) else {
            return carryOut(registry.handle(.failed(requestID, .noCredential)))
        }
        let identity = runner.managedUser.storedIdentity
        runner.login(credential) { [unowned self] in handleReply(login: $0, of: requestID, at: identity) }
    }

    private func credential(for requestID: OperatorRequestID, _ runner: SessionRunner) -> Credential? {
        switch pendingRequests[requestID]?.request {
        case .add(_, _, let given, _)?, .login(_, let given?, _)?: .given(given)
        default: runner.managedUser.settings.login.map { .configured($0) }
        }
    }

    private func adopt(_ requestID: OperatorRequestID, _ user: UserIndex) {
        guard let (obtained, identity) = pendingRequests[requestID]?.obtained, let runner = environment.runner(at: user)
        else {
            return carryOut(registry.handle(.overtaken(requestID)))
        }
        pendingRequests[requestID]?.obtained = nil
        runner.adopt(obtained) { [unowned self] in handleReply(login: $0, of: requestID, at: identity) }
    }

    /// If the store cannot be read, the user may have a session: it is ended.
    private func readStored(_ requestID: OperatorRequestID, _ user: UserIndex) {
        guard let runner = runner(of: user, for: requestID) else { return }
        let identity = runner.managedUser.storedIdentity
        environment.store.read(runner.name) { [weak self] result in
            let hasSession: Bool =
                switch result {
                case .success(let stored): stored.map { $0.belongs(to: identity) && $0.session != nil } ?? false
                case .failure: true
                }
            self?.later { [weak self] in
                guard let self else { return }
                carryOut(registry.handle(.storeRead(requestID, user, hasSession: hasSession)))
            }
        }
    }

    private func forget(_ requestID: OperatorRequestID?, _ user: UserIndex) {
        guard let runner = runner(of: user, for: requestID) else { return }
        if case .feed = runner.managedUser.source {
            environment.drop(runner)
            carryOut(registry.handle(.removalCompleted(user)))
            if let requestID { deliver(requestID, .success(.removed(isStored: true))) }
            return
        }
        runner.remove { [unowned self] in
            if let requestID { handleReply(leaving: $0, of: requestID, user) }
        }
    }

    // MARK: Replies of runners

    private func handleReply(login reply: SessionReply, of requestID: OperatorRequestID, at identity: StoredIdentity) {
        switch reply {
        case .loggedIn: carryOut(registry.handle(.loggedIn(requestID)))
        case .belongs(let name, let obtained):
            pendingRequests[requestID]?.obtained = (obtained, identity)
            carryOut(registry.handle(.belongs(requestID, to: name)))
        case .failed(let error): carryOut(registry.handle(.failed(requestID, .identity(error))))
        case .accountInUse(let name): carryOut(registry.handle(.failed(requestID, .accountInUse(by: name))))
        case .nameInUse(true): carryOut(registry.handle(.nameExists(requestID)))
        case .nameInUse(false): carryOut(registry.handle(.failed(requestID, .nameInUse)))
        case .loginInProgress: carryOut(registry.handle(.failed(requestID, .loginInProgress)))
        case .notSupported: carryOut(registry.handle(.failed(requestID, .notSupported)))
        case .stopping: carryOut(registry.handle(.failed(requestID, .stopping)))
        case .overtaken, .notLoggedIn, .loginRequired, .refreshed, .terminated, .linked, .deletionBegun, .storeFailing:
            carryOut(registry.handle(.overtaken(requestID)))
        }
    }

    private func handleReply(refresh reply: SessionReply, of requestID: OperatorRequestID, _ user: UserIndex) {
        later { [self] in
            if let error = reply.refreshError { return deliver(requestID, .failure(error)) }
            deliver(requestID, .success(.refreshed(environment.runner(at: user)?.status.tokens.accessExpiry)))
        }
    }

    private func handleReply(leaving reply: SessionReply, of requestID: OperatorRequestID, _ user: UserIndex) {
        later { [self] in
            guard case .terminated(let isRevoked, let isStored) = reply else {
                // The runner has ended, and the user is not logged out.
                let isStopping = if case .stopping = reply { true } else { false }
                return deliver(requestID, .failure(isStopping ? .stopping : .noSuchUser))
            }
            switch pendingRequests[requestID]?.request {
            case .remove?, .deleteAccount?: return deliver(requestID, .success(.removed(isStored: isStored)))
            default: break
            }
            let view = environment.view(of: user)
            // A session before this one may not be revoked yet.
            let isPending = environment.runner(at: user).map(hasPendingRevocation) ?? false
            deliver(requestID, .success(.loggedOut(view, isRevoked: isRevoked && !isPending, isStored: isStored)))
        }
    }

    // MARK: Responses

    /// Runs after the event at hand, so that the report already shows what the response says.
    func later(_ work: @escaping @Sendable () -> Void) { environment.loop.post(work) }

    private func deliver(_ requestID: OperatorRequestID, _ response: UserRegistry.Response) {
        switch response {
        case .added(let user):
            let view = environment.view(of: user)
            deliver(requestID, view.map { .success(.added($0, isStored: isStored(user))) } ?? .failure(.noSuchUser))
        case .user(let user):
            let view = environment.view(of: user)
            deliver(requestID, view.map { .success(.user($0, isStored: isStored(user))) } ?? .failure(.noSuchUser))
        case .loggedOutBefore(let user):
            if case .deleteAccount? = pendingRequests[requestID]?.request {
                return deliver(requestID, .success(.removed(isStored: true)))
            }
            let view = environment.view(of: user)
            let runner = environment.runner(at: user)
            let isRevoked = runner.map { !hasPendingRevocation($0) } ?? true
            let isStored = runner?.coordinator.isUnsaved != true
            deliver(requestID, .success(.loggedOut(view, isRevoked: isRevoked, isStored: isStored)))
        case .error(let error): deliver(requestID, .failure(error))
        }
    }

    private func hasPendingRevocation(_ runner: SessionRunner) -> Bool {
        environment.revocations.hasPendingRevocation(
            of: runner.name, identity: runner.managedUser.settings.identity, wasLoggedOutHere: runner.wasLoggedOutHere)
    }

    /// Whether a restart will find the user as it is now: with this session, and active.
    private func isStored(_ user: UserIndex) -> Bool {
        unsavedChoice == nil && environment.runner(at: user)?.coordinator.isStored != false
    }

    func deliver(_ requestID: OperatorRequestID, _ result: Result<UserOutcome, UserError>) {
        environment.loop.assertIsCurrent()
        guard let pendingRequest = pendingRequests.removeValue(forKey: requestID) else { return }
        // No runner took the session.
        if let (obtained, identity) = pendingRequest.obtained, let token = obtained.grant.refreshToken {
            environment.revocations.enqueue(
                StoredRevocation(
                    identity: identity.name, refresh: token, since: .now, fingerprint: identity.fingerprint),
                environment.logger)
        }
        pendingRequest.reply(result)
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
            self?.environment.loop.post { [weak self] in self?.saved(choice, result) }
        }
    }

    private func saved(_ choice: StoreContents.ActiveChoice, _ result: Result<StoreChange.Verdict, StoreError>) {
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
        for (requestID, response) in responses { later { self.deliver(requestID, response) } }
        environment.signalIfDrained()
    }

    private func saveAgain() {
        if let unsavedChoice, openChoices == 0 { save(unsavedChoice) }
    }
}
