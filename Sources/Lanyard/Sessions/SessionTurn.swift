/// One event's way through a session: when it is, what the session knows for good, and the steps decided so far.
struct SessionTurn {
    let moment: SessionMoment
    var ledger: SessionLedger
    private(set) var steps: [Session.Step] = []

    init(_ moment: SessionMoment, _ ledger: SessionLedger) {
        self.moment = moment
        self.ledger = ledger
    }

    var now: Instant { moment.instant }

    mutating func add(_ step: Session.Step) { steps.append(step) }

    mutating func note(
        _ event: SessionNote.Event, _ level: SessionNote.Level = .info, reason: String, nextAt: Instant? = nil,
        fault: IdentityFault? = nil
    ) {
        steps.append(.note(SessionNote(event, level, reason: reason, nextAt: nextAt, fault: fault)))
    }

    /// Tells the shards what `session` has for them.
    mutating func publish(_ session: borrowing Session) {
        steps.append(.publish(session.availability(at: now, ledger)))
    }

    mutating func login(_ cause: SessionCall.Cause) -> SessionCall {
        let call = ledger.begin(.login, cause, at: moment)
        steps.append(.login(call))
        return call
    }

    /// Begins the call that renews `tokens`: by the refresh token, else by a login; nil if there is neither that nor a credential.
    mutating func renewal(of tokens: SessionTokens, _ cause: SessionCall.Cause) -> SessionCall? {
        guard let refresh = tokens.refresh else { return ledger.hasCredential ? login(cause) : nil }
        let call = ledger.begin(.refresh, cause, at: moment)
        steps.append(.refresh(refresh, call))
        return call
    }
}
