/// One user's stay: the state machine of architecture.md 5.1. It decides and does no I/O; `SessionCell` acts on the steps.
///
/// Time and chance are arguments. What outlasts the states is the ledger, which the caller keeps and lends to each event.
/// There is at most one call in flight, because the states that have one start no other: the single flight needs no lock.
///
/// Each case says where it goes by itself. What another process has made of the user, or a person's login, leads to other states, too.
///
/// Not `~Copyable`: where two branches join, Swift 6.3.1's optimizer copies a noncopyable enum of this size, and a release build
/// then ends in `__swift_cannot_copy_noncopyable_type`. Every transition still consumes `self` and returns the next state.
package enum Session {
    /// Nobody is logged in: before the start (reason `loggingIn`), or after a logout. Goes to `loggingIn` at the start, and to
    /// `valid` by a person's login.
    case loggedOut(SessionReason)
    /// The first login is under way, or failed for now. Goes to `valid`, `refused`, or stays.
    case loggingIn(SessionTrouble)
    /// Token in hand. Goes to `refreshing` at `refreshAt` or when an upstream refuses the token.
    case valid(SessionTokens, refreshAt: Instant)
    /// A renewal is in flight, none has failed. Goes to `valid`, `stale`, `unreachable`, `loginRequired`, `refused`.
    case refreshing(SessionTokens, SessionCall)
    /// Renewal fails and the token is still valid. Goes where `refreshing` goes.
    case stale(SessionTokens, SessionTrouble)
    /// Renewal fails and the token is no longer usable. Goes to `valid`, `loginRequired`, `refused`.
    case unreachable(SessionTokens, SessionTrouble)
    /// The session is over and there is no credential. Goes to `valid` by a person's login.
    case loginRequired(IdentityFault?)
    /// The credential was refused or cannot be read. Goes to `valid` by a person's login, to `loggingIn`
    /// when the credential changes.
    case refused(IdentityFault)

    package enum Event: Sendable {
        /// The program starts, or somebody asks for a login with the configured credential.
        case loginRequested
        /// `due` has come.
        case due
        case granted(Grant, SessionCall)
        case failed(IdentityFault, SessionCall)
        /// A person's login brought this: it replaces whatever there is, and nothing that is under way matters any more.
        case loggedIn(Grant, SessionCall)
        /// The refresh token of this call must not be sent again, and nobody knows what became of it (refresh.md 9).
        case abandoned(IdentityFault, SessionCall)
        /// What the store holds: at the start, or because another process has renewed it.
        case restored(SessionTokens, Restoration)
        /// The store says that nobody is logged in, and that a person wants it so: `reason` tells where it was said.
        case ended(reason: String)
        /// A token that somebody else renews, or why it cannot be read: `TokenFeed`.
        case fed(Result<Secret, IdentityFault>)
        /// A shard has no usable token.
        case tokenNeeded
        /// An upstream refused the token of this generation.
        case tokenRefused(UInt64)
        case logoutRequested
        /// A person wants a new token now: neither cooldown nor budget binds.
        case refreshRequested
        case credentialChanged
        /// The wall clock jumped against the boot clock, or the machine slept.
        case clockJumped
    }

    /// How a stored session comes back.
    package struct Restoration: Equatable, Sendable {
        /// Serve it at once; else only once a refresh has succeeded (`login.offline: never`).
        package var isTrusted: Bool
        /// Renew it at once: the outcome of its last refresh is unknown.
        package var isUrgent: Bool
        /// The part of the lifetime over which the renewals of a restarted fleet are spread (refresh.md 15).
        package var spread: Double
        /// Another process renewed it; else the start.
        package var isAdopted: Bool

        package init(isTrusted: Bool, isUrgent: Bool, spread: Double, isAdopted: Bool) {
            self.isTrusted = isTrusted
            self.isUrgent = isUrgent
            self.spread = spread
            self.isAdopted = isAdopted
        }
    }

    /// What is to be done, in this order. `SessionDesk` puts each call into an errand, and stores what a call brought before it tells of it.
    package enum Step: Sendable {
        case login(SessionCall)
        case refresh(Secret, SessionCall)
        case revoke(Secret)
        case publish(AccessToken.Availability)
        case note(SessionNote)
    }

    /// The one way in.
    package mutating func take(_ event: Event, at moment: SessionMoment, _ ledger: inout SessionLedger) -> [Step] {
        var turn = SessionTurn(moment, ledger)
        self = (consume self).next(after: event, &turn)
        ledger = turn.ledger
        return turn.steps
    }

    private consuming func next(after event: Event, _ turn: inout SessionTurn) -> Session {
        switch event {
        case .loginRequested: begin(.start, &turn)
        case .due: proceed(&turn)
        case .granted(let grant, let call): accept(grant, of: call, &turn)
        case .failed(let fault, let call): fail(fault, of: call, &turn)
        case .loggedIn(let grant, let call): replace(by: grant, of: call, &turn)
        case .abandoned(let fault, let call): abandon(fault, of: call, &turn)
        case .restored(let tokens, let how): restore(tokens, how, &turn)
        case .ended(let reason): end(reason, &turn)
        case .refreshRequested: proceed(&turn).renewNow(&turn)
        case .fed(let outcome): feed(outcome, &turn)
        case .tokenNeeded: proceed(&turn).want(&turn)
        case .tokenRefused(let generation): proceed(&turn).renew(after: generation, &turn)
        case .logoutRequested: logOut(&turn)
        case .credentialChanged: rearm(&turn)
        case .clockJumped: reconsider(&turn)
        }
    }

    /// Begins a login where nothing is at hand and none is under way.
    private consuming func begin(_ cause: SessionCall.Cause, _ turn: inout SessionTurn) -> Session {
        switch consume self {
        case .loggedOut: Self.first(cause, &turn)
        case .loginRequired: Self.first(cause, &turn)
        case .refused: Self.first(cause, &turn)
        case .loggingIn(let trouble) where trouble.call == nil: .loggingIn(trouble.calling(turn.login(cause)))
        case let same: same
        }
    }

    static func first(_ cause: SessionCall.Cause, _ turn: inout SessionTurn) -> Session {
        guard turn.ledger.hasCredential else {
            turn.add(.publish(.none(.loginRequired)))
            turn.note(.loginRequired, .warning, reason: SessionReason.loginRequired.rawValue)
            return .loginRequired(nil)
        }
        if cause == .start, let trouble = turn.ledger.patience(at: turn.now) {
            let next = Session.loggingIn(trouble)
            turn.ledger.lastFault = trouble.fault
            turn.publish(next)
            return next
        }
        turn.add(.publish(.pending))
        let call = turn.login(cause)
        turn.note(.loginStarted, reason: cause.rawValue)
        return .loggingIn(SessionTrouble(calling: call, notBefore: turn.ledger.notBefore))
    }

    /// A changed credential is tried at once where the old one was refused or missing; a healthy session is left alone.
    private consuming func rearm(_ turn: inout SessionTurn) -> Session {
        turn.ledger.credentialChanged()
        return switch consume self {
        case .loginRequired: Self.first(.credentialChanged, &turn)
        case .refused: Self.first(.credentialChanged, &turn)
        case let same: same
        }
    }

    /// Local first: the tokens go, then the service is told. An answer that is still under way finds no call to belong to.
    private consuming func logOut(_ turn: inout SessionTurn) -> Session {
        turn.add(.publish(.none(.loginRequired)))
        if let refresh = tokens?.refresh { turn.add(.revoke(refresh)) }
        turn.ledger.lastFault = nil
        turn.note(.loggedOut, reason: SessionReason.loggedOut.rawValue)
        return .loggedOut(.loggedOut)
    }

    /// Whoever logged the user out has told the service, too.
    private consuming func end(_ reason: String, _ turn: inout SessionTurn) -> Session {
        turn.add(.publish(.none(.loginRequired)))
        turn.ledger.lastFault = nil
        turn.note(.loggedOut, reason: reason)
        return .loggedOut(.loggedOut)
    }
}
