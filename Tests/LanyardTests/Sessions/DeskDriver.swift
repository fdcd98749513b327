import Testing

@testable import Lanyard

/// One user's desk in virtual time, with a store that answers at once unless it is held, and a service that answers when the test says so.
final class DeskDriver {
    /// What all processes on one store share.
    final class Disk {
        var contents = StoreContents(markKey: Tokens.secret("key"))
        /// Who has the user's lock.
        weak var holder: DeskDriver?
    }

    static let full = StoreFault(.system(28), words: "no space left on device")

    var now = Instant(nanoseconds: 1_000_000_000_000)
    var wall = WallTime(seconds: 1_800_000_000)
    var desk: SessionDesk
    let disk: Disk
    /// What a lock is answered.
    var lockAnswer = StoreLock.taken
    /// The store fails with this.
    var storeFault: StoreFault?
    /// A write that fails was made all the same: its last step did.
    var makesFailedWrites = false
    /// Reading fails, too.
    var failsReads = false
    /// Commits and reads stay unanswered until `release`.
    var holdsStore = false
    var claim = SessionClaim.free
    var chance = 0.5

    /// What was done, in order, as short words.
    private(set) var trail: [String] = []
    private(set) var calls: [SessionCall] = []
    private(set) var sent: [String] = []
    private(set) var credentials: [Credential] = []
    /// The mark that the latest login must not be.
    private(set) var refused: CredentialMark?
    private(set) var revoked: [String] = []
    private(set) var revocations: [StoredRevocation] = []
    private(set) var notes: [SessionNote] = []
    private(set) var availability: AccessToken.Availability?
    private(set) var replies: [UInt64: SessionReply] = [:]
    private var held: [SessionDesk.Act] = []
    private var names: UInt64 = 100

    init(
        _ user: String = "alice", hasCredential: Bool = true, rotation: SessionRotation = .none, isAdded: Bool = false,
        offline: LoginSettings.Offline = .cached, disk: Disk = Disk(), boot: String = "boot-1",
        home: StoredIdentity = "demo", others: [StoredIdentity] = [], configured: Set<String> = ["alice", "bob"]
    ) {
        let login = UserSettings.Login.emailPassword(email: "a@example.com", passwordFile: "/x")
        desk = SessionDesk(
            SessionDesk.Setup(
                user: user, identity: home.name, index: UserIndex(0),
                credential: hasCredential ? .configured(login) : nil,
                rotation: rotation, isAdded: isAdded, offline: offline, boot: boot, mark: home.mark,
                others: others, configured: configured))
        self.disk = disk
    }

    // MARK: What is seen

    var state: SessionState { desk.session.state }
    var reason: SessionReason { desk.session.reason }
    var contents: StoreContents { disk.contents }
    var stored: StoredUser? { contents[desk.setup.user] }
    var storedRefresh: String? { Tokens.text(stored?.session?.refresh) }
    var refresh: String? { Tokens.text(desk.session.tokens?.refresh) }
    var token: AccessToken? { if case .token(let token)? = availability { token } else { nil } }
    var refusal: AccessToken.Refusal? { if case .none(let refusal)? = availability { refusal } else { nil } }
    /// The call whose answer is awaited.
    var call: SessionCall? {
        if case .calling? = desk.errand?.stage { desk.errand?.call } else { nil }
    }

    func noted(_ event: SessionNote.Event) -> Bool { notes.contains { $0.event == event } }
    func forget() { (trail, notes) = ([], []) }

    // MARK: What happens

    func begin() { take(.begin(stored)) }

    func take(_ event: SessionDesk.Event) {
        names += 1
        let moment = SessionMoment(instant: now, wall: wall, chance: chance, name: names)
        for act in desk.take(event, at: moment) { perform(act) }
    }

    private func perform(_ act: SessionDesk.Act) {
        switch act {
        case .tryLock:
            trail.append("lock")
            let isFree = disk.holder == nil || disk.holder === self
            if isFree, lockAnswer == .taken { disk.holder = self }
            take(.locked(isFree ? lockAnswer : .busy))
        case .unlock:
            trail.append("unlock")
            if disk.holder === self { disk.holder = nil }
        case .read, .commit:
            if holdsStore { held.append(act) } else { answer(act) }
        case .login(let credential, let refused, let call):
            trail.append("login")
            calls.append(call)
            credentials.append(credential)
            self.refused = refused
        case .refresh(let token, let call):
            trail.append("refresh")
            calls.append(call)
            sent.append(Tokens.text(token) ?? "")
        case .claim(_, let errand): take(.claimed(claim, errand: errand))
        case .revoke(let revocation): revoke(revocation)
        case .dismiss(let revocation, let isStored, let ticket):
            if let revocation { revoke(revocation) }
            if let ticket { replies[ticket] = .left(isRevoked: false, isStored: isStored) }
        case .publish(let news):
            availability = news
            if case .token(let token) = news {
                trail.append("publish \(token.generation)")
                #expect(now < token.usableUntil, "an expired token was published")
            }
        case .note(let note): notes.append(note)
        case .reply(let ticket, let reply): replies[ticket] = reply
        }
    }

