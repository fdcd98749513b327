import LanyardFoundations
import LanyardSettings

/// The simulated identity service: accounts, sessions and refresh tokens as a real one keeps them, without its transport.
///
/// It carries out what reaches it at the moment it is told, and remembers nothing else: which calls arrive, what is lost on the way and
/// when is `FleetCondition`'s.
struct FleetService {
    struct Account {
        /// Which password is right.
        var password = 1
        /// Each password works for one login, and so do the next ones.
        var isOneUse = false
        /// Its sessions have a refresh token.
        var hasRefreshToken = true
        var isDisabled = false
        /// The only session that matters; those before it have been left or revoked.
        var session = -1
        /// How often it has been deleted. A login after that makes another account.
        var deletions = 0
        /// Access tokens from before are refused, although their sessions live.
        var admitsFrom = Instant.past
    }

    struct Stay {
        var account: Int
        /// `Account.deletions` when it began.
        var deletions: Int
        var isAlive = true
        /// Which refresh token is the right one, from 1.
        var current: Int64 = 1
        var rotatedAt = Instant.past
        var endsAt: Instant
        /// A login for the token of a variant has begun it.
        var isOfVariant = false
    }

    enum Response {
        case granted(access: SimulatedToken, refresh: SimulatedToken?, stay: Int, isRotation: Bool)
        /// The session has ended, or the token is none of its.
        case dead(Death)
        case refused
        /// The variant is not given.
        case variantRefused
        /// The access token of a call about an account is not accepted.
        case tokenRefused
        case accountDeleted
    }

    enum Death { case ended, expired, repeated }

    /// What the service makes of a fetch.
    enum VariantResponse: Equatable {
        case right
        /// A token for another audience, which says so.
        case wrongAudience
        /// A token that does not say its audience.
        case opaque
        /// `invalid_target`.
        case refused
    }

    let rotation: RefreshTokenRotation
    /// For so long a `grace` service answers the refresh token before the present one as it answered it first.
    static let grace = Duration.seconds(120)
    /// How long access tokens live.
    var lifetime: Duration
    /// How long a session lives.
    var sessionLife: Duration
    private(set) var accounts: [Account]
    private(set) var stays: [Stay] = []
    /// By account and variant.
    var variantResponses: [[VariantResponse]]

    init(rotation: RefreshTokenRotation, lifetime: Duration, sessionLife: Duration, accounts: [FleetPlan.Member]) {
        variantResponses = accounts.map { _ in FleetVariant.all.map { _ in .right } }
        self.rotation = rotation
        self.lifetime = lifetime
        self.sessionLife = sessionLife
        self.accounts = accounts.map { Account(isOneUse: $0.isOneUse, hasRefreshToken: $0.hasRefreshToken) }
    }

    // MARK: Calls that have arrived

    /// - Parameters:
    ///   - password: which one the caller believes in.
    ///   - isGiven: an operator gave it, which is no credential for one login.
    ///   - variant: whose token is wanted; nil: the plain one.
    mutating func logIn(
        _ account: Int, password: Int, isGiven: Bool, variant: Int?, at now: Instant, life: Duration
    ) -> Response {
        guard accepts(password: password, of: account) else { return .refused }
        if let variant, variantResponses[account][variant] == .refused { return .variantRefused }
        if accounts[account].isOneUse, !isGiven { accounts[account].password = password + 1 }
        stays.append(
            Stay(
                account: account, deletions: accounts[account].deletions, endsAt: now + sessionLife,
                isOfVariant: variant != nil))
        if variant == nil { accounts[account].session = stays.count - 1 }
        return grant(
            stays.count - 1, variant, at: now, life: life, withRefresh: accounts[account].hasRefreshToken)
    }

