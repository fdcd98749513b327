import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// One user's coordinator in virtual time. Its store replies at once unless it is held, and its identity service when
/// the test says so.
final class CoordinatorDriver {
    /// The state that all processes on one store share.
    final class Disk {
        var contents = StoreContents(fingerprintKey: Tokens.secret("key"))
        /// The process that has the user's lock.
        weak var holder: CoordinatorDriver?
    }

    static let full = StoreError(.system(28), message: "no space left on device")

    var now = Instant(nanoseconds: 1_000_000_000_000)
    var wall = WallTime(seconds: 1_800_000_000)
    var coordinator: SessionCoordinator
    let disk: Disk
    /// The reply to a lock request.
    var lockReply = StoreLock.taken
    /// The error with which the store fails.
    var storeError: StoreError?
    /// A failing write was still made: its last step failed.
    var makesFailedWrites = false
    /// Reading fails, too.
    var failsReads = false
    /// Commits and reads get no reply until `release`.
    var holdsStore = false
    var ownership = AccountOwnership.free
    /// The check of an account gets no reply until `releaseClaims`.
    var holdsClaims = false
    var chance = 0.5

    /// The actions, in order, as short words.
    private(set) var trail: [String] = []
    private(set) var calls: [SessionCall] = []
    private(set) var commits: [StoreChange] = []
    private(set) var sent: [String] = []
    private(set) var credentials: [Credential] = []
    /// The fingerprint of the refused credential in the latest login.
    private(set) var refused: CredentialFingerprint?
    private(set) var revoked: [String] = []
    private(set) var revocations: [StoredRevocation] = []
    private(set) var logEvents: [SessionLogEvent] = []
    private(set) var availability: AccessToken.Availability?
    /// The accounts that were published, in order.
    private(set) var accounts: [AccountNumber] = []
    /// The accounts whose owners were asked for.
    private(set) var claims: [String?] = []
    private(set) var variantAvailability: [UserIndex: AccessToken.Availability] = [:]
    /// How often the tokens of variants were used; unknown without an entry.
    var uses: [UserIndex: UInt64] = [:]
    /// How often an upstream has accepted them, if their uses are known.
    var successes: [UserIndex: UInt64] = [:]
    /// By the ticket of the operator's call.
    private(set) var replies: [UInt64: SessionReply] = [:]
    private var held: [SessionCoordinator.Action] = []
    /// The tickets of operators' calls without a reply.
    private var waiting = OperatorReplies<UInt64>()
    private var terminations: UInt64 = 0
    private var heldClaims: [UInt64] = []
    private var names: UInt64 = 100

    init(
        _ user: String = "alice", hasCredential: Bool = true,
        login: UserSettings.Login = .emailPassword(email: "a@example.com", password: "/x"),
        rotation: RefreshTokenRotation = .none,
        graceWindow: Duration? = nil, refreshLifetime: Duration? = nil, refreshIdle: Duration? = nil,
        isAdded: Bool = false, variants: [TokenVariant] = [], standIn: TokenVariant? = nil,
        offline: LoginSettings.Offline = .cached, disk: Disk = Disk(), boot: String = "boot-1",
        revokesAccessTokens: Bool = false, asksBeforeSending: Bool = false, allowsSecondCall: Bool = false,
        lastTry: Bool = false,
        identity: StoredIdentity = "demo",
        others: [StoredIdentity] = [],
        configured: Set<String> = ["alice", "bob"]
    ) {
        var refreshTokens = RefreshTokenSettings(rotation, graceWindow: graceWindow)
        (refreshTokens.lifetime, refreshTokens.idle) = (refreshLifetime, refreshIdle)
        refreshTokens.lastTry = lastTry
        var setup = SessionCoordinator.Setup(
            user: user, identity: identity.name, index: UserIndex(0),
            credential: hasCredential ? .configured(login) : nil,
            refreshTokens: refreshTokens, isAdded: isAdded, offline: offline, boot: boot,
            fingerprint: identity.fingerprint,
            others: others, configured: configured)
        setup.variants = Self.named(variants)
        setup.standIn = standIn.map { Self.standIn($0) }
        setup.service.revokesAccessTokens = revokesAccessTokens
        setup.service.asksBeforeSending = asksBeforeSending
        setup.service.allowsSecondCall = allowsSecondCall
        coordinator = SessionCoordinator(setup)
        self.disk = disk
    }

