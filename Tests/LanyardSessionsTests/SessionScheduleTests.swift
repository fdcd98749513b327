import Glibc
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

@Suite("Session: time")
struct SessionScheduleTests {
    /// The probability of at least this distance, if the fractions are uniform in 0 ..< 1 (Kolmogorov–Smirnov).
    private static func pValue(_ fractions: [Double]) -> Double {
        let n = Double(fractions.count)
        var distance = 0.0
        for (place, value) in fractions.sorted().enumerated() {
            distance = max(distance, Double(place + 1) / n - value, value - Double(place) / n)
        }
        let lambda = (n.squareRoot() + 0.12 + 0.11 / n.squareRoot()) * distance
        var sum = 0.0
        for k in 1...100 {
            let term: Double = exp(-2 * Double(k * k) * lambda * lambda)
            sum += k % 2 == 1 ? term : -term
        }
        return min(max(2 * sum, 0), 1)
    }

    @Test("Rule 2: refresh instants are uniform over 65 to 75 % of the lifetime", arguments: [2, 20, 1800, 86_400])
    func uniform(_ lifetime: Int) throws {
        let driver = SessionDriver(chance: nil, seed: UInt64(lifetime))
        try driver.logIn(.seconds(lifetime))
        var fractions: [Double] = []
        for _ in 0..<4000 {
            let issued = try #require(driver.calls.last).startedAt
            driver.toDue()
            let part = (driver.now - issued).inSeconds / Double(lifetime)
            #expect(part >= 0.65 - 1e-9 && part <= 0.75 + 1e-9)
            fractions.append((part - 0.65) / 0.1)
            try driver.grant(.seconds(lifetime))
        }
        #expect(Self.pValue(fractions) > 0.01)
        #expect(driver.calls.count == 4001)
    }

    @Test("the test of uniformity would see a lopsided schedule")
    func lopsided() {
        var numbers = SeededGenerator(7)
        let squares = (0..<4000).map { _ in pow(numbers.chance(), 1.2) }
        #expect(Self.pValue(squares) < 0.01)
    }

    @Test(
        "Rule 2: refresh, mandatory zone and end come in this order at every lifetime, wherever the schedule is put",
        arguments: [2.0, 2.5, 20, 60, 300, 1800, 86_400, 1e8], [0.65...0.75, 0.1...0.2, 0.9...0.95, 0...1, 0.8...0.8])
    func order(_ lifetime: Double, _ part: ClosedRange<Double>) {
        var settings = RefreshSettings()
        settings.at = part
        for chance in [0, 0.5, 0.999_999] {
            let driver = SessionDriver(settings: settings, chance: chance)
            let issued = driver.now
            driver.adopt(.seconds(lifetime))
            let tokens = driver.tokens!
            let end = issued + .seconds(lifetime)
            #expect(issued <= driver.due && driver.due <= tokens.mandatoryFrom)
            #expect(tokens.mandatoryFrom < tokens.usableUntil && tokens.usableUntil < end)
            #expect(end - tokens.mandatoryFrom <= .seconds(60))
            #expect((end - tokens.mandatoryFrom).inSeconds <= lifetime / 4 + 1e-6)
        }
    }

    @Test(
        "Rule 13: the skew allowance is at least 5 s, at most 120 s and a tenth of the lifetime",
        arguments: [(2, 0, 0.2), (20, 0, 2), (1800, 0, 5), (1800, -40, 40), (1800, 300, 120), (600, 300, 60)])
    func allowance(_ lifetime: Int, _ skew: Int, _ expected: Double) {
        let allowance = ClockPolicy(RefreshSettings()).allowance(lifetime: .seconds(lifetime), skew: .seconds(skew))
        #expect(abs(allowance.inSeconds - expected) < 1e-9)
    }

