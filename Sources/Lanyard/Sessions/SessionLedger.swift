/// What outlasts a session's states: who it is, what binds it, and what it has counted.
package struct SessionContext: Sendable {
    package let user: UserIndex
    package let settings: RefreshSettings
    /// Whether a login needs no person.
    package let hasCredential: Bool
    /// The generation of the latest access token; 0 before the first.
    package internal(set) var generation: UInt64 = 0
    /// The service's id of the account, as the latest login said.
    package internal(set) var accountID: String?
    /// True from the first token on: what `/startupz` asks.
    package internal(set) var hasEverBeenReady = false
    /// The latest fault; nil after a success.
    package internal(set) var lastError: IdentityError?
    /// The service has asked not to be called before then (Retry-After, 410); a success lifts it. It outlasts the trouble in which it was
    /// heard: a session that is taken over from another process comes from the same service.
    package internal(set) var notBefore = Instant.past
    /// By what.
    private(set) var retryAfterError: IdentityError?
    /// The service's clock less ours, smoothed (refresh.md 13).
    package internal(set) var skew: Duration?
    /// The credential's file changed since the latest login began: a refusal of what was read says nothing about what it holds now.
    private(set) var hasUntriedCredential = false
    private var calls: UInt64 = 0
    /// When the forced refreshes of the last hour began, oldest first.
    private var forced: [Instant] = []

    package init(user: UserIndex, settings: RefreshSettings, hasCredential: Bool) {
        self.user = user
        self.settings = settings
        self.hasCredential = hasCredential
    }

    /// Numbers a call that begins now.
    mutating func begin(_ kind: SessionCall.Kind, _ cause: SessionCall.Cause, at eventContext: EventContext)
        -> SessionCall
    {
        calls += 1
        if kind == .login { hasUntriedCredential = false }
        if cause == .forced { forced.append(eventContext.instant) }
        return SessionCall(
            number: calls, kind: kind, cause: cause, startedAt: eventContext.instant, startedAtWall: eventContext.wall)
    }

    mutating func credentialChanged() { hasUntriedCredential = true }

    /// An attempt has failed by `fault`, and `trouble` says when the next may be made. What the service has asked for last holds; a failure that says
    /// nothing of it lifts nothing but a 410: the attempt may have been a person's, or one that could not wait.
    mutating func recordRetryAfter(_ retryState: RetryState, _ error: IdentityError) {
        let isNews =
            switch error.verdict {
            case .gone, .transient(retryAfter: .some): true
            default: retryAfterError?.verdict == .gone || retryState.notBefore > notBefore
            }
        guard isNews else { return }
        retryAfterError = error
        notBefore = retryState.notBefore
    }

    /// How long to wait where no usable token is at hand: then Retry-After is honoured for at most 30 s (architecture.md 5.3), a 410
    /// whole. nil: not at all.
    func waitBeforeCall(at now: Instant) -> RetryState? {
        guard notBefore > now else { return nil }
        let until = retryAfterError?.verdict == .gone ? notBefore : min(notBefore, now + .seconds(30))
        return RetryState(restingUntil: until, because: retryAfterError)
    }

    /// Whether cooldown and hourly budget allow another forced refresh (refresh.md 5); if not, which of them forbids it.
    mutating func forcedRefreshDenial(at now: Instant) -> SessionLogEvent.Denial? {
        forced.removeAll { now - $0 >= .seconds(3600) }
        if let last = forced.last, now - last < settings.cooldown { return .cooldown }
        return forced.count >= settings.perHourMax ? .budget : nil
    }

    /// From when on cooldown and hourly budget allow another forced refresh: `.past` if they do now.
    func forcedRefreshAllowedAt(at now: Instant) -> Instant {
        let recent = forced.filter { now - $0 < .seconds(3600) }
        guard let last = recent.last else { return .past }
        let budget =
            recent.count >= settings.perHourMax ? recent[recent.count - settings.perHourMax] + .seconds(3600) : .past
        let from = max(last + settings.cooldown, budget)
        return from <= now ? .past : from
    }

    /// Learns from a `Date` of an answer; it has whole seconds, so half of one is the best guess.
    mutating func learnSkew(from date: WallTime?, call: SessionCall, at eventContext: EventContext) {
        guard let date else { return }
        let middle = call.startedAtWall + (eventContext.wall - call.startedAtWall) / 2
        let measured = (date + .milliseconds(500)) - middle
        skew = skew.map { $0 + (measured - $0) / 4 } ?? measured
    }

    /// Above this the clocks are worth a warning (refresh.md 13).
    var isSkewed: Bool { skew.map { max($0, .zero - $0) > .seconds(30) } ?? false }

    /// Returns whether another account was known before.
    mutating func learnAccount(_ id: String) -> Bool {
        defer { accountID = id }
        return accountID.map { $0 != id } ?? false
    }

    /// The store counts generations for all processes: the next token of this session is at least this one.
    mutating func expect(generation stored: UInt64) {
        generation = max(generation, stored == 0 ? 0 : stored - 1)
    }

    /// The generation of a token that comes from the store: what was published here before is always older.
    mutating func resume(generation stored: UInt64) -> UInt64 {
        generation = max(generation + 1, stored)
        return generation
    }

    /// Turns a grant into what the session holds from now on.
    ///
    /// - Parameter old: what a refresh renews; its answer need not say again whose it is, nor bring a refresh token.
    mutating func accept(
        _ grant: Grant, startedAt: Instant, startedAtWall: WallTime, keeping old: SessionTokens? = nil
    ) -> SessionTokens {
        generation += 1
        lastError = nil
        notBefore = .past
        return SessionTokens(
            grant, generation: generation, accountID: grant.userID ?? old?.accountID, startedAt: startedAt,
            startedAtWall: startedAtWall, keeping: (old?.refresh, old?.refreshExpiry), skew: skew ?? .zero,
            settings: settings)
    }
}
