import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// What outlives a session's states: the user, its settings and its counters.
package struct SessionContext: Sendable {
    /// The user's index in the request path.
    package let user: UserIndex
    /// `refresh`. A reload changes it: instants that were computed before stay.
    package internal(set) var settings: RefreshSettings
    /// What is configured of the identity's refresh tokens.
    package internal(set) var refreshTokens: RefreshTokenSettings
    /// Whether the user can log in without an operator.
    package internal(set) var hasCredential: Bool
    /// The generation of the latest access token; `zero` before the first.
    package internal(set) var generation = Generation.zero
    /// The service's id of the account, as the latest login said.
    package internal(set) var accountID: String?
    /// The account of the latest session; nil: there was none yet.
    private(set) var account: SessionAccount?
    /// True from the first token on; `/startupz` reads it.
    package internal(set) var hasEverBeenReady = false
    /// A login has succeeded at this identity, in this process or before it. The store keeps this after the session has
    /// ended.
    package internal(set) var hasEverBeenLoggedIn = false
    /// The latest error; nil after a success.
    package internal(set) var lastError: IdentityError?
    /// How long the service has asked not to be called.
    private var limit = ServiceLimit()
    /// The service's clock minus ours, smoothed (refresh.md 13).
    package internal(set) var skew: Duration?
    /// The credential's file has changed since the latest login began. A refusal then says nothing about its new
    /// content.
    private(set) var hasUntriedCredential = false
    private var calls = CallHistory()

    /// Logins whose sessions have ended, one after the other, without a refresh.
    private struct LoginHistory {
        /// Of the latest login; `.past`: none in this process.
        var latestAt = Instant.past
        var withoutRefresh = 0
    }

    /// The instant of the login that follows the end of a session; nil: now. The second in a row is put off.
    mutating func reloginAt(_ eventContext: EventContext) -> Instant? {
        defer { calls.logins.withoutRefresh += 1 }
        guard calls.logins.withoutRefresh > 0, calls.logins.latestAt != .past else { return nil }
        let delay = policy.reloginBackoff.delay(after: calls.logins.withoutRefresh, chance: eventContext.chance)
        let instant = calls.logins.latestAt + delay
        return instant > eventContext.instant ? instant : nil
    }

    /// A call of the session's own was successful.
    mutating func recordSuccess(of call: SessionCall, at now: Instant) {
        calls.recordSuccess(of: call, at: now)
        switch call.kind {
        case .login: calls.logins.latestAt = now
        case .refresh: calls.logins.withoutRefresh = 0
        }
    }

    /// An operator has logged in, or the credential has changed: the logins before it say nothing of the next one.
    mutating func forgetLogins() { calls.logins = LoginHistory() }

    /// Calls that have begun.
    private struct CallHistory {
        var count: UInt64 = 0
        /// Those after a refused token.
        var forced = ForcedRefreshes()
        var areOnlyForUsed = false
        /// The latest one, and when it was due.
        var latest: (number: UInt64, at: Instant)?
        /// See `callDuration`.
        var duration = Duration.zero
        /// See `responseTime`.
        var responseTime = Duration.zero
        var logins = LoginHistory()
        /// See `secondCalls`.
        var second = SecondCalls()

        /// A call that nothing has failed before was successful.
        mutating func recordSuccess(of call: SessionCall, at now: Instant) {
            let time = max(now - call.startedAt, .zero)
            responseTime = max(time, responseTime - (responseTime - time) / 4)
            guard let latest, latest.number == call.number, call.cause != .asked else { return }
            let measured = now - latest.at
            duration = max(measured, duration - (duration - measured) / 4)
        }
    }

    /// How long the calls for the token have taken, from the instant at which one was due until its token served: the longest recent
    /// one. A shorter call lowers it by a quarter of the difference.
    package var callDuration: Duration { calls.duration }

    /// How long the service has taken to respond to the requests that brought tokens: the longest recent time, which a shorter one lowers
    /// by a quarter of the difference. A call before such a request that got no response does not count.
    var responseTime: Duration { calls.responseTime }

    /// A token that is due is renewed by its user's coordinator, if it was used: the token of a variant. Its account is that of the user's
    /// session.
    var renewsOnlyUsed: Bool {
        get { calls.areOnlyForUsed }
        set { calls.areOnlyForUsed = newValue }
    }

    package init(
        user: UserIndex, settings: RefreshSettings, refreshTokens: RefreshTokenSettings = RefreshTokenSettings(),
        hasCredential: Bool
    ) {
        self.user = user
        self.settings = settings
        self.refreshTokens = refreshTokens
        self.hasCredential = hasCredential
    }

    /// Begins and numbers a call.
    mutating func begin(_ kind: SessionCall.Kind, _ cause: SessionCall.Cause, at eventContext: EventContext)
        -> SessionCall
    {
        calls.count += 1
        hasUntriedCredential = false
        if cause == .forced { calls.forced.begin(at: eventContext.instant) }
        calls.latest = (calls.count, eventContext.instant)
        return SessionCall(
            number: calls.count, kind: kind, cause: cause, startedAt: eventContext.instant,
            startedAtWall: eventContext.wall)
    }

    mutating func noteChangedCredential() {
        hasUntriedCredential = true
        forgetLogins()
    }

    /// The service must not be called before this instant; `.past`: it may.
    package var notBefore: Instant { limit.notBefore }

    /// Records when the service may be called again after an attempt failed with `error`.
    mutating func recordRetryAfter(_ retryState: RetryState, _ error: IdentityError) {
        limit.record(retryState.notBefore, error)
    }

    /// A call for another token was successful: the service is not gone.
    mutating func endGone() {
        if limit.error?.verdict == .gone { limit = ServiceLimit() }
    }

    /// Something renews the tokens, or they do not end.
    func canRenew(_ tokens: SessionTokens) -> Bool { tokens.refresh != nil || hasCredential || tokens.expiry == nil }

    /// The calls that get a second one beside them while they have no response (refresh.md 17).
    package struct SecondCalls: Equatable, Sendable {
        /// Those with a refresh token.
        package var refreshes = false
        /// Logins with the configured credential.
        package var logins = false
    }

    /// Which renewals get a second call.
    var secondCalls: SecondCalls {
        get { calls.second }
        set { calls.second = newValue }
    }

    /// When the call that renews `tokens` gets a second one, after it was made; nil: never.
    func secondCallAfter(of tokens: SessionTokens) -> Duration? {
        let isMade = tokens.refresh != nil ? secondCalls.refreshes : hasCredential && secondCalls.logins
        return isMade ? settings.secondCallAfter : nil
    }

    /// When the service may be called.
    var policy: ClockPolicy { ClockPolicy(settings) }

    /// How long to wait without a usable token; nil: not at all. A 410 is honoured in full.
    func waitBeforeCall(at now: Instant) -> RetryState? {
        limit.until(by: policy, at: now).map { RetryState(waitingUntil: $0, because: limit.error) }
    }

    /// The limit that forbids another forced refresh, cooldown or hourly budget (refresh.md 5); nil if none does.
    mutating func forcedRefreshDenial(at now: Instant) -> SessionLogEvent.Denial? {
        calls.forced.denial(by: policy, at: now)
    }

    /// When cooldown and hourly budget allow another forced refresh; `.past`: now.
    func forcedRefreshAllowedAt(at now: Instant) -> Instant { calls.forced.allowedAt(by: policy, at: now) }

    /// Learns the skew from a response's `Date`. It has whole seconds, so half a second is added as the best guess.
    ///
    /// A difference that the length of the call and the noise can explain moves the skew by a quarter. A larger one is taken at once: a
    /// clock was set.
    mutating func recordSkew(from date: WallTime?, call: SessionCall, at eventContext: EventContext) {
        guard let date else { return }
        let half = (eventContext.wall - call.startedAtWall) / 2
        let measured = (date + .milliseconds(500)) - (call.startedAtWall + half)
        guard let known = skew else { return skew = measured }
        let difference = measured - known
        let isNoise = max(difference, .zero - difference) <= policy.skewNoise + max(half, .zero)
        skew = isNoise ? known + difference / 4 : measured
    }

    /// Whether the skew is large enough for a warning (refresh.md 13).
    var isSkewed: Bool { skew.map { max($0, .zero - $0) > policy.reportedSkew } ?? false }

    /// Returns whether another account was known before.
    mutating func recordAccount(_ id: String) -> Bool {
        defer { accountID = id }
        return accountID.map { $0 != id } ?? false
    }

    /// A login with this grant is one of the account of the latest session.
    func continuesAccount(_ grant: Grant, isExplicit: Bool) -> Bool {
        renewsOnlyUsed || account?.isSame(as: SessionAccount.Proof(of: grant), isExplicit: isExplicit) == true
    }

    /// The same credential is no sign of the same account any more: logins ask for something else from now on (refresh-outcomes.md 11).
    mutating func doubtAccount() {
        account = account.map { SessionAccount(.unknown(credential: nil), $0.number) }
    }

    /// The account of a session from the store (refresh-outcomes.md 11).
    ///
    /// - Parameter continuesSession: it is the session that was served here, as another process has renewed it.
    mutating func restoreAccount(_ stored: SessionAccount.Proof, continuesSession: Bool) -> SessionAccount {
        if let account, continuesSession ? account.mayBe(stored) : account.isSame(as: stored, isExplicit: true) {
            return account
        }
        let restored = SessionAccount(stored)
        account = restored
        return restored
    }

    /// The account of new tokens. A refresh does not change it, unless its response names another one.
    private mutating func recordAccount(of grant: Grant, isExplicit: Bool, keeping old: SessionTokens?)
        -> SessionAccount
    {
        if renewsOnlyUsed { return account ?? .none }
        if let old, grant.userID.map({ old.account.proof == .userID($0) }) ?? true { return old.account }
        if let account, continuesAccount(grant, isExplicit: isExplicit) { return account }
        let learned = SessionAccount(SessionAccount.Proof(of: grant))
        account = learned
        return learned
    }

    /// Makes the next generation at least `stored`: the store counts generations for all processes.
    mutating func expect(generation stored: Generation) {
        generation = max(generation, stored.previous)
    }

    /// The generation of a token from the store. It is higher than all generations published here before.
    mutating func resume(generation stored: Generation) -> Generation {
        generation = generation.next(atLeast: stored)
        hasEverBeenLoggedIn = true
        return generation
    }

    /// The context of a variant's session takes what the user's session knows: the account, the clock of the service, its limit,
    /// the settings, and the number of the latest call.
    mutating func follow(_ session: borrowing SessionContext, account: SessionAccount?) {
        settings = session.settings
        refreshTokens = session.refreshTokens
        secondCalls = session.secondCalls
        skew = session.skew
        accountID = session.accountID
        self.account = account
        if session.limit.notBefore > limit.notBefore { limit = session.limit }
        calls.count = session.calls.count
    }

    /// The variant's session has begun a call: numbers are unique among the calls of a user.
    mutating func countCalls(of variant: borrowing SessionContext) {
        calls.count = max(calls.count, variant.calls.count)
    }

    /// What requests get while the user is logged out.
    var refusalAfterLogout: AccessToken.Refusal { hasCredential ? .loggedOut : .loginRequired }

    /// Turns a grant into the session's tokens.
    ///
    /// - Parameters:
    ///   - isExplicit: an operator has asked for the login.
    ///   - old: the tokens that a refresh renews. Its response need not repeat the account nor bring a refresh token.
    mutating func accept(
        _ grant: Grant, startedAt: Instant, startedAtWall: WallTime, isExplicit: Bool = false,
        keeping old: SessionTokens? = nil
    ) -> SessionTokens {
        generation = generation.next
        hasEverBeenLoggedIn = true
        lastError = nil
        limit = ServiceLimit()
        let account = recordAccount(of: grant, isExplicit: isExplicit, keeping: old)
        return SessionTokens(
            grant, generation: generation, accountID: grant.userID ?? old?.accountID, account: account,
            startedAt: startedAt, startedAtWall: startedAtWall, keeping: (old?.refresh, old?.refreshExpiry),
            skew: skew ?? .zero, settings: settings, refreshTokens: refreshTokens, callDuration: calls.duration)
    }
}

