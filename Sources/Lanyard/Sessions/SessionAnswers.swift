/// What the identity service's answers do to a session.
extension Session {
    /// A token came. If its call is no longer the present one the session has moved on: a late answer never revives it.
    consuming func accept(_ grant: Grant, of call: SessionCall, _ turn: inout SessionTurn) -> Session {
        guard self.call == call else {
            // A login that nobody waits for has left a session over there.
            if call.kind == .login, let refresh = grant.refreshToken { turn.add(.revoke(refresh)) }
            turn.note(.late, reason: call.kind.rawValue)
            return self
        }
        turn.ledger.learnSkew(from: grant.serverDate, call: call, at: turn.moment)
        let old = call.kind == .refresh ? tokens : nil
        let tokens = turn.ledger.accept(
            grant, startedAt: call.startedAt, startedAtWall: call.startedAtWall,
            keeping: (old?.refresh, old?.refreshExpiry))
        let known = trouble ?? SessionTrouble(calling: call)
        guard tokens.isUsable(at: turn.now) else { return Self.miss(tokens, call, known, &turn) }
        let next = Self.hold(tokens, &turn)
        let nextAt = next.due(turn.ledger)
        let event: SessionNote.Event = call.kind == .login ? .loginSucceeded : .refreshSucceeded
        turn.note(event, reason: call.cause.rawValue, nextAt: nextAt)
        if let accountID = grant.userID, turn.ledger.learnAccount(accountID) {
            turn.note(.accountChanged, .warning, reason: call.cause.rawValue)
        }
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
        guard self.call == call else {
            turn.note(.late, reason: call.kind.rawValue, fault: fault)
            return self
        }
        switch (fault.verdict, call.kind) {
        case (.transient, _), (.unknownOutcome, _), (.gone, _):
            return Self.bear(fault, of: call, holding: tokens, trouble ?? SessionTrouble(calling: call), &turn)
        case (.sessionDead, .refresh), (.credentialRefused, .refresh), (.credentialUnavailable, .refresh):
            return die(fault, &turn)
        case (.unknownApp, _), (_, .login):
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
        let next: Session =
            if let tokens {
                tokens.isUsable(at: turn.now) ? .stale(tokens, trouble) : .unreachable(tokens, trouble)
            } else {
                .loggingIn(trouble)
            }
        turn.publish(next)
        turn.note(
            call.kind == .login ? .loginFailed : .refreshFailed, .warning, reason: trouble.reason.rawValue,
            nextAt: trouble.nextAttempt, fault: fault)
        return next
    }

    /// The refresh token is dead (rule 12): log in again by the credential, while the access token serves on; without one it is over.
    private consuming func die(_ fault: IdentityFault, _ turn: inout SessionTurn) -> Session {
        turn.ledger.lastFault = fault
        turn.note(.dead, .warning, reason: SessionCall.Cause.sessionDead.rawValue, fault: fault)
        switch consume self {
        case .refreshing(var tokens, _):
            tokens.refresh = nil
            guard let call = turn.renewal(of: tokens, .sessionDead) else { return Self.end(fault, &turn) }
            return .refreshing(tokens, call)
        case .stale(var tokens, let trouble):
            tokens.refresh = nil
            guard let call = turn.renewal(of: tokens, .sessionDead) else { return Self.end(fault, &turn) }
            return .stale(tokens, trouble.calling(call))
        case .unreachable(var tokens, let trouble):
            tokens.refresh = nil
            guard let call = turn.renewal(of: tokens, .sessionDead) else { return Self.end(fault, &turn) }
            return .unreachable(tokens, trouble.calling(call))
        case let same: return same
        }
    }

    /// Definitely refused: no further call until the credential changes or a person logs in.
    private static func refuse(_ fault: IdentityFault, _ turn: inout SessionTurn) -> Session {
        turn.ledger.lastFault = fault
        turn.add(.publish(.none(.credentialRefused)))
        turn.note(.refused, .error, reason: SessionReason.credentialRefused.rawValue, fault: fault)
        return .refused(fault)
    }

    /// A session that was made elsewhere: its tokens' life counts from now. Whatever was under way comes too late.
    consuming func adopt(_ grant: Grant, _ turn: inout SessionTurn) -> Session {
        let tokens = turn.ledger.accept(
            grant, startedAt: turn.now, startedAtWall: turn.moment.wall, keeping: (nil, nil))
        if let accountID = grant.userID { _ = turn.ledger.learnAccount(accountID) }
        let next = Self.hold(tokens, &turn)
        turn.note(.adopted, reason: "handed_over", nextAt: next.due(turn.ledger))
        return next
    }

    /// A token that somebody else renews: `valid` while it can be read.
    consuming func feed(_ outcome: Result<Secret, IdentityFault>, _ turn: inout SessionTurn) -> Session {
        switch outcome {
        case .success(let token):
            let grant = Grant(
                accessToken: token, refreshToken: nil, userID: nil, lifetime: .nanoseconds(Int64.max),
                refreshTokenExpiry: nil, serverDate: nil)
            let tokens = turn.ledger.accept(
                grant, startedAt: turn.now, startedAtWall: turn.moment.wall, keeping: (nil, nil))
            let next = Self.hold(tokens, &turn)
            turn.note(.tokenChanged, reason: "read")
            return next
        case .failure(let fault): return Self.refuse(fault, &turn)
        }
    }
}
