import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// Rule 17: a second call beside one that has no response, while requests wait, and another one in its place.
@Suite("Coordinator: second calls")
struct SecondCallTests {
    private static let variant = TokenVariant(audience: "orders")

    /// A first login that has no response; a request waits for it.
    private static func loggingIn(
        _ login: UserSettings.Login = .clientCredentials, allows: Bool = true
    ) -> CoordinatorDriver {
        let driver = CoordinatorDriver(login: login, allowsSecondCall: allows)
        driver.begin()
        driver.handle(.session(.tokenNeeded))
        return driver
    }

    private static func seconds(_ driver: CoordinatorDriver) -> Int { driver.trail.count { $0 == "second" } }

    private static func pass(_ seconds: Double, _ driver: CoordinatorDriver) {
        driver.pass(seconds)
        driver.handle(.due)
    }

    @Test(
        "Rule 17: two seconds after the first call of a login at a start, while a request waits; it is part of the attempt"
    )
    func start() throws {
        let driver = Self.loggingIn()
        #expect(driver.coordinator.due == driver.now + .seconds(2))
        Self.pass(1.999, driver)
        #expect(Self.seconds(driver) == 0)
        Self.pass(0.001, driver)
        #expect(Self.seconds(driver) == 1 && driver.calls.count == 1, "the attempt is one call")
        try driver.grant()
        #expect(driver.state == .valid)
        // The next attempt may have one again.
        driver.toCall()
        driver.toDue(until: { driver.token == nil || driver.now >= driver.token!.usableUntil })
        driver.pass(60)
        driver.handle(.session(.tokenNeeded))
        driver.toDue()
        #expect(Self.seconds(driver) == 2)
    }

    @Test("Rule 17: without a request none is made; a request that comes later has it made at once")
    func noRequest() {
        let driver = CoordinatorDriver(login: .clientCredentials, allowsSecondCall: true)
        driver.begin()
        Self.pass(10, driver)
        #expect(Self.seconds(driver) == 0)
        driver.handle(.session(.tokenNeeded))
        #expect(driver.coordinator.due <= driver.now)
        driver.handle(.due)
        #expect(Self.seconds(driver) == 1)
    }

    @Test(
        "Rule 17: only for logins in which nothing works once and nothing is counted against a person",
        arguments: [
            (.clientCredentials, true), (.signedAssertion(key: "/k"), true), (.googleKey("/k"), true),
            (.gitHubApp, true), (.emailPassword(email: "a", password: "/p"), false), (.apiKey("/k"), false),
            (.function(payload: "/p"), false), (.jwt("/j"), false), (.facebook(accessToken: "/f"), false),
            (.googleIDToken("/g"), false), (.googleAuthCode("/g"), false), (.apple(idToken: "/a"), false),
            (.password(username: "a", "/p"), false), (.refreshToken("/r"), false), (.jwtBearer(assertion: "/j"), false),
            (.tokenExchange(subjectToken: "/t"), false), (.anonymous, false),
        ] as [(UserSettings.Login, Bool)])
    func logins(_ login: UserSettings.Login, _ isRepeated: Bool) {
        let driver = Self.loggingIn(login)
        Self.pass(5, driver)
        Self.pass(5, driver)
        #expect(Self.seconds(driver) == (isRepeated ? 2 : 0))
        let other = Self.loggingIn(login, allows: false)
        Self.pass(5, other)
        #expect(Self.seconds(other) == 0, "the service does not allow it")
    }

    /// A refresh without a response, whose token has ended; a request waits.
    private static func refreshing(_ rotation: RefreshTokenRotation) throws -> CoordinatorDriver {
        let driver = CoordinatorDriver(rotation: rotation, allowsSecondCall: true)
        try driver.logIn()
        driver.toCall()
        let end = try #require(driver.coordinator.session.tokens?.usableUntil)
        driver.pass((end - driver.now).inSeconds + 0.001)
        driver.handle(.session(.tokenNeeded))
        driver.handle(.due)
        return driver
    }