/// The time of an event, and its random values: the machine reads no clock and makes no random number.
package struct EventContext: Sendable {
    /// On the clock of all deadlines.
    package var instant: Instant
    /// The wall clock at that instant.
    package var wall: WallTime
    /// Uniform in 0 ..< 1 and new for each event; it places whatever this event schedules.
    package var chance: Double
    /// Random, never 0 and new for each event: the id of a session that begins with this event.
    package var name: UInt64

    package init(instant: Instant, wall: WallTime, chance: Double, name: UInt64 = 1) {
        self.instant = instant
        self.wall = wall
        self.chance = chance
        self.name = name
    }

    /// The clocks' time now, with real random values.
    package static var now: EventContext {
        EventContext(instant: .now, wall: .now, chance: .random(in: 0..<1), name: .random(in: 1 ... .max))
    }
}

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

    /// When to renew `tokens`; see `SessionTokens.refreshAt`.
    func refreshAt(_ tokens: SessionTokens, spread: Double = 0) -> Instant {
        tokens.refreshAt(
            context.settings, eventContext, spread: spread, secondCallAfter: context.secondCallAfter(of: tokens))
    }

    mutating func login(_ cause: SessionCall.Cause) -> SessionCall {
        let call = context.begin(.login, cause, at: eventContext)
        actions.append(.login(call))
        return call
    }

    /// Begins the call that renews `tokens`: by the refresh token, otherwise by a login, otherwise by the last try; nil if
    /// there is none of them, or the last try's time has not come.
    mutating func renewal(of tokens: SessionTokens, _ cause: SessionCall.Cause) -> SessionCall? {
        guard let refresh = tokens.refresh else {
            guard let lastTry = tokens.lastTry, lastTry.replacesLogin || !context.hasCredential else {
                return context.hasCredential ? login(cause) : nil
            }
            guard lastTry.at <= now else { return nil }
            let call = context.begin(.refresh, .lastTry, at: eventContext)
            actions.append(.refresh(lastTry.token, call))
            return call
        }
        let call = context.begin(.refresh, cause, at: eventContext)
        actions.append(.refresh(refresh, call))
        return call
    }
}
