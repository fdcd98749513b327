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

    /// One login of one user on one device.
    struct Session {
        let id: String
        let userID: String
        let deviceID: String
        let identity: JSONValue
        let refreshExpiresAt: Double
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

    var options: EmulatorOptions
    let mint = TokenMint()
    let domainID: String
    var users: [String: User] = [:]
    var emails: [String: EmailAccount] = [:]
    var keys: [String: Key] = [:]
    var sessions: [String: Session] = [:]
    var issued: [String: IssuedToken] = [:]
    var issueOrder: [String] = []
    var counts = CallCounts()
    var faults: [PlannedFault] = []
    /// Seconds by which the answers of a route are held back, after their effect.
    var delays: [Route: Double] = [:]

    init(_ options: EmulatorOptions) {
        self.options = options
        domainID = Identifiers.derived(from: "domain " + options.appID)
        for user in options.seed.users { emails[user.email] = EmailAccount(password: user.password) }
        for key in options.seed.keys { keys[key.key] = Key(name: key.name, email: key.email) }
    }

    /// The wall clock in seconds since 1970.
    var now: Double { Date().timeIntervalSince1970 }

    /// Counts a call's arrival; says what is planned for it.
    func begin(_ route: Route) -> (fault: Answer?, delaySeconds: Double) {
        counts.begin(route)
        let delay = delays[route] ?? 0
        guard let index = faults.firstIndex(where: { $0.meets(route) }) else { return (nil, delay) }
        let answer = faults[index].answer
        if let remaining = faults[index].remaining {
            faults[index].remaining = remaining - 1
            if remaining == 1 { faults.remove(at: index) }
        }
        return (answer, delay)
    }

    func end(_ route: Route, status: Int, user: String?) { counts.end(route, status: status, user: user) }
    func refused(_ reason: String) { counts.refused(reason) }

    func countsJSON() -> JSONValue { counts.json { self.name(of: $0) } }

    func resetCounts() { counts.reset() }

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