    /// The variants of routes r1, r2 …, with indexes from 1 on.
    static func named(_ variants: [TokenVariant]) -> [(named: NamedVariant, index: UserIndex)] {
        variants.enumerated().map { (NamedVariant("r\($0 + 1)", $1), UserIndex($0 + 1)) }
    }

    /// A stand-in has an index behind those of other variants.
    static func standIn(_ variant: TokenVariant) -> (named: NamedVariant, index: UserIndex) {
        (NamedVariant("r9", variant), UserIndex(9))
    }

    // MARK: Observed state

    /// What the shards have of the variant with this place.
    func variant(_ place: Int) -> AccessToken? {
        if case .token(let token)? = variantAvailability[UserIndex(place)] { token } else { nil }
    }

    var state: SessionState { coordinator.session.state }
    var reason: SessionReason { coordinator.session.reason }
    var contents: StoreContents { disk.contents }
    var stored: StoredUser? { contents[coordinator.setup.user] }
    var storedRefresh: String? { Tokens.text(stored?.session?.refresh) }
    var refresh: String? { Tokens.text(coordinator.session.tokens?.refresh) }
    var token: AccessToken? { if case .token(let token)? = availability { token } else { nil } }
    var refusal: AccessToken.Refusal? { if case .none(let refusal)? = availability { refusal } else { nil } }
    /// The call that waits for its response.
    var call: SessionCall? {
        coordinator.operation.flatMap { $0.isAwaitingResult ? $0.call : nil }
    }

    func noted(_ event: SessionLogEvent.Event) -> Bool { logEvents.contains { $0.event == event } }
    /// The refresh token that the store would mark by the intent that it is asked for; nil: none.
    var heldToken: String? { heldIntent.flatMap { Tokens.text($0.token) } }
    /// The intent that the store is asked for, with the refresh token that it would mark.
    var heldIntent: (intent: StoredIntent, token: Secret?)? {
        for action in held {
            switch action {
            case .begin(.storeIntent(_, _, let intent, _, _, let token, _), _),
                .commit(.storeIntent(_, _, let intent, _, _, let token, _)):
                return (intent, token)
            default: break
            }
        }
        return nil
    }
    /// What the store was told last of a refresh token that may work only once and that had its response.
    var settledToken: (token: String?, openCalls: Int)? {
        guard case .clearIntent(_, let sent?, _)? = commits.last else { return nil }
        return (Tokens.text(sent.token), sent.openCalls)
    }
    /// The store owes a reply.
    var isHeld: Bool { !held.isEmpty }
    func forget() { (trail, logEvents) = ([], []) }

    // MARK: Events

    func begin() { handle(.begin(stored)) }

    /// - Parameter ticket: the place in `replies` of the reply to an operator's call; nil: no caller waits for it.
    func handle(_ event: SessionCoordinator.Event, ticket: UInt64? = nil) {
        // The lowest bit has a meaning.
        names += 2
        let eventContext = EventContext(instant: now, wall: wall, chance: chance, name: names)
        let actions = coordinator.handle(event, at: eventContext)
        if let ticket, let call = event.operatorCall { waiting.add(ticket, to: call, handledBy: actions) }
        for action in actions {
            for (ticket, result) in waiting.take(for: action) { replies[ticket] = result }
            perform(action)
        }
    }

    /// An operator logs in.
    func login(_ credential: Credential, ticket: UInt64?) { handle(.login(credential), ticket: ticket) }

    /// A session comes from elsewhere.
    func obtain(_ session: ObtainedSession, ticket: UInt64?) { handle(.obtained(session), ticket: ticket) }

    /// An operator ends the session.
    func terminate(_ termination: SessionCoordinator.Termination, ticket: UInt64?) {
        terminations += 1
        handle(.terminate(termination, id: terminations), ticket: ticket)
    }

    /// An operator deletes the account.
    func beginDeletion(ticket: UInt64) { handle(.beginDeletion, ticket: ticket) }

    /// An operator wants a new access token.
    func refreshNow(ticket: UInt64) { handle(.refresh, ticket: ticket) }

