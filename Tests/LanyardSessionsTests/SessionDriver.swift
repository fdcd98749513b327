import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// One session in virtual time: sends it events, keeps its clock, records its decisions.
final class SessionDriver {
    var now = Instant(nanoseconds: 1_000_000_000_000)
    var wall = WallTime(seconds: 1_800_000_000)
    var session = Session.loggedOut(.loggingIn)
    var context: SessionContext
    /// A fixed random value, or nil for seeded ones.
    var fixedChance: Double?
    var numbers: SeededGenerator

    private(set) var calls: [SessionCall] = []
    private(set) var revoked: [Secret] = []
    private(set) var logEvents: [SessionLogEvent] = []
    private(set) var availability: AccessToken.Availability?
    private(set) var publications = 0
    /// Called with each decided step, after it was recorded.
    var onAction: (Session.Action) -> Void = { _ in }

    init(
        hasCredential: Bool = true, settings: RefreshSettings = RefreshSettings(), chance: Double? = 0.5,
        seed: UInt64 = 1
    ) {
        context = SessionContext(user: UserIndex(0), settings: settings, hasCredential: hasCredential)
        fixedChance = chance
        numbers = SeededGenerator(seed)
    }

    var state: SessionState { session.state }
    var reason: SessionReason { session.reason }
    var tokens: SessionTokens? { session.tokens }
    var retryState: RetryState? { session.retryState }
    var due: Instant { session.due(context) }
    /// The call in flight.
    var call: SessionCall? { session.call }
    /// From now to the session's next deadline, in seconds.
    var dueIn: Double { (due - now).inSeconds }

    func handle(_ event: Session.Event) {
        let eventContext = EventContext(instant: now, wall: wall, chance: fixedChance ?? numbers.chance())
        for action in session.handle(event, at: eventContext, &context) {
            switch action {
            case .login(let call), .refresh(_, let call): calls.append(call)
            case .revoke(let token): revoked.append(token)
            case .publish(let news):
                availability = news
                publications += 1
            case .logEvent(let logEvent): logEvents.append(logEvent)
            }
            onAction(action)
        }
    }

    /// Moves both clocks without an event.
    func pass(_ seconds: Double) {
        now = now + .seconds(seconds)
        wall = wall + .seconds(seconds)
    }

    /// Moves the clocks to the session's next deadline and sends `.due`.
    func toDue() {
        let rest = due - now
        if rest > .zero {
            now = now + rest
            wall = wall + rest
        }
        handle(.due)
    }

    /// Goes on to the next call, at most so many deadlines away.
    func toCall(_ deadlines: Int = 20) {
        for _ in 0..<deadlines where call == nil { toDue() }
    }

    func grant(
        _ lifetime: Duration = .seconds(1800), refresh: String? = nil, refreshExpiry: WallTime? = nil,
        account: String? = nil, date: WallTime? = nil
    ) throws {
        let call = try #require(call)
        handle(
            .granted(
                Self.grant(lifetime, refresh: refresh, refreshExpiry: refreshExpiry, account: account, date: date), call
            ))
    }

    func fail(_ verdict: IdentityError.Verdict) throws {
        handle(.failed(IdentityError(verdict, message: "planned"), try #require(call)))
    }

    /// Logs in: `valid` afterwards.
    func logIn(_ lifetime: Duration = .seconds(1800), refreshExpiry: WallTime? = nil) throws {
        handle(.logIn)
        try grant(lifetime, refresh: "refresh", refreshExpiry: refreshExpiry, account: "a")
    }

    /// Gets a session without having logged in.
    func adopt(_ lifetime: Duration = .seconds(1800), refresh: String? = "refresh", refreshExpiry: WallTime? = nil) {
        let tokens = SessionTokens(
            Self.grant(lifetime, refresh: refresh, refreshExpiry: refreshExpiry),
            generation: context.resume(generation: 1), accountID: "a",
            account: context.restoreAccount(.userID("a"), continuesSession: false), startedAt: now, startedAtWall: wall,
            keeping: (nil, nil), skew: context.skew ?? .zero,
            settings: context.settings)
        handle(.restored(tokens, .init(isTrusted: true, isUrgent: false, spread: 0, isAdopted: true)))
    }

    static func grant(
        _ lifetime: Duration = .seconds(1800), refresh: String? = nil, refreshExpiry: WallTime? = nil,
        account: String? = nil, date: WallTime? = nil
    ) -> Grant {
        Grant(
            accessToken: Tokens.secret("access"), refreshToken: refresh.map(Tokens.secret), userID: account,
            lifetime: lifetime, refreshTokenExpiry: refreshExpiry, serverDate: date)
    }

    // MARK: What the shards are told

    var token: AccessToken? { if case .token(let token)? = availability { token } else { nil } }
    var refusal: AccessToken.Refusal? { if case .none(let refusal)? = availability { refusal } else { nil } }
    var isPending: Bool { if case .pending? = availability { true } else { false } }
}
