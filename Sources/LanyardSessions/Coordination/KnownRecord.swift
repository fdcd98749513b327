import LanyardFoundations
import LanyardSessionInterface

/// What this process knows of the user in the store: the record as it was read or written last, and the generations that
/// follow from it.
struct KnownRecord: Sendable {
    /// What the store holds under the user's name.
    private indirect enum Record: Sendable {
        /// This user, or none.
        case own(OwnRecord)
        /// Another identity's user that was there first. The first login replaces it, so its version is the base.
        case foreign(StoredUser)
        /// Another identity's user that came while this one was active. That user stays in the store. This one continues
        /// in memory, from what the store has held of it.
        case displaced(by: StoredUser, OwnRecord)
    }

    /// What the store holds of this user.
    private indirect enum OwnRecord: Sendable {
        case absent
        /// This record: its version is the base.
        case known(StoredUser)
        /// An older version of the session that is known (a restored backup).
        case fallenBack(to: SessionVersion, from: StoredUser)
        /// Of the record only the version is known, or counts: an operator has ended the session.
        case versionOnly(SessionVersion)

        var base: SessionVersion {
            switch self {
            case .absent: .absent
            case .known(let user): user.version
            case .fallenBack(let base, _), .versionOnly(let base): base
            }
        }

        var user: StoredUser? {
            switch self {
            case .known(let user), .fallenBack(_, let user): user
            case .absent, .versionOnly: nil
            }
        }

        mutating func forgetUser() {
            switch self {
            case .absent, .versionOnly: break
            case .known, .fallenBack: self = .versionOnly(base)
            }
        }
    }

    private var record = Record.own(.absent)

    /// The store has held this user for this identity.
    var wasStored = false
    /// The user did not exist before. Its first login gives it its name.
    var isProvisional = false
    /// The store has held this process's mark of a deletion; false before the next one is stored.
    var isMarked = false
    /// The generation reached when an older file replaced a newer one; later generations must be higher.
    private(set) var lowest = Generation.zero
    /// The generation of the current session as the store counts it. Unsaved sessions put it past that of `base`.
    var current = Generation.zero
    /// `StoredSession.id` of the session whose tokens came last; 0: none came yet.
    var servedSession: UInt64 = 0
    /// The fingerprint of the credential that was definitely refused, or that has served its only login.
    var refused: CredentialFingerprint?
    /// The kind of the latest login.
    var provider: String?
    /// The time since which the account is known.
    var accountSince: WallTime?

    /// The generation of the next token of the current session.
    var next: Generation { max(lowest, max(current, base.generation)).next }

    /// The version that the store is known to hold, or has held of this user: the base of each change.
    var base: SessionVersion {
        switch record {
        case .own(let own), .displaced(_, let own): own.base
        case .foreign(let other): other.version
        }
    }

    /// This user as the store holds it, or has held it; nil: it is not known.
    var user: StoredUser? {
        switch record {
        case .own(let own), .displaced(_, let own): own.user
        case .foreign: nil
        }
    }

    /// The stored user of this name, if it belongs to another identity.
    var foreign: StoredUser? {
        switch record {
        case .own: nil
        case .foreign(let other), .displaced(let other, _): other
        }
    }

    /// The store holds another identity's user of this name, which came while this one was active.
    var isDisplaced: Bool {
        switch record {
        case .own, .foreign: false
        case .displaced: true
        }
    }

    /// What the store holds of this user is the base of the next changes.
    mutating func rebase(on stored: StoredUser?) {
        record = .own(stored.map { .known($0) } ?? .absent)
        if stored != nil, !isProvisional { wasStored = true }
    }

    /// The store has fallen back to an older state of the session. What was known of the user stays.
    mutating func rebase(onOlder stored: StoredUser) {
        lowest = max(lowest, base.generation)
        record = .own(user.map { .fallenBack(to: stored.version, from: $0) } ?? .versionOnly(stored.version))
    }

    /// The record does not count any more, and the base stays: an operator has ended the session.
    mutating func forgetUser() {
        switch record {
        case .own(var own):
            own.forgetUser()
            record = .own(own)
        case .displaced(let other, var own):
            own.forgetUser()
            record = .displaced(by: other, own)
        case .foreign: break
        }
    }

    /// Records a user of another identity. Returns whether none was known before.
    mutating func recordForeignUser(_ other: StoredUser) -> Bool {
        switch record {
        case .own(let own):
            record = wasStored ? .displaced(by: other, own) : .foreign(other)
            return true
        case .foreign:
            record = .foreign(other)
            return false
        case .displaced(_, let own):
            record = .displaced(by: other, own)
            return false
        }
    }

    /// The store holds no foreign user any more. The base stays.
    mutating func forgetForeign() {
        switch record {
        case .own: break
        case .foreign: record = .own(.versionOnly(base))
        case .displaced(_, let own): record = .own(own)
        }
    }
}