    mutating func refresh(
        _ token: SimulatedToken, variant: Int? = nil, at now: Instant, life: Duration
    ) -> Response {
        let place = token.session
        guard isAlive(place) else { return .dead(.ended) }
        guard now < stays[place].endsAt else {
            stays[place].isAlive = false
            return .dead(.expired)
        }
        if let variant, variantResponses[stays[place].account][variant] == .refused { return .variantRefused }
        guard rotation != .none else { return grant(place, variant, at: now, life: life, withRefresh: false) }
        if token.value == stays[place].current {
            stays[place].current += 1
            stays[place].rotatedAt = now
            return grant(place, variant, at: now, life: life, withRefresh: true)
        }
        let isGraced = token.value == stays[place].current - 1 && now < stays[place].rotatedAt + Self.grace
        if rotation == .grace, isGraced { return grant(place, variant, at: now, life: life, withRefresh: true) }
        // A token that was used before is in two hands: the whole family goes.
        stays[place].isAlive = false
        return .dead(.repeated)
    }

    mutating func revoke(_ token: SimulatedToken) { stays[token.session].isAlive = false }

    /// Adds a login to the account of an access token.
    mutating func link(
        _ token: SimulatedToken, _ credential: FleetAccountChange.LinkCredential, at now: Instant, life: Duration
    ) -> Response {
        guard admits(token, at: now), credential != .foreign else { return .tokenRefused }
        guard credential == .right else { return .refused }
        return grant(token.session, nil, at: now, life: life, withRefresh: false)
    }

    mutating func deleteAccount(_ token: SimulatedToken, at now: Instant) -> Response {
        guard admits(token, at: now) else { return .tokenRefused }
        accounts[stays[token.session].account].deletions += 1
        return .accountDeleted
    }

    private func admits(_ token: SimulatedToken, at now: Instant) -> Bool {
        isAlive(token, at: now) && now < token.madeAt + .nanoseconds(token.value)
            && token.madeAt >= accounts[stays[token.session].account].admitsFrom
    }

    private func grant(_ stay: Int, _ variant: Int?, at now: Instant, life: Duration, withRefresh: Bool) -> Response {
        let audience: Int =
            switch variant.map({ (place: $0, response: variantResponses[stays[stay].account][$0]) }) {
            case nil: 0
            case (let place, .right)?: place + 1
            case (_, .opaque)?: SimulatedToken.opaque
            case (let place, .wrongAudience)?, (let place, .refused)?: (place + 1) % FleetVariant.all.count + 1
            }
        let access = SimulatedToken(
            .access, session: stay, value: life.nanoseconds, madeAt: now, audience: audience)
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

    /// Access tokens from before are refused by calls about the account; refresh tokens are not.
    mutating func refuseAccessTokens(of account: Int, before now: Instant) { accounts[account].admitsFrom = now }

    mutating func changePassword(of account: Int) {
        accounts[account].password += 1
        revokeAll(of: account)
    }

    // MARK: What the checks ask

    /// The id of the account in which a login has ended.
    func account(of stay: Int) -> String {
        let stay = stays[stay]
        return stay.deletions == 0 ? "account-\(stay.account)" : "account-\(stay.account)-\(stay.deletions)"
    }

    /// Whether this token would be granted something now.
    func accepts(_ token: SimulatedToken, at now: Instant) -> Bool {
        let stay = stays[token.session]
        guard isAlive(token.session), now < stay.endsAt else { return false }
        return rotation == .none || token.value == stay.current
            || rotation == .grace && token.value == stay.current - 1 && now < stay.rotatedAt + Self.grace
    }

    /// Whether the service has moved on from this token.
    func isSpent(_ token: SimulatedToken) -> Bool { rotation != .none && token.value < stays[token.session].current }

    func isAlive(_ token: SimulatedToken, at now: Instant) -> Bool {
        isAlive(token.session) && now < stays[token.session].endsAt
    }

    private func isAlive(_ stay: Int) -> Bool {
        stays[stay].isAlive && stays[stay].deletions == accounts[stays[stay].account].deletions
    }

    func accepts(password: Int, of account: Int) -> Bool {
        isRight(password: password, of: account) && !accounts[account].isDisabled
    }

    /// Whether a credential file with this content is right.
    func isRight(password: Int, of account: Int) -> Bool {
        let next = accounts[account].password
        return password == next || accounts[account].isOneUse && next..<next + 50 ~= password
    }
}
