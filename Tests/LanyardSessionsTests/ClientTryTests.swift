import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// Rule 12: a login of a machine that is refused for its client is made after 10 s, 1, 5 and 15 minutes more, over restarts, and then
/// no more.
@Suite("Coordinator: logins that are refused for their client")
struct ClientTryTests {
    private static let credential = CredentialFingerprint(bytes: [1])
    private static let pauses: [Double] = [10, 60, 300, 900]

    private static func refusal(
        _ credential: CredentialFingerprint = credential, _ verdict: IdentityError.Verdict = .credentialRefused,
        isOfClient: Bool = true
    ) -> IdentityError {
        var error = IdentityError(
            verdict, status: 401, code: "invalid_client", message: "planned", credential: credential)
        error.isOfClient = isOfClient
        return error
    }

    private static func driver(
        _ login: UserSettings.Login = .clientCredentials, after former: CoordinatorDriver? = nil,
        seconds: Double = 0
    ) -> CoordinatorDriver {
        let driver = CoordinatorDriver(login: login, disk: former?.disk ?? CoordinatorDriver.Disk())
        if let former {
            former.disk.holder = nil
            (driver.now, driver.wall) = (former.now + .seconds(seconds), former.wall + .seconds(seconds))
        }
        driver.begin()
        return driver
    }

    /// The service refuses the call, or the guard does.
    private static func refuse(_ driver: CoordinatorDriver, _ error: IdentityError = refusal()) throws {
        let call = try #require(driver.call)
        var error = error
        if let refused = driver.refused, refused.isSame(as: error.credential) {
            error = IdentityError(.credentialRefused, message: "as before", credential: refused)
        }
        driver.handle(.callCompleted(.failure(error), call))
    }

    private static let machines: [UserSettings.Login] = [
        .clientCredentials, .jwtBearer(assertion: "/x"), .tokenExchange(subjectToken: "/x"), .refreshToken("/x"),
        .gitHubApp,
    ]

    @Test("Rule 12: the times of the tries, with the state of a refusal from the first on", arguments: machines)
    func times(_ login: UserSettings.Login) throws {
        let driver = Self.driver(login)
        try Self.refuse(driver)
        for (place, pause) in Self.pauses.enumerated() {
            #expect(driver.state == .refused && driver.reason == .credentialRefused && driver.call == nil)
            #expect(driver.refusal == .credentialRefused(because: "planned", action: .operator))
            #expect(driver.stored?.refused?.clientTries == ClientTries(count: place + 1, at: driver.wall))
            #expect((driver.coordinator.session.nextCallAt - driver.now).inSeconds == pause)
            let failedAt = driver.now
            driver.handle(.session(.tokenNeeded))
            driver.pass(pause - 0.001)
            driver.handle(.due)
            #expect(driver.call == nil)
            driver.toDue()
            #expect(driver.now - failedAt - .seconds(pause) < .milliseconds(1) && driver.state == .refused)
            #expect(driver.call?.kind == .login && driver.call?.cause == .retry && driver.refused == nil)
            try Self.refuse(driver)
        }
        #expect(driver.state == .refused && driver.coordinator.session.nextCallAt == .never && driver.calls.count == 5)
        #expect(driver.stored?.refused?.clientTries?.count == 5)
        // Not after a restart either.
        let next = Self.driver(login, after: driver, seconds: 86_400)
        #expect(next.refused?.clientTries?.count == 5)
        try Self.refuse(next)
        #expect(next.state == .refused && next.coordinator.due == .never)
    }

    @Test("Rule 12: a success ends it, and nothing is remembered")
    func success() throws {
        let driver = Self.driver()
        try Self.refuse(driver)
        driver.toDue()
        try driver.grant(token: "first")
        #expect(driver.state == .valid && driver.token != nil && driver.stored?.refused == nil)
    }

    @Test("Rule 12: a restart repeats no try early, makes a due one at once, and begins none anew")
    func restarts() throws {
        let first = Self.driver()
        try Self.refuse(first)
        first.toDue()
        try Self.refuse(first)
        // A minute after the second.
        let early = Self.driver(after: first, seconds: 20)
        #expect(early.refused?.clientTries == ClientTries(count: 2, at: first.wall))
        try Self.refuse(early)
        #expect(early.state == .refused && (early.coordinator.due - early.now).inSeconds == 40)
        #expect(early.stored?.refused?.clientTries == ClientTries(count: 2, at: first.wall))
        early.toDue()
        #expect(early.call?.kind == .login && early.refused == nil)
        try Self.refuse(early)
        #expect(early.stored?.refused?.clientTries == ClientTries(count: 3, at: early.wall))
        let late = Self.driver(after: early, seconds: 3600)
        #expect(late.call?.kind == .login && late.refused == nil)
        try Self.refuse(late)
        #expect(late.state == .refused && (late.coordinator.due - late.now).inSeconds == 900)
        // The wall clock was set back: the whole wait counts from now.
        let back = Self.driver(after: late, seconds: 1)
        back.wall = back.wall + .seconds(-7200)
        let set = CoordinatorDriver(login: .clientCredentials, disk: late.disk)
        back.disk.holder = nil
        (set.now, set.wall) = (back.now, back.wall)
        set.begin()
        try Self.refuse(set)
        #expect(set.state == .refused && (set.coordinator.due - set.now).inSeconds == 900)
        set.toDue()
        #expect(set.call?.kind == .login && set.refused == nil)
    }

