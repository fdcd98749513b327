/// One user's stay: the state machine of architecture.md 5.1. It decides and does no I/O; `SessionRunner` acts on the steps.
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
    case loggingIn(RetryState)
    /// Token in hand. Goes to `refreshing` at `refreshAt` or when an upstream refuses the token.
    case valid(SessionTokens, refreshAt: Instant)
    /// A renewal is in flight, none has failed. Goes to `valid`, `stale`, `unreachable`, `loginRequired`, `refused`.
    case refreshing(SessionTokens, SessionCall)
    /// Renewal fails and the token is still valid. Goes where `refreshing` goes.
    case stale(SessionTokens, RetryState)
    /// Renewal fails and the token is no longer usable. Goes to `valid`, `loginRequired`, `refused`.
    case unreachable(SessionTokens, RetryState)
    /// The session is over and there is no credential. Goes to `valid` by a person's login.
    case loginRequired(IdentityError?)
    /// The credential was refused or cannot be read. Goes to `valid` by a person's login, to `loggingIn`
    /// when the credential changes.
    case refused(IdentityError)

    package enum Event: Sendable {
        /// The program starts, or somebody asks for a login with the configured credential.
        case loginRequested
        /// `due` has come.
        case due
        case granted(Grant, SessionCall)
        case failed(IdentityError, SessionCall)
        /// A person's login brought this: it replaces whatever there is, and nothing that is under way matters any more.
        case loggedIn(Grant, SessionCall)
        /// The refresh token of this call must not be sent again, and nobody knows what became of it (refresh.md 9).
        case abandoned(IdentityError, SessionCall)
        /// What the store holds: at the start, or because another process has renewed it.
        case restored(SessionTokens, Restoration)
        /// The store says that nobody is logged in, and that a person wants it so: `reason` tells where it was said.
        case ended(reason: String)
        /// A token that somebody else renews, or why it cannot be read: `TokenFeed`.
        case fed(Result<Secret, IdentityError>)
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

    /// What is to be done, in this order. `SessionCoordinator` puts each call into an errand, and stores what a call brought before it tells of it.
    package enum Action: Sendable {
        case login(SessionCall)
        case refresh(Secret, SessionCall)
        case revoke(Secret)
        case publish(AccessToken.Availability)
        case logEvent(SessionLogEvent)
    }

    /// The one way in.
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
        case .loginRequested: begin(.start, &transition)
        case .due: performDue(&transition)
        case .granted(let grant, let call): accept(grant, of: call, &transition)
        case .failed(let error, let call): fail(error, of: call, &transition)
        case .loggedIn(let grant, let call): replace(by: grant, of: call, &transition)
        case .abandoned(let error, let call): abandon(error, of: call, &transition)
        case .restored(let tokens, let how): restore(tokens, how, &transition)
        case .ended(let reason): end(reason, &transition)
        case .refreshRequested: performDue(&transition).renewNow(&transition)
        case .fed(let outcome): feed(outcome, &transition)
        case .tokenNeeded: performDue(&transition).requestToken(&transition)
        case .tokenRefused(let generation): performDue(&transition).renew(after: generation, &transition)
        case .logoutRequested: logOut(&transition)
        case .credentialChanged: retryWithChangedCredential(&transition)
        case .clockJumped: reevaluateAfterClockJump(&transition)
        }
    }

    /// Begins a login where nothing is at hand and none is under way.
    private consuming func begin(_ cause: SessionCall.Cause, _ transition: inout TransitionContext) -> Session {
        switch consume self {
        case .loggedOut: Self.beginLogin(cause, &transition)
        case .loginRequired: Self.beginLogin(cause, &transition)
        case .refused: Self.beginLogin(cause, &transition)
        case .loggingIn(let retryState) where retryState.call == nil:
            .loggingIn(retryState.calling(transition.login(cause)))
        case let same: same
        }
    }

    static func beginLogin(_ cause: SessionCall.Cause, _ transition: inout TransitionContext) -> Session {
        guard transition.context.hasCredential else {
            transition.add(.publish(.none(.loginRequired)))
            transition.logEvent(.loginRequired, .warning, reason: SessionReason.loginRequired.rawValue)
            return .loginRequired(nil)
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

    /// A changed credential is tried at once where the old one was refused or missing; a healthy session is left alone.
    private consuming func retryWithChangedCredential(_ transition: inout TransitionContext) -> Session {
        transition.context.credentialChanged()
        return switch consume self {
        case .loginRequired: Self.beginLogin(.credentialChanged, &transition)
        case .refused: Self.beginLogin(.credentialChanged, &transition)
        case let same: same
        }
    }

    /// Local first: the tokens go, then the service is told. An answer that is still under way finds no call to belong to.
    private consuming func logOut(_ transition: inout TransitionContext) -> Session {
        transition.add(.publish(.none(.loginRequired)))
        if let refresh = tokens?.refresh { transition.add(.revoke(refresh)) }
        transition.context.lastError = nil
        transition.logEvent(.loggedOut, reason: SessionReason.loggedOut.rawValue)
        return .loggedOut(.loggedOut)
    }

    /// Whoever logged the user out has told the service, too.
    private consuming func end(_ reason: String, _ transition: inout TransitionContext) -> Session {
        transition.add(.publish(.none(.loginRequired)))
        transition.context.lastError = nil
        transition.logEvent(.loggedOut, reason: reason)
        return .loggedOut(.loggedOut)
    }
}