    @Test("Rule 13: the skew is learned from the service's clock, smoothed, and warned of above 30 s")
    func skew() throws {
        let driver = SessionDriver()
        driver.handle(.logIn)
        try driver.grant(refresh: "r", date: driver.wall + .seconds(99.5))
        #expect(abs(try #require(driver.context.skew).inSeconds - 100) < 0.001)
        #expect(driver.logEvents.contains { $0.event == .skewed })
        let tokens = try #require(driver.tokens)
        #expect(abs((tokens.usableUntil - driver.now).inSeconds - 1700) < 0.001)
        #expect(tokens.mandatoryFrom <= tokens.usableUntil)
        driver.toDue()
        try driver.grant(date: driver.wall + .seconds(95.5))
        #expect(abs(try #require(driver.context.skew).inSeconds - 99) < 0.001)
    }

    @Test("Rule 13: a large difference is taken at once, in both directions, and the log has the number")
    func skewAtOnce() throws {
        let driver = SessionDriver()
        driver.handle(.logIn)
        try driver.grant(refresh: "r", date: driver.wall + .seconds(-0.5))
        #expect(!driver.logEvents.contains { $0.event == .skewed })
        for seconds in [3600, -7200, 0, 40] {
            driver.toDue()
            try driver.grant(date: driver.wall + .seconds(Double(seconds) - 0.5))
            #expect(abs(try #require(driver.context.skew).inSeconds - Double(seconds)) < 0.001)
        }
        let told = driver.logEvents.filter { $0.event == .skewed }
        #expect(told.map(\.skewSeconds) == [3600, -7200, 40])
        #expect(told.map(\.message).first == "the service's clock is 3600 s ahead of this machine's")
        #expect(told.map(\.message)[1] == "the service's clock is 7200 s behind this machine's")
    }

    @Test("Rule 1: a token's lifetime counts from before the request was sent")
    func basis() throws {
        let driver = SessionDriver()
        driver.handle(.logIn)
        let sent = driver.now
        driver.pass(20)
        try driver.grant(.seconds(100), refresh: "r")
        #expect(driver.token?.usableUntil == sent + .seconds(95))
    }

    @Test("a response that took longer than its token lives is never served")
    func lateToken() throws {
        let driver = SessionDriver()
        driver.handle(.logIn)
        driver.pass(3)
        try driver.grant(.seconds(2), refresh: "r")
        #expect(driver.state == .unreachable && driver.token == nil)
        driver.toDue()
        // The refresh token is still good.
        #expect(driver.call?.kind == .refresh)
        try driver.grant(.seconds(2))
        #expect(driver.state == .valid && driver.token != nil)
    }

    @Test("Rule 3: failures back off with full jitter from 1 s to 60 s, in the mandatory zone to 30 s")
    func backOff() throws {
        let driver = SessionDriver(chance: 0.999_999)
        driver.adopt(.seconds(86_400))
        driver.toDue()
        var waits: [Double] = []
        for _ in 0..<9 {
            try driver.fail(.transient(retryAfter: nil))
            waits.append(driver.dueIn.rounded())
            driver.toDue()
        }
        #expect(waits == [1, 2, 4, 8, 16, 32, 60, 60, 60])
        driver.pass(86_400 - 30 - (driver.now - driver.calls[0].startedAt).inSeconds - 0.75 * 86_400)
        try driver.fail(.transient(retryAfter: nil))
        #expect((try #require(driver.retryState?.nextAttemptAt) - driver.now).inSeconds.rounded() == 30)
        driver.fixedChance = 0
        driver.toCall()
        try driver.fail(.transient(retryAfter: nil))
        #expect(driver.dueIn == 0.25)
    }

    @Test("Rule 3: Retry-After is honoured up to the mandatory zone, then 30 s at most")
    func retryAfter() throws {
        let driver = SessionDriver(chance: 0)
        driver.adopt()
        driver.toDue()
        try driver.fail(.transient(retryAfter: .seconds(120)))
        #expect(driver.dueIn == 120)
        driver.toDue()
        try driver.fail(.transient(retryAfter: .seconds(3600)))
        #expect(driver.due == driver.tokens?.mandatoryFrom)
        driver.toDue()
        try driver.fail(.transient(retryAfter: .seconds(3600)))
        #expect(driver.dueIn == 30)
        driver.toDue()
        #expect(driver.call != nil)
    }

    private static func doubt(_ seconds: Int64?) -> IdentityError {
        var error = IdentityError(.credentialDoubted, message: "planned")
        error.retryAfter = seconds.map { .seconds($0) }
        return error
    }

