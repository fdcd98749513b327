import LanyardSessionInterface
import LanyardSettings
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessions

@Suite("refresh.md 2: the schedule counts what a call takes")
struct SlowCallScheduleTests {
    /// A call of the session that takes so long, and brings a token of this lifetime.
    private static func complete(_ driver: SessionDriver, after seconds: Double, _ lifetime: Duration) throws {
        driver.pass(seconds)
        try driver.grant(lifetime, refresh: "refresh", account: "a")
    }

    @Test(
        "2: tokens of 5 s with calls of 2 s: the next one is there before a request has to wait",
        arguments: [0, 0.5, 0.999])
    func five(_ chance: Double) throws {
        let driver = SessionDriver(chance: chance)
        driver.handle(.logIn)
        try Self.complete(driver, after: 2, .seconds(5))
        for _ in 0..<10 {
            let tokens = try #require(driver.tokens)
            driver.toCall()
            #expect(driver.call?.cause == .scheduled && driver.state == .refreshing)
            driver.pass(2)
            #expect(driver.now < tokens.mandatoryFrom && tokens.isUsable(at: driver.now))
            try driver.grant(.seconds(5), refresh: "refresh")
        }
    }

    @Test("2: quick calls leave the schedule as it is, and calls that are quick again bring it back")
    func falls() throws {
        let driver = SessionDriver(chance: 0)
        driver.handle(.logIn)
        try Self.complete(driver, after: 0.001, .seconds(60))
        #expect(abs(driver.dueIn - 39) < 0.1, "65 % of the lifetime")
        driver.toCall()
        try Self.complete(driver, after: 20, .seconds(60))
        // The zone begins at 45 s, and a call may take 22.5 s.
        #expect(abs(driver.dueIn + 20 - 16.5) < 0.1, "\(driver.dueIn)")
        for _ in 0..<16 {
            driver.toCall()
            try Self.complete(driver, after: 0.001, .seconds(60))
            #expect(driver.dueIn > 14.9, "never before a quarter of the lifetime")
        }
        #expect(driver.dueIn > 38)
    }

    @Test("2: a call that takes longer than its token lives leads to no call without a pause")
    func longer() throws {
        let driver = SessionDriver(chance: 0)
        driver.handle(.logIn)
        try Self.complete(driver, after: 4, .seconds(5))
        var calls = 0
        let end = driver.now + .seconds(60)
        while driver.now < end {
            driver.toCall()
            calls += 1
            try Self.complete(driver, after: 0.01, .seconds(5))
        }
        #expect(calls < 52, "\(calls)")
    }
}
