import LanyardFoundations
import LanyardSettings

/// The simulated identity service: accounts, sessions and refresh tokens as a real one keeps them, without its transport.
///
/// It carries out what reaches it at the moment it is told, and remembers nothing else: which calls arrive, what is lost on the way and
/// when is `FleetWeather`'s.
struct FleetService {
    struct Account {
        /// Which password is right.
        var password = 1
        var isDisabled = false
        /// The only session that matters; those before it have been left or revoked.
        var session = -1
    }

    struct Stay {
        var account: Int
        var isAlive = true
        /// Which refresh token is the right one, from 1.
        var current: Int64 = 1
        var rotatedAt = Instant.past
        var endsAt: Instant
    }

    enum Response {
        case granted(access: SimulatedToken, refresh: SimulatedToken?, stay: Int, isRotation: Bool)
        /// The session is over, or the token is none of its.
        case dead(Death)
        case refused
    }

    enum Death { case ended, expired, repeated }

    let rotation: RefreshTokenRotation
    /// For so long a `grace` service answers the refresh token before the present one as it answered it first.
    static let grace = Duration.seconds(120)
    /// How long access tokens live.
    var lifetime: Duration
    /// How long a session lives.
    var sessionLife: Duration
    private(set) var accounts: [Account]
    private(set) var stays: [Stay] = []

    init(rotation: RefreshTokenRotation, lifetime: Duration, sessionLife: Duration, accounts: Int) {
        self.rotation = rotation
        self.lifetime = lifetime
        self.sessionLife = sessionLife
        self.accounts = (0..<accounts).map { _ in Account() }
    }

    // MARK: Calls that have arrived

    /// - Parameter password: which one the caller believes in.
    mutating func logIn(_ account: Int, password: Int, at now: Instant, life: Duration) -> Response {
        guard password == accounts[account].password, !accounts[account].isDisabled else { return .refused }
        stays.append(Stay(account: account, endsAt: now + sessionLife))
        accounts[account].session = stays.count - 1
        return grant(stays.count - 1, at: now, life: life, withRefresh: true)
    }

    mutating func refresh(_ token: SimulatedToken, at now: Instant, life: Duration) -> Response {
        let place = token.session
        guard stays[place].isAlive else { return .dead(.ended) }
        guard now < stays[place].endsAt else {
            stays[place].isAlive = false
            return .dead(.expired)
        }
        guard rotation != .none else { return grant(place, at: now, life: life, withRefresh: false) }
        if token.value == stays[place].current {
            stays[place].current += 1
            stays[place].rotatedAt = now
            return grant(place, at: now, life: life, withRefresh: true)
        }
        let isGraced = token.value == stays[place].current - 1 && now < stays[place].rotatedAt + Self.grace
        if rotation == .grace, isGraced { return grant(place, at: now, life: life, withRefresh: true) }
        // A token that was used before is in two hands: the whole family goes.
        stays[place].isAlive = false
        return .dead(.repeated)
    }

    mutating func revoke(_ token: SimulatedToken) { stays[token.session].isAlive = false }

    private func grant(_ stay: Int, at now: Instant, life: Duration, withRefresh: Bool) -> Response {
        let access = SimulatedToken(.access, session: stay, value: life.nanoseconds, madeAt: now)
        let refresh = SimulatedToken(
            .refresh, session: stay, value: stays[stay].current, madeAt: stays[stay].rotatedAt)
        return .granted(
            access: access, refresh: withRefresh ? refresh : nil, stay: stay,
            isRotation: withRefresh && rotation != .none && stays[stay].current > 1)
    }

    // MARK: What operators do over there

    mutating func revokeAll(of account: Int) {
        let session = accounts[account].session
        if session >= 0 { stays[session].isAlive = false }
    }

    mutating func disable(_ account: Int, _ isDisabled: Bool) {
        accounts[account].isDisabled = isDisabled
        if isDisabled { revokeAll(of: account) }
    }

    mutating func changePassword(of account: Int) {
        accounts[account].password += 1
        revokeAll(of: account)
    }

    // MARK: What the checks ask

    /// Whether this token would be granted something now.
    func accepts(_ token: SimulatedToken, at now: Instant) -> Bool {
        let stay = stays[token.session]
        guard stay.isAlive, now < stay.endsAt else { return false }
        return rotation == .none || token.value == stay.current
            || rotation == .grace && token.value == stay.current - 1 && now < stay.rotatedAt + Self.grace
    }

    /// Whether the service has moved on from this token.
    func isSpent(_ token: SimulatedToken) -> Bool { rotation != .none && token.value < stays[token.session].current }

    func isAlive(_ token: SimulatedToken, at now: Instant) -> Bool {
        stays[token.session].isAlive && now < stays[token.session].endsAt
    }

    func accepts(password: Int, of account: Int) -> Bool {
        password == accounts[account].password && !accounts[account].isDisabled
    }
}