    @Test(
        "Rules 3 and 4: the Retry-After of a doubtful refusal is honoured within the same bounds, and cancels none without one"
    )
    func retryAfterOfDoubt() throws {
        let driver = SessionDriver(chance: 0)
        driver.adopt()
        driver.toDue()
        driver.handle(.failed(Self.doubt(6), try #require(driver.call)))
        driver.handle(.tokenNeeded)
        #expect(driver.dueIn == 6 && driver.state == .stale)
        driver.toDue()
        // The second one, half a minute later, is a refusal all the same.
        driver.handle(.failed(Self.doubt(120), try #require(driver.call)))
        #expect(driver.dueIn == 120)
        driver.toDue()
        let call = try #require(driver.call)
        driver.handle(.failed(Self.doubt(20), call))
        #expect(driver.logEvents.contains { $0.event == .dead } && driver.call == nil && driver.dueIn == 20)
        driver.toDue()
        #expect(driver.call?.kind == .login)
        let first = SessionDriver(chance: 0)
        first.handle(.logIn)
        first.handle(.failed(Self.doubt(3600), try #require(first.call)))
        first.handle(.tokenNeeded)
        #expect(first.dueIn == 30 && !first.session.wantsProbe(at: first.now))
        first.toDue()
        first.handle(.failed(Self.doubt(nil), try #require(first.call)))
        #expect(first.state == .refused, "a second one half a minute later")
    }

    @Test(
        "Rule 4: while requests come in the unreachable state, the session asks when its turn comes, and they cause no call"
    )
    func wanted() throws {
        let driver = try SessionTransitionTests.driver(in: .unreachable)
        driver.fixedChance = 0.999
        for _ in 0..<8 {
            driver.toDue()
            try driver.fail(.transient(retryAfter: nil))
        }
        #expect(driver.dueIn > 20 && !driver.session.wantsProbe(at: driver.now))
        #expect(
            driver.refusal == .identityUnreachable(nextAttemptAt: driver.now + .seconds(1), because: "planned"),
            "a request that comes again has the service asked")
        let (calls, due, publications) = (driver.calls.count, driver.due, driver.publications)
        driver.handle(.tokenNeeded)
        #expect(driver.calls.count == calls && driver.due == due && driver.publications == publications)
        #expect(driver.session.wantsProbe(at: driver.now))
        driver.handle(.probe)
        #expect(driver.calls.count == calls + 1 && driver.state == .unreachable)
        #expect(!driver.session.wantsProbe(at: driver.now))
        try driver.fail(.transient(retryAfter: nil))
        #expect(!driver.session.wantsProbe(at: driver.now), "no request has come since")
        driver.handle(.serviceReturned(after: .seconds(3)))
        #expect(driver.dueIn == 3)
        driver.handle(.serviceReturned(after: .seconds(5)))
        #expect(driver.dueIn == 3)
    }

    @Test(
        "Rule 4: Retry-After, 429, 410 and an unusable login keep their times: the session does not ask, and is not released",
        arguments: ["retry_after", "429", "gone", "unusable"])
    func keepsTime(_ kind: String) throws {
        let driver = try SessionTransitionTests.driver(in: kind == "unusable" ? .loggingIn : .unreachable)
        driver.fixedChance = 0.999
        driver.toCall()
        var error = IdentityError(.transient(retryAfter: nil), message: "planned")
        switch kind {
        case "retry_after": error.verdict = .transient(retryAfter: .seconds(25))
        case "429": error.status = 429
        case "gone": error.verdict = .gone
        default: error.hasMadeSession = true
        }
        driver.handle(.failed(error, try #require(driver.call)))
        driver.handle(.tokenNeeded)
        let due = driver.due
        #expect(!driver.session.wantsProbe(at: driver.now))
        let calls = driver.calls.count
        driver.handle(.probe)
        driver.handle(.serviceReturned(after: .zero))
        #expect(driver.calls.count == calls && driver.due == due)
    }

    @Test(
        "Rule 4: a doubtful refusal is repeated by its own times, at most 10 s away while requests come",
        arguments: [0, 0.999])
    func doubted(_ chance: Double) throws {
        let driver = SessionDriver(chance: chance)
        driver.handle(.logIn)
        try driver.fail(.credentialDoubted)
        for _ in 0..<6 { driver.pass(0.001) }
        driver.handle(.tokenNeeded)
        #expect(!driver.session.wantsProbe(at: driver.now) && driver.dueIn <= 10)
    }

    @Test(
        "Rule 4: a request that brings the next attempt forward is told its new time, and the next request the same",
        arguments: [
            (IdentityError.Verdict.credentialDoubted, nil as Int?), (.transient(retryAfter: nil), 429),
            (.credentialDelayed, nil),
        ], [0.02, 0.4, 0.999])
    func told(_ failure: (IdentityError.Verdict, Int?), _ chance: Double) throws {
        let driver = SessionDriver(chance: 0.999)
        driver.handle(.logIn)
        for _ in 0..<8 where driver.state == .loggingIn {
            if driver.call == nil { driver.toDue() }
            driver.fixedChance = chance
            var error = IdentityError(failure.0, status: failure.1, message: "planned")
            error.responsible = failure.1 == nil ? nil : .operator
            driver.handle(.failed(error, try #require(driver.call)))
        }
        guard driver.state == .loggingIn, case .identityUnreachable(let planned, _, _, let requested?)? = driver.refusal
        else { return }
        driver.fixedChance = 0.5
        driver.pass(0.25)
        let told = requested.instant(insteadOf: planned, at: driver.now)
        driver.handle(.tokenNeeded)
        #expect(told == driver.due && told <= planned)
        guard case .identityUnreachable(let next, _, _, let again?)? = driver.refusal else {
            Issue.record("\(String(describing: driver.refusal))")
            return
        }
        #expect(again.instant(insteadOf: next, at: driver.now + .milliseconds(1)) == told)
    }

    @Test("Rule 4: requests wait from the mandatory zone on while an attempt is in progress, and not between attempts")
    func waits() throws {
        let driver = try SessionTransitionTests.driver(in: .valid)
        let zone = try #require(driver.tokens).mandatoryFrom
        #expect(driver.token?.waitsFrom == zone)
        driver.toDue()
        try driver.fail(.transient(retryAfter: nil))
        #expect(driver.token?.waitsFrom == .never)
        driver.toDue()
        #expect(driver.token?.waitsFrom == zone)
    }

    @Test(
        "Rule 4: with a call in flight requests wait past the token's end, as long as one of them would; then they are refused"
    )
    func slowResponse() throws {
        let driver = SessionDriver()
        driver.adopt(.seconds(10))
        driver.toDue()
        let end = try #require(driver.tokens).usableUntil
        let publications = driver.publications
        driver.pass((end - driver.now).inSeconds + 1)
        driver.handle(.tokenNeeded)
        // Nothing has changed: a publication would only make waiting requests ask again.
        #expect(driver.publications == publications && driver.state == .refreshing)
        driver.toDue()
        #expect(driver.state == .unreachable && driver.now == end + .seconds(5))
        #expect(driver.refusal == .identityUnreachable(nextAttemptAt: driver.now + .seconds(5)))
        try driver.grant(.seconds(10))
        // The response came later than most of the token's lifetime.
        #expect(driver.state == .valid || driver.state == .unreachable)
    }

    @Test("Rule 4: a token that ends in the machine's sleep is renewed at once, and requests wait for it")
    func afterSleep() throws {
        for isTold in [false, true] {
            let driver = SessionDriver()
            driver.adopt(.seconds(1800))
            driver.pass(8 * 3600)
            let awake = driver.now
            driver.handle(isTold ? .clockJumped : .due)
            driver.handle(.tokenNeeded)
            #expect(driver.state == .refreshing && driver.refusal == nil && driver.call?.startedAt == awake)
            driver.toDue()
            #expect(driver.state == .unreachable && driver.now == awake + .seconds(5))
            try driver.grant()
            #expect(driver.state == .valid && driver.token != nil)
        }
    }

    @Test("a first login that cannot be made is tried without end, half a minute apart at most")
    func firstLogin() throws {
        let driver = SessionDriver(chance: 0.999_999)
        driver.handle(.logIn)
        for _ in 0..<50 {
            try driver.fail(.transient(retryAfter: nil))
            #expect(driver.dueIn <= 30 && driver.state == .loggingIn)
            driver.toDue()
        }
        try driver.grant(refresh: "r")
        #expect(driver.state == .valid)
    }

    @Test("Rule 12: a new login after a dead session backs off to five minutes")
    func relogin() throws {
        let driver = try SessionTransitionTests.driver(in: .refreshing)
        driver.fixedChance = 0.999_999
        try driver.fail(.sessionDead)
        var longest = 0.0
        for _ in 0..<12 {
            try driver.fail(.transient(retryAfter: nil))
            longest = max(longest, (try #require(driver.retryState?.nextAttemptAt) - driver.now).inSeconds)
            driver.toCall()
        }
        #expect(longest.rounded() == 300)
    }

    @Test("Rule 12: at the refresh token's own expiry one call is made, and its response decides")
    func refreshTokenEnd() throws {
        let driver = SessionDriver(hasCredential: false)
        driver.adopt(refreshExpiry: driver.wall + .seconds(600))
        #expect(driver.dueIn == 600)
        driver.toDue()
        #expect(driver.call?.kind == .refresh)
        try driver.fail(.transient(retryAfter: nil))
        #expect(driver.state == .stale)
        driver.toDue()
        try driver.fail(.sessionDead)
        #expect(driver.state == .loginRequired)
    }

    @Test("a refresh token that the service accepts after its expiry is not tried again and again")
    func refreshTokenEndPassed() throws {
        let driver = SessionDriver(hasCredential: false)
        driver.adopt(refreshExpiry: driver.wall + .seconds(600))
        driver.toDue()
        try driver.grant()
        #expect(driver.dueIn > 1000)
    }

    @Test(
        "Rule 14: a wall clock that jumps forwards shortens the token's life, one that jumps back does not lengthen it")
    func jumps() throws {
        let driver = try SessionTransitionTests.driver(in: .valid)
        let end = try #require(driver.token).usableUntil
        driver.wall = driver.wall + .seconds(-3600)
        driver.handle(.clockJumped)
        #expect(driver.token?.usableUntil == end && driver.calls.isEmpty)
        driver.wall = driver.wall + .seconds(3600 + 1500)
        driver.handle(.clockJumped)
        #expect(driver.token?.usableUntil == end - .seconds(1500))
        // Overdue now, so within 5 s.
        #expect(driver.dueIn <= 5)
        driver.toDue()
        #expect(driver.call != nil)
        try driver.grant()
        driver.handle(.clockJumped)
        #expect(driver.dueIn > 1000)
    }

    @Test("Rule 14: a wall clock 31 minutes ahead costs exactly one refresh")
    func fastClock() throws {
        let driver = try SessionTransitionTests.driver(in: .valid)
        driver.wall = driver.wall + .seconds(31 * 60)
        driver.handle(.clockJumped)
        #expect(driver.calls.count == 1 && driver.state == .refreshing)
        try driver.grant()
        #expect(driver.state == .valid && driver.dueIn > 1000)
    }

    @Test(
        "Rule 14: clocks that disagree by more than 5 s, and looks that come late, are told",
        arguments: [
            (30.0, 30.0, ""), (30, 34.9, ""), (30, 25.1, ""), (30, 36, "wall_clock 6"), (30, -3600, "wall_clock -3630"),
            (36, 36, "resumed 6"), (34, 34, ""),
        ])
    func comparison(_ boot: Double, _ wall: Double, _ reason: String) {
        let start = ClockComparison(instant: Instant(nanoseconds: 0), wall: WallTime(seconds: 1000))
        let (now, wallNow) = (start.instant + .seconds(boot), start.wall + .seconds(wall))
        let told = start.disagreement(at: now, wallNow)
        #expect(told.map { "\($0.rawValue) \(start.amount(of: $0, at: now, wallNow))" } ?? "" == reason)
    }
}
