/// What a session looks like from outside.
extension Session {
    package var state: SessionState {
        switch self {
        case .loggedOut: .loggedOut
        case .loggingIn: .loggingIn
        case .valid: .valid
        case .refreshing: .refreshing
        case .stale: .stale
        case .unreachable: .unreachable
        case .loginRequired: .loginRequired
        case .refused: .refused
        }
    }

    package var reason: SessionReason {
        switch self {
        case .loggedOut(let reason): reason
        case .loggingIn(let trouble): trouble.failures == 0 ? .loggingIn : trouble.reason
        case .valid: .tokenValid
        case .refreshing: .tokenValid
        case .stale(_, let trouble): trouble.reason == .identityGone ? .identityGone : .refreshFailing
        case .unreachable(_, let trouble): trouble.reason
        case .loginRequired(let fault): fault?.verdict == .unknownOutcome ? .outcomeUnknown : .loginRequired
        case .refused(let fault): fault.verdict == .accountInUse ? .accountInUse : .credentialRefused
        }
    }

    /// What is at hand while the user is authenticated, usable or not.
    package var tokens: SessionTokens? {
        switch self {
        case .valid(let tokens, _): tokens
        case .refreshing(let tokens, _): tokens
        case .stale(let tokens, _): tokens
        case .unreachable(let tokens, _): tokens
        default: nil
        }
    }

    /// The call in flight, of which there is at most one.
    package var call: SessionCall? {
        switch self {
        case .refreshing(_, let call): call
        default: trouble?.call
        }
    }

    /// When the next call is made; `.never` while one is under way or none will be.
    package var nextCallAt: Instant {
        switch self {
        case .valid(_, let refreshAt): refreshAt
        default: trouble?.nextAttempt ?? .never
        }
    }

    var trouble: SessionTrouble? {
        switch self {
        case .loggingIn(let trouble): trouble
        case .stale(_, let trouble): trouble
        case .unreachable(_, let trouble): trouble
        default: nil
        }
    }

    /// What the shards are to know. An expired token is never among it.
    package func availability(at now: Instant, _ ledger: borrowing SessionLedger) -> AccessToken.Availability {
        switch self {
        case .loggedOut: .none(.loginRequired)
        case .loginRequired: .none(.loginRequired)
        case .refused(let fault): .none(.credentialRefused(because: fault.words))
        case .loggingIn(let trouble): trouble.failures == 0 ? .pending : Self.unreachable(trouble, at: now, ledger)
        case .unreachable(_, let trouble): Self.unreachable(trouble, at: now, ledger)
        case .valid(let tokens, let refreshAt):
            Self.token(
                tokens, awaiting: nil, isResting: false,
                refreshAt == .never ? .impossible : Self.renewal(from: ledger.notBefore, at: now, ledger), at: now,
                ledger)
        case .refreshing(let tokens, let call):
            Self.token(tokens, awaiting: call, isResting: false, .underWay, at: now, ledger)
        case .stale(let tokens, let trouble):
            tokens.isUsable(at: now) || trouble.call != nil
                ? Self.token(
                    tokens, awaiting: trouble.call, isResting: trouble.call == nil,
                    Self.renewal(in: trouble, at: now, ledger), at: now, ledger)
                : Self.unreachable(trouble, at: now, ledger)
        }
    }

    /// What the refusal of a token would lead to whose renewal has failed before.
    private static func renewal(
        in trouble: SessionTrouble, at now: Instant, _ ledger: borrowing SessionLedger
    ) -> AccessToken.Renewal {
        trouble.call != nil ? .underWay : renewal(from: trouble.notBefore, at: now, ledger)
    }

    private static func renewal(
        from notBefore: Instant, at now: Instant, _ ledger: borrowing SessionLedger
    ) -> AccessToken.Renewal {
        notBefore <= now ? .possible(from: ledger.forcedFrom(at: now)) : .failing(until: notBefore)
    }

    /// Requests wait from the mandatory zone on, after an upstream's refusal at once, and not at all between attempts (refresh.md 4).
    private static func token(
        _ tokens: SessionTokens, awaiting call: SessionCall?, isResting: Bool, _ renewal: AccessToken.Renewal,
        at now: Instant, _ ledger: borrowing SessionLedger
    ) -> AccessToken.Availability {
        guard tokens.isUsable(at: now) else { return .pending }
        let waitsFrom: Instant =
            if isResting { .never } else if call?.cause == .forced { .past } else { tokens.mandatoryFrom }
        return .token(tokens.accessToken(of: ledger.user, waitsFrom: waitsFrom, renewal: renewal))
    }

    /// While an attempt is under way nobody knows its end: a request may try again after the longest wait.
    private static func unreachable(
        _ trouble: SessionTrouble, at now: Instant, _ ledger: borrowing SessionLedger
    ) -> AccessToken.Availability {
        .none(.identityUnreachable(nextAttempt: trouble.nextAttempt ?? now + ledger.settings.waitMax))
    }
}