    @Test(
        "Rule 17: a refresh token is sent twice at once only where none is ever replaced",
        arguments: [
            (RefreshTokenRotation.none, true), (.auto, false), (.grace, false), (.oneUse, false),
        ])
    func rotations(_ rotation: RefreshTokenRotation, _ isRepeated: Bool) throws {
        let driver = try Self.refreshing(rotation)
        #expect(Self.seconds(driver) == (isRepeated ? 1 : 0))
    }

    @Test("Rule 17: none while requests use the token, also after a request that waited before")
    func usable() throws {
        let driver = CoordinatorDriver(allowsSecondCall: true)
        try driver.logIn()
        driver.toCall()
        driver.handle(.session(.tokenNeeded))
        Self.pass(3, driver)
        #expect(Self.seconds(driver) == 0)
        let waitsFrom = try #require(driver.coordinator.session.tokens?.mandatoryFrom)
        #expect(driver.coordinator.due <= waitsFrom)
    }

    @Test("Rule 17: from the mandatory zone on, at the first request that waits")
    func mandatory() throws {
        let driver = CoordinatorDriver(allowsSecondCall: true)
        try driver.logIn()
        driver.toCall()
        let tokens = try #require(driver.coordinator.session.tokens)
        Self.pass((tokens.mandatoryFrom - driver.now).inSeconds + 0.001, driver)
        #expect(Self.seconds(driver) == 0 && tokens.usableUntil > driver.now)
        driver.handle(.session(.tokenNeeded))
        driver.handle(.due)
        #expect(Self.seconds(driver) == 1)
    }