    private func perform(_ action: SessionCoordinator.Action) {
        switch action {
        case .tryLock:
            trail.append("lock")
            let isFree = disk.holder == nil || disk.holder === self
            if isFree, lockReply == .taken { disk.holder = self }
            handle(.locked(isFree ? lockReply : .busy))
        case .unlock:
            trail.append("unlock")
            if disk.holder === self { disk.holder = nil }
        case .begin, .read, .commit:
            if holdsStore { held.append(action) } else { reply(action) }
        case .login(let credential, let refused, let call):
            trail.append("login")
            calls.append(call)
            credentials.append(credential)
            self.refused = refused
        case .refresh(let token, let call):
            trail.append("refresh")
            calls.append(call)
            sent.append(Tokens.text(token) ?? "")
        case .prepareRefresh(let token, let call):
            trail.append("prepare")
            calls.append(call)
            sent.append(Tokens.text(token) ?? "")
        case .sendRefresh: trail.append("send")
        case .cancelRefresh: trail.append("cancel")
        case .secondCall: trail.append("second")
        case .claim(let account, let operation):
            claims.append(account)
            if holdsClaims { heldClaims.append(operation) } else { handle(.claimed(ownership, operation: operation)) }
        case .revoke(let revocation): revoke(revocation)
        case .completeTermination(let revocations, let isStored, let id):
            for revocation in revocations { revoke(revocation) }
            if let ticket = id.flatMap({ waiting.take(termination: $0) }) {
                replies[ticket] = .terminated(isRevoked: false, isStored: isStored)
            }
        case .publish(let news):
            availability = news
            if case .token(let token) = news {
                trail.append("publish \(token.generation)")
                #expect(now < token.usableUntil, "an expired token was published")
            }
        case .publishVariant(let news, let index):
            variantAvailability[index] = news
            if case .token(let token) = news {
                trail.append("publish \(index.number):\(token.generation)")
                #expect(now < token.usableUntil, "an expired token was published")
            }
        case .publishAccount(let account): accounts.append(account)
        case .countUses(let index):
            let uses = uses[index].map { TokenUses(responses: $0, successes: successes[index] ?? 0) }
            handle(.variant(index, .usesCounted(uses)))
        case .logEvent(let logEvent): logEvents.append(logEvent)
        case .refuseCall, .loginEnded, .deletionPrepared, .refreshEnded: break
        }
    }

    private func revoke(_ revocation: StoredRevocation) {
        trail.append("revoke")
        revoked.append(Tokens.text(revocation.token) ?? "")
        revocations.append(revocation)
    }

    private func reply(_ action: SessionCoordinator.Action) {
        switch action {
        case .begin(let change, let operation): handle(.begun(begin(change), operation: operation))
        case .read(let operation):
            trail.append("read")
            if failsReads, let storeError { return handle(.read(.failure(storeError), operation: operation)) }
            handle(.read(.success(stored), operation: operation))
        case .commit(let change):
            trail.append(Self.word(change))
            commits.append(change)
            if let storeError {
                if makesFailedWrites { _ = disk.contents.apply(change, now: wall) }
                return handle(.committed(.failure(storeError)))
            }
            handle(.committed(.success(disk.contents.apply(change, now: wall))))
        default: break
        }
    }

    private func begin(_ change: StoreChange) -> StoreBeginning {
        trail.append("begin")
        let isFree = disk.holder == nil || disk.holder === self
        guard isFree, lockReply != .busy else { return .busy }
        var lockError: String?
        if case .failed(let message) = lockReply { lockError = message } else { disk.holder = self }
        let read: Result<StoredUser?, StoreError> =
            if failsReads, let storeError { .failure(storeError) } else { .success(stored) }
        if let storeError {
            if makesFailedWrites { _ = disk.contents.apply(change, now: wall) }
            return .attempted(StoreBeginning.Attempt(read, .failure(storeError)), lockError: lockError)
        }
        let verdict = disk.contents.apply(change, now: wall)
        return .attempted(StoreBeginning.Attempt(read, .success(verdict)), lockError: lockError)
    }

    static func word(_ change: StoreChange) -> String {
        switch change {
        case .storeIntent: "intend"
        case .clearIntent: "settle"
        case .dropRefreshToken: "spend"
        case .saveSession: "hold"
        case .recordRefusal: "refuse"
        case .end: "end"
        case .logOut: "logOut"
        case .beginDeletion: "mark"
        case .cancelDeletion: "unmark"
        case .remove: "remove"
        case .activate: "activate"
        case .addRevocation: "owe"
        case .saveMetadata: "metadata"
        case .removeRevocation: "revoked"
        }
    }

    /// Lets the store reply to the held calls, and to later ones unless it is held again.
    func release(holdingOn: Bool = false) {
        holdsStore = holdingOn
        let actions = held
        held = []
        for action in actions { reply(action) }
    }

    /// Replies to the checks of accounts.
    func releaseClaims() {
        holdsClaims = false
        let operations = heldClaims
        heldClaims = []
        for operation in operations { handle(.claimed(ownership, operation: operation)) }
    }

