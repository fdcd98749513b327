/// Everything that is decided about one user: the session, the errand that makes its calls, and what the store could not be told yet, as
/// one machine. `SessionRunner` performs its acts and brings the answers back; so does the simulation, with a disk and a service of its own.
///
/// Every event is told by `take`, which says what to do, in this order; `due` says when to tell `.due` next. Acts are answered by one event
/// each: `tryLock` by `locked`, `read` by `read`, `commit` by `committed` (at most one is open), `login` and `refresh` by `answered`,
/// `claim` by `claimed`; `unlock`, `revoke`, `publish`, `note` and `reply` by none. A crash is to drop the desk and everything unanswered;
/// a start is a new desk that is told `begin` with what the store holds.
package struct SessionCoordinator: Sendable {
    package enum Event: Sendable {
        /// The first event of a user whose session Lanyard renews: what the store holds, nil if it does not know the user.
        ///
        /// - sharing: another user of whose account that is a session, too, and who goes on with it.
        case begin(StoredUser?, duplicateOf: String? = nil)
        case due
        /// What shards, clocks, feeds and watches tell.
        case session(Session.Event)
        /// A person logs in.
        case login(Credential, ticket: UInt64?)
        /// A session that was made on another user's behalf, or elsewhere.
        case given(ObtainedSession, ticket: UInt64?)
        /// A person wants a new access token now.
        case refresh(ticket: UInt64)
        /// A person ends the session.
        case terminate(Termination, ticket: UInt64?)
        /// The process is about to end: what has begun is finished, no call begins any more, and what the store lacks is tried once more.
        case settle
        /// Another user's session is about to be stored: an end of this one's that the store lacks is tried first.
        case retryUnsavedEnd
        case locked(StoreLock)
        case read(Result<StoredUser?, StoreError>, operation: UInt64)
        /// What the store holds, read for all users at once; no change of this one was on its way.
        case storeSnapshot(StoredUser?)
        case committed(Result<StoreChange.Verdict, StoreError>)
        case callCompleted(Result<Grant, IdentityError>, SessionCall)
        case claimed(AccountOwnership, operation: UInt64)
    }

    package enum Action: Sendable {
        case tryLock, unlock
        case read(operation: UInt64)
        case commit(StoreChange)
        /// - refused: not to be sent if it is this one.
        case login(Credential, refused: CredentialFingerprint?, SessionCall)
        case refresh(Secret, SessionCall)
        /// May this account be the user's?
        case claim(account: String, operation: UInt64)
        /// Tell the service that a session is over.
        case revoke(StoredRevocation)
        /// A person's logout or removal is done here; the service is to be told of the session, if there was one, and then the `ticket` is
        /// answered `left` with the outcome.
        ///
        /// - isStored: the store holds it, and what is to be revoked.
        case completeTermination(StoredRevocation?, isStored: Bool, ticket: UInt64?)
        case publish(AccessToken.Availability)
        case logEvent(SessionLogEvent)
        case reply(UInt64, SessionReply)
    }

    package enum Termination: Sendable {
        /// The user stays known, and is not logged in again without a person.
        case logOut
        /// The user is forgotten.
        case remove
    }

    /// Who it is, and what binds it.
    package struct Setup: Sendable {
        package var user: String
        package var identity: String
        package var index: UserIndex
        /// What logs the user in without a person; nil: a person does.
        package var credential: Credential?
        package var rotation: RefreshTokenRotation
        /// No configuration names the user.
        package var isAdded: Bool
        package var refresh: RefreshSettings
        package var offline: LoginSettings.Offline
        /// `BootInstant.boot` of this life of the machine.
        package var boot: String
        /// What the identity's name stands for; nil: nobody can tell.
        package var fingerprint: IdentityFingerprint?
        /// All identities whose users can be known here.
        package var others: [StoredIdentity]
        /// All users whom the configuration names.
        package var configured: Set<String>

        package init(
            user: String, identity: String, index: UserIndex, credential: Credential?,
            rotation: RefreshTokenRotation = .none,
            isAdded: Bool = false, refresh: RefreshSettings = RefreshSettings(),
            offline: LoginSettings.Offline = .cached,
            boot: String = "", fingerprint: IdentityFingerprint? = nil, others: [StoredIdentity] = [],
            configured: Set<String> = []
        ) {
            self.user = user
            self.identity = identity
            self.index = index
            self.credential = credential
            self.rotation = rotation
            self.isAdded = isAdded
            self.refresh = refresh
            self.offline = offline
            self.boot = boot
            self.fingerprint = fingerprint
            self.others = others
            self.configured = configured
        }
    }

    /// A login that waits for the errand before it.
    struct RequestedLogin: Sendable {
        enum Source: Sendable {
            case credential(Credential)
            case obtained(ObtainedSession)
        }

        var source: Source
        var ticket: UInt64?

        var credential: Credential? { if case .credential(let credential) = source { credential } else { nil } }
        var obtained: ObtainedSession? { if case .obtained(let obtained) = source { obtained } else { nil } }
    }

    enum Lock { case free, asked, held }

    package let setup: Setup
    package internal(set) var session = Session.loggedOut(.loggingIn)
    package internal(set) var context: SessionContext
    package internal(set) var operation: TokenOperation?
    /// What the store is known to hold: the base of each change.
    package internal(set) var base = SessionVersion.nobody
    /// The user as it stands there; nil: it does not, or not as this identity's.
    var storedUser: StoredUser?
    /// Another identity's user of this name, whom the store holds instead.
    var foreignUser: StoredUser?
    /// The store has held this user as this identity's.
    var wasStored = false
    /// Nobody has known the user before: its name is given with its first login.
    var isProvisional = false
    /// How far the session had come when an older file was put in place of the newer one.
    var generationMin: UInt64 = 0
    /// The generation of the session in hand as the store counts: past that of `base` by what it could not take.
    var held: UInt64 = 0
    /// Another process's session, whose account is being asked for, and whether the errand ends with it.
    var adopting: (user: StoredUser, finishing: Bool)?
    /// The credential that was definitely refused.
    var refused: CredentialFingerprint?
    /// How often the present refresh token has been sent without an answer, and when last.
    var unansweredRefreshes = 0
    var unansweredAt = WallTime(seconds: 0)
    /// The store knows of fewer of them than this.
    var isIntentUnsaved = false
    var lock = Lock.free
    /// The refresh token that came with a refresh whose access token was unusable, where refresh tokens rotate: the one in hand is spent.
    /// The session is not refreshed by it, but ended, when the session is replaced or left. Beside it `StoredSession.id` of its session.
    var orphanedRefresh: (token: Secret, session: UInt64)?
    /// The session's call that waits for the errand before it.
    var pendingCall: (call: SessionCall, refresh: Secret?)?
    var asked: RequestedLogin?
    /// A call that a crash has cut off stands open in the store, and no later one would close it.
    var hasUnclosedIntent = false
    /// The process is about to end.
    var isDraining = false
    /// The last try of what the store lacks has been made.
    var hasRetriedBeforeExit = false
    /// People who wait for a new access token.
    var refreshTickets: [UInt64] = []
    var writes = SessionWrites()
    var warnings = SessionWarnings()
    /// The kind of the latest login, and since when the account is known.
    package internal(set) var provider: String?
    package internal(set) var accountSince: WallTime?
    /// This event's.
    var eventContext = EventContext(instant: .past, wall: WallTime(seconds: 0), chance: 0)
    private var actions: [Action] = []

    package init(_ setup: Setup) {
        self.setup = setup
        isProvisional = setup.isAdded
        context = SessionContext(user: setup.index, settings: setup.refresh, hasCredential: setup.credential != nil)
    }

    /// The one way in.
    package mutating func handle(_ event: Event, at eventContext: EventContext) -> [Action] {
        self.eventContext = eventContext
        actions = []
        handle(event)
        startNext()
        retryBeforeExit()
        replyToRefreshRequests()
        addWarnings()
        defer { actions = [] }
        return actions
    }

    /// When `.due` is to be told next, or `.never`.
    package var due: Instant {
        min(min(session.due(context), operation?.due ?? .never), min(writes.retryAt, warnings.nextAt))
    }

    /// Nothing is under way, and nothing waits to be stored: the desk may be taken away.
    package var isIdle: Bool {
        operation == nil && asked == nil && adopting == nil && writes.writesInFlight.isEmpty
            && writes.unsavedChanges.isEmpty
            && lock == .free
    }

    /// The store has not taken everything: what is missing is tried again.
    package var storeError: StoreError? { writes.error }

    /// In the middle of a call, from its intent to its answer in the store, or of another change of the store.
    var isCallOrWriteUnderWay: Bool {
        switch operation?.stage {
        case .intending, .calling, .claiming, .saving, .closing: true
        case nil, .locking, .queueing, .reading, .pausing: writes.isWriting
        }
    }

    private mutating func handle(_ event: Event) {
        switch event {
        case .begin(let stored, let other): begin(stored, duplicateOf: other)
        case .due:
            applyToSession(.due)
            if let operation, operation.due <= eventContext.instant { continueAfterDelay() }
            retryWrites()
        case .session(let event): applyToSession(event)
        case .login(let credential, let ticket):
            requestLogin(RequestedLogin(source: .credential(credential), ticket: ticket))
        case .given(let obtained, let ticket): requestLogin(RequestedLogin(source: .obtained(obtained), ticket: ticket))
        case .refresh(let ticket): refresh(ticket)
        case .terminate(let termination, let ticket): terminate(termination, ticket: ticket)
        case .settle: settle()
        case .retryUnsavedEnd: retryUnsavedEnd()
        case .locked(let result): locked(result)
        case .read(let result, let number): read(result, number)
        case .storeSnapshot(let user): applySnapshot(user)
        case .committed(let result): committed(result)
        case .callCompleted(let result, let call): callCompleted(result, call)
        case .claimed(let claim, let number): claimed(claim, number)
        }
    }

    /// What ends by itself is told ahead.
    private mutating func addWarnings() {
        let tokens = session.tokens
        let logEvents = warnings.collect(
            expiry: tokens?.refresh == nil ? nil : tokens?.refreshExpiry, hasCredential: context.hasCredential,
            accountSince: tokens != nil && provider == "anonymous" ? accountSince : nil, at: eventContext)
        for logEvent in logEvents { emit(.logEvent(logEvent)) }
    }

    // MARK: What every part uses

    mutating func emit(_ emit: Action) { actions.append(emit) }

    mutating func logEvent(
        _ event: SessionLogEvent.Event, _ level: SessionLogEvent.Level = .info, reason: String, nextAt: Instant? = nil,
        error: IdentityError? = nil, details: [String: String] = [:]
    ) {
        var logEvent = SessionLogEvent(event, level, reason: reason, nextAt: nextAt, error: error)
        logEvent.details = details
        emit(.logEvent(logEvent))
    }

    /// The session's own steps: publications and notes go out, calls wait for their errand.
    mutating func applyToSession(_ event: Session.Event) {
        for action in session.handle(event, at: eventContext, &context) {
            switch action {
            case .login(let call): pendingCall = (call, nil)
            case .refresh(let token, let call): pendingCall = (call, token)
            case .revoke(let token): revoke(token)
            case .publish(let availability): emit(.publish(availability))
            case .logEvent(let logEvent): emit(.logEvent(logEvent))
            }
        }
    }

    /// A session that must not live on, and that no person's logout has ended.
    mutating func revoke(_ token: Secret) { emit(.revoke(revocation(of: token))) }

    func revocation(of token: Secret) -> StoredRevocation {
        StoredRevocation(
            identity: setup.identity, refresh: token, since: eventContext.wall, fingerprint: setup.fingerprint)
    }
}