    @Test("Rule 4: a call that began before the mandatory zone: requests use the token until the second one is made")
    func served() throws {
        for (rotation, wait) in [(RefreshTokenRotation.none, 2.0), (.grace, 1.2)] {
            let driver = CoordinatorDriver(rotation: rotation, allowsSecondCall: true)
            driver.chance = 0
            try driver.logIn(.seconds(12))
            driver.toCall()
            let (start, tokens) = (driver.now, try #require(driver.coordinator.session.tokens))
            #expect(abs((tokens.mandatoryFrom - start).inSeconds - 1.2) < 0.01)
            let waitsFrom = driver.coordinator.session.waitsFrom(driver.coordinator.context)
            #expect(abs((waitsFrom - start).inSeconds - wait) < 0.01, "\(rotation)")
            #expect(driver.token?.waitsFrom == waitsFrom, "the shards know of it")
            Self.pass((waitsFrom - start).inSeconds + 0.001, driver)
            #expect(Self.seconds(driver) == 0)
            driver.handle(.session(.tokenNeeded))
            driver.handle(.due)
            #expect(Self.seconds(driver) == (rotation == .none ? 1 : 0))
        }
    }

    @Test(
        "Rule 2: a renewal that may get a second call is due so early that this one ends before a request has to wait",
        arguments: [
            // Seconds of the lifetime, chance, the seconds after which it is due: a tenth of a long one; up to 2 s before the zone;
            // a fortieth.
            (1800, 0, 1170), (1800, 0.999_999, 1350), (60, 0, 39), (60, 0.999_999, 43), (30, 0.999_999, 20.5),
            (12, 0, 7.8), (12, 0.999_999, 8.1),
        ] as [(Int, Double, Double)])
    func schedule(_ lifetime: Int, _ chance: Double, _ due: Double) throws {
        for (rotation, allows) in [(RefreshTokenRotation.none, true), (.grace, true), (.none, false)] {
            let driver = CoordinatorDriver(rotation: rotation, allowsSecondCall: allows)
            driver.chance = chance
            try driver.logIn(.seconds(lifetime))
            let start = driver.now
            driver.toCall()
            let expected = rotation == .none && allows ? due : Double(lifetime) * (0.65 + 0.1 * chance)
            #expect(abs((driver.now - start).inSeconds - expected) < 0.01, "\(rotation), \(allows)")
            guard rotation == .none, allows, lifetime >= 30 else { continue }
            let tokens = try #require(driver.coordinator.session.tokens)
            driver.handle(.session(.tokenNeeded))
            Self.pass((tokens.mandatoryFrom - driver.now).inSeconds + 0.001, driver)
            #expect(Self.seconds(driver) == 1, "the first request that waits has it made")
        }
        // The configured login is that of the client.
        let driver = CoordinatorDriver(login: .clientCredentials, rotation: .grace, allowsSecondCall: true)
        driver.chance = chance
        driver.begin()
        try driver.grant(.seconds(lifetime))
        let start = driver.now
        driver.toCall()
        #expect(abs((driver.now - start).inSeconds - due) < 0.01)
    }

    @Test("Rule 17: while requests wait for another token than the one that an upstream has refused")
    func forced() throws {
        let driver = CoordinatorDriver(allowsSecondCall: true)
        try driver.logIn()
        driver.pass(60)
        let token = try #require(driver.token)
        driver.handle(.session(.tokenRefused(Generation(token.generation))))
        driver.handle(.session(.tokenNeeded))
        #expect(driver.call?.cause == .forced)
        Self.pass(1.999, driver)
        #expect(Self.seconds(driver) == 0)
        Self.pass(0.001, driver)
        #expect(Self.seconds(driver) == 1)
    }

    @Test(
        "Rule 17: not after the service has asked for a pause",
        arguments: [
            (429, nil, false), (503, nil, false), (nil, .seconds(1), false), (500, nil, true), (nil, nil, true),
        ] as [(Int?, Duration?, Bool)])
    func pause(_ status: Int?, _ retryAfter: Duration?, _ isRepeated: Bool) throws {
        let driver = Self.loggingIn()
        let call = try #require(driver.call)
        let error = IdentityError(.transient(retryAfter: retryAfter), status: status, message: "planned")
        driver.handle(.callCompleted(.failure(error), call))
        driver.toCall()
        driver.handle(.session(.tokenNeeded))
        Self.pass(5, driver)
        #expect(Self.seconds(driver) == (isRepeated ? 1 : 0) && driver.calls.count == 2)
    }

    @Test("Rule 17: one of an identity in a second: a postponed one is asked for again, and then made")
    func postponed() throws {
        let driver = Self.loggingIn()
        Self.pass(2, driver)
        let number = try #require(driver.call).number
        driver.handle(.secondCallPostponed(until: driver.now + .seconds(0.5), operation: number))
        Self.pass(0.25, driver)
        #expect(Self.seconds(driver) == 1)
        Self.pass(0.25, driver)
        #expect(Self.seconds(driver) == 2)
        driver.handle(.secondCallPostponed(until: driver.now, operation: number + 1))
        Self.pass(4.75, driver)
        #expect(Self.seconds(driver) == 2, "of another operation")
    }

    @Test(
        "Rule 17: while there is no response another second call takes the place of the one before every five seconds")
    func renewed() throws {
        let driver = Self.loggingIn()
        Self.pass(2, driver)
        for count in 2...5 {
            Self.pass(4.5, driver)
            #expect(Self.seconds(driver) == count - 1)
            Self.pass(0.5, driver)
            #expect(Self.seconds(driver) == count)
        }
        #expect(driver.calls.count == 1, "the first call is never cut short: a slow service may respond to it")
        try driver.grant()
        #expect(driver.state == .valid && driver.coordinator.due > driver.now + .seconds(5))
    }

    @Test(
        "Rule 17: of a service that is slow, four times as late as its recent responses, but not after half of the attempt",
        arguments: [(1, 5), (2, 8), (3, 12), (9, 15)])
    func slow(_ responseTime: Double, _ interval: Double) throws {
        let driver = CoordinatorDriver(allowsSecondCall: true)
        driver.begin()
        driver.pass(responseTime)
        try driver.grant(refresh: "one", account: "a")
        driver.toCall()
        let end = try #require(driver.coordinator.session.tokens?.usableUntil)
        Self.pass((end - driver.now).inSeconds + 0.001, driver)
        driver.handle(.session(.tokenNeeded))
        driver.handle(.due)
        #expect(Self.seconds(driver) == 1)
        for (time, count) in [(interval - 0.5, 1), (0.5, 2)] {
            Self.pass(time, driver)
            driver.handle(.session(.tokenNeeded))
            driver.handle(.due)
            #expect(Self.seconds(driver) == count)
        }
    }

    @Test("Rule 17: another one only if a request has wanted the token since the last publication")
    func unwanted() throws {
        let driver = try Self.refreshing(.none)
        #expect(Self.seconds(driver) == 1)
        // Requests are refused from now on, until one asks again.
        Self.pass(5, driver)
        #expect(driver.state == .unreachable)
        Self.pass(5, driver)
        #expect(Self.seconds(driver) == 1)
        driver.handle(.session(.tokenNeeded))
        driver.handle(.due)
        #expect(Self.seconds(driver) == 2)
    }

    @Test("Rule 17: once another session has had a response: at once, but not within two seconds of the call before")
    func released() throws {
        let driver = Self.loggingIn()
        Self.pass(1, driver)
        driver.handle(.serviceReturned(after: .seconds(0.02)))
        Self.pass(0.999, driver)
        #expect(Self.seconds(driver) == 0)
        Self.pass(0.001, driver)
        #expect(Self.seconds(driver) == 1)
        Self.pass(2, driver)
        driver.handle(.serviceReturned(after: .seconds(0.02)))
        Self.pass(0.019, driver)
        #expect(Self.seconds(driver) == 1 && driver.coordinator.awaitsResponse)
        Self.pass(0.001, driver)
        #expect(Self.seconds(driver) == 2 && driver.calls.count == 1)
        // Nothing is brought forward that is not made.
        let other = Self.loggingIn(.password(username: "a", "/p"))
        Self.pass(3, other)
        other.handle(.serviceReturned(after: .zero))
        Self.pass(1, other)
        #expect(Self.seconds(other) == 0 && !other.coordinator.awaitsResponse)
    }

    @Test("Rule 17: none after a logout, and none once the process ends", arguments: [false, true])
    func ended(isStop: Bool) throws {
        let driver = Self.loggingIn()
        if isStop { driver.handle(.drain) } else { driver.terminate(.logOut, ticket: 1) }
        driver.handle(.session(.tokenNeeded))
        Self.pass(5, driver)
        #expect(Self.seconds(driver) == 0)
    }

    @Test("Rule 17: an operator's login has none, and a setting switches it off")
    func notWanted() throws {
        let driver = Self.loggingIn()
        var setup = driver.coordinator.setup
        setup.refresh.secondCallAfter = nil
        driver.handle(.reconfigured(setup, isCredentialNew: false))
        try driver.fail(.transient(retryAfter: nil))
        driver.toCall()
        driver.handle(.session(.tokenNeeded))
        Self.pass(5, driver)
        #expect(Self.seconds(driver) == 0)
        let other = CoordinatorDriver(hasCredential: false, allowsSecondCall: true)
        other.begin()
        other.login(.given(.clientCredentials), ticket: 1)
        other.handle(.session(.tokenNeeded))
        Self.pass(5, other)
        #expect(Self.seconds(other) == 0 && other.call != nil)
    }

    @Test("Rule 17: the fetch of a variant that a request wants, and not of one that waits for its schedule")
    func variants() throws {
        let driver = CoordinatorDriver(
            login: .clientCredentials, variants: [Self.variant], allowsSecondCall: true)
        driver.begin()
        try driver.grant()
        #expect(driver.call?.variant == Self.variant)
        Self.pass(5, driver)
        #expect(Self.seconds(driver) == 0)
        driver.handle(.variant(UserIndex(1), .tokenNeeded))
        driver.handle(.due)
        #expect(Self.seconds(driver) == 1)
    }
}

/// Rule 17: which of two calls gives an attempt its result.
@Suite struct CallPairTests {
    private static func grant(_ token: String) -> Result<Grant, IdentityError> {
        .success(
            Grant(
                accessToken: Tokens.secret(token), refreshToken: nil, userID: nil, lifetime: .seconds(60),
                refreshTokenExpiry: nil, serverDate: nil))
    }

