import Foundation

/// The state of the emulated service, in memory. One actor owns it, so calls run one after another.
actor ServiceState {
    /// The planned faults and delays of a call, as of its arrival.
    struct Plan {
        /// Its number in the journal; nil for the protected resource.
        let call: Int?
        let effect: PlannedFault.Effect?
        let delay: Delay
    }

    /// Delays of a route's calls, in seconds.
    struct Delay {
        /// Before their effect.
        var before = 0.0
        /// Between their effect and their response.
        var after = 0.0
    }

    /// An issued access token. Times are seconds since 1970, with fractions.
    struct IssuedToken: Codable {
        let id: String
        let userID: String
        /// Empty: it belongs to none.
        let sessionID: String
        /// `login`, `refresh`, `link` or `exchange`.
        let cause: String
        let issuedAt: Double
        var expiresAt: Double
        var uses = 0
        var isRevoked = false
        /// What a token of the OAuth side is good for; nil: it is of App Services.
        var oauth: OAuthTokenDetails?

        var scopes: [String] { oauth?.scopes ?? [] }
    }

    /// Issued tokens that are kept. Older ones are checked by their claims alone.
    static let issuedTokensMax = 20_000
    /// Ended sessions that are kept.
    static let endedSessionsMax = 20_000

    var options: EmulatorOptions
    var tokenIssuer = TokenIssuer()
    /// The first one gets what a control call creates without an app. Apps are added and never removed, so an index stays valid.
    var apps: [AppState] = []
    /// Sessions that have not ended, including expired ones.
    var sessions: [String: EmulatorSession] = [:]
    /// Sessions that have ended, the latest last.
    var endedSessions: [EmulatorSession] = []
    /// Sessions created so far.
    var sessionCount = 0
    var issued: [String: IssuedToken] = [:]
    var issueOrder: [String] = []
    /// nil: there is no OAuth side.
    var oauth: OAuthState?
    var mailbox = Mailbox()
    var statistics = EmulatorStatistics()
    var journal = CallJournal()
    var functionRuns = FunctionRunList()
    var counts = CallCounts()
    var faults: [PlannedFault] = []
    var delays: [Route: Delay] = [:]
    var rateLimits: [Route: RateLimit] = [:]
    /// Grows after each call that may have changed what a snapshot holds.
    var changeCount = 0

    init(_ options: EmulatorOptions) {
        self.options = options
        for settings in options.apps { apps.append(Self.makeApp(settings)) }
        oauth = options.oauthSettings.map(OAuthState.init)
    }

    /// The service's clock.
    var date: Date { Date(timeIntervalSinceNow: options.clockOffsetSeconds) }
    /// The service's clock in seconds since 1970.
    var now: Double { date.timeIntervalSince1970 }
    var machineNow: Double { Date().timeIntervalSince1970 }

    /// Counts a call's arrival. Returns the faults and delays planned for it.
    ///
    /// - Parameter name: the method and path, for the journal.
    func begin(_ route: Route, _ name: (method: String, path: String, appID: String?)) -> Plan {
        counts.begin(route)
        // There may be tens of thousands of its calls, and none of them changes a session.
        let call = route == .protected ? nil : journal.begin(route, name, at: machineNow)
        let delay = delays[route] ?? Delay()
        guard let index = faults.firstIndex(where: { $0.matches(route) }) else {
            let wait = rateLimits[route]?.count(at: machineNow) ?? 0
            let effect = wait > 0 ? PlannedFault.Effect.refused(.tooManyRequests, retryAfter: wait) : nil
            return Plan(call: call, effect: effect, delay: delay)
        }
        let effect = faults[index].effect
        if let remaining = faults[index].remaining {
            faults[index].remaining = remaining - 1
            if remaining == 1 { faults.remove(at: index) }
        }
        return Plan(call: call, effect: effect, delay: delay)
    }

    func end(_ route: Route, _ call: Int?, status: Int, user: String?, _ delivery: EmulatorCall.Delivery) {
        counts.end(route, status: status, user: user)
        if route.changesState { changeCount += 1 }
        updateJournal(call) {
            $0.answeredAt = machineNow
            $0.status = status
            $0.delivery = delivery
            if $0.account == nil { $0.account = user.map { name(of: $0) ?? $0 } }
        }
    }

    /// Changes a call's record in the journal.
    func updateJournal(_ call: Int?, _ change: (inout EmulatorCall) -> Void) {
        if let call { journal.edit(call, change) }
    }

    func updateStatistics(_ session: EmulatorSession, _ change: (inout EmulatorStatistics.Account) -> Void) {
        change(&statistics.accounts[session.account, default: EmulatorStatistics.Account()])
    }

    func countRefusal(_ reason: String) { counts.countRefusal(reason) }

    func countsJSON() -> JSONValue { counts.json { self.name(of: $0) } }

    func resetCounts() {
        counts.reset()
        statistics = EmulatorStatistics()
    }
}

/// A limit of calls of one route in a time. The time begins with the first call.
struct RateLimit: Sendable {
    let calls: Int
    let seconds: Double
    private var startedAt = -Double.infinity
    private var used = 0

    init(calls: Int, seconds: Double) {
        self.calls = calls
        self.seconds = seconds
    }

    /// Counts a call.
    ///
    /// - Returns: the seconds to wait, rounded up; 0: the call may pass.
    mutating func count(at now: Double) -> Int {
        if now >= startedAt + seconds || now < startedAt { (startedAt, used) = (now, 0) }
        used += 1
        return used > calls ? max(1, Int((startedAt + seconds - now).rounded(.up))) : 0
    }
}
