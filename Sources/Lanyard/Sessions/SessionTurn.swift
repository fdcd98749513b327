/// One transition of a session: the event's context, the session's context, and the actions decided so far.
struct TransitionContext {
    let eventContext: EventContext
    var context: SessionContext
    private(set) var actions: [Session.Action] = []

    init(_ eventContext: EventContext, _ context: SessionContext) {
        self.eventContext = eventContext
        self.context = context
    }

    var now: Instant { eventContext.instant }

    mutating func add(_ action: Session.Action) { actions.append(action) }

    mutating func logEvent(
        _ event: SessionLogEvent.Event, _ level: SessionLogEvent.Level = .info, reason: String, nextAt: Instant? = nil,
        error: IdentityError? = nil
    ) {
        actions.append(.logEvent(SessionLogEvent(event, level, reason: reason, nextAt: nextAt, error: error)))
    }

    /// Publishes the availability of `session` to the shards.
    mutating func publish(_ session: borrowing Session) {
        actions.append(.publish(session.availability(at: now, context)))
    }

    mutating func login(_ cause: SessionCall.Cause) -> SessionCall {
        let call = context.begin(.login, cause, at: eventContext)
        actions.append(.login(call))
        return call
    }

    /// Begins the call that renews `tokens`: by the refresh token, otherwise by a login; nil if there is neither a
    /// token nor a credential.
    mutating func renewal(of tokens: SessionTokens, _ cause: SessionCall.Cause) -> SessionCall? {
        guard let refresh = tokens.refresh else { return context.hasCredential ? login(cause) : nil }
        let call = context.begin(.refresh, cause, at: eventContext)
        actions.append(.refresh(refresh, call))
        return call
    }
}
