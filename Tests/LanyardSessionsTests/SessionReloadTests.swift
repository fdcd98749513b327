import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// Other settings for a user that stays at its identity service, in virtual time (architecture-control.md 7.9).
@Suite struct SessionReloadTests {
    private static let other = Credential.configured(.apiKey("/k"))

    /// - Parameter credential: nil: there is none any more.
    private func reconfigure(
        _ driver: CoordinatorDriver, credential: Credential?,
        _ change: (inout SessionCoordinator.Setup) -> Void = { _ in }
    ) {
        var setup = driver.coordinator.setup
        setup.credential = credential
        change(&setup)
        driver.handle(.reconfigured(setup, isCredentialNew: true))
    }

    private func refused() throws -> CoordinatorDriver {
        let driver = CoordinatorDriver()
        driver.begin()
        try driver.fail(.credentialRefused)
        return driver
    }

    @Test("a session continues with its tokens and timers, whatever the credential is")
    func session() throws {
        let driver = CoordinatorDriver()
        driver.begin()
        try driver.grant(refresh: "one", account: "a")
        let (due, token, calls) = (driver.coordinator.due, driver.token?.generation, driver.calls.count)
        driver.forget()
        reconfigure(driver, credential: nil)
        reconfigure(driver, credential: Self.other) { $0.refresh.cooldown = .seconds(1) }
        #expect(driver.state == .valid && driver.coordinator.due == due && driver.token?.generation == token)
        #expect(driver.calls.count == calls && driver.trail.isEmpty, "\(driver.trail)")
        #expect(driver.coordinator.context.settings.cooldown == .seconds(1))
        #expect(driver.noted(.credentialDiffers))
    }

    private func request(_ driver: CoordinatorDriver) {
        driver.handle(.reconfigured(driver.coordinator.setup, isCredentialNew: true, isRequestNew: true))
    }

    @Test("another request has all tokens fetched anew; the former ones serve until then")
    func newRequest() throws {
        let orders = TokenVariant(audience: "orders", resources: [], scopes: [])
        for login in [UserSettings.Login.clientCredentials, .password(username: "a", "/x")] {
            let driver = CoordinatorDriver(login: login, variants: [orders])
            driver.begin()
            let refresh = login == .clientCredentials ? nil : "one"
            try driver.grant(refresh: refresh, token: "plain")
            driver.toCall()
            try driver.grant(token: "for orders")
            request(driver)
            #expect(driver.call?.cause == .requestChanged && driver.call?.variant == .plain)
            #expect(driver.call?.kind == (refresh == nil ? .login : .refresh))
            #expect(Tokens.text(driver.token?.token) == "plain")
            try driver.grant(token: "new")
            #expect(Tokens.text(driver.token?.token) == "new")
            #expect(driver.call?.variant == orders && Tokens.text(driver.variant(1)?.token) == "for orders")
            try driver.grant(token: "new for orders")
            #expect(driver.call == nil && Tokens.text(driver.variant(1)?.token) == "new for orders")
            // Once.
            let calls = driver.calls.count
            driver.handle(.due)
            #expect(driver.calls.count == calls)
        }
    }

    @Test("a call in progress has the former request: another one follows; where the service wants no call none does")
    func newRequestBesideCall() throws {
        let driver = CoordinatorDriver()
        driver.begin()
        request(driver)
        try driver.grant(refresh: "one", token: "first")
        #expect(Tokens.text(driver.token?.token) == "first" && driver.call?.cause == .requestChanged)
        try driver.fail(.transient(retryAfter: .seconds(60)))
        #expect(driver.state == .stale && Tokens.text(driver.token?.token) == "first")
        request(driver)
        #expect(driver.call == nil)
    }

    @Test("a user that was refused logs in once with another request: no renewal follows")
    func newRequestOfRefusedUser() throws {
        let driver = CoordinatorDriver(login: .clientCredentials)
        driver.begin()
        try driver.fail(.credentialRefused, credential: CredentialFingerprint(bytes: [1]))
        try #require(driver.state == .refused)
        request(driver)
        try driver.grant(token: "new")
        #expect(driver.call == nil && driver.calls.count == 2)
    }

