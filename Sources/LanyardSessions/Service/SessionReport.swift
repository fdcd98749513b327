import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// All sessions at one instant, with the counters. The service keeps it outside its queue for readers on any thread.
package struct SessionReport: Sendable {
    struct Attempt: Hashable, Sendable {
        var name: String
        var labels: [MetricSample.Label]
    }

    /// In the order of the configuration.
    package private(set) var users: [SessionStatus] = []
    /// The places in `users`, by the number of the index.
    private var places: [Int: Int] = [:]
    /// The user that routes without a user of their own follow.
    package internal(set) var activeUser: UserIndex?
    /// The number of refresh calls in progress.
    package internal(set) var refreshesInFlight = 0
    /// The store is in memory: nothing outlives a restart.
    package internal(set) var isStoreInMemory = false
    /// Some change of some user is unsaved; it is tried again.
    package var isStoreFailing: Bool { isActiveUserUnsaved || users.contains { $0.isStoreFailing } }
    /// The change of the active user is unsaved; it is tried again.
    var isActiveUserUnsaved = false
    var refreshDurations: [MetricSample] = []
    var clockJumps = 0
    /// How far the identity service's clock is ahead; nil: unknown.
    package var skew: Duration?
    var attempts: [Attempt: Int] = [:]

    /// - Parameter users: those that are shown.
    init(users: [SessionStatus] = [], activeUser: UserIndex? = nil) {
        self.activeUser = activeUser
        show(users)
    }

    /// Shows exactly these users.
    mutating func show(_ users: [SessionStatus]) {
        self.users = users
        places = Dictionary(users.enumerated().map { ($1.index.number, $0) }) { first, _ in first }
    }

    /// A user that is shown has another status. One that is not stays so.
    mutating func update(_ status: SessionStatus) {
        guard let place = places[status.index.number], users[place].index == status.index else { return }
        users[place] = status
    }

    /// The user whose index has this name; nil: not shown.
    func user(withNameOf index: UserIndex) -> SessionStatus? { places[index.number].map { users[$0] } }

    /// The sessions' part of `/metrics` (names: architecture-control.md 7.2).
    ///
    /// - Parameter perUser: false: sums over all users, and no states of a single one.
    package func samples(perUser: Bool = true) -> [MetricSample] {
        var samples: [MetricSample] = []
        if perUser {
            for user in users { add(user, to: &samples) }
        } else {
            addCounts(to: &samples)
        }
        samples.append(MetricSample("lanyard_refresh_inflight", value: Double(refreshesInFlight)))
        samples += refreshDurations
        samples.append(MetricSample("lanyard_clock_jumps", suffix: "_total", value: Double(clockJumps)))
        if let skew { samples.append(MetricSample("lanyard_clock_skew_seconds", value: skew.inSeconds)) }
        let attempts = perUser ? attempts : summedAttempts
        for (attempt, count) in attempts.sorted(by: { $0.key.order < $1.key.order }) {
            samples.append(
                MetricSample(attempt.name, suffix: "_total", labels: attempt.labels, value: Double(count)))
        }
        return samples
    }

    /// How many users are in each state, and how many wait for each party.
    private func addCounts(to samples: inout [MetricSample]) {
        let states = Dictionary(grouping: users, by: \.state).mapValues(\.count)
        for state in SessionState.allCases {
            samples.append(
                MetricSample(
                    "lanyard_session_state", labels: [.init("state", state.rawValue)],
                    value: Double(states[state] ?? 0)))
        }
        let actions = Dictionary(grouping: users, by: \.action).mapValues(\.count)
        for party in ResponsibleParty.allCases {
            samples.append(
                MetricSample(
                    "lanyard_session_action", labels: [.init("action", party.rawValue)],
                    value: Double(actions[party] ?? 0)))
        }
    }

    private var summedAttempts: [Attempt: Int] {
        var sums: [Attempt: Int] = [:]
        for (attempt, count) in attempts {
            let labels = attempt.labels.filter { $0.name != "user" && $0.name != "route" }
            sums[Attempt(name: attempt.name, labels: labels), default: 0] += count
        }
        return sums
    }

    private func add(_ user: SessionStatus, to samples: inout [MetricSample]) {
        let label = MetricSample.Label("user", user.user)
        for state in SessionState.allCases {
            samples.append(
                MetricSample(
                    "lanyard_session_state", labels: [label, .init("state", state.rawValue)],
                    value: state == user.state ? 1 : 0))
        }
        for party in ResponsibleParty.allCases {
            samples.append(
                MetricSample(
                    "lanyard_session_action", labels: [label, .init("action", party.rawValue)],
                    value: party == user.action ? 1 : 0))
        }
        let times: [(String, WallTime?)] = [
            ("lanyard_access_token_expiry_timestamp_seconds", user.tokens.accessExpiry),
            ("lanyard_refresh_token_expiry_timestamp_seconds", user.tokens.refreshExpiry),
            ("lanyard_next_refresh_timestamp_seconds", user.nextRefreshAt),
        ]
        for case (let name, let time?) in times {
            samples.append(MetricSample(name, labels: [label], value: Double(time.nanoseconds) / 1e9))
        }
        for variant in user.tokens.variants {
            let labels = [label, MetricSample.Label("route", variant.named.name)]
            for state in VariantState.allCases {
                samples.append(
                    MetricSample(
                        "lanyard_variant_state", labels: labels + [.init("state", state.rawValue)],
                        value: state == variant.state ? 1 : 0))
            }
            if let expiry = variant.expiry {
                samples.append(
                    MetricSample(
                        "lanyard_variant_token_expiry_timestamp_seconds", labels: labels,
                        value: Double(expiry.nanoseconds) / 1e9))
            }
        }
        if user.index == activeUser {
            samples.append(MetricSample("lanyard_active_user", suffix: "_info", labels: [label], value: 1))
        }
    }

    // MARK: Counters that are 0 before the first event: `rate()` does not see the step from nothing to 1.

    mutating func expectLogins(by provider: String) {
        let results = IdentityError.Verdict.loginResultLabels + ["success", "late"]
        for result in results {
            expect("lanyard_login_attempts", [.init("provider", provider), .init("result", result)])
        }
    }

    /// Only the two causes that repeat by themselves: all of them would be 70 series for each user.
    mutating func expectRefreshes(of user: String) {
        for reason in ["cooldown", "per_hour_max"] {
            expect("lanyard_refresh_denied", [.init("user", user), .init("reason", reason)])
        }
        for result in IdentityError.Verdict.refreshResultLabels + ["success"] {
            for cause in [SessionCall.Cause.scheduled, .retry] {
                expect(
                    "lanyard_refresh_attempts",
                    [.init("user", user), .init("result", result), .init("reason", cause.rawValue)])
            }
        }
    }

    /// - Parameter route: the first one that names the variant.
    mutating func expectFetches(of user: String, for route: String) {
        for result in IdentityError.Verdict.refreshResultLabels + ["success"] {
            expect("lanyard_variant_fetches", [.init("user", user), .init("route", route), .init("result", result)])
        }
    }

    mutating func expectWrites() {
        for result in ["stored", "overtaken", "failed"] { expect("lanyard_store_writes", [.init("result", result)]) }
    }

    private mutating func expect(_ name: String, _ labels: [MetricSample.Label]) {
        attempts[Attempt(name: name, labels: labels), default: 0] += 0
    }

    mutating func count(_ name: String, _ labels: [MetricSample.Label]) {
        attempts[Attempt(name: name, labels: labels), default: 0] += 1
    }
}

