/// What the identity service's answers do to a session.
extension Session {
    /// A token came. If its call is no longer the present one the session has moved on: a late answer never revives it.
    consuming func accept(_ grant: Grant, of call: SessionCall, _ turn: inout SessionTurn) -> Session {
        guard self.call?.number == call.number else {
            // A login that nobody waits for has left a session over there.
            if call.kind == .login, let refresh = grant.refreshToken { turn.add(.revoke(refresh)) }
            turn.note(.late, reason: call.kind.rawValue)
            return self
        }
        turn.ledger.learnSkew(from: grant.serverDate, call: call, at: turn.moment)
        let tokens = turn.ledger.accept(
            grant, startedAt: call.startedAt, startedAtWall: call.startedAtWall,
            keeping: call.kind == .refresh ? tokens : nil)
        return Self.begin(tokens, grant, of: call, trouble ?? SessionTrouble(calling: call), &turn)
    }

    /// A person's login: what was there, and whatever is under way for it, is over.
    consuming func replace(by grant: Grant, of call: SessionCall, _ turn: inout SessionTurn) -> Session {
        turn.ledger.learnSkew(from: grant.serverDate, call: call, at: turn.moment)
        let tokens = turn.ledger.accept(
            grant, startedAt: call.startedAt, startedAtWall: call.startedAtWall)
        return Self.begin(tokens, grant, of: call, SessionTrouble(calling: call), &turn)
    }

    /// Goes on with what a call brought.
    private static func begin(
        _ tokens: SessionTokens, _ grant: Grant, of call: SessionCall, _ known: SessionTrouble,
        _ turn: inout SessionTurn
    ) -> Session {
        // Whether or not its access token can serve: the refresh token is that account's.
        if let accountID = grant.userID, turn.ledger.learnAccount(accountID) {
            turn.note(.accountChanged, .warning, reason: call.cause.rawValue)
        }
        guard tokens.isUsable(at: turn.now) else { return miss(tokens, call, known, &turn) }
        let next = hold(tokens, &turn)
        let nextAt = next.due(turn.ledger)
        let event: SessionNote.Event = call.kind == .login ? .loginSucceeded : .refreshSucceeded
        turn.note(event, reason: call.cause.rawValue, nextAt: nextAt)
        if turn.ledger.isSkewed { turn.note(.skewed, .warning, reason: "clock_off") }
        return next
    }

    /// Serves `tokens` from now on.
    private static func hold(_ tokens: SessionTokens, _ turn: inout SessionTurn) -> Session {
        turn.ledger.hasEverBeenReady = true
        let next = Session.valid(tokens, refreshAt: tokens.refreshAt(turn.ledger.settings, turn.moment))
        turn.publish(next)
        return next
    }

    /// The answer took longer than its token lives: nothing to serve, and asking faster would not help.
    private static func miss(
        _ tokens: SessionTokens, _ call: SessionCall, _ known: SessionTrouble, _ turn: inout SessionTurn
    ) -> Session {
        let fault = IdentityFault(
            .transient(retryAfter: nil), words: "the answer took longer than its access token lives")
        return bear(fault, of: call, holding: tokens, known, &turn)
    }

    consuming func fail(_ fault: IdentityFault, of call: SessionCall, _ turn: inout SessionTurn) -> Session {
        guard self.call?.number == call.number else {
            turn.note(.late, reason: call.kind.rawValue, fault: fault)
            return self
        }
        let isConfirmed = trouble?.confirmsDoubt(at: turn.now) ?? false
        switch (fault.verdict, call.kind) {
        case (.credentialDoubted, .login) where !isConfirmed, (.credentialDoubted, .refresh), (.transient, _),
            (.unknownOutcome, _), (.gone, _), (.credentialDelayed, _):
            let asked = min(turn.ledger.notBefore, tokens?.mandatoryFrom ?? .never)
            let trouble = trouble ?? SessionTrouble(calling: call, notBefore: asked)
            return Self.bear(fault, of: call, holding: tokens, trouble, &turn)
        case (.sessionDead, .refresh), (.credentialRefused, .refresh), (.credentialUnavailable, .refresh):
            turn.note(.dead, .warning, reason: SessionCall.Cause.sessionDead.rawValue, fault: fault)
            return die(fault, .sessionDead, &turn)
        case (.unknownApp, _), (.accountInUse, _), (_, .login):
            // The file changed after this call had begun.
            guard !(call.kind == .login && turn.ledger.hasUntriedCredential) else {
                turn.ledger.lastFault = fault
                return Self.first(.credentialChanged, &turn)
            }
            return Self.refuse(fault, &turn)
        }
    }