    @Test("where the service wants no call, that for another request waits until it does")
    func newRequestInsideLimit() throws {
        let orders = TokenVariant(audience: "orders", resources: [], scopes: [])
        let driver = CoordinatorDriver(login: .clientCredentials, variants: [orders])
        driver.begin()
        try driver.grant(token: "plain")
        driver.toCall()
        try #require(driver.call?.variant == orders)
        let asked = driver.now
        try driver.fail(.transient(retryAfter: .seconds(60)))
        request(driver)
        #expect(driver.call == nil && driver.state == .valid)
        driver.toDue { driver.call != nil }
        // Requests wait for its token: the limit is honoured for 30 s.
        #expect(driver.call?.variant == orders && driver.now - asked < .seconds(60))
        try driver.grant(token: "for orders")
        driver.toDue { driver.call != nil }
        #expect(driver.call?.cause == .requestChanged && driver.call?.variant == .plain)
        #expect(driver.now - asked >= .seconds(60) && driver.now - asked < .seconds(120))
    }

    @Test("a refused user logs in with another credential at once; without one an operator must log in")
    func refusedUser() throws {
        let driver = try refused()
        #expect(driver.state == .refused)
        reconfigure(driver, credential: Self.other)
        #expect(driver.state == .loggingIn && driver.calls.count == 2 && driver.credentials.last?.provider == "api_key")
        let without = try refused()
        reconfigure(without, credential: nil)
        #expect(without.state == .loggedOut && without.refusal == .loginRequired && without.calls.count == 1)
    }

    @Test("a login in progress ends as it began; one that waits is made at once with the other credential")
    func loggingIn() throws {
        let driver = CoordinatorDriver()
        driver.begin()
        reconfigure(driver, credential: Self.other)
        #expect(driver.calls.count == 1 && driver.state == .loggingIn)
        try driver.fail(.transient(retryAfter: nil))
        reconfigure(driver, credential: Self.other)
        #expect(driver.calls.count == 2 && driver.credentials.last?.provider == "api_key")
        try driver.fail(.transient(retryAfter: nil))
        reconfigure(driver, credential: nil)
        #expect(driver.calls.count == 2 && driver.state == .loggedOut && driver.refusal == .loginRequired)
        #expect(driver.coordinator.due == .never)
    }

    @Test("a login in progress whose credential was taken away is the last one")
    func lastLogin() throws {
        let driver = CoordinatorDriver()
        driver.begin()
        reconfigure(driver, credential: nil)
        #expect(driver.state == .loggingIn)
        try driver.fail(.transient(retryAfter: nil))
        driver.now = driver.coordinator.due
        driver.handle(.due)
        #expect(driver.calls.count == 1 && driver.refusal == .loginRequired)
    }

    @Test("a credential that comes during a login is tried after the refusal; without one an operator must log in")
    func refusedLogin() throws {
        let driver = CoordinatorDriver()
        driver.begin()
        reconfigure(driver, credential: Self.other)
        try driver.fail(.credentialRefused)
        #expect(driver.state == .loggingIn && driver.calls.count == 2 && driver.credentials.last?.provider == "api_key")
        try driver.fail(.credentialRefused)
        #expect(driver.state == .refused && driver.calls.count == 2)
        let without = CoordinatorDriver()
        without.begin()
        reconfigure(without, credential: nil)
        try without.fail(.credentialRefused)
        #expect(without.state == .loggedOut && without.refusal == .loginRequired && without.calls.count == 1)
    }

    @Test("a user without a credential logs in with the first one, unless an operator has logged it out")
    func firstCredential() throws {
        let driver = CoordinatorDriver(hasCredential: false)
        driver.begin()
        #expect(driver.calls.isEmpty)
        reconfigure(driver, credential: Self.other)
        try driver.grant(refresh: "one", account: "a")
        #expect(driver.state == .valid && driver.calls.count == 1)
        driver.terminate(.logOut, ticket: 1)
        reconfigure(driver, credential: .configured(.anonymous))
        #expect(driver.state == .loggedOut && driver.calls.count == 1)
    }

    @Test("a retired user ends with what it has begun, and gives its lock back")
    func retired() throws {
        let driver = CoordinatorDriver()
        driver.begin()
        driver.handle(.drain)
        #expect(!driver.coordinator.mayBeReplaced && !driver.coordinator.isIdle)
        try driver.grant(refresh: "one", account: "a")
        #expect(driver.coordinator.mayBeReplaced && driver.coordinator.isIdle)
        #expect(driver.storedRefresh != nil && driver.disk.holder == nil)
    }

    @Test("the next token after a replacement has a higher generation than all tokens before it")
    func generation() throws {
        var setup = CoordinatorDriver().coordinator.setup
        setup.generation = 7
        let driver = CoordinatorDriver()
        driver.coordinator = SessionCoordinator(setup)
        driver.begin()
        try driver.grant(refresh: "one", account: "a")
        #expect(driver.token?.generation == 8)
    }
}
