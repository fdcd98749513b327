import LanyardFoundations
import LanyardRequestPath
import LanyardSessionInterface
import LanyardSessions
import LanyardVault

/// One run of Lanyard in a simulated world, from its start to its end.
final class FleetProcess {
    /// What the store is asked to do, in the order in which it was asked.
    struct Task {
        enum Kind {
            case read(UInt64)
            /// Beside all sessions' calls.
            case look
            case commit(StoreChange)
            case lock
            /// The lock, a read and a commit, one after another.
            case begin(StoreChange, UInt64)
            case unlock
            /// No session waits for it.
            case background(StoreChange)
        }

        var user: Int
        var kind: Kind
        /// When it was first tried, while the store's lock is busy.
        var triedSince: Instant?
    }

    let number: Int
    let life: Int
    let gate: FleetDiskGate
    let file: StoreFile
    let source = FleetSource()
    let tokenCache: TokenCache
    /// The shard's refusals that the sessions have been told.
    var heardRefusals = HeardRefusals.none
    var sessions: [FleetSession] = []
    /// nil: no user has a token that another program renews.
    var feed: FleetFeed?
    var tasks: [Task] = []
    /// The turn that does the first of them is planned.
    var isTurnPlanned = false
    /// When the looks at the clocks began, 30 s apart.
    var looksFrom: Instant
    /// The next look at the store is simulated: it has something to tell.
    var isLookPlanned = false
    /// The look before a clock was changed; nil: none was.
    var comparison: ClockComparison?
    /// What the service has not been told yet.
    var revocations: [StoredRevocation] = []
    /// The users' locks that are held.
    var locks: [Int: any DiskLock] = [:]
    /// Operators' calls are admitted here; nil: no accounts are changed.
    var registry: UserRegistry?
    /// Links and deletions in progress, by user.
    var accountChanges: [Int: FleetAccountChange] = [:]
    /// Operators' logins in progress, by ticket.
    var logins: [UInt64: UserRegistry.UserCallID] = [:]
    /// That the store is open here.
    var entry: (any DiskLock)?
    /// What it believes that the file holds: a planted bug writes that.
    var copy: StoreContents

    /// It is about to end: what has begun is finished and stored.
    var isDraining = false
    /// Its sessions have been told to try their unsaved changes for the last time.
    var hasRetriedUnsaved = false
    /// Of each user: the call that had begun before that.
    var begunCalls: [UInt64?] = []

    /// In real time.
    let startedAt: Instant

    init(number: Int, life: Int, gate: FleetDiskGate, file: StoreFile, at clocks: HostClocks) {
        self.number = number
        self.life = life
        self.gate = gate
        self.file = file
        looksFrom = clocks.instant
        startedAt = clocks.now
        copy = StoreContents(fingerprintKey: Secret(capacity: 32) { _ in 32 })
        tokenCache = TokenCache(source: source)
    }
}

/// What a process's shard wants of its sessions, until they are told.
final class FleetSource: TokenSource, @unchecked Sendable {
    var needed: [UserIndex] = []
    var refused: [(user: UserIndex, generation: UInt64, number: RefusalNumber)] = []

    func tokenNeeded(by user: UserIndex) { needed.append(user) }

    func tokenRefused(by user: UserIndex, generation: UInt64, number: RefusalNumber) {
        refused.append((user, generation, number))
    }
}
