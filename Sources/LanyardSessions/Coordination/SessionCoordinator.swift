import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// The machine of one user: the session, the token operation that makes its calls, and the changes that the store has
/// not taken yet. It does no I/O. `SessionRunner` performs its actions and returns the results. The simulation does the
/// same, with a simulated disk and identity service.
///
/// `handle` takes each event and returns the actions to perform, in this order. `due` says when to send `.due` next.
/// One event reports each result: `begun` for `begin`, `locked` for `tryLock`, `read` for `read`, `committed` for `commit` (at most one is
/// open), `callCompleted` for `login` and `refresh`, `claimed` for `claim`. `prepareRefresh` leads to `refreshPrepared`,
/// and then to `sendRefresh` with `callCompleted`, or to `cancelRefresh` without an event. If the service cannot be
/// connected, `callCompleted` follows at once. Between `refreshPrepared` and `sendRefresh` it must be held back.
/// `unlock`, `revoke`, `publish`, `logEvent` and those that end an operator's call have no result.
///
/// Of each operator's call, exactly one action tells the result: `refuseCall` with the actions of its own event, or later
/// the one that is named at the event.
///
/// A crash is modelled by dropping the coordinator and all open results. A start makes a new coordinator and sends it
/// `begin` with what the store holds.
package struct SessionCoordinator: Sendable {
    /// What has happened.
    package enum Event: Sendable {
        /// The first event of a user whose session Lanyard renews. It carries what the store holds; nil if it does not
        /// know the user.
        ///
        /// - duplicateOf: another user that has a session of the same account and keeps it.
        case begin(StoredUser?, duplicateOf: String? = nil)
        case due
        /// A reload has changed the settings. What is in progress ends as it began.
        ///
        /// - isCredentialNew: the configured login is another one, or gone, or goes to another service object.
        /// - isRequestNew: token calls ask for something else, such as other scopes.
        case reconfigured(Setup, isCredentialNew: Bool, isRequestNew: Bool = false)
        /// An event from shards, clocks, token feeds or file watches.
        case session(Session.Event)
        /// The session, or one of its variants, asks whether the service is back, as a request of its own wants to know.
        case probe
        /// The service is back. Attempts that wait are made after this time, and so is the second call of one in progress.
        case serviceReturned(after: Duration)
        /// An event of one variant.
        case variant(UserIndex, VariantEvent)
        /// An upstream has refused the plain token of this generation, with which a request was sent once more.
        case freshTokenRefused(Generation)
        /// An operator logs in; `loginEnded` follows.
        case login(Credential)
        /// A session that was obtained for another user, or elsewhere; `loginEnded` follows.
        case obtained(ObtainedSession)
        /// An operator wants a new access token now; `refreshEnded` follows. Of several at once there is one.
        case refresh
        /// An operator ends the session; `completeTermination` with this id follows. Several can be open at once.
        case terminate(Termination, id: UInt64)
        /// An operator deletes the account; `deletionPrepared` follows. With `deletionBegun` the service may be called,
        /// and `endDeletion` follows its response.
        case beginDeletion
        case endDeletion(isDeleted: Bool)
        /// The process is about to end. What has begun is finished and no new call begins. Unsaved changes are tried
        /// once more.
        case drain
        /// The process ends now, after other users' calls: unsaved changes are tried for the last time.
        case retryUnsaved
        /// Another user's session is about to be stored. If the end of this user's session is unsaved, it is tried
        /// first.
        case retryUnsavedEnd
        case locked(StoreLock)
        /// The operation has not begun: the identity's service responds to no call of its other users.
        case turnMissed
        case begun(StoreBeginning, operation: UInt64)
        case read(Result<StoredUser?, StoreError>, operation: UInt64)
        /// What the store holds of this user, from a read of all users. No change of this user was in progress.
        case storeSnapshot(StoredUser?)
        case committed(Result<StoreChange.Verdict, StoreError>)
        case callCompleted(Result<Grant, IdentityError>, SessionCall)
        /// The service is connected, and the refresh token would be sent next.
        case refreshPrepared(operation: UInt64)
        case claimed(AccountOwnership, operation: UInt64)
        /// The second call may be made from this instant on.
        case secondCallPostponed(until: Instant, operation: UInt64)
    }

    /// What to do.
    package enum Action: Sendable {
        case tryLock, unlock
        /// Takes the lock, reads the user and stores the intent, in one call of the store.
        case begin(StoreChange, operation: UInt64)
        case read(operation: UInt64)
        case commit(StoreChange)
        /// - refused: the fingerprint of the refused credential. A credential with this fingerprint is not sent.
        case login(Credential, refused: CredentialFingerprint?, SessionCall)
        case refresh(Secret, SessionCall)
        /// Connects to the service for such a call, and holds the refresh token back.
        case prepareRefresh(Secret, SessionCall)
        /// Sends the refresh token that is held back, or gives the call up.
        case sendRefresh(operation: UInt64), cancelRefresh(operation: UInt64)
        /// Makes the call once more beside the one without a response, in place of such a call before (refresh.md 17). Both have one
        /// `callCompleted`. In place of it `secondCallPostponed` may follow.
        ///
        /// - isReleased: however many second calls were made at the identity in this second.
        case secondCall(operation: UInt64, isReleased: Bool)
        /// Asks whether this account may be the user's.
        case claim(account: String?, operation: UInt64)
        /// Tells the identity service that a session has ended.
        case revoke(StoredRevocation)
        /// An operator's logout or removal is done locally. The identity service is told of the session, and of what the
        /// store held in its place. Then the operator gets the reply `terminated` with the outcome.
        ///
        /// - isStored: the store holds the change and the revocations.
        /// - id: of the event `terminate`; nil: its operator has a reply already.
        case completeTermination([StoredRevocation], isStored: Bool, id: UInt64?)
        case publish(AccessToken.Availability)
        /// The availability of a variant's token.
        case publishVariant(AccessToken.Availability, UserIndex)
        /// The account of all the user's tokens from now on, whenever the next one comes: what another account has begun ends.
        case publishAccount(AccountNumber)
        /// Asks how often a variant's token was used; the event `usesCounted` follows.
        case countUses(UserIndex)
        case logEvent(SessionLogEvent)
        /// The operator's call of the present event is not carried out.
        case refuseCall(SessionReply)
        /// The operator's login, or the taking over of an obtained session, has this result.
        case loginEnded(SessionReply)
        /// The store holds the mark of the operator's deletion (`deletionBegun`), or there will be no deletion.
        case deletionPrepared(SessionReply)
        /// All operators that wait for a new access token get this reply.
        case refreshEnded(SessionReply)
    }

    /// How an operator ends a session.
    package enum Termination: Sendable {
        /// The user stays known. Only an operator can log it in again.
        case logOut
        /// The user is forgotten.
        case remove
    }

    /// What an operator waits for.
    package enum OperatorCall: Equatable, Sendable {
        case login, deletion, refresh
        case termination(UInt64)
    }

    /// The identity of the user and the settings that apply to it.
    package struct Setup: Sendable {
        package var user: String
        package var identity: String
        /// The user's index in the request path.
        package var index: UserIndex
        /// The credential for automatic logins; nil: an operator must log in.
        package var credential: Credential?
        /// What is configured of the identity's refresh tokens.
        package var refreshTokens: RefreshTokenSettings
        /// No configuration names the user.
        package var isAdded: Bool
        /// `refresh`.
        package var refresh: RefreshSettings
        /// `login.offline`.
        package var offline: LoginSettings.Offline
        /// `BootInstant.boot` of this boot of the machine.
        package var boot: String
        /// The identity service.
        package var service = Service()
        /// All identities whose users this process may know.
        package var others: [StoredIdentity]
        /// The names of all configured users.
        package var configured: Set<String>
        /// The generation of the latest token that this process has published for the index; the next one is higher.
        package var generation = Generation.zero
        /// The variants of the user's access token that routes name, each with its index.
        package var variants: [(named: NamedVariant, index: UserIndex)] = []
        /// The variant that takes the place of the plain token, which no request carries; nil: none. It is none of `variants`.
        package var standIn: (named: NamedVariant, index: UserIndex)? {
            get { service.standIn }
            set { service.standIn = newValue }
        }

        /// What is known of the identity service.
        package struct Service: Sendable {
            /// The fingerprint of the identity; nil: it has none.
            package var fingerprint: IdentityFingerprint?
            /// What its logins ask for in place of the plain token.
            var standIn: (named: NamedVariant, index: UserIndex)?
            /// See `IdentityService.tokenRequest`.
            package var tokenRequest: IdentityFingerprint?
            /// See `IdentityService.revokesAccessTokens`.
            package var revokesAccessTokens = false
            /// See `IdentityService.asksBeforeSending`.
            package var asksBeforeSending = false
            /// See `IdentityService.allowsSecondCall`.
            package var allowsSecondCall = false
        }

        package init(
            user: String, identity: String, index: UserIndex, credential: Credential?,
            refreshTokens: RefreshTokenSettings = RefreshTokenSettings(),
            isAdded: Bool = false, refresh: RefreshSettings = RefreshSettings(),
            offline: LoginSettings.Offline = .cached,
            boot: String = "", fingerprint: IdentityFingerprint? = nil, others: [StoredIdentity] = [],
            configured: Set<String> = []
        ) {
            self.user = user
            self.identity = identity
            self.index = index
            self.credential = credential
            self.refreshTokens = refreshTokens
            self.isAdded = isAdded
            self.refresh = refresh
            self.offline = offline
            self.boot = boot
            service.fingerprint = fingerprint
            self.others = others
            self.configured = configured
        }
    }

    /// A login that waits for the operation before it.
    struct OperatorLogin: Sendable {
        /// The credential, or the session that has come already.
        var credentials: TokenOperation.Credentials
        /// The service has refused what a stand-in asks for: the login asks for the plain token.
        var isPlain = false

        var obtained: ObtainedSession? { if case .obtained(let obtained) = credentials { obtained } else { nil } }
    }

    enum Lock { case free, requested, held }

    /// The user, its identity and its settings.
    package internal(set) var setup: Setup
    /// The state machine.
    package internal(set) var session = Session.loggedOut(.loggingIn)
    /// What outlives its states.
    package internal(set) var context: SessionContext
    /// What is in progress.
    var operationState = OperationState.none
    /// What is known of the user in the store.
    var knownRecord = KnownRecord()
    /// What is known of the current refresh token.
    var refreshToken = RefreshTokenState()
    /// The user's lock.
    var lock = Lock.free
    /// What follows the present operation.
    var waiting = WaitingCalls()
    /// The account is being deleted.
    var deletion: Deletion?
    /// The process is about to end.
    var shutdown = Shutdown.none
    /// The changes that the store has not taken yet.
    var writes = SessionWrites()
    /// The access tokens of variants.
    var variantTokens: VariantTokens
    /// The context of the current event.
    var eventContext = EventContext(instant: .past, wall: WallTime(seconds: 0), chance: 0)
    private var actions: [Action] = []

    /// - Parameter hasFormerRequest: a reload has changed what token calls ask for since the store got its tokens.
    package init(_ setup: Setup, hasFormerRequest: Bool = false) {
        self.setup = setup
        waiting.renewsFormerRequest = hasFormerRequest
        let standIn = StandIn(setup)
        variantTokens = VariantTokens(sessions: Self.variants(of: setup, besides: standIn), standIn: standIn)
        knownRecord.isProvisional = setup.isAdded
        context = SessionContext(
            user: setup.index, settings: setup.refresh, refreshTokens: setup.refreshTokens,
            hasCredential: setup.credential != nil)
        context.generation = setup.generation
        context.secondCalls = setup.secondCalls
    }

    /// Handles one event and returns the actions to perform, in order.
    package mutating func handle(_ event: Event, at eventContext: EventContext) -> [Action] {
        self.eventContext = eventContext
        actions = []
        var prepared = preparedCall
        if case .callCompleted(_, let call) = event, call.number == prepared { prepared = nil }
        let former = context.account
        handle(event)
        publishAccount(after: former)
        endRefusedStandIn()
        renewFormerRequest()
        beginFetches()
        startNext()
        retryBeforeExit()
        replyToRefreshCalls()
        addWarnings()
        if let prepared { cancelUnlessNeeded(prepared) }
        defer { actions = [] }
        return actions
    }

    /// The tokens of variants come later than the plain one, or not at all. A plain one that came too late to be used is not
    /// published.
    private mutating func publishAccount(after former: SessionAccount?) {
        guard let account = context.account?.number, account != former?.number else { return }
        emit(.publishAccount(account))
    }

    /// The present call with its steps; nil: none.
    package internal(set) var operation: TokenOperation? {
        get {
            switch operationState {
            case .none: nil
            case .running(let operation): operation
            case .adopting(_, let operation): operation
            }
        }
        set {
            switch operationState {
            case .none, .running: operationState = newValue.map { .running($0) } ?? .none
            case .adopting(let adoption, _): operationState = .adopting(adoption, newValue)
            }
        }
    }

    /// An operation is in progress, or another process's session is adopted.
    var isOperating: Bool { if case .none = operationState { false } else { true } }

    /// Another process's session is adopted.
    var isAdopting: Bool { if case .adopting = operationState { true } else { false } }

    /// The process is about to end.
    var isDraining: Bool { if case .none = shutdown { false } else { true } }

    /// The version that the store is known to hold.
    package var base: SessionVersion { knownRecord.base }

    /// The highest generation of any token of the user that was published.
    package var latestGeneration: Generation { variants.map(\.context.generation).reduce(context.generation, max) }

    /// A request waits for an attempt that may be made now: of the session, or of one of its variants.
    package func wantsProbe(at now: Instant) -> Bool {
        !isOperating && !isDraining
            && (session.wantsProbe(at: now) || variants.contains { $0.session.wantsProbe(at: now) })
    }

    /// An attempt waits that may be made at once if the service is back.
    package func awaitsService(at now: Instant) -> Bool {
        session.awaitsService(at: now) || variants.contains { $0.session.awaitsService(at: now) }
    }

    private mutating func probe() {
        let now = eventContext.instant
        guard wantsProbe(at: now) else { return }
        if session.wantsProbe(at: now) { return applyToSession(.probe) }
        if let place = variants.firstIndex(where: { $0.session.wantsProbe(at: now) }) {
            applyToVariant(at: place, .probe)
        }
    }

    /// The kind of the latest login; nil: unknown.
    package var provider: String? { knownRecord.provider }

    /// What the ID token of the latest login calls the account; nil: unknown.
    package var subject: String? { writes.unsaved?.subject ?? knownRecord.user?.subject }

    /// When to send `.due` next, or `.never`.
    package var due: Instant {
        min(
            min(session.due(context), operation?.due ?? .never), min(writes.retryAt, refreshToken.warnings.nextAt),
            min(deletion?.lockAt ?? .never, variants.map(\.due).min() ?? .never),
            min(formerRequestDue, secondCallDue))
    }

    /// Nothing is in progress and nothing is unsaved: the coordinator may be removed.
    package var isIdle: Bool {
        !isOperating && waiting.login == nil && writes.writesInFlight.isEmpty
            && writes.unsavedChanges.isEmpty
            && lock == .free
    }

    /// The error of the latest failed write while changes are unsaved; they are tried again.
    package var storeError: StoreError? { writes.error }

    /// Between a call's intent and the write of its result, or during another write.
    var isCallOrWriteUnderWay: Bool {
        switch operation?.stage {
        case .beginning(.whole), .beginning(.intent), .calling, .claiming, .saving, .closing: true
        case nil, .beginning(.lock), .beginning(.read), .queueing, .pausing, .preparing: writes.isWriting
        }
    }

    private mutating func handle(_ event: Event) {
        switch event {
        case .begin(let stored, let other):
            begin(stored, duplicateOf: other)
            if !hasFormerTokens { waiting.renewsFormerRequest = false }
        case .due:
            applyToSession(.due)
            performDueOfVariants()
            if let operation, operation.due <= eventContext.instant { continueAfterDelay() }
            performSecondCall()
            retryWrites()
            if let deletion, deletion.lockAt <= eventContext.instant { lockForDeletion() }
        case .reconfigured(let setup, let isCredentialNew, let isRequestNew):
            // The present tokens, and the call in progress, are of the former request. A login that begins now is not.
            if isRequestNew, session.tokens != nil || isOperating { waiting.renewsFormerRequest = true }
            if isRequestNew { doubtExchangedAccount(setup) }
            reconfigure(setup, isCredentialNew: isCredentialNew)
        case .freshTokenRefused(let generation): recordRefusal(of: session.tokens, .plain, generation)
        case .session(let event):
            if case .tokenRefused(let generation) = event { recordRefusal(of: session.tokens, .plain, generation) }
            applyToSession(event)
            if case .tokenNeeded = event { waiting.isTokenWanted = true }
            if event.concernsAllTokens { applyToVariants(event) }
        case .probe: probe()
        case .serviceReturned(let delay):
            applyToSession(.serviceReturned(after: delay))
            applyToVariants(.serviceReturned(after: delay))
            releaseSecondCall(after: delay)
        case .variant(let index, let event): handle(event, of: index)
        case .login(let credential): beginOperatorLogin(OperatorLogin(credentials: .login(credential)))
        case .obtained(let obtained): beginOperatorLogin(OperatorLogin(credentials: .obtained(obtained)))
        case .refresh: refresh()
        case .terminate(let termination, let id): terminate(termination, id: id)
        case .beginDeletion: beginDeletion()
        case .endDeletion(let isDeleted): endDeletion(isDeleted: isDeleted)
        case .drain: drain()
        case .retryUnsaved: if isDrained { retryNext() }
        case .retryUnsavedEnd: retryUnsavedEnd()
        case .locked(let result): handleLocked(result)
        case .turnMissed: handleTurnMissed()
        case .begun(let result, let number): handleBegun(result, number)
        case .read(let result, let number): handleRead(result, number)
        case .storeSnapshot(let user): applySnapshot(user)
        case .committed(let result): handleCommitted(result)
        case .callCompleted(let result, let call): handleCallCompleted(result, call)
        case .refreshPrepared(let number): handlePrepared(number)
        case .claimed(let ownership, let number): handleClaimed(ownership, number)
        case .secondCallPostponed(let until, let number): postponeSecondCall(until: until, number)
        }
    }

    // MARK: Shared helpers

    mutating func emit(_ action: Action) { actions.append(action) }

    mutating func logEvent(
        _ event: SessionLogEvent.Event, _ level: SessionLogEvent.Level = .info, reason: String, nextAt: Instant? = nil,
        error: IdentityError? = nil, details: [String: String] = [:]
    ) {
        var logEvent = SessionLogEvent(event, level, reason: reason, nextAt: nextAt, error: error)
        logEvent.details = details
        emit(.logEvent(logEvent))
    }

    /// Sends an event to the session. Publications and log events go out at once. Calls wait for their operation.
    mutating func applyToSession(_ event: Session.Event) {
        for action in session.handle(event, at: eventContext, &context) {
            switch action {
            case .login(let call): waiting.call = (call, nil)
            case .refresh(let token, let call): waiting.call = (call, token)
            case .revoke(let token): revoke(token)
            case .publish(let availability): publish(availability)
            case .logEvent(let logEvent): emit(.logEvent(logEvent))
            }
        }
    }

    /// Revokes a session that no operator's logout has ended.
    mutating func revoke(_ token: Secret) { emit(.revoke(revocation(of: token))) }

    /// Revokes the session that a login has brought and that the user does not get.
    mutating func revoke(unwanted grant: Grant) {
        for revocation in revocations(ofUnwanted: grant) { emit(.revoke(revocation)) }
    }

    /// The revocation of the session that a login has brought: by its refresh token, else by its access token.
    func revocations(ofUnwanted grant: Grant) -> [StoredRevocation] {
        if let token = grant.refreshToken { return [revocation(of: token)] }
        return setup.service.revokesAccessTokens ? [revocation(of: grant.accessToken, .accessToken)] : []
    }

    func revocation(of token: Secret, _ kind: StoredRevocation.Kind = .refreshToken) -> StoredRevocation {
        StoredRevocation(
            identity: setup.identity, token: token, kind: kind, since: eventContext.wall,
            fingerprint: setup.service.fingerprint)
    }
}