/// What is known of the session's refresh token beside the token itself (refresh-outcomes.md 9).
struct RefreshTokenState: Sendable {
    /// How often it was sent without a response.
    var triesWithoutResponse = 0
    /// When it was sent first without a response.
    var unconfirmedSince = WallTime(seconds: 0)
    /// It was sent once more after an unknown outcome, or is about to be, by this process or another.
    var hasMadeLastTry = false
    /// The store counts fewer of them than `triesWithoutResponse`.
    var isIntentUnsaved = false
    /// A refresh token that is given up while the access token serves: two calls with it had no response, or the service
    /// refuses refreshes to the client. It renews nothing: it is revoked when the session is replaced or ended.
    /// `session` is the `StoredSession.id` of its session.
    var orphan: (token: Secret, session: UInt64)?
    /// A response of this session has brought another refresh token than the one that was sent.
    private(set) var hasRotated = false
    /// The scopes that the session's login has granted; nil: unknown.
    private(set) var grantedScopes: Set<String>?
    /// Those of them that the latest plain token lacks, as its response has stated.
    var missingScopes: Set<String> = []
    /// Since when the fetch of a variant has taken scopes away from the session, which only an operator's login brings again; nil: it has
    /// not.
    var narrowedSince: WallTime?
    /// The session has had a refresh token: if it has none now, that is dead.
    private(set) var isGiven = false
    /// The refresh tokens that were exchanged for a later one which the store does not hold yet, from the one
    /// that it holds to the latest.
    private(set) var exchanged: [Secret] = []
    /// So many of them are kept: the first and the latest. A store that fails for days must not fill the memory.
    private static let exchangedMax = 16
    /// Of its end, and of its account's.
    var warnings = SessionWarnings()

    /// A call with the token is sent.
    mutating func send(at wall: WallTime) {
        if triesWithoutResponse == 0 { unconfirmedSince = wall }
        triesWithoutResponse += 1
    }

    /// The response to a call with the token `sent` has brought `token`; nil: none.
    ///
    /// - Parameter remainsValid: the service is known to still accept `sent` (`rotation: none`).
    mutating func exchange(_ sent: Secret?, for token: Secret?, remainsValid: Bool) {
        guard let token, let sent, token != sent else { return }
        hasRotated = true
        hasMadeLastTry = false
        guard !remainsValid else { return }
        if exchanged.count == Self.exchangedMax { exchanged.remove(at: 1) }
        exchanged.append(sent)
    }

    /// The store holds the latest one.
    mutating func recordSaved() { exchanged = [] }

    /// A login has begun another session.
    mutating func begin(with grant: Grant) {
        triesWithoutResponse = 0
        hasMadeLastTry = false
        hasRotated = grant.hasRotated
        isGiven = grant.refreshToken != nil
        forgetNarrowing(granted: grant.scopes)
    }

    private mutating func forgetNarrowing(granted: Set<String>?) {
        (grantedScopes, missingScopes, narrowedSince) = (granted, [], nil)
    }

    /// What the store says of calls without a response. What another process had open when this one started may have
    /// received its result since.
    mutating func recordIntent(_ intent: StoredIntent?) {
        let open = intent?.tries ?? 0
        triesWithoutResponse = isIntentUnsaved ? max(triesWithoutResponse, open) : open
        if let intent, open > 0 { unconfirmedSince = intent.at }
    }

    /// What the store says of the session's last try. An older file in its place does not undo one that was made here.
    ///
    /// - Parameter token: the present one.
    mutating func recordLastTry(of stored: StoredSession?, present token: Secret?) {
        let isSame = token != nil && stored?.refresh == token
        hasMadeLastTry = stored?.hasMadeLastTry ?? false || isSame && hasMadeLastTry
    }

    /// The token is that of a stored session. An unstored intent belongs to a call with the token before it.
    mutating func begin(with intent: StoredIntent?, of session: StoredSession) {
        isIntentUnsaved = false
        exchanged = []
        hasRotated = session.hasRotated
        // Of a session that has lost its refresh token the store keeps the scopes.
        isGiven = session.refresh != nil || session.grantedScopes != nil || session.hasRotated
        if grantedScopes != session.grantedScopes { forgetNarrowing(granted: session.grantedScopes) }
        hasMadeLastTry = session.hasMadeLastTry
        triesWithoutResponse = intent?.tries ?? 0
    }
}

/// The present operation; at most one.
indirect enum OperationState: Sendable {
    /// No operation.
    case none
    case running(TokenOperation)
    /// Another process's session is taken over once its account has been checked. The operation that has found it may end
    /// before.
    case adopting(Adoption, TokenOperation?)
}

/// The taking over of another process's session while its account is checked.
struct Adoption: Sendable {
    let user: StoredUser
    /// It ends the operation.
    let finishing: Bool
    /// What the reply to the check carries: the number of the operation that has found the session; 0 without one.
    let claim: UInt64
}

/// What waits until the present operation has ended.
struct WaitingCalls: Sendable {
    /// The session's own call.
    var call: (call: SessionCall, refresh: Secret?)?
    /// An operator's login.
    var login: SessionCoordinator.OperatorLogin?
    /// An operator's login waits here, or the present operation is it, and it has no result yet.
    var awaitsLogin = false
    /// An operator's deletion that has not begun yet.
    var deletion = PreparedDeletion.none
    /// A crash left an open intent or the mark of a deletion in the store, and no later call would close it.
    var closesIntent = false
    /// An operator waits for a new access token.
    var awaitsRefresh = false
    /// A reload has changed what token calls ask for, and the present tokens, or those that a call in progress brings, come from the
    /// request before.
    var renewsFormerRequest = false
    /// A request has wanted the user's token since the latest publication.
    var isTokenWanted = false
}

/// How far the preparation of an operator's deletion has come.
enum PreparedDeletion: Sendable {
    case none
    /// The user's lock is tried.
    case locking
    /// The mark is on its way into the store.
    case marking
}

/// How far the end of the process has come.
enum Shutdown: Sendable {
    case none
    /// What has begun is finished, and no new call begins.
    case draining
    /// The last try of the unsaved changes has been made.
    case retried
}
