import FlyingFox
import Foundation

/// Everything the emulated service knows. One actor owns it all: calls are answered one after the other, in memory.
actor ServiceState {
    struct User {
        let id: String
        var identities: [JSONValue]
        /// What the profile shows as `data`.
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
        /// The owner, or the server user that its first login made.
        var userID: String?
        /// The owner's email, for a seeded key of a user who has not logged in yet.
        var email: String?
    }

    /// What is to happen to a call, as it stood at its arrival.
    struct Plan {
        /// Its number in the journal; nil for the protected resource.
        let call: Int?
        let effect: PlannedFault.Effect?
        let delay: Delay
    }

    /// Seconds by which the calls of a route are held back.
    struct Delay {
        /// Before their effect.
        var before = 0.0
        /// Between their effect and their answer.
        var after = 0.0
    }

    /// An access token that was given out. Times are seconds since 1970, with fractions.
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

    /// Issued tokens that are remembered; older ones are judged by their claims alone.
    static let issuedTokensMax = 20_000
    /// Ended sessions that are remembered.
    static let endedSessionsMax = 20_000

    var options: EmulatorOptions
    let tokenIssuer = TokenIssuer()
    let domainID: String
    var users: [String: User] = [:]
    var emails: [String: EmailAccount] = [:]
    var keys: [String: Key] = [:]
    /// Those that have not ended; expired ones stay.
    var sessions: [String: EmulatorSession] = [:]
    /// Sessions that have ended, the latest last.
    var endedSessions: [EmulatorSession] = []
    /// Sessions ever made.
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

    /// Counts a call's arrival; says what is planned for it.
    func begin(_ route: Route) -> Plan {
        counts.begin(route)
        // Its calls may come by the ten thousand; none of them changes a session.
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

    /// Writes into the journal.
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

    /// A user id for what a control call names: an email or a user id. An account that never logged in becomes a user by this.
    func userID(named name: String) -> String? {
        if users[name] != nil { return name }
        return emails[name] == nil ? nil : emailUser(name)
    }

    /// The user of an email account; made when it does not exist yet.
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
