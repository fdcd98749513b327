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
        driver.handle(.login(.given(.anonymous), ticket: 1))
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
