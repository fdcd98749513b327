/// What time does to a session: the schedule, the attempts after failures, the token's end, requests that find none.
extension Session {
    /// When `due` is to be told next, or `.never`.
    ///
    /// With a call in flight the token's end changes nothing at once: requests wait for the answer as long as one of them would.
    package func due(_ ledger: borrowing SessionLedger) -> Instant {
        switch self {
        case .valid(let tokens, let refreshAt): min(refreshAt, tokens.mandatoryFrom)
        case .refreshing(let tokens, _): tokens.usableUntil + ledger.settings.waitMax
        case .stale(let tokens, let trouble):
            trouble.nextAttempt.map { min($0, tokens.usableUntil) } ?? tokens.usableUntil + ledger.settings.waitMax
        case .loggingIn(let trouble): trouble.nextAttempt ?? .never
        case .unreachable(_, let trouble): trouble.nextAttempt ?? .never
        default: .never
        }
    }

    /// Does what is due by now, if anything is.
    consuming func proceed(_ turn: inout SessionTurn) -> Session {
        let now = turn.now
        switch consume self {
        case .valid(let tokens, let refreshAt) where min(refreshAt, tokens.mandatoryFrom) <= now:
            return Self.renew(tokens, .scheduled, &turn)
        case .refreshing(let tokens, let call) where tokens.usableUntil + turn.ledger.settings.waitMax <= now:
            return Self.expire(tokens, SessionTrouble(calling: call), &turn)
        case .stale(let tokens, let trouble):
            let end = trouble.call == nil ? tokens.usableUntil : tokens.usableUntil + turn.ledger.settings.waitMax
            guard now < end else { return Self.expire(tokens, trouble, &turn).proceed(&turn) }
            return trouble.isDue(at: now) ? Self.retry(tokens, trouble, .retry, &turn) : .stale(tokens, trouble)
        case .unreachable(let tokens, let trouble) where trouble.isDue(at: now):
            return Self.retry(tokens, trouble, .retry, &turn)
        case .loggingIn(let trouble) where trouble.isDue(at: now):
            return .loggingIn(trouble.calling(turn.login(.retry)))
        case let same: return same
        }
    }

    /// Starts the first renewal of a token.
    private static func renew(
        _ tokens: SessionTokens, _ cause: SessionCall.Cause, _ turn: inout SessionTurn
    ) -> Session {
        guard let call = turn.renewal(of: tokens, cause) else { return end(turn.ledger.lastFault, &turn) }
        return .refreshing(tokens, call)
    }

    /// Starts another renewal after failures.
    private static func retry(
        _ tokens: SessionTokens, _ trouble: SessionTrouble, _ cause: SessionCall.Cause, _ turn: inout SessionTurn
    ) -> Session {
        guard let call = turn.renewal(of: tokens, cause) else { return end(trouble.fault, &turn) }
        // Requests that come while it is unreachable are refused at once, attempt or not.
        guard tokens.isUsable(at: turn.now) else { return .unreachable(tokens, trouble.calling(call)) }
        let next = Session.stale(tokens, trouble.calling(call))
        // From now on there is something to wait for again.
        turn.publish(next)
        return next
    }

    /// The session is over, and only a person can begin a new one.
    static func end(_ fault: IdentityFault?, _ turn: inout SessionTurn) -> Session {
        turn.add(.publish(.none(.loginRequired)))
        let next = Session.loginRequired(fault)
        turn.note(.loginRequired, .error, reason: next.reason.rawValue, fault: fault)
        return next
    }

    /// The token is no longer usable, no new one has come, and waiting for one is over.
    private static func expire(
        _ tokens: SessionTokens, _ trouble: SessionTrouble, _ turn: inout SessionTurn
    ) -> Session {
        let next = Session.unreachable(tokens, trouble)
        turn.publish(next)
        turn.note(
            .expired, .error, reason: trouble.reason.rawValue, nextAt: trouble.nextAttempt, fault: trouble.fault)
        return next
    }