extension SessionReport.Attempt {
    /// A stable order that keeps families together.
    fileprivate var order: String { labels.reduce(name) { $0 + "\u{1}" + $1.value } }
}

/// A snapshot of one user for health, status and metrics, readable on any thread.
package struct SessionStatus: Sendable {
    package var user: String
    /// The user's index in the request path.
    package var index: UserIndex
    package var identity: String
    /// The service's id of the account, after a first login.
    package var accountID: String?
    /// The state of its session.
    package var state: SessionState
    /// Why it is ready or not, at the time of the report.
    package var reason: SessionReason
    /// The session's tokens.
    package var tokens: Tokens
    /// The next scheduled call; nil while one is in progress or none will be made.
    package var nextRefreshAt: WallTime?
    /// nil: the latest call has succeeded.
    package var failure: Failure?
    /// Who must act.
    package var action: ResponsibleParty
    /// A configured credential can begin another session.
    package var canLogIn: Bool {
        get { tokens.canLogIn }
        set { tokens.canLogIn = newValue }
    }
    /// True from the first token on, for `/startupz`.
    package var hasEverBeenReady: Bool
    /// The kind of the latest login; nil before the first.
    package var provider: String?
    /// Some changes of the user are unsaved.
    package var isStoreFailing = false
    /// The call that had no response at the time of the report.
    package var call: CallProgress?

    /// The tokens of a user, without their text.
    package struct Tokens: Sendable {
        /// Grows with each new access token; 0 before the first.
        package var generation: Generation
        /// nil: no access token, or one without an expiry.
        package var accessExpiry: WallTime?
        /// nil: no refresh token, or one whose expiry is not known.
        package var refreshExpiry: WallTime?
        /// Until then, a request of this user carries a valid token; `.past` without one.
        package var usableUntil: Instant
        /// Those that routes ask for besides, in the order of the routes.
        package var variants: [Variant]
        /// See `SessionStatus.canLogIn`.
        fileprivate(set) var canLogIn = false

        package init(
            generation: Generation, accessExpiry: WallTime? = nil, refreshExpiry: WallTime? = nil,
            usableUntil: Instant = .past, variants: [Variant] = []
        ) {
            self.variants = variants
            self.generation = generation
            self.accessExpiry = accessExpiry
            self.refreshExpiry = refreshExpiry
            self.usableUntil = usableUntil
        }
    }

    /// The access token of a variant, without its text.
    package struct Variant: Sendable {
        /// The variant under the name of a route that asks for it.
        package var named: NamedVariant
        /// The state of its token.
        package var state: VariantState
        /// Why it is ready or not, at the time of the report.
        package var reason: SessionReason
        /// Grows with each new token; 0 before the first.
        package var generation: Generation
        /// nil: there is no token, or it does not end.
        package var expiry: WallTime?
        /// `.past` without a token.
        package var usableUntil: Instant
        /// The next scheduled call; nil while one is in progress or none will be made.
        package var nextFetchAt: WallTime?
        /// The message of the latest error; nil after a success.
        package var lastError: String?
        /// True from the first token on.
        package var hasEverBeenReady: Bool

        /// Whether a request that asks for it would carry a valid token now. One that is fetched on demand counts as ready: the
        /// request waits for it.
        package func isReady(at now: Instant) -> Bool { now < usableUntil || state == .onDemand }

        /// `reason` at `now`: a token that has expired is not valid.
        package func reason(at now: Instant) -> SessionReason {
            reason == .tokenValid && !isReady(at: now) ? .identityUnreachable : reason
        }
    }

    /// Why the latest call has failed.
    package struct Failure: Equatable, Sendable {
        package var message: String
        /// What to do, as a sentence without its period; nil: unknown.
        package var remedy: String?
        /// What is at fault; nil: unknown.
        package var cause: IdentityCause?
        /// Of the first of the calls that have failed one after the other.
        package var since: WallTime

        package init(
            message: String, remedy: String? = nil, cause: IdentityCause? = nil, since: WallTime
        ) {
            self.message = message
            self.remedy = remedy
            self.cause = cause
            self.since = since
        }
    }

    /// The message of the latest error; nil after a success.
    package var lastError: String? { failure?.message }

    /// The call that has had no response for some seconds; nil: none.
    package func slowCall(at now: Instant = .now) -> CallProgress? {
        call.flatMap { $0.isSlow(at: now) ? $0 : nil }
    }

    /// Whether a forwarded request would carry a valid token now, even if nothing was published since the token
    /// expired.
    package func isReady(at now: Instant = .now) -> Bool {
        now < tokens.usableUntil && tokens.variants.allSatisfy { $0.isReady(at: now) }
    }

    /// Each of its tokens has been valid once, for `/startupz`.
    package var hasBeenReady: Bool { hasEverBeenReady && tokens.variants.allSatisfy(\.hasEverBeenReady) }

    /// `reason` at `now`: a token that has expired is not valid. With a valid plain token it is that of the first variant that is
    /// not ready.
    package func reason(at now: Instant = .now) -> SessionReason {
        if now < tokens.usableUntil {
            return tokens.variants.first { !$0.isReady(at: now) }?.reason(at: now) ?? reason
        }
        guard tokens.usableUntil != .past else { return reason }
        return [.identityGone, .credentialRefused].contains(reason) ? reason : .identityUnreachable
    }
}