    @Test("Rule 12: a changed file is tried at once, and its refusals count from the first")
    func changed() throws {
        let driver = Self.driver()
        try Self.refuse(driver)
        driver.toDue()
        try Self.refuse(driver)
        driver.pass(1)
        driver.handle(.session(.credentialChanged))
        #expect(driver.call?.cause == .credentialChanged && driver.refused?.clientTries?.count == 2)
        try Self.refuse(driver, Self.refusal(CredentialFingerprint(bytes: [2])))
        #expect(driver.state == .refused && driver.stored?.refused?.clientTries?.count == 1)
        #expect((driver.coordinator.due - driver.now).inSeconds == 10)
        // A file that changes during a try is tried after it.
        driver.toDue()
        try #require(driver.call?.cause == .retry)
        driver.handle(.session(.credentialChanged))
        #expect(driver.call?.cause == .retry)
        try Self.refuse(driver, Self.refusal(CredentialFingerprint(bytes: [2])))
        #expect(driver.call?.cause == .credentialChanged)
    }

    @Test("Rule 12: a try without a decision changes neither the state nor the number of tries that are left")
    func undecided() throws {
        let driver = Self.driver()
        try Self.refuse(driver)
        driver.toDue()
        for verdict in [IdentityError.Verdict.transient(retryAfter: nil), .credentialDelayed] {
            try driver.fail(verdict)
            #expect(
                driver.state == .refused && driver.refusal == .credentialRefused(because: "planned", action: .operator))
            #expect((10...30).contains((driver.coordinator.due - driver.now).inSeconds))
            driver.toCall()
            #expect(driver.call?.kind == .login && driver.refused == nil)
        }
        try driver.fail(.transient(retryAfter: .seconds(25)))
        #expect((driver.coordinator.due - driver.now).inSeconds == 25)
        driver.toCall()
        try Self.refuse(driver)
        #expect(driver.stored?.refused?.clientTries?.count == 2)
    }

    @Test("a password and an API key are never tried again, nor a login that is refused for something else")
    func never() throws {
        let rows: [(UserSettings.Login, IdentityError)] = [
            (.password(username: "a", "/x"), Self.refusal()),
            (.emailPassword(email: "a", password: "/x"), Self.refusal()),
            (.apiKey("/x"), Self.refusal()), (.clientCredentials, Self.refusal(isOfClient: false)),
            (.jwtBearer(assertion: "/x"), Self.refusal(isOfClient: false)),
        ]
        for (login, error) in rows {
            let driver = Self.driver(login)
            try Self.refuse(driver, error)
            #expect(driver.state == .refused && driver.coordinator.due == .never)
            #expect(driver.stored?.refused == Self.credential)
        }
        // Another refusal after that of the client is definite.
        let driver = Self.driver()
        try Self.refuse(driver)
        driver.toDue()
        try Self.refuse(driver, Self.refusal(isOfClient: false))
        #expect(
            driver.state == .refused && driver.coordinator.due == .never && driver.stored?.refused == Self.credential)
    }

    @Test("client credentials that are refused twice without a name are refused for their client, too")
    func unnamed() throws {
        let driver = Self.driver()
        let error = Self.refusal(Self.credential, .credentialDoubted, isOfClient: false)
        try Self.refuse(driver, error)
        #expect(driver.state == .loggingIn)
        driver.pass(31)
        driver.toCall()
        try Self.refuse(driver, error)
        #expect(driver.state == .refused && (driver.coordinator.due - driver.now).inSeconds == 10)
        driver.toDue()
        try Self.refuse(driver, error)
        #expect(driver.state == .refused && (driver.coordinator.due - driver.now).inSeconds == 60)
    }

    @Test("an operator's login is not counted, and ends the tries if it succeeds")
    func operatorLogin() throws {
        let driver = Self.driver()
        try Self.refuse(driver)
        driver.login(.configured(.clientCredentials), ticket: 1)
        try Self.refuse(driver)
        #expect(driver.stored?.refused?.clientTries?.count == 1 && driver.coordinator.due < .never)
        driver.login(.configured(.clientCredentials), ticket: 2)
        try driver.grant(token: "first")
        #expect(driver.state == .valid && driver.stored?.refused == nil)
    }

    @Test("a renewal whose refusals outlast the token is repeated in the same way")
    func renewal() throws {
        let driver = Self.driver()
        try driver.grant(token: "first")
        for _ in 0..<40 where driver.state != .refused {
            if driver.call != nil { try Self.refuse(driver) } else { driver.toDue() }
        }
        #expect(
            driver.state == .refused && driver.token == nil && (driver.coordinator.due - driver.now).inSeconds == 10)
    }

    @Test("two processes on one store make the tries of one")
    func processes() throws {
        let one = Self.driver()
        try Self.refuse(one)
        let two = Self.driver(after: one, seconds: 1)
        try Self.refuse(two)
        #expect((two.coordinator.due - two.now).inSeconds == 9)
        one.toDue()
        try Self.refuse(one)
        two.pass((one.now - two.now).inSeconds + 1)
        two.handle(.due)
        // The other one has just made it.
        #expect(two.refused?.clientTries?.count == 2)
        try Self.refuse(two)
        #expect(two.state == .refused && (two.coordinator.due - two.now).inSeconds == 59)
    }
}
