import LanyardFoundations
import LanyardSessionInterface

/// The state machine of one user's session (architecture-control.md 5.1). It decides and does no I/O; `SessionCoordinator`
/// performs the actions.
///
/// Time and chance are arguments. `SessionContext` keeps what outlives the states; the caller lends it to each event.
/// At most one call is in flight, because a state that has one starts no other. The single flight needs no lock.
///
/// Each case names its own transitions. External changes and operators' logins lead to other states, too.
///
/// Not `~Copyable`: where two branches join, Swift 6.3.1's optimizer copies a noncopyable enum of this size, and a
/// release build then ends in `__swift_cannot_copy_noncopyable_type`. Every transition still consumes `self` and
/// returns the next state.
package indirect enum Session {
    /// No session: before the start (reason `loggingIn`), after a logout, or because there is no credential and no login
    /// was made yet. Goes to `loggingIn` at the start, and to `valid` by an operator's login.
    case loggedOut(SessionReason)
    /// The first login is in progress, or failed for now. Goes to `valid`, `refused`, or stays. If a reload has taken the
    /// credential away, it goes where a start without one goes.
    case loggingIn(RetryState)
    /// A token is available. Goes to `refreshing` at `refreshAt` or when an upstream refuses the token. `.never`: nothing
    /// renews it. It then goes to `loginRequired` at its end, unless a reload brings a credential before.
    case valid(SessionTokens, refreshAt: Instant)
    /// A renewal is in flight, and none has failed. Goes to `valid`, `stale`, `unreachable`, `loginRequired`,
    /// `refused`.
    case refreshing(SessionTokens, SessionCall)
    /// Renewal fails and the token is still valid. Goes where `refreshing` goes.
    case stale(SessionTokens, RetryState)
    /// Renewal fails and the token is no longer usable. Goes to `valid`, `loginRequired`, `refused`.
    case unreachable(SessionTokens, RetryState)
    /// The session has ended and there is no credential. Goes to `valid` by an operator's login.
    case loginRequired(IdentityError?)
    /// The credential was refused or cannot be read. Goes to `valid` by an operator's login, and to `loggingIn` when
    /// the credential changes. If the service has refused the client alone, the login is made a few times more, from which it
    /// goes to `valid` as well (refresh-outcomes.md 12).
    case refused(IdentityError, RetryState?)

    /// What has happened to the session.
    package enum Event: Sendable {
        /// The program starts, or a login with the configured credential is requested.
        case logIn
        /// The instant of `due` has come.
        case due
        case granted(Grant, SessionCall)
        case failed(IdentityError, SessionCall)
        /// The tokens of an operator's login. They replace whatever there is, and results of calls in progress are
        /// ignored.
        case loggedIn(Grant, SessionCall)
        /// The access token of a link. The refresh token stays.
        case renewed(Grant, SessionCall)
        /// The refresh token of this call must not be sent again, because its outcome is unknown (refresh-outcomes.md 9).
        ///
        /// - lastTryAt: when it may be sent once more, if no credential can log in by then; nil: never.
        case abandoned(IdentityError, SessionCall, lastTryAt: Instant? = nil)
        /// The fetch of a variant has used the refresh token, and may have brought another one. The access token stays.
        case refreshTokenUsed(Grant, SessionCall)
        /// The fetch of a variant has found the refresh token dead, or must not be repeated with it.
        ///
        /// - lastTryAt: as for `abandoned`.
        case refreshTokenEnded(IdentityError, SessionCall.Cause, lastTryAt: Instant? = nil)
        /// The response to a call for another access token of the user. A time before which the service wants no call
        /// holds for this token, too.
        case limited(IdentityError)
        /// The stored session: at the start, or because another process has renewed it.
        case restored(SessionTokens, Restoration)
        /// Another access token of the session takes the place of its own. One that cannot be used is fetched.
        case exchanged(SessionTokens)
        /// The store says that an operator has ended the session; `reason` says where.
        case ended(reason: String)
        /// A token that is renewed elsewhere, or the error of reading it: `TokenFeed`.
        case fed(Result<Secret, IdentityError>)
        /// A shard has no usable token.
        case tokenNeeded
        /// An upstream refused the token of this generation.
        case tokenRefused(Generation)
        case logOut
        /// A new token is wanted now: neither cooldown nor budget applies.
        case refreshNow(SessionCall.Cause)
        case credentialChanged
        /// The session asks for all sessions of its identity whether the service is back.
        case probe
        /// The service is back: another session's call was successful. An attempt that waits is made so much later.
        case serviceReturned(after: Duration)
        /// The wall clock jumped against the boot clock, or the machine was suspended.
        case clockJumped

        /// It is about each access token of the user, and not about one alone.
        var concernsAllTokens: Bool {
            switch self {
            case .credentialChanged, .clockJumped: true
            case .logIn, .due, .granted, .failed, .loggedIn, .renewed, .abandoned, .refreshTokenUsed,
                .refreshTokenEnded,
                .limited, .restored, .exchanged, .ended, .fed, .tokenNeeded, .tokenRefused, .logOut, .refreshNow,
                .probe,
                .serviceReturned:
                false
            }
        }
    }

    /// How a stored session is restored.
    package struct Restoration: Equatable, Sendable {
        /// Serve it at once; otherwise only after a successful refresh (`login.offline: never`).
        package var isTrusted: Bool
        /// Renew it at once: the outcome of its last refresh is unknown.
        package var isUrgent: Bool
        /// The part of the lifetime over which the renewals of a restarted fleet are spread (refresh.md 15).
        package var spread: Double
        /// Another process renewed it; false at the start.
        package var isAdopted: Bool

        package init(isTrusted: Bool, isUrgent: Bool, spread: Double, isAdopted: Bool) {
            self.isTrusted = isTrusted
            self.isUrgent = isUrgent
            self.spread = spread
            self.isAdopted = isAdopted
        }
    }

    /// What to do, in this order. `SessionCoordinator` makes each call by a token operation, and stores its result
    /// before the session learns of it.
    package enum Action: Sendable {
        case login(SessionCall)
        case refresh(Secret, SessionCall)
        case revoke(Secret)
        case publish(AccessToken.Availability)
        case logEvent(SessionLogEvent)
    }

    /// Handles one event and returns the actions to perform, in order.
    package mutating func handle(_ event: Event, at eventContext: EventContext, _ context: inout SessionContext)
        -> [Action]
    {
        var transition = TransitionContext(eventContext, context)
        self = (consume self).next(after: event, &transition)
        context = transition.context
        return transition.actions
    }

    private consuming func next(after event: Event, _ transition: inout TransitionContext) -> Session {
        switch event {
        case .logIn: begin(.start, &transition)
        case .due: performDue(&transition)
        case .granted(let grant, let call): accept(grant, of: call, &transition)
        case .failed(let error, let call): fail(error, of: call, &transition)
        case .loggedIn(let grant, let call): replace(by: grant, of: call, &transition)
        case .renewed(let grant, let call): renew(by: grant, of: call, &transition)
        case .abandoned(let error, let call, let lastTryAt): abandon(error, of: call, lastTryAt, &transition)
        case .refreshTokenUsed(let grant, let call): takeRefreshToken(of: grant, call, &transition)
        case .refreshTokenEnded(let error, let cause, let lastTryAt):
            loseRefreshToken(error, cause, lastTryAt, &transition)
        case .limited(let error): limit(by: error, &transition)
        case .restored(let tokens, let how): restore(tokens, how, &transition)
        case .exchanged(let tokens): exchange(for: tokens, &transition)
        case .ended(let reason): end(reason, &transition)
        case .refreshNow(let cause): performDue(&transition).renewNow(cause, &transition)
        case .fed(let outcome): feed(outcome, &transition)
        case .tokenNeeded: performDue(&transition).requestToken(&transition)
        case .tokenRefused(let generation): performDue(&transition).renew(after: generation, &transition)
        case .logOut: logOut(&transition)
        case .credentialChanged: retryWithChangedCredential(&transition)
        case .probe: probe(&transition)
        case .serviceReturned(let delay): retry(afterOutage: delay, &transition)
        case .clockJumped: reevaluateAfterClockJump(&transition)
        }
    }

    /// Begins a login if there is no session and no login is in progress.
    private consuming func begin(_ cause: SessionCall.Cause, _ transition: inout TransitionContext) -> Session {
        switch self {
        case .loggedOut, .loginRequired: Self.beginLogin(cause, &transition)
        case .refused(_, let retryState): retryState?.call == nil ? Self.beginLogin(cause, &transition) : self
        case .loggingIn(let retryState):
            retryState.call == nil ? Self.loginAgain(retryState, cause, &transition) : self
        case .valid, .refreshing, .stale, .unreachable: self
        }
    }

    /// A reload may have taken the credential away since the attempt before.
    static func loginAgain(
        _ retryState: RetryState, _ cause: SessionCall.Cause, _ transition: inout TransitionContext
    ) -> Session {
        guard transition.context.hasCredential else { return beginLogin(cause, &transition) }
        return .loggingIn(retryState.calling(transition.login(cause)))
    }

    static func beginLogin(_ cause: SessionCall.Cause, _ transition: inout TransitionContext) -> Session {
        guard transition.context.hasCredential else {
            transition.add(.publish(.none(transition.context.refusalAfterLogout)))
            let next = transition.context.hasEverBeenLoggedIn ? Session.loginRequired(nil) : .loggedOut(.loggedOut)
            transition.logEvent(.loginRequired, .warning, reason: next.reason.rawValue)
            return next
        }
        if cause == .start, let retryState = transition.context.waitBeforeCall(at: transition.now) {
            let next = Session.loggingIn(retryState)
            transition.context.lastError = retryState.error
            transition.publish(next)
            return next
        }
        transition.add(.publish(.pending))
        let call = transition.login(cause)
        transition.logEvent(.loginStarted, reason: cause.rawValue)
        return .loggingIn(RetryState(calling: call, notBefore: transition.context.notBefore))
    }

    /// A changed credential is tried at once if the old one was refused or missing, or could not be read in time.
    /// A healthy session is left alone.
    consuming func retryWithChangedCredential(_ transition: inout TransitionContext) -> Session {
        transition.context.noteChangedCredential()
        let next: Session
        switch self {
        case .loginRequired: return Self.beginLogin(.credentialChanged, &transition)
        case .refused(_, let retryState):
            // Its result says whether the changed one is to be tried.
            guard retryState?.call == nil else { return self }
            return Self.beginLogin(.credentialChanged, &transition)
        // A reload has brought a credential to a session that nothing could renew.
        case .valid(let tokens, .never) where tokens.expiry != nil && transition.context.canRenew(tokens):
            transition.context.lastError = nil
            next = .valid(tokens, refreshAt: transition.refreshAt(tokens))
        // The credential that was refused is another one now, or a reload has brought one: the last try can wait.
        case .stale(let tokens, let retryState) where retryState.awaitsLastTry && transition.context.hasCredential,
            .unreachable(let tokens, let retryState) where retryState.awaitsLastTry && transition.context.hasCredential:
            next = Self.logIn(insteadOfLastTryOf: tokens, retryState, &transition)
        case .loggingIn(let retryState), .stale(_, let retryState), .unreachable(_, let retryState):
            guard retryState.waitsForCredential else { return self }
            next = changingRetries { $0.retryWithReadableCredential(at: transition.now) }
        case .loggedOut, .valid, .refreshing: return self
        }
        let done = next.performDue(&transition)
        transition.publish(done)
        return done
    }

    /// Local first: the tokens are erased, then the service is told. A late response finds no call that it belongs to.
    private consuming func logOut(_ transition: inout TransitionContext) -> Session {
        transition.add(.publish(.none(transition.context.refusalAfterLogout)))
        if let refresh = tokens?.refresh { transition.add(.revoke(refresh)) }
        transition.context.lastError = nil
        transition.logEvent(.loggedOut, reason: SessionReason.loggedOut.rawValue)
        return .loggedOut(.loggedOut)
    }

    /// The process that ended the session has told the service.
    private consuming func end(_ reason: String, _ transition: inout TransitionContext) -> Session {
        transition.add(.publish(.none(transition.context.refusalAfterLogout)))
        transition.context.lastError = nil
        transition.logEvent(.loggedOut, reason: reason)
        return .loggedOut(.loggedOut)
    }
}
