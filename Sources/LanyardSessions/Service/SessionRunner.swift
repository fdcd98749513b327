import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings
import Logging

/// Runs one user's coordinator: performs its actions, returns the results and keeps its deadline. Belongs to the queue
/// of `SessionService`.
///
/// The service and the runner hold each other until the runner is stopped, because results come from other queues at
/// any time. The runner sees of the service what `RunnerEnvironment` has.
package final class SessionRunner: @unchecked Sendable {
    /// Takes the result of an operator's call.
    package typealias Reply = @Sendable (SessionReply) -> Void

    /// An event that is not handled yet, with the reply that an operator waits for.
    struct Incoming {
        var event: SessionCoordinator.Event
        var reply: Reply?
    }

    private struct Counts {
        /// Operators' logouts and removals: each has an id.
        var terminations: UInt64 = 0
        /// Changes sent to the store.
        var commits: UInt64 = 0
        /// Tries to store what only this process has, while the end of the process waits for them.
        var triesBeforeEnd: UInt64 = 0
        var logouts: UInt64 = 0
    }

    let index: UserIndex
    private var user: ManagedUser
    private var machine: SessionCoordinator
    let environment: any RunnerEnvironment
    let logger: Logger
    private var life: RunnerLife
    /// What came while another event is handled. A user at rest has no room for it.
    private var inbox: [Incoming] = []
    private var isHandling = false
    private var replies = OperatorReplies<Reply>()
    private var counts = Counts()
    var turn = CallTurn.none
    private lazy var timer = SessionTimer(on: environment.loop) { [self] in handle(.due) }
    let openCall: OpenCall
    /// Of the lines of denied forced refreshes, by reason: an upstream may refuse each request.
    private var denials: [String: LogThrottle] = [:]

    /// - Parameter hasFormerRequest: see `SessionCoordinator.init`.
    init(
        _ managedUser: ManagedUser, setup: SessionCoordinator.Setup, hasFormerRequest: Bool,
        subscribers: TokenSubscribers, environment: any RunnerEnvironment
    ) {
        life = .created(subscribers)
        user = managedUser
        index = setup.index
        self.environment = environment
        var logger = environment.logger
        logger[metadataKey: "user"] = .string(managedUser.settings.name)
        self.logger = logger
        openCall = OpenCall(on: environment.loop, logger: logger)
        machine = SessionCoordinator(setup, hasFormerRequest: hasFormerRequest)
    }

    /// The user's name.
    package var name: String {
        environment.loop.assertIsCurrent()
        return user.settings.name
    }

    /// The user with its token source and settings.
    package var managedUser: ManagedUser {
        environment.loop.assertIsCurrent()
        return user
    }

    /// The user's session as of now.
    var coordinator: SessionCoordinator {
        environment.loop.assertIsCurrent()
        return machine
    }

    /// An operator has ended the user's session in this process.
    var wasLoggedOutHere: Bool {
        environment.loop.assertIsCurrent()
        return counts.logouts > 0
    }

    /// The number of changes sent to the store.
    var commitCount: UInt64 {
        environment.loop.assertIsCurrent()
        return counts.commits
    }

    // MARK: Reload

    /// `start` comes later, when the runner before this one has ended.
    func waitForPredecessor() {
        environment.loop.assertIsCurrent()
        if case .created(let subscribers) = life { life = .waiting(calls: [], subscribers) }
    }

    /// Takes new settings of the user, whose session continues. The call in progress ends with the former service.
    func reconfigure(_ new: ManagedUser, _ setup: SessionCoordinator.Setup) {
        environment.loop.assertIsCurrent()
        let former = user
        // With another service the same login may be another request, by other files of the client.
        let isCredentialNew =
            former.settings.login != new.settings.login || former.origin.source != new.origin.source
        let isRequestNew = former.tokenRequest != new.tokenRequest
        user = new
        if !isCredentialNew { user.credential = former.credential }
        if isWaiting {
            var setup = setup
            setup.generation = machine.latestGeneration
            let hasFormerRequest = isRequestNew || machine.waiting.renewsFormerRequest
            return machine = SessionCoordinator(setup, hasFormerRequest: hasFormerRequest)
        }
        guard case .service = new.source else { return }
        if isCredentialNew {
            former.credential?.stop()
            watchCredential()
        }
        handle(.reconfigured(setup, isCredentialNew: isCredentialNew, isRequestNew: isRequestNew))
    }

    /// The tokens that this runner leaves in the store for `new` may be those of another request.
    func hasFormerRequest(of new: ManagedUser) -> Bool {
        environment.loop.assertIsCurrent()
        return user.storedIdentity.matches(new.storedIdentity)
            && (user.tokenRequest != new.tokenRequest || machine.waiting.renewsFormerRequest)
    }

    /// The user leaves this process, or gets another runner. What has begun is finished and stored. Then the service is
    /// told.
    func retire(for successor: RunnerLife.Successor) {
        environment.loop.assertIsCurrent()
        user.credential?.stop()
        guard case .service = user.source, case .serving = life else {
            stop()
            return environment.handleRetired(self)
        }
        life = .retiring(successor)
        handle(.drain)
    }

    /// A user of the name is back: another runner waits for the end of this one.
    func yieldToSuccessor() {
        environment.loop.assertIsCurrent()
        guard case .retiring = life else { return }
        life = .retiring(.waiting)
        endRetirement()
    }

    private func endRetirement() {
        switch life {
        case .retiring(.none): guard machine.isIdle else { return }
        case .retiring(.waiting): guard machine.mayBeReplaced else { return }
        case .created, .waiting, .serving, .stopped: return
        }
        if machine.lock == .held { environment.store.unlock(name) }
        stop()
        environment.handleRetired(self)
    }

    /// `start` follows.
    var isWaiting: Bool {
        environment.loop.assertIsCurrent()
        return if case .waiting = life { true } else { false }
    }

    /// The user is this runner's: it publishes.
    var isServing: Bool {
        environment.loop.assertIsCurrent()
        return if case .serving = life { true } else { false }
    }

    /// What has begun is finished.
    private var isRetiring: Bool { if case .retiring = life { true } else { false } }

    var isStopped: Bool {
        environment.loop.assertIsCurrent()
        return if case .stopped = life { true } else { false }
    }

    /// An operator's call waits for the start.
    var hasWaitingCall: Bool {
        environment.loop.assertIsCurrent()
        return if case .waiting(let calls, _) = life { !calls.isEmpty } else { false }
    }

    /// Starts with what the store holds, otherwise with a login, or with the reading of a token. The calls that have
    /// waited follow before the user is shown: one that was removed in that time would be dropped otherwise.
    ///
    /// - Parameter other: see `SessionCoordinator.Event.begin`.
    func start(_ stored: StoredUser?, duplicateOf other: String? = nil) {
        environment.loop.assertIsCurrent()
        switch life {
        case .created(let subscribers): life = .serving(subscribers)
        case .waiting(let calls, let subscribers):
            life = .serving(subscribers)
            inbox = calls
        case .serving, .retiring, .stopped: return
        }
        switch user.source {
        case .feed(let feed):
            publish(.pending, for: index)
            feed.start { [weak self] outcome in self?.send(.session(.fed(outcome))) }
        case .service:
            // The watch starts first, so that it misses no change after the login has read the file.
            watchCredential()
            handle(.begin(stored, duplicateOf: other), isFirst: true)
        }
    }

    private func watchCredential() {
        user.credential?.start(user.settings.login) { [weak self] in
            self?.send(.session(.credentialChanged))
        }
    }

    /// The process is about to end: see `SessionCoordinator.Event.drain`.
    func drain() {
        environment.loop.assertIsCurrent()
        isWaiting ? endWaitingCalls() : handle(.drain)
    }

    /// All users' calls have ended: see `SessionCoordinator.Event.retryUnsaved`.
    func retryUnsaved() {
        environment.loop.assertIsCurrent()
        if !isWaiting { handle(.retryUnsaved) }
    }

    /// The end of the process waits for the store: see `SessionCoordinator.hasUnsavedRefreshToken`.
    func retryBeforeEnd() {
        environment.loop.assertIsCurrent()
        counts.triesBeforeEnd += 1
        if counts.triesBeforeEnd == 1 {
            var logEvent = SessionLogEvent(.stopWaiting, .warning, reason: "store_failing")
            logEvent.details["error"] = machine.storeError?.message
            log(logEvent, at: .now)
        }
        retryUnsaved()
    }

    /// The process is about to end, and the runner will not start. No call of an operator was carried out.
    private func endWaitingCalls() {
        guard case .waiting(let calls, let subscribers) = life else { return }
        for call in calls {
            if case .obtained(let obtained) = call.event { revoke(unwanted: obtained.grant) }
        }
        life = .waiting(calls: [], subscribers)
        for call in calls { call.reply?(.stopping) }
    }

    /// Stops the deadline and the reading. Responses to calls in progress are dropped. Waiting replies get `overtaken`.
    func stop() {
        environment.loop.assertIsCurrent()
        let open = takeReplies()
        life = .stopped
        if machine.isUnsaved {
            var logEvent = SessionLogEvent(.unsaved, .error, reason: "store_failing")
            logEvent.details["error"] = machine.storeError?.message
            log(logEvent, at: .now)
        }
        timer.drop()
        leaveTurn()
        openCall.drop()
        user.credential?.stop()
        if case .feed(let feed) = user.source { feed.stop() }
        for reply in open { reply(.overtaken) }
    }

    /// The replies to all operators' calls, handled or not.
    private func takeReplies() -> [Reply] {
        var open = replies.takeAll() + inbox.compactMap(\.reply)
        for place in inbox.indices { inbox[place].reply = nil }
        if case .waiting(let calls, _) = life { open += calls.compactMap(\.reply) }
        return open
    }

    // MARK: Operators' calls. On the service's queue; each gets exactly one reply, on the same queue.

    /// Logs in, whatever was refused before. The current session serves until the login has succeeded.
    package func login(_ credential: Credential, _ reply: @escaping Reply) {
        call(.login(credential), reply)
    }

    /// Takes over a session that was obtained for this user, or the access token of a link.
    package func adopt(_ obtained: ObtainedSession, _ reply: @escaping Reply) {
        call(.obtained(obtained), reply)
    }

    /// Marks the account as being deleted. After the reply `deletionBegun`, `endDeletion` must follow.
    func beginDeletion(_ reply: @escaping Reply) {
        call(.beginDeletion, reply)
    }

    /// The service has deleted the account, or it has not.
    func endDeletion(isDeleted: Bool) { handle(.endDeletion(isDeleted: isDeleted)) }

    /// Refreshes now; neither cooldown nor budget applies. Joins a call that is in progress.
    package func refreshNow(_ reply: @escaping Reply) {
        call(.refresh, reply)
    }

    /// Erases the tokens, here and in the store, then tells the service.
    package func logOut(_ reply: @escaping Reply) {
        environment.loop.assertIsCurrent()
        counts.logouts += 1
        terminate(.logOut, reply)
    }

    /// Like a logout, but the store forgets the user, too. The caller removes the runner.
    package func remove(_ reply: @escaping Reply) {
        terminate(.remove, reply)
    }

    private func terminate(_ termination: SessionCoordinator.Termination, _ reply: @escaping Reply) {
        environment.loop.assertIsCurrent()
        counts.terminations += 1
        call(.terminate(termination, id: counts.terminations), reply)
    }

    private func call(_ event: SessionCoordinator.Event, _ reply: @escaping Reply) {
        environment.loop.assertIsCurrent()
        if admits(reply) { handle(event, reply) }
    }

    /// False: the reply was sent.
    private func admits(_ reply: Reply) -> Bool {
        guard case .service = user.source else {
            reply(.notSupported)
            return false
        }
        guard !isStopped, !environment.isStopped else {
            reply(.overtaken)
            return false
        }
        return true
    }

    // MARK: Events and actions

    /// From anywhere.
    func send(_ event: SessionCoordinator.Event) {
        environment.loop.post { [self] in handle(event) }
    }

    /// - Parameters:
    ///   - reply: gets the result of an operator's call; nil: no operator waits for it.
    ///   - isFirst: before the events that wait.
    func handle(_ event: SessionCoordinator.Event, _ reply: Reply? = nil, isFirst: Bool = false) {
        environment.loop.assertIsCurrent()
        guard !environment.isStopped else { return }
        switch life {
        case .stopped: return
        case .created(let subscribers):
            life = .serving(subscribers)
            inbox.append(Incoming(event: event, reply: reply))
        case .waiting(let calls, let subscribers):
            guard event.operatorCall != nil else { return }
            life = .waiting(calls: calls + [Incoming(event: event, reply: reply)], subscribers)
            if environment.isDraining { endWaitingCalls() }
            return
        case .serving, .retiring:
            inbox.insert(Incoming(event: event, reply: reply), at: isFirst ? 0 : inbox.count)
        }
        // An action may report its result at once. That event is handled after the actions beside it.
        guard !isHandling else { return }
        isHandling = true
        var readyReplies: [(reply: Reply, result: SessionReply)] = []
        while !inbox.isEmpty {
            let eventContext = EventContext.now
            let incoming = inbox.removeFirst()
            let actions = machine.handle(incoming.event, at: eventContext)
            if let reply = incoming.reply, let call = incoming.event.operatorCall {
                replies.add(reply, to: call, handledBy: actions)
            }
            for action in actions {
                readyReplies += replies.take(for: action)
                perform(action, at: eventContext)
            }
        }
        (isHandling, inbox) = (false, [])
        settleTurn()
        timer.set(at: machine.due)
        if isServing { environment.update(self) }
        // The replies come after the report shows what they say.
        for (reply, result) in readyReplies { reply(ending(result)) }
        if isRetiring {
            endRetirement()
            // The end of the process may have waited for a write that has failed.
            environment.signalIfDrained()
        }
    }

    /// Not the process ends, but the runner.
    private func ending(_ reply: SessionReply) -> SessionReply {
        if case .stopping = reply, isRetiring, !environment.isDraining { .overtaken } else { reply }
    }

    private func perform(_ action: SessionCoordinator.Action, at eventContext: EventContext) {
        switch action {
        case .publish(let availability): publish(availability, for: index)
        case .publishVariant(let availability, let index): publish(availability, for: index)
        case .publishAccount(let account): publish(account)
        case .countUses(let index): countUses(of: index)
        case .logEvent(let logEvent): log(logEvent, at: eventContext)
        case .tryLock: whenItsTurn { [self] in lock() }
        case .unlock: environment.store.unlock(name)
        case .begin(let change, let operation):
            whenItsTurn { [self] in
                counts.commits += 1
                environment.begin(name, change) { [weak self] in self?.send(.begun($0, operation: operation)) }
            }
        case .read(let operation):
            environment.store.read(name) { [weak self] in self?.send(.read($0, operation: operation)) }
        case .commit(let change):
            counts.commits += 1
            if case .saveSession = change { environment.retryUnsavedEnds(for: self) }
            environment.commit(change) { [weak self] in self?.send(.committed($0)) }
        case .login(let credential, let refused, let call): login(credential, refused, call)
        case .refresh(let token, let call): refresh(token, call, gate: nil)
        case .secondCall(let operation, let isReleased): makeSecondCall(operation, isReleased: isReleased)
        case .prepareRefresh(let token, let call):
            let gate = SendGate { [weak self] in self?.send(.refreshPrepared(operation: call.number)) }
            refresh(token, call, gate: gate)
        case .sendRefresh: if let held = openCall.send() { finish(held.result, held.call, held.progress) }
        case .cancelRefresh: if openCall.cancel() { environment.endCall() }
        case .claim(let account, let operation):
            // The registry knows the index as the successor's. The store still checks the account.
            let ownership = isRetiring ? .free : environment.accounts.claim(account, for: index)
            handle(.claimed(ownership, operation: operation))
        case .revoke(let revocation): environment.revocations.enqueue(revocation, of: name, logger)
        case .completeTermination(let revocations, let isStored, let id):
            completeTermination(revocations, isStored: isStored, id)
        case .refuseCall, .loginEnded, .deletionPrepared, .refreshEnded: break
        }
    }

    private func publish(_ availability: AccessToken.Availability, for index: UserIndex) {
        guard case .serving(let subscribers) = life else { return }
        subscribers.publish(availability, for: index)
    }

    private func publish(_ account: AccountNumber) {
        guard case .serving(let subscribers) = life else { return }
        let variants = (machine.setup.standIn.map { [$0] } ?? []) + machine.setup.variants
        for index in [index] + variants.map(\.index) { subscribers.publish(account, for: index) }
    }

    private func countUses(of index: UserIndex) {
        let uses: TokenUses? = if case .serving(let subscribers) = life { subscribers.uses(of: index) } else { nil }
        handle(.variant(index, .usesCounted(uses)))
    }

    private func login(_ credential: Credential, _ refused: CredentialFingerprint?, _ call: SessionCall) {
        guard case .service(let service) = user.source else { return }
        let guarded = LoginGuard(key: environment.fingerprintKey, refused: refused)
        let asked = call.standIn ?? call.variant
        begin(call, .login, gate: nil) { progress, reply in
            guard asked == .plain else {
                return service.fetch(asked, by: .login(credential, guarded), progress: progress, reply: reply)
            }
            service.login(credential, guarded: guarded, progress: progress, reply: reply)
        }
    }

    private func refresh(_ token: Secret, _ call: SessionCall, gate: SendGate?) {
        guard case .service(let service) = user.source else { return }
        begin(call, .refresh, gate: gate) { progress, reply in
            guard call.variant == .plain else {
                let proof = VariantProof.refreshToken(token, scopes: call.scopes)
                return service.fetch(call.variant, by: proof, progress: progress, reply: reply)
            }
            service.refresh(token, scopes: call.scopes, progress: progress, reply: reply)
        }
    }

    private func begin(
        _ call: SessionCall, _ kind: SessionCall.Kind, gate: SendGate?, send: @escaping CallAttempt.Send
    ) {
        environment.beginCall()
        let progress = openCall.begin(kind, gate: gate, call, of: machine)
        let deadline = progress.startedAt + machine.context.policy.attemptTimeout
        let attempt = CallAttempt(call, progress, deadline: deadline, send: send)
        openCall.attempt = attempt
        nonisolated(unsafe) let own = attempt
        attempt.begin { [self] in complete($0, of: progress, in: own) }
    }

    /// The call of this operation has had no response, and requests wait.
    private func makeSecondCall(_ operation: UInt64, isReleased: Bool) {
        guard let attempt = openCall.attempt, attempt.call.number == operation else { return }
        if let error = attempt.giveUpFirst() {
            nonisolated(unsafe) let own = attempt
            return environment.loop.post { [self] in end(own, .failure(error)) }
        }
        guard attempt.maySendSecond else { return }
        let identity = user.settings.identity
        if let instant = environment.secondCallAllowedAt(identity, for: attempt, isReleased: isReleased) {
            return handle(.secondCallPostponed(until: instant, operation: operation))
        }
        nonisolated(unsafe) let own = attempt
        attempt.beginSecond { [self] in complete($0, of: $1, in: own) }
        var metadata: Logger.Metadata = [
            "event": "session.call.second", "call": .string(attempt.progress.kind.rawValue),
            "age_seconds": .stringConvertible(attempt.progress.ageSeconds()),
        ]
        if let url = attempt.progress.url { metadata["url"] = .string(url) }
        logger.notice("\(attempt.progress.text()); a second call is made on another connection", metadata: metadata)
    }

    /// Replies once the service has been asked, too.
    private func completeTermination(_ revocations: [StoredRevocation], isStored: Bool, _ id: UInt64?) {
        let reply = id.flatMap { replies.take(termination: $0) }
        guard !revocations.isEmpty else {
            environment.revocations.forgetOutcome(of: name)
            // Like any other reply, it comes when the report shows what it says.
            return environment.loop.post { reply?(.terminated(isRevoked: false, isStored: isStored)) }
        }
        let left = Guarded(revocations.count)
        let areAllRevoked = Guarded(true)
        for revocation in revocations {
            environment.revocations.enqueue(revocation, of: name, isStored: isStored, logger) { isRevoked in
                let isLast = left.withLock { left in
                    left -= 1
                    return left == 0
                }
                let all = areAllRevoked.withLock { all in
                    all = all && isRevoked
                    return all
                }
                if isLast { reply?(.terminated(isRevoked: all, isStored: isStored)) }
            }
        }
    }

    /// May be called on any queue. The tokens of a user that was removed in that time are revoked.
    private func complete(
        _ result: Result<Grant, IdentityError>, of member: CallProgress, in attempt: CallAttempt
    ) {
        nonisolated(unsafe) let attempt = attempt
        environment.loop.post { [self] in
            // Its end was counted when it was given up.
            guard attempt.progress.gate?.isCancelled != true,
                let result = attempt.result(result, of: member, at: environment.loop.now)
            else { return }
            end(attempt, result)
        }
    }

    private func end(_ attempt: CallAttempt, _ result: Result<Grant, IdentityError>) {
        let (call, progress) = (attempt.call, attempt.progress)
        if openCall.attempt === attempt { openCall.attempt = nil }
        if !openCall.hold(result, call, progress) { finish(result, call, progress) }
    }

    private func finish(_ result: Result<Grant, IdentityError>, _ call: SessionCall, _ progress: CallProgress) {
        environment.endCall()
        openCall.end(progress)
        defer { environment.signalIfDrained() }
        guard !environment.isStopped else { return }
        count(result, call)
        environment.turns.record(result, of: user.settings.identity)
        guard isStopped else {
            handle(.callCompleted(result, call))
            if isServing { environment.handleCallEnd(of: self, result) }
            return
        }
        if case .success(let grant) = result, call.kind == .login {
            revoke(unwanted: grant)
        } else if let token = result.refreshToken {
            revoke(token)
        }
    }

    /// Revokes the session that a login has brought: by its refresh token, else by its access token.
    private func revoke(unwanted grant: Grant) {
        if let token = grant.refreshToken {
            revoke(token)
        } else if coordinator.setup.service.revokesAccessTokens {
            revoke(grant.accessToken, .accessToken)
        }
    }

    /// Revokes a session that no coordinator has.
    private func revoke(_ token: Secret, _ kind: StoredRevocation.Kind = .refreshToken) {
        environment.revocations.enqueue(
            StoredRevocation(
                identity: user.settings.identity, token: token, kind: kind, since: .now,
                fingerprint: user.storedIdentity.fingerprint),
            of: name, logger)
    }

    private func count(_ result: Result<Grant, IdentityError>, _ call: SessionCall) {
        let outcome: String =
            switch result {
            case _ where machine.operation?.number != call.number: "late"
            case .success: "success"
            case .failure(let error): error.verdict.label
            }
        if call.variant != .plain, let variant = machine.variants.first(where: { $0.named.variant == call.variant }) {
            environment.count(
                "lanyard_variant_fetches",
                [.init("user", name), .init("route", variant.named.name), .init("result", outcome)])
            return environment.observe(refresh: .now - call.startedAt)
        }
        switch call.kind {
        case .login:
            let provider = machine.operation?.provider ?? user.settings.login?.provider ?? "none"
            environment.count("lanyard_login_attempts", [.init("provider", provider), .init("result", outcome)])
        case .refresh:
            environment.count(
                "lanyard_refresh_attempts",
                [.init("user", name), .init("result", outcome), .init("reason", call.cause.rawValue)])
            environment.observe(refresh: .now - call.startedAt)
        }
    }

    /// A shard has not asked for a refresh after an upstream's refusal, because cooldown or budget forbids it.
    func recordDeniedRefresh(ofVariant index: UserIndex? = nil) {
        environment.loop.assertIsCurrent()
        let eventContext = EventContext.now
        var context = coordinator.context
        var details: [String: String] = [:]
        if let standIn = coordinator.standIn, standIn.index == index {
            details["token"] = standIn.named.name
        } else if let index {
            guard let variant = coordinator.variants.first(where: { $0.index == index }) else { return }
            context = variant.context
            details["token"] = variant.named.name
        }
        let denial = context.forcedRefreshDenial(at: eventContext.instant) ?? .cooldown
        var logEvent = SessionLogEvent(
            .refreshDenied, denial == .budget ? .error : .warning, reason: denial.rawValue,
            nextAt: context.forcedRefreshAllowedAt(at: eventContext.instant))
        logEvent.details = details
        log(logEvent, at: eventContext)
    }

    private func log(_ event: SessionLogEvent, at eventContext: EventContext) {
        var logEvent = event
        if logEvent.event == .refreshDenied {
            environment.count("lanyard_refresh_denied", [.init("user", name), .init("reason", logEvent.reason)])
            var throttle = denials[logEvent.reason] ?? LogThrottle(linesMax: 1, per: .seconds(10))
            let leftOut = throttle.admitLine(at: eventContext.instant)
            denials[logEvent.reason] = throttle
            guard let leftOut else { return }
            if leftOut > 0 { logEvent.counts["left_out"] = UInt64(leftOut) }
        }
        SessionLog.write(
            logEvent, state: machine.session.state, generation: machine.context.generation,
            canLogIn: machine.context.hasCredential, at: eventContext, to: logger)
    }
}
