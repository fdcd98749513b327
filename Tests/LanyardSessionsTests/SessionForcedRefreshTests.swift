import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions

@Suite("Session: an upstream refuses the token")
struct SessionForcedRefreshTests {
    @Test("Rule 11: one refresh starts, requests wait for it at once, and every refused request joins it")
    func once() throws {
        let driver = try SessionTransitionTests.driver(in: .valid)
        for _ in 0..<20 { driver.handle(.tokenRefused(1)) }
        #expect(driver.calls.count == 1 && driver.call?.cause == .forced)
        #expect(driver.token?.waitsFrom == .past)
        try driver.grant()
        #expect(driver.token?.generation == 2 && driver.token?.waitsFrom == driver.tokens?.mandatoryFrom)
    }

    @Test("Rule 11: a refusal of an older token is answered with the newer one, without a call")
    func older() throws {
        let driver = try SessionTransitionTests.driver(in: .valid)
        driver.handle(.tokenRefused(1))
        try driver.grant()
        let publications = driver.publications
        driver.handle(.tokenRefused(1))
        #expect(driver.calls.count == 1 && driver.publications == publications + 1 && driver.token?.generation == 2)
    }

    @Test("Rule 5: between two forced refreshes lie ten seconds")
    func cooldown() throws {
        let driver = try SessionTransitionTests.driver(in: .valid)
        driver.handle(.tokenRefused(1))
        try driver.grant()
        driver.pass(9.9)
        driver.handle(.tokenRefused(2))
        #expect(driver.calls.count == 1 && driver.logEvents.last?.event == .refreshDenied)
        #expect(driver.logEvents.last?.reason == "cooldown")
        driver.pass(0.1)
        driver.handle(.tokenRefused(2))
        #expect(driver.calls.count == 2)
    }

    @Test("Rule 5: thirty in any hour, and scheduled refreshes continue beside them")
    func budget() throws {
        let driver = try SessionTransitionTests.driver(in: .valid)
        for _ in 0..<100 {
            driver.handle(.tokenRefused(driver.context.generation))
            if driver.call != nil { try driver.grant() }
            driver.pass(11)
        }
        #expect(driver.calls.filter { $0.cause == .forced }.count == 30)
        #expect(driver.logEvents.contains { $0.reason == "per_hour_max" })
        driver.toDue()
        #expect(driver.call?.cause == .scheduled)
        try driver.grant()
        driver.pass(2600)
        if driver.due <= driver.now { driver.handle(.due) }
        if driver.call != nil { try driver.grant() }
        driver.handle(.tokenRefused(driver.context.generation))
        #expect(driver.call?.cause == .forced)
    }

    @Test("between failed attempts a forced refresh does not wait for the schedule, unless the service asked to")
    func stale() throws {
        let driver = try SessionTransitionTests.driver(in: .refreshing)
        try driver.fail(.transient(retryAfter: .seconds(100)))
        driver.handle(.tokenRefused(1))
        #expect(driver.call == nil)
        driver.toDue()
        try driver.fail(.transient(retryAfter: nil))
        driver.handle(.tokenRefused(1))
        #expect(driver.call?.cause == .forced)
    }

    @Test("a session that is dead by the forced refresh ends as by any other")
    func dead() throws {
        let driver = try SessionTransitionTests.driver(in: .valid, hasCredential: false)
        driver.handle(.tokenRefused(1))
        try driver.fail(.sessionDead)
        #expect(driver.state == .loginRequired)
    }

    @Test("shards are told the effect of a refusal: a wait, a refresh from some instant on, or nothing")
    func renewal() throws {
        let driver = try SessionTransitionTests.driver(in: .valid)
        #expect(driver.token?.renewal == .possible(from: .past))
        driver.handle(.tokenRefused(1))
        let began = driver.now
        #expect(driver.token?.renewal == .inProgress)
        driver.pass(2)
        try driver.grant()
        #expect(driver.token?.renewal == .possible(from: began + .seconds(10)))
        driver.pass(8)
        driver.handle(.tokenRefused(2))
        #expect(driver.token?.renewal == .inProgress)
        try driver.fail(.transient(retryAfter: .seconds(100)))
        #expect(driver.token?.renewal == .failing(until: driver.now + .seconds(100)))
        driver.toDue()
        #expect(driver.token?.renewal == .inProgress)
    }

    @Test("a refusal during a scheduled refresh starts no other one, and tells the shards to wait")
    func joined() throws {
        let driver = try SessionTransitionTests.driver(in: .refreshing)
        driver.handle(.tokenRefused(1))
        #expect(driver.calls.count == 1 && driver.token?.renewal == .inProgress)
    }

    @Test("Rule 5: when the hourly budget is used up, shards know when the next refresh may be forced")
    func budgetEnd() throws {
        let driver = try SessionTransitionTests.driver(in: .valid)
        let began = driver.now
        for _ in 0..<30 {
            driver.handle(.tokenRefused(driver.context.generation))
            if driver.call != nil { try driver.grant() }
            driver.pass(11)
        }
        driver.handle(.tokenRefused(driver.context.generation))
        #expect(driver.call == nil && driver.token?.renewal == .possible(from: began + .seconds(3600)))
    }

    @Test("Rule 5: a cooldown is a warning, a used-up budget an error: the breaker that alerts")
    func alert() throws {
        let driver = try SessionTransitionTests.driver(in: .valid)
        driver.handle(.tokenRefused(driver.context.generation))
        try driver.grant()
        driver.handle(.tokenRefused(driver.context.generation))
        #expect(driver.logEvents.last { $0.event == .refreshDenied }?.level == .warning)
        for _ in 0..<30 {
            driver.pass(11)
            driver.handle(.tokenRefused(driver.context.generation))
            if driver.call != nil { try driver.grant() }
        }
        let denied = try #require(driver.logEvents.last { $0.event == .refreshDenied })
        #expect(denied.level == .error && denied.reason == "per_hour_max")
    }

    @Test("a token that is renewed elsewhere cannot be renewed here")
    func fed() throws {
        let driver = SessionDriver()
        driver.handle(.fed(.success(Array("fed".utf8).withUnsafeBytes { Secret(copying: $0) })))
        #expect(driver.token?.renewal == .elsewhere)
        driver.handle(.tokenRefused(1))
        #expect(driver.calls.isEmpty && driver.token?.renewal == .elsewhere)
    }
}