    private static func error(
        _ verdict: IdentityError.Verdict, _ status: Int? = nil, _ message: String = "x"
    ) -> Result<Grant, IdentityError> { .failure(IdentityError(verdict, status: status, message: message)) }

    /// What follows of a result: a word, the token, or the error's message.
    private static func ask(
        _ pair: inout CallPair, _ member: CallPair.Member, _ result: Result<Grant, IdentityError>,
        hasTime: Bool = true
    ) -> String {
        switch pair.handle(result, of: member, hasTime: hasTime) {
        case .wait: "wait"
        case .drop: "drop"
        case .finish(.success(let grant)): Tokens.text(grant.accessToken) ?? ""
        case .finish(.failure(let error)): error.message
        }
    }

    private static func pair() -> CallPair {
        var pair = CallPair()
        let isBegun = pair.beginSecond()
        #expect(isBegun)
        return pair
    }

    @Test("Rule 17: another second call takes the place of the one before, whose result is dropped")
    func replaced() {
        var pair = Self.pair()
        let isBegun = pair.beginSecond()
        #expect(isBegun)
        #expect(Self.ask(&pair, .replaced, Self.grant("late")) == "drop")
        #expect(Self.ask(&pair, .replaced, Self.error(.clientRefused, 401)) == "drop")
        #expect(Self.ask(&pair, .second, Self.grant("second")) == "second")
    }