/// The state of a variant's access token, for status and metrics.
package enum VariantState: String, Sendable, CaseIterable {
    /// The user has no session.
    case loggedOut = "logged_out"
    /// It is fetched for the first time.
    case fetching
    case valid
    case refreshing
    /// Its renewal fails, and it is still valid.
    case stale
    /// It was not used, and is fetched again by the next request.
    case onDemand = "on_demand"
    /// It cannot be fetched for now.
    case unreachable
    /// The service does not give it, or gives another one.
    case refused
}

extension SessionCoordinator {
    /// The tokens that routes ask for, in their order.
    func variantStatus(at eventContext: EventContext) -> [SessionStatus.Variant] {
        let others = variants.map { $0.status(at: eventContext) }
        guard let standIn else { return others }
        let tokens = session.tokens
        let own = SessionStatus.Variant(
            named: standIn.named, state: stateOfStandIn, reason: session.reason, generation: context.generation,
            expiry: tokens?.expiry, usableUntil: tokens?.usableUntil ?? .past,
            nextFetchAt: SessionLog.wall(of: session.nextCallAt, eventContext),
            lastError: context.lastError?.operatorMessage,
            hasEverBeenReady: context.hasEverBeenReady)
        return [own] + others
    }

    private var stateOfStandIn: VariantState {
        switch session {
        case .loggedOut, .loginRequired: .loggedOut
        case .loggingIn(let retryState): retryState.failures == 0 ? .fetching : .unreachable
        case .valid: .valid
        case .refreshing: .refreshing
        case .stale: .stale
        case .unreachable: .unreachable
        case .refused: .refused
        }
    }
}

extension VariantSession {
    func status(at eventContext: EventContext) -> SessionStatus.Variant {
        let tokens = session.tokens
        return SessionStatus.Variant(
            named: named, state: state(at: eventContext.instant), reason: reason(at: eventContext.instant),
            generation: context.generation, expiry: tokens?.expiry, usableUntil: tokens?.usableUntil ?? .past,
            nextFetchAt: renewal == .onDemand ? nil : SessionLog.wall(of: session.nextCallAt, eventContext),
            lastError: block?.message ?? context.lastError?.operatorMessage, hasEverBeenReady: context.hasEverBeenReady)
    }

    private func state(at now: Instant) -> VariantState {
        if isHeld, block != nil { return .refused }
        return switch session {
        case .loggedOut, .loginRequired: .loggedOut
        case .loggingIn(let retryState): refusal != nil ? .refused : retryState.failures == 0 ? .fetching : .unreachable
        case .valid: renewal == .onDemand ? .onDemand : .valid
        case .refreshing: .refreshing
        case .stale: .stale
        case .unreachable: refusal == nil ? .unreachable : .refused
        case .refused: .refused
        }
    }
}
