import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// One call for a user with all its steps, in this order: the user's lock, the store read, the intent, the call, the
/// write of the result, the unlock (refresh.md 6, refresh.md 8, refresh-outcomes.md 9). Before a refresh token is sent that may
/// work only once, the service is connected before the intent is stored. `SessionCoordinator` moves it from stage to
/// stage.
package struct TokenOperation: Sendable {
    /// Who wants the operation.
    package enum Purpose: Equatable, Sendable {
        /// The session's own call.
        case own
        /// An operator logs in; the session stays as it is until that has succeeded.
        case operatorLogin
        /// Closes an intent that a crash left open; there is no call.
        case closingIntent
    }

    /// What the operation has to offer the service.
    package enum Credentials: Sendable {
        case refreshToken(Secret)
        case login(Credential)
        /// The session has come already.
        case obtained(ObtainedSession)
        /// Nothing is sent: an intent is closed, or no credential is configured.
        case none
    }

    /// The step in progress.
    package enum Stage: Sendable {
        /// The store was asked for what comes before the call.
        case beginning(Beginning)
        /// Another process has the lock; it is requested again at this instant.
        case queueing(until: Instant)
        /// The wait before the single retry of refresh-outcomes.md 9: two seconds after the call whose response was lost.
        case pausing(until: Instant)
        /// The service is being connected. The refresh token is not sent, and no intent is stored, before that.
        case preparing
        case calling
        /// A login has succeeded; its account is being checked.
        case claiming(Grant)
        /// The tokens are being stored, before they are used.
        case saving(Grant)
        /// The session knows of the failure; the store is being told.
        case closing
    }

    /// What the store was asked for.
    package enum Beginning: Sendable {
        /// The lock, the user, and to store the intent, all in one.
        case whole(StoredIntent)
        /// The lock. The other two follow one by one, because more than a comparison is to be decided between them.
        case lock, read, intent
    }

    /// How far a call has come that is prepared before its intent is stored.
    enum Preparation: Equatable, Sendable {
        case none
        /// The service is being connected, or is connected and waits for the intent.
        case begun, ready
        /// The refresh token was sent.
        case sent
    }

    /// The next second call beside one that has no response (refresh.md 17). It takes the place of the one before it.
    package struct SecondCall: Equatable, Sendable {
        /// When it is due.
        var at: Instant
        /// It is not made before, because the calls in progress may still get their responses.
        let earliest: Instant
        /// The service has responded to another session: the limit of one in a second does not hold.
        var isReleased = false

        init(at instant: Instant, earliest: Instant) { (at, self.earliest) = (instant, earliest) }

        /// The service has responded to another session.
        func released(at instant: Instant) -> SecondCall {
            var next = self
            next.at = min(at, max(earliest, instant))
            next.isReleased = true
            return next
        }
    }

    /// Who wants the operation.
    package let purpose: Purpose
    /// The call's number is the operation's.
    package internal(set) var call: SessionCall
    /// The step in progress.
    package internal(set) var stage = Stage.beginning(.lock)
    /// Of a refresh token that may work only once.
    var preparation = Preparation.none
    /// Decided when the call is made; nil: there is none.
    package internal(set) var secondCall: SecondCall?
    /// How long another process may have the lock; `.never` before it was found busy.
    var lockDeadline = Instant.never
    /// What the call sends.
    let credentials: Credentials
    /// The refresh token of the stored session that a login replaces.
    var replacedRefreshToken: Secret?
    /// `StoredSession.id` of what is being saved; 0: nothing is.
    var savedSession: UInt64 = 0

    /// The session's own call.
    init(_ call: SessionCall, _ credentials: Credentials) {
        purpose = .own
        self.call = call
        self.credentials = credentials
    }

    /// An operator's login, or the session that came from one.
    init(_ call: SessionCall, for login: SessionCoordinator.OperatorLogin) {
        purpose = .operatorLogin
        var call = call
        if let obtained = login.obtained {
            call.startedAt = obtained.startedAt
            call.startedAtWall = obtained.startedAtWall
        }
        credentials = login.credentials
        self.call = call
    }

    /// Closes an intent that a crash left open.
    init(closingIntent call: SessionCall) {
        purpose = .closingIntent
        self.call = call
        credentials = .none
    }

    var number: UInt64 { call.number }

    /// The lock was requested, alone or with what follows it.
    var isAwaitingLock: Bool {
        switch stage {
        case .beginning(.whole), .beginning(.lock): true
        case .beginning(.read), .beginning(.intent), .queueing, .pausing, .preparing, .calling, .claiming, .saving,
            .closing:
            false
        }
    }

    /// It waits for another process, or before a repetition.
    var isPausing: Bool {
        switch stage {
        case .queueing, .pausing: true
        case .beginning, .preparing, .calling, .claiming, .saving, .closing: false
        }
    }

    /// The service is being connected. Nothing is stored of the call, and nothing was sent that works only once.
    var isPreparing: Bool { if case .preparing = stage { true } else { false } }

    /// Its call has been made, wholly or so far that the service is being connected.
    var isAwaitingResult: Bool {
        switch stage {
        case .preparing, .calling: true
        case .beginning, .queueing, .pausing, .claiming, .saving, .closing: false
        }
    }

    /// The call was prepared, and waits to be sent.
    var isPrepared: Bool {
        switch stage {
        case .preparing, .beginning: preparation == .begun || preparation == .ready
        case .queueing, .pausing, .calling, .claiming, .saving, .closing: false
        }
    }

    /// The refresh token that a refresh sends.
    var refresh: Secret? { if case .refreshToken(let token) = credentials { token } else { nil } }
    /// The credential that a login sends.
    var credential: Credential? { if case .login(let credential) = credentials { credential } else { nil } }
    /// It is a login with the refresh token of a file.
    var sendsConfiguredRefreshToken: Bool {
        if case .configured(let login)? = credential { login.kind == .refreshToken } else { false }
    }
    /// The session that has come already.
    var obtained: ObtainedSession? { if case .obtained(let obtained) = credentials { obtained } else { nil } }

    /// It sends a refresh token once more whose outcome is unknown (refresh-outcomes.md 9).
    var isLastTry: Bool { call.cause == .lastTry && call.kind == .refresh }

    /// It fetches the access token of a variant.
    var isFetch: Bool { call.variant != .plain }

    /// It stores the access token of a link, which continues the current session.
    var isLink: Bool { obtained?.continuedSession != nil }

    /// Stopping now would leave work undone: the store may know of the call, or only this operation knows of the
    /// session.
    var hasBegun: Bool {
        switch stage {
        case .beginning(.whole), .beginning(.intent), .calling, .claiming, .saving, .closing: true
        case .beginning(.lock), .beginning(.read), .queueing, .pausing, .preparing: obtained != nil
        }
    }

    /// The kind of login, as the store keeps it.
    var provider: String? { obtained?.provider ?? credential?.provider }

    /// When the operation continues by itself.
    var due: Instant {
        switch stage {
        case .queueing(let until), .pausing(let until): until
        case .beginning, .preparing, .calling, .claiming, .saving, .closing: .never
        }
    }

    /// A result that is not certainly stored. It is revoked if the operation is given up.
    var unsavedGrant: Grant? {
        switch stage {
        case .claiming(let grant), .saving(let grant): grant
        case .closing: nil
        case .beginning, .queueing, .pausing, .preparing, .calling: obtained?.grant
        }
    }
}