    /// A shard found no usable token. What is due by now has been done; beyond that only a moved attempt is worth a publication:
    /// telling again what the shards know would wake those who wait for nothing, and they would ask again.
    consuming func want(_ turn: inout SessionTurn) -> Session {
        switch consume self {
        case .loggingIn(var trouble):
            let moved = trouble.want(at: turn.moment)
            let next = Session.loggingIn(trouble)
            if moved { turn.publish(next) }
            return next
        case .unreachable(let tokens, var trouble):
            let moved = trouble.want(at: turn.moment)
            let next = Session.unreachable(tokens, trouble)
            if moved { turn.publish(next) }
            return next
        case let same: return same
        }
    }

    /// An upstream refused the token of `generation` (refresh.md 11): a newer one answers at once; else one refresh, within
    /// cooldown and budget, that requests wait for wherever the token is in its life.
    consuming func renew(after generation: UInt64, _ turn: inout SessionTurn) -> Session {
        let next: Session
        switch consume self {
        case .valid(let tokens, let refreshAt)
        where tokens.generation == generation && refreshAt != .never && turn.ledger.notBefore <= turn.now:
            let isAllowed = Self.mayForce(refreshAt, &turn)
            next = isAllowed ? Self.renew(tokens, .forced, &turn) : .valid(tokens, refreshAt: refreshAt)
        case .stale(let tokens, let trouble) where tokens.generation == generation && trouble.mayHasten(at: turn.now):
            let isAllowed = Self.mayForce(trouble.nextAttempt, &turn)
            next = isAllowed ? Self.retry(tokens, trouble, .forced, &turn) : .stale(tokens, trouble)
        case let same: next = same
        }
        if next.tokens != nil { turn.publish(next) }
        return next
    }

    /// A person wants a new token: at once, whatever was asked of us, unless a call is under way.
    consuming func renewNow(_ turn: inout SessionTurn) -> Session {
        switch consume self {
        case .valid(let tokens, let refreshAt) where refreshAt != .never: Self.renew(tokens, .asked, &turn)
        case .stale(let tokens, let trouble) where trouble.call == nil: Self.retry(tokens, trouble, .asked, &turn)
        case .unreachable(let tokens, let trouble) where trouble.call == nil: Self.retry(tokens, trouble, .asked, &turn)
        case let same: same
        }
    }

    private static func mayForce(_ nextAt: Instant?, _ turn: inout SessionTurn) -> Bool {
        if let denial = turn.ledger.forbidsForced(at: turn.now) {
            // A used-up budget is the breaker: something goes on refusing fresh tokens (refresh.md 5).
            turn.note(
                .refreshDenied, denial == .budget ? .error : .warning, reason: denial.rawValue, nextAt: nextAt)
            return false
        }
        turn.note(.refreshForced, reason: SessionCall.Cause.forced.rawValue)
        return true
    }

    /// The clocks no longer agree, or the machine slept: the earlier of the two ends holds, and what is due by it comes within 5 s.
    consuming func reconsider(_ turn: inout SessionTurn) -> Session {
        let soon = turn.now + .seconds(5) * turn.moment.chance
        let next: Session
        switch consume self {
        case .valid(var tokens, let refreshAt):
            let early = tokens.bound(by: turn.moment)
            let isUsable = tokens.isUsable(at: turn.now)
            // What the jump has made overdue is spread; what it has made useless is not.
            let sooner = max(refreshAt - early, min(refreshAt, soon), min(turn.ledger.notBefore, tokens.mandatoryFrom))
            next = .valid(tokens, refreshAt: isUsable ? sooner : turn.now)
        case .refreshing(var tokens, let call):
            tokens.bound(by: turn.moment)
            next = .refreshing(tokens, call)
        case .stale(var tokens, var trouble):
            tokens.bound(by: turn.moment)
            trouble.hasten(to: soon, holding: tokens, at: turn.now)
            next = .stale(tokens, trouble)
        case .unreachable(let tokens, var trouble):
            trouble.hasten(to: soon, holding: tokens, at: turn.now)
            next = .unreachable(tokens, trouble)
        case .loggingIn(var trouble):
            trouble.hasten(to: soon, holding: nil, at: turn.now)
            next = .loggingIn(trouble)
        case let same: next = same
        }
        let done = next.proceed(&turn)
        if done.tokens != nil { turn.publish(done) }
        return done
    }
}