    private func revoke(_ revocation: StoredRevocation) {
        trail.append("revoke")
        revoked.append(Tokens.text(revocation.refresh) ?? "")
        revocations.append(revocation)
    }

    private func answer(_ act: SessionDesk.Act) {
        switch act {
        case .read(let errand):
            trail.append("read")
            if failsReads, let storeFault { return take(.read(.failure(storeFault), errand: errand)) }
            take(.read(.success(stored), errand: errand))
        case .commit(let change):
            trail.append(Self.word(change))
            if let storeFault {
                if makesFailedWrites { _ = disk.contents.apply(change, now: wall) }
                return take(.committed(.failure(storeFault)))
            }
            take(.committed(.success(disk.contents.apply(change, now: wall))))
        default: break
        }
    }

    static func word(_ change: StoreChange) -> String {
        switch change {
        case .intend: "intend"
        case .settle: "settle"
        case .spend: "spend"
        case .hold: "hold"
        case .refuse: "refuse"
        case .end: "end"
        case .logOut: "logOut"
        case .remove: "remove"
        case .activate: "activate"
        case .owe: "owe"
        case .revoked: "revoked"
        }
    }

    /// Lets the store answer what it was asked, and go on answering unless it is to hold what comes of that.
    func release(holdingOn: Bool = false) {
        holdsStore = holdingOn
        let acts = held
        held = []
        for act in acts { answer(act) }
    }

    /// Moves both clocks.
    func pass(_ seconds: Double) {
        now = now + .seconds(seconds)
        wall = wall + .seconds(seconds)
    }

    /// Moves the clocks to the desk's next deadline and tells it.
    func toDue() {
        if desk.due > now, desk.due < .never {
            pass((desk.due - now).inSeconds)
            now = max(now, desk.due)
        }
        take(.due)
    }

    /// On to the next call, at most so many deadlines away.
    func toCall(_ deadlines: Int = 20) {
        for _ in 0..<deadlines where call == nil { toDue() }
    }

    func grant(
        _ lifetime: Duration = .seconds(1800), refresh: String? = nil, refreshExpiry: WallTime? = nil,
        account: String? = nil
    ) throws {
        let call = try #require(call)
        take(
            .answered(
                .success(
                    SessionDriver.grant(lifetime, refresh: refresh, refreshExpiry: refreshExpiry, account: account)),
                call))
    }

    func fail(_ verdict: IdentityFault.Verdict, credential: CredentialMark? = nil) throws {
        let fault = IdentityFault(verdict, words: "planned", credential: credential)
        take(.answered(.failure(fault), try #require(call)))
    }

    /// Logs in: `valid` afterwards, stored as generation 1 with the refresh token `one`.
    func logIn(_ lifetime: Duration = .seconds(1800), refreshExpiry: WallTime? = nil) throws {
        begin()
        try grant(lifetime, refresh: "one", refreshExpiry: refreshExpiry, account: "a")
        try #require(state == .valid && storedRefresh == "one")
        forget()
    }

    /// Logs in, and refreshes when the disk is full: the refresh token `two` is served from memory, and the store fails on.
    func refreshUnsaved(_ lifetime: Duration = .seconds(1800)) throws {
        try logIn(lifetime)
        toDue()
        storeFault = Self.full
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

    /// A crash and a new start on what the store holds, so many seconds later.
    func restart(
        after seconds: Double = 1, hasCredential: Bool = true, rotation: SessionRotation = .none,
        boot: String = "boot-1",
        offline: LoginSettings.Offline = .cached
    ) -> DeskDriver {
        if disk.holder === self { disk.holder = nil }
        let next = DeskDriver(
            hasCredential: hasCredential, rotation: rotation, offline: offline, disk: disk, boot: boot)
        next.now = now + .seconds(seconds)
        next.wall = wall + .seconds(seconds)
        return next
    }

    /// Another process on the same store, that has started and goes on with what it holds.
    func another(rotation: SessionRotation = .none, hasCredential: Bool = true) -> DeskDriver {
        let next = DeskDriver(hasCredential: hasCredential, rotation: rotation, disk: disk)
        (next.now, next.wall) = (now, wall)
        next.begin()
        next.forget()
        return next
    }
}