    /// Moves both clocks.
    func pass(_ seconds: Double) {
        now = now + .seconds(seconds)
        wall = wall + .seconds(seconds)
    }

    /// Moves the clocks to the coordinator's next deadline and sends `.due`.
    func toDue() {
        if coordinator.due > now, coordinator.due < .never {
            pass((coordinator.due - now).inSeconds)
            now = max(now, coordinator.due)
        }
        handle(.due)
    }

    /// Goes on until `condition` holds, at most 2000 deadlines far.
    func toDue(until condition: () -> Bool) {
        for _ in 0..<2000 where !condition() { toDue() }
    }

    /// Goes on to the next call, at most so many deadlines away.
    func toCall(_ deadlines: Int = 20) {
        for _ in 0..<deadlines where call == nil { toDue() }
    }

    func grant(
        _ lifetime: Duration = .seconds(1800), refresh: String? = nil, refreshExpiry: WallTime? = nil,
        account: String? = nil, proof: AccountFingerprint? = nil, credential: String? = "same",
        token: String = "access", mismatch: String? = nil, scopes: Set<String>? = nil
    ) throws {
        let call = try #require(call)
        var grant = SessionDriver.grant(lifetime, refresh: refresh, refreshExpiry: refreshExpiry, account: account)
        grant.accessToken = Tokens.secret(token)
        grant.audienceMismatch = mismatch
        grant.account = proof
        grant.credential = credential.map { CredentialFingerprint(bytes: Array($0.utf8)) }
        grant.scopes = scopes
        handle(.callCompleted(.success(grant), call))
    }

    /// The service is connected for the call that is prepared.
    func connect() throws { handle(.refreshPrepared(operation: try #require(call).number)) }

    /// - Parameter status: of the response; nil: none is known.
    func fail(
        _ verdict: IdentityError.Verdict, credential: CredentialFingerprint? = nil, status: Int? = nil,
        isNamed: Bool = false, isOfClient: Bool = false
    ) throws {
        var error = IdentityError(verdict, status: status, message: "planned", credential: credential)
        (error.isServiceError, error.isOfClient) = (isNamed, isOfClient)
        if isNamed, let status { error.refreshResponse = RefreshResponse(status: status, error: .named) }
        handle(.callCompleted(.failure(error), try #require(call)))
    }

    /// Logs in: `valid` afterwards, stored as generation 1 with the refresh token `one`.
    func logIn(_ lifetime: Duration = .seconds(1800), refreshExpiry: WallTime? = nil) throws {
        begin()
        try grant(lifetime, refresh: "one", refreshExpiry: refreshExpiry, account: "a")
        try #require(state == .valid && storedRefresh == "one")
        forget()
    }

    /// Logs in, and refreshes while the disk is full: the refresh token `two` is served from memory, and the store
    /// keeps failing.
    func refreshUnsaved(_ lifetime: Duration = .seconds(1800)) throws {
        try logIn(lifetime)
        toDue()
        storeError = Self.full
        try grant(lifetime, refresh: "two")
    }

    /// Logs in and refreshes: what the store held before it had the refresh token `two`.
    func refreshedContents() throws -> StoreContents {
        try logIn()
        let old = contents
        toCall()
        try grant(refresh: "two")
        return old
    }

    /// A crash and a new start on the stored contents, so many seconds later.
    func restart(
        after seconds: Double = 1, hasCredential: Bool = true, rotation: RefreshTokenRotation = .none,
        graceWindow: Duration? = nil, boot: String = "boot-1", variants: [TokenVariant] = [],
        offline: LoginSettings.Offline = .cached
    ) -> CoordinatorDriver {
        if disk.holder === self { disk.holder = nil }
        let next = CoordinatorDriver(
            hasCredential: hasCredential, rotation: rotation, graceWindow: graceWindow, variants: variants,
            offline: offline, disk: disk, boot: boot, lastTry: coordinator.setup.refreshTokens.lastTry)
        next.now = now + .seconds(seconds)
        next.wall = wall + .seconds(seconds)
        return next
    }

    /// Another process on the same store that has started and continues with what it holds.
    func another(
        rotation: RefreshTokenRotation = .none, hasCredential: Bool = true, variants: [TokenVariant] = []
    ) -> CoordinatorDriver {
        let next = CoordinatorDriver(
            hasCredential: hasCredential, rotation: rotation, variants: variants, disk: disk,
            lastTry: coordinator.setup.refreshTokens.lastTry)
        (next.now, next.wall, next.names) = (now, wall, names + 10_000)
        next.begin()
        next.forget()
        return next
    }
}
