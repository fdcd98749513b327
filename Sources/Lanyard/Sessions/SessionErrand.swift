/// One call on a user's behalf with everything around it, in this order: the user's lock, what the store holds by now, the intent, the
/// call, the answer in the store, the lock given back (refresh.md 6, refresh.md 8, refresh.md 9). `SessionCoordinator` takes it from stage to
/// stage.
package struct TokenOperation: Sendable {
    package enum Purpose: Equatable, Sendable {
        /// The session asked for its call.
        case own
        /// A person logs in, with the session as it is until that has succeeded; nil: nobody waits for an answer.
        case asked(ticket: UInt64?)
        /// Settles an intent that a crash left; there is no call.
        case closingIntent
    }

    package enum Stage: Sendable {
        /// The lock was asked for.
        case locking
        /// Another process has the lock: asked again then.
        case queueing(until: Instant)
        /// The store was asked what it holds.
        case reading
        /// The single retry (refresh.md 9) comes two seconds after the call whose answer was lost.
        case pausing(until: Instant)
        /// The intent is being stored.
        case intending
        case calling
        /// A login has succeeded: may its account be this user's?
        case claiming(Grant)
        /// What the call brought is being stored, before anybody may use it.
        case saving(Grant)
        /// The session knows of the failure; the store is being told.
        case closing
    }

    /// How long another process may have the lock before that counts as a transient failure: longer than a call.
    static let lockTimeout = Duration.seconds(35)
    /// Between the call whose answer was lost and its repetition.
    static let retryAfter = Duration.seconds(2)

    package let purpose: Purpose
    /// Its number is the errand's.
    package internal(set) var call: SessionCall
    package internal(set) var stage = Stage.locking
    /// The log knows that another process has the lock.
    var hasLoggedWait = false
    /// What a refresh sends.
    let refresh: Secret?
    /// What a login sends; nil: the session is at hand already.
    let credential: Credential?
    /// The refresh token of the stored session whose place a login takes.
    var replacedRefreshToken: Secret?
    let obtained: ObtainedSession?
    let lockDeadline: Instant

    /// A call that the session asked for.
    init(_ call: SessionCall, refresh: Secret?, credential: Credential?, at now: Instant) {
        purpose = .own
        self.call = call
        self.refresh = refresh
        self.credential = credential
        obtained = nil
        lockDeadline = now + Self.lockTimeout
    }

    /// A login that a person asked for, or the session that came of one.
    init(_ call: SessionCall, asked: SessionCoordinator.RequestedLogin, at now: Instant) {
        purpose = .asked(ticket: asked.ticket)
        var call = call
        if case .obtained(let obtained) = asked.source {
            call.startedAt = obtained.startedAt
            call.startedAtWall = obtained.startedAtWall
            self.obtained = obtained
            credential = nil
        } else {
            obtained = nil
            credential = asked.credential
        }
        self.call = call
        refresh = nil
        lockDeadline = now + Self.lockTimeout
    }

    /// Looks after what a crash left open.
    init(closingIntent call: SessionCall, at now: Instant) {
        purpose = .closingIntent
        self.call = call
        refresh = nil
        credential = nil
        obtained = nil
        lockDeadline = now
    }

    var number: UInt64 { call.number }

    /// An end now would leave something undone: the store may know of the call, or there is a session that nobody else knows of.
    var hasBegun: Bool {
        switch stage {
        case .intending, .calling, .claiming, .saving, .closing: true
        case .locking, .queueing, .reading, .pausing: obtained != nil
        }
    }

    /// As the store keeps it.
    var provider: String? { obtained?.provider ?? credential?.provider }

    /// When it goes on by itself.
    var due: Instant {
        switch stage {
        case .queueing(let until), .pausing(let until): until
        default: .never
        }
    }

    /// What came of a call and nobody has stored for certain: ended, should the errand be given up.
    var unsavedRefreshToken: Secret? {
        switch stage {
        case .claiming(let grant), .saving(let grant): grant.refreshToken
        case .closing: nil
        case .locking, .queueing, .reading, .pausing, .intending, .calling: obtained?.grant.refreshToken
        }
    }
}