    @Test(
        "Rule 17: after a second call that has had no response another one may follow, but not after the service's word",
        arguments: [
            (.transient(retryAfter: nil), nil, true), (.unknownOutcome, nil, true),
            (.transient(retryAfter: nil), 502, true),
            (.transient(retryAfter: nil), 429, false), (.transient(retryAfter: nil), 503, false),
            (.transient(retryAfter: .seconds(1)), nil, false), (.clientRefused, 401, false),
        ] as [(IdentityError.Verdict, Int?, Bool)])
    func afterSecond(_ verdict: IdentityError.Verdict, _ status: Int?, _ mayFollow: Bool) {
        var pair = Self.pair()
        #expect(Self.ask(&pair, .second, Self.error(verdict, status)) == "wait")
        #expect(pair.maySendSecond == mayFollow)
        let isBegun = pair.beginSecond()
        #expect(isBegun == mayFollow)
        // Once the first has failed, only the second is waited for.
        var other = Self.pair()
        #expect(Self.ask(&other, .first, Self.error(.unknownOutcome)) == "wait")
        #expect(!other.maySendSecond)
    }

    @Test(
        "Rule 17: a first call without a response is given up after the service has asked the second for a pause, and only then",
        arguments: [
            (.transient(retryAfter: nil), 503, true), (.transient(retryAfter: nil), 429, true),
            (.transient(retryAfter: .seconds(9)), 400, true), (.transient(retryAfter: nil), 502, false),
            (.clientRefused, 400, false), (.credentialRefused, 401, false), (.unknownOutcome, nil, false),
        ] as [(IdentityError.Verdict, Int?, Bool)])
    func givenUp(_ verdict: IdentityError.Verdict, _ status: Int?, _ isGivenUp: Bool) {
        var pair = Self.pair()
        let early = pair.giveUpFirst()
        #expect(early == nil, "both are open")
        #expect(Self.ask(&pair, .second, Self.error(verdict, status)) == "wait")
        let error = pair.giveUpFirst()
        #expect(error?.message == (isGivenUp ? "x" : nil))
        #expect(Self.ask(&pair, .first, Self.grant("first")) == (isGivenUp ? "drop" : "first"))
        let late = pair.giveUpFirst()
        #expect(late == nil, "the attempt has ended")
    }

