import LanyardSettings
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions

@Suite("Coordinator: warnings ahead of an end")
struct SessionWarningTests {
    private static let day = 86_400.0

    /// Serves for so long with each refresh granted; returns the warnings with the time that was left.
    private static func warnings(of driver: CoordinatorDriver, until end: WallTime) throws -> [(String, Double)] {
        var seen: [(String, Double)] = []
        while driver.wall < end {
            driver.forget()
            driver.toDue()
            seen += driver.logEvents.filter { $0.event == .expiring }.map { ($0.reason, (end - driver.wall).inSeconds) }
            if driver.call != nil {
                guard driver.wall < end else { break }
                try driver.grant(.seconds(Self.day))
            }
        }
        return seen
    }

    @Test("a warning comes 7 days, 1 day and 1 hour before the end of a refresh token, once each")
    func steps() throws {
        let driver = CoordinatorDriver()
        let end = driver.wall + .seconds(60 * Self.day)
        try driver.logIn(.seconds(Self.day), refreshExpiry: end)
        let seen = try Self.warnings(of: driver, until: end)
        #expect(seen.map(\.0) == ["7_days", "1_day", "1_hour"])
        for ((_, left), expected) in zip(seen, [7 * Self.day, Self.day, 3600]) { #expect(abs(left - expected) < 1) }
    }

    @Test(
        "a refresh token that never had a week gives no warning when it is new; a restart gives the nearest step once"
    )
    func short() throws {
        let driver = CoordinatorDriver()
        let end = driver.wall + .seconds(2 * Self.day)
        try driver.logIn(.seconds(Self.day), refreshExpiry: end)
        #expect(!driver.noted(.expiring))
        #expect(try Self.warnings(of: driver.restart(after: 0).began, until: end).map(\.0) == ["1_day", "1_hour"])
        let next = driver.restart(after: 60)
        next.begin()
        #expect(next.logEvents.filter { $0.event == .expiring }.map(\.reason) == ["7_days"])
    }

    @Test(
        "Rule 12: a configured lifetime of refresh tokens counts from the login, and gives the same warnings; a stated end goes before"
    )
    func configuredLifetime() throws {
        let driver = CoordinatorDriver(rotation: .auto, refreshLifetime: .seconds(30 * Self.day))
        try driver.logIn(.seconds(Self.day))
        let end = driver.wall + .seconds(30 * Self.day)
        #expect(driver.coordinator.session.tokens?.refreshExpiry == end && driver.stored?.session?.refreshExpiry == end)
        driver.toCall()
        try driver.grant(.seconds(Self.day), refresh: "two")
        #expect(driver.coordinator.session.tokens?.refreshExpiry == end && driver.stored?.session?.refreshExpiry == end)
        #expect(try Self.warnings(of: driver, until: end).map(\.0) == ["7_days", "1_day", "1_hour"])
        let stated = CoordinatorDriver(rotation: .auto, refreshLifetime: .seconds(30 * Self.day))
        try stated.logIn(.seconds(Self.day), refreshExpiry: stated.wall + .seconds(5))
        #expect(stated.coordinator.session.tokens?.refreshExpiry == stated.wall + .seconds(5))
    }

    @Test(
        "Rule 2: an unused session is refreshed before its refresh token ends from lack of use, also after a restart"
    )
    func idle() throws {
        let driver = CoordinatorDriver(rotation: .auto, refreshIdle: .seconds(3600))
        try driver.logIn(.seconds(Self.day))
        for _ in 0..<5 {
            let used = driver.wall
            driver.toCall()
            #expect(driver.call?.kind == .refresh)
            #expect((0.65...0.75).contains((driver.wall - used) / .seconds(3600)), "\(driver.wall - used)")
            try driver.grant(.seconds(Self.day))
        }
        let used = driver.wall
        let next = CoordinatorDriver(rotation: .auto, refreshIdle: .seconds(3600), disk: driver.disk)
        (next.now, next.wall) = (driver.now + .seconds(60), driver.wall + .seconds(60))
        next.begin()
        next.toCall()
        #expect(next.call?.kind == .refresh && next.wall - used <= .seconds(2700))
        #expect(!driver.noted(.expiring) && !next.noted(.expiring))
    }

    @Test(
        "Rule 12: while refreshes fail, the end from lack of use is warned of, by the steps that are shorter than that time"
    )
    func idleWarnings() throws {
        let driver = CoordinatorDriver(hasCredential: false, rotation: .auto, refreshIdle: .seconds(3 * Self.day))
        driver.login(.given(.anonymous), ticket: 1)
        try driver.grant(.seconds(7 * Self.day), refresh: "one", account: "a")
        let end = driver.wall + .seconds(3 * Self.day)
        while driver.wall < end {
            driver.toDue()
            if driver.call != nil { try driver.fail(.transient(retryAfter: .seconds(600))) }
        }
        #expect(driver.logEvents.filter { $0.event == .expiring }.map(\.reason) == ["1_day", "1_hour"])
    }

    @Test(
        "Rule 2: a stated end that a refresh may move is not waited for: the refresh comes in the usual part of that time"
    )
    func statedEnd() throws {
        let driver = CoordinatorDriver(rotation: .auto)
        try driver.logIn(.seconds(3600), refreshExpiry: driver.wall + .seconds(1800))
        let used = driver.wall
        driver.toCall()
        #expect((0.65...0.75).contains((driver.wall - used) / .seconds(1800)))
        // An end that does not move is reached in a few steps, and not in ever shorter ones.
        let end = used + .seconds(1800)
        var refreshes = 1
        while driver.wall < end, refreshes < 20 {
            try driver.grant(.seconds(3600), refresh: "next", refreshExpiry: end)
            driver.toCall()
            refreshes += 1
        }
        #expect((3...6).contains(refreshes) && driver.wall >= end, "\(refreshes)")
    }

    @Test("without a credential the level is warning, with one info")
    func level() throws {
        for hasCredential in [true, false] {
            let first = CoordinatorDriver()
            try first.logIn(.seconds(Self.day), refreshExpiry: first.wall + .seconds(3 * Self.day))
            let driver = first.restart(hasCredential: hasCredential)
            driver.begin()
            #expect(driver.logEvents.first { $0.event == .expiring }?.level == (hasCredential ? .info : .warning))
        }
    }

    @Test("Rule 16: an anonymous account alerts on day 80")
    func anonymous() throws {
        let driver = CoordinatorDriver(hasCredential: false)
        driver.login(.given(.anonymous), ticket: 1)
        try driver.grant(.seconds(Self.day), refresh: "r", account: "a")
        let began = driver.wall
        while !driver.noted(.accountAging) {
            driver.toDue()
            if driver.call != nil { try driver.grant(.seconds(Self.day)) }
            try #require(driver.wall < began + .seconds(81 * Self.day))
        }
        #expect((driver.wall - began).inSeconds >= 80 * Self.day && (driver.wall - began).inSeconds < 80 * Self.day + 1)
        #expect(driver.logEvents.first { $0.event == .accountAging }?.level == .error)
    }
}

extension CoordinatorDriver {
    fileprivate var began: CoordinatorDriver {
        begin()
        forget()
        return self
    }
}