    /// Goes on without a new token, and tries again.
    private static func bear(
        _ fault: IdentityFault, of call: SessionCall, holding tokens: SessionTokens?, _ known: SessionTrouble,
        _ turn: inout SessionTurn
    ) -> Session {
        turn.ledger.lastFault = fault
        let trouble = known.failed(fault, holding: tokens, at: turn.moment)
        turn.ledger.heed(trouble, fault)
        let next: Session =
            if let tokens {
                tokens.isUsable(at: turn.now) ? .stale(tokens, trouble) : .unreachable(tokens, trouble)
            } else {
                .loggingIn(trouble)
            }
        turn.publish(next)
        turn.note(
            call.kind == .login ? .loginFailed : .refreshFailed, fault.isAlarming ? .error : .warning,
            reason: trouble.reason.rawValue,
            nextAt: trouble.nextAttempt, fault: fault)
        return next
    }

    /// The outcome of the last refresh is unknown, and asking again might do harm, or did not help (refresh.md 9).
    consuming func abandon(_ fault: IdentityFault, of call: SessionCall, _ turn: inout SessionTurn) -> Session {
        guard self.call?.number == call.number else { return self }
        turn.note(.outcomeUnknown, .warning, reason: SessionCall.Cause.outcomeUnknown.rawValue, fault: fault)
        return die(fault, .outcomeUnknown, &turn)
    }

    /// The refresh token is dead (refresh.md 12): log in again by the credential, while the access token serves on; without one it is over.
    private consuming func die(
        _ fault: IdentityFault, _ cause: SessionCall.Cause, _ turn: inout SessionTurn
    ) -> Session {
        turn.ledger.lastFault = fault
        switch consume self {
        case .refreshing(var tokens, _):
            tokens.refresh = nil
            guard let call = turn.renewal(of: tokens, cause) else { return Self.end(fault, &turn) }
            return .refreshing(tokens, call)
        case .stale(var tokens, let trouble):
            tokens.refresh = nil
            guard let call = turn.renewal(of: tokens, cause) else { return Self.end(fault, &turn) }
            return .stale(tokens, trouble.calling(call))
        case .unreachable(var tokens, let trouble):
            tokens.refresh = nil
            guard let call = turn.renewal(of: tokens, cause) else { return Self.end(fault, &turn) }
            return .unreachable(tokens, trouble.calling(call))
        case let same: return same
        }
    }

    /// Definitely refused: no further call until the credential changes or a person logs in.
    private static func refuse(_ fault: IdentityFault, _ turn: inout SessionTurn) -> Session {
        turn.ledger.lastFault = fault
        let next = Session.refused(fault)
        turn.publish(next)
        turn.note(.refused, .error, reason: next.reason.rawValue, fault: fault)
        return next
    }

    /// What the store holds. An access token that must not be used yet, or no more, waits for one refresh; nobody else's word is needed.
    consuming func restore(_ tokens: SessionTokens, _ how: Restoration, _ turn: inout SessionTurn) -> Session {
        let event: SessionNote.Event = how.isAdopted ? .adopted : .restored
        guard how.isTrusted, tokens.isUsable(at: turn.now) else {
            let withheld = tokens.withheld(at: turn.now)
            guard let next = Self.renewing(withheld, &turn) else { return Self.end(turn.ledger.lastFault, &turn) }
            turn.publish(next)
            turn.note(
                event, reason: how.isTrusted ? "expired" : "offline_never",
                nextAt: next.call == nil ? next.nextCallAt : turn.now)
            return next
        }
        turn.ledger.hasEverBeenReady = true
        let scheduled = tokens.refreshAt(turn.ledger.settings, turn.moment, spread: how.spread)
        // What the service has asked for meanwhile holds for whatever token is at hand.
        let allowed = min(turn.ledger.notBefore, tokens.mandatoryFrom)
        let next = Session.valid(tokens, refreshAt: max(how.isUrgent ? turn.now : scheduled, allowed))
        turn.publish(next)
        turn.note(event, reason: how.isUrgent ? "outcome_unknown" : "token_valid", nextAt: next.due(turn.ledger))
        return next
    }

    /// Renews what cannot be served, at once or when the service wants to be called again; nil if there is nothing to renew it by.
    private static func renewing(_ withheld: SessionTokens, _ turn: inout SessionTurn) -> Session? {
        if withheld.refresh != nil || turn.ledger.hasCredential, let trouble = turn.ledger.patience(at: turn.now) {
            return .unreachable(withheld, trouble)
        }
        return turn.renewal(of: withheld, .start).map { .refreshing(withheld, $0) }
    }

    /// A token that somebody else renews: `valid` while it can be read.
    consuming func feed(_ outcome: Result<Secret, IdentityFault>, _ turn: inout SessionTurn) -> Session {
        switch outcome {
        case .success(let token):
            let grant = Grant(
                accessToken: token, refreshToken: nil, userID: nil, lifetime: .nanoseconds(Int64.max),
                refreshTokenExpiry: nil, serverDate: nil)
            let tokens = turn.ledger.accept(grant, startedAt: turn.now, startedAtWall: turn.moment.wall)
            let next = Self.hold(tokens, &turn)
            turn.note(.tokenChanged, reason: "read")
            return next
        case .failure(let fault): return Self.refuse(fault, &turn)
        }
    }
}
