import FlyingFox
import Foundation

/// The state of the emulated service, in memory. One actor owns it, so calls run one after another.
actor ServiceState {
    struct User {
        let id: String
        var identities: [JSONValue]
        /// `data` of the profile.
        var data: [String: JSONValue]
        var type = "normal"
        var disabled = false
    }

    /// An email/password account. It becomes a user at its first login.
    struct EmailAccount {
        var password: String
        var userID: String?
    }

    struct Key {
        let id = Identifiers.new()
        let name: String
        var disabled = false
        /// The owner, or the server user that its first login created.
        var userID: String?
        /// The owner's email, for a seeded key of a user that has not logged in yet.
        var email: String?
    }

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
    struct IssuedToken {
        let id: String
        let userID: String
        let sessionID: String
        /// `login` or `refresh`.
        let cause: String
        let issuedAt: Double
        var expiresAt: Double
        var uses = 0
        var revoked = false
    }

    /// Issued tokens that are kept. Older ones are checked by their claims alone.
    static let issuedTokensMax = 20_000
    /// Ended sessions that are kept.
    static let endedSessionsMax = 20_000

    var options: EmulatorOptions
    let tokenIssuer = TokenIssuer()
    let domainID: String
    var users: [String: User] = [:]
    var emails: [String: EmailAccount] = [:]
    var keys: [String: Key] = [:]
    /// Sessions that have not ended, including expired ones.
    var sessions: [String: EmulatorSession] = [:]
    /// Sessions that have ended, the latest last.
    var endedSessions: [EmulatorSession] = []
    /// Sessions created so far.
    var sessionCount = 0
    var statistics = EmulatorStatistics()
    var journal = CallJournal()
    var issued: [String: IssuedToken] = [:]
    var issueOrder: [String] = []
    var counts = CallCounts()
    var faults: [PlannedFault] = []
    var delays: [Route: Delay] = [:]

    init(_ options: EmulatorOptions) {
        self.options = options
        domainID = Identifiers.derived(from: "domain " + options.appID)
        for user in options.seed.users { emails[user.email] = EmailAccount(password: user.password) }
        for key in options.seed.keys { keys[key.key] = Key(name: key.name, email: key.email) }
    }

    /// The service's clock.
    var date: Date { Date(timeIntervalSinceNow: options.clockOffsetSeconds) }
    /// The service's clock in seconds since 1970.
    var now: Double { date.timeIntervalSince1970 }
    private var machineNow: Double { Date().timeIntervalSince1970 }

    /// Counts a call's arrival. Returns the faults and delays planned for it.
    func begin(_ route: Route) -> Plan {
        counts.begin(route)
        // There may be tens of thousands of its calls, and none of them changes a session.
        let call = route == .protected ? nil : journal.begin(route, at: machineNow)
        let delay = delays[route] ?? Delay()
        guard let index = faults.firstIndex(where: { $0.matches(route) }) else {
            return Plan(call: call, effect: nil, delay: delay)
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

    func refused(_ reason: String) { counts.refused(reason) }

    func countsJSON() -> JSONValue { counts.json { self.name(of: $0) } }

    func resetCounts() {
        counts.reset()
        statistics = EmulatorStatistics()
    }

    /// An email, or another readable name.
    func name(of userID: String) -> String? {
        users[userID]?.data["email"]?.string ?? users[userID]?.data["name"]?.string
    }

    /// The user id for the name in a control call: an email or a user id. An account that never logged in becomes a user here.
    func userID(named name: String) -> String? {
        if users[name] != nil { return name }
        return emails[name] == nil ? nil : emailUser(name)
    }

    /// The user of an email account. It is created if it does not exist yet.
    func emailUser(_ email: String) -> String {
        if let id = emails[email]?.userID { return id }
        let id = Identifiers.new()
        let identity = identity(
            Identifiers.new() + "-" + Identifiers.letters(), "local-userpass", .object(["email": .string(email)]))
        users[id] = User(id: id, identities: [identity], data: ["email": .string(email)])
        emails[email]?.userID = id
        return id
    }

    func identity(_ id: String, _ type: String, _ data: JSONValue? = nil) -> JSONValue {
        let provider = Identifiers.derived(from: "provider " + type + options.appID)
        var members: [String: JSONValue] = [
            "id": .string(id), "provider_type": .string(type), "provider_id": .string(provider),
        ]
        members["provider_data"] = data
        return .object(members)
    }
}