    @Test("Rule 17: the first token counts, and a later one is dropped", arguments: [true, false])
    func tokens(isFirst: Bool) {
        var pair = Self.pair()
        let (winner, loser): (CallPair.Member, CallPair.Member) = isFirst ? (.first, .second) : (.second, .first)
        #expect(Self.ask(&pair, winner, Self.grant("won")) == "won")
        #expect(Self.ask(&pair, loser, Self.grant("late")) == "drop")
        let isBegun = pair.beginSecond()
        #expect(!isBegun)
    }

    @Test("Rule 17: without a second call every result is that of the attempt")
    func alone() {
        var pair = CallPair()
        #expect(Self.ask(&pair, .first, Self.error(.transient(retryAfter: nil))) == "x")
        let isBegun = pair.beginSecond()
        #expect(!isBegun, "the attempt has ended")
        var other = CallPair()
        #expect(Self.ask(&other, .first, Self.grant("one")) == "one")
    }

    @Test(
        "Rule 17: what the service says to the first call counts at once; without a response the second is waited for",
        arguments: [
            (.clientRefused, nil, false), (.sessionDead, 401, false), (.credentialRefused, 400, false),
            (.gone, 410, false), (.unknownApp, 404, false), (.transient(retryAfter: nil), 429, false),
            (.transient(retryAfter: nil), 503, false), (.transient(retryAfter: .seconds(3)), 400, false),
            (.transient(retryAfter: nil), nil, true), (.transient(retryAfter: nil), 500, true),
            (.unknownOutcome, nil, true), (.credentialDoubted, 401, true),
        ] as [(IdentityError.Verdict, Int?, Bool)])
    func firstFails(_ verdict: IdentityError.Verdict, _ status: Int?, _ waits: Bool) {
        var pair = Self.pair()
        #expect(Self.ask(&pair, .first, Self.error(verdict, status)) == (waits ? "wait" : "x"))
        #expect(Self.ask(&pair, .second, Self.grant("second")) == (waits ? "second" : "drop"))
    }

    @Test(
        "Rule 17: a second call that fails first changes nothing, as at a service that takes one call at a time",
        arguments: [
            (.clientRefused, 400), (.transient(retryAfter: .seconds(9)), 429), (.transient(retryAfter: nil), 409),
        ] as [(IdentityError.Verdict, Int)])
    func secondFails(_ verdict: IdentityError.Verdict, _ status: Int) {
        var pair = Self.pair()
        #expect(Self.ask(&pair, .second, Self.error(verdict, status)) == "wait")
        #expect(Self.ask(&pair, .second, Self.error(verdict, status)) == "drop")
        #expect(Self.ask(&pair, .first, Self.grant("first")) == "first")
    }

    @Test(
        "Rule 17: both fail: what the service has said, else what the first has met; the time of the attempt ends both")
    func bothFail() {
        let lost = Self.error(.unknownOutcome, nil, "lost")
        let refused = Self.error(.clientRefused, 401, "refused")
        for (first, second, expected) in [
            (lost, Self.error(.transient(retryAfter: nil), nil, "second"), "lost"), (lost, refused, "refused"),
        ] {
            var pair = Self.pair()
            #expect(Self.ask(&pair, .first, first) == "wait")
            #expect(Self.ask(&pair, .second, second) == expected)
            var other = Self.pair()
            #expect(Self.ask(&other, .second, second) == "wait")
            #expect(Self.ask(&other, .first, first) == expected)
        }
        var pair = Self.pair()
        #expect(Self.ask(&pair, .first, lost, hasTime: false) == "lost")
        #expect(Self.ask(&pair, .second, Self.grant("late")) == "drop")
    }
}
