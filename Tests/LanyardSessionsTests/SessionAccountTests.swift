import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// Whether a login is one of the account before it, where the service gives accounts no id (refresh-outcomes.md 11).
@Suite("Coordinator: the account of a login")
struct SessionAccountTests {
    private static let (alice, bob) = (AccountFingerprint(of: ["a"]), AccountFingerprint(of: ["b"]))

    /// Logged in with the configured credential.
    private static func loggedIn(
        _ proof: AccountFingerprint? = alice, credential: String? = nil, refresh: String? = "one",
        variants: [TokenVariant] = []
    ) throws -> CoordinatorDriver {
        let driver = CoordinatorDriver(login: .clientCredentials, variants: variants)
        driver.begin()
        try driver.grant(refresh: refresh, proof: proof, credential: credential)
        try #require(driver.state == .valid)
        return driver
    }

    private static func operatorLogin(
        _ driver: CoordinatorDriver, _ proof: AccountFingerprint?, credential: String? = nil
    ) throws {
        driver.login(.given(.clientCredentials), ticket: 1)
        try driver.grant(refresh: "two", proof: proof, credential: credential)
        try #require(driver.state == .valid && driver.refresh == "two")
    }

    private static func silentLogin(
        _ driver: CoordinatorDriver, _ proof: AccountFingerprint?, credential: String? = nil
    ) throws {
        driver.toCall()
        if driver.call?.kind == .refresh { try driver.fail(.sessionDead) }
        try #require(driver.call?.kind == .login && driver.call?.cause != .asked)
        try driver.grant(proof: proof, credential: credential)
        try #require(driver.state == .valid)
    }

    private static func changes(_ driver: CoordinatorDriver) -> [SessionLogEvent] {
        driver.logEvents.filter { $0.event == .accountChanged }
    }

    @Test(
        "an operator's login is one of the same account if both name the same, and of another one if not, or if one of them names none"
    )
    func explicit() throws {
        for (first, second, isSame) in [
            (Self.alice, Self.alice, true), (Self.alice, Self.bob, false), (Self.alice, nil, false),
            (nil, Self.alice, false), (nil, nil, false),
        ] as [(AccountFingerprint?, AccountFingerprint?, Bool)] {
            let driver = try Self.loggedIn(first, credential: "c")
            let account = try #require(driver.token?.account)
            driver.toDue()
            try driver.grant(refresh: "next")
            #expect(driver.token?.account == account && driver.token?.generation == 2)
            try Self.operatorLogin(driver, second, credential: "c")
            #expect((driver.token?.account == account) == isSame)
            #expect(driver.stored?.session?.account == second)
            let changes = Self.changes(driver)
            #expect(changes.map(\.reason) == (isSame ? [] : ["asked"]))
            #expect(changes.map(\.level) == (isSame ? [] : [second == nil ? .info : .warning]))
            // A refresh of the new session keeps the new account, in the store too.
            let next = driver.token?.account
            driver.toDue()
            try driver.grant()
            #expect(driver.token?.account == next && driver.stored?.session?.account == second)
            // Whose the account is, is not asked: the service gives it no id.
            #expect(driver.claims.allSatisfy { $0 == nil })
        }
    }

    @Test(
        "once exchanges ask for something else the same credential is no sign of the same account, nor is the subject token",
        arguments: [nil, alice] as [AccountFingerprint?])
    func anotherRequest(_ proof: AccountFingerprint?) throws {
        for isRequestNew in [true, false] {
            let driver = CoordinatorDriver(login: .tokenExchange(subjectToken: "/t"))
            driver.begin()
            try driver.grant(refresh: nil, proof: proof, credential: "c")
            let account = try #require(driver.token?.account)
            driver.handle(
                .reconfigured(driver.coordinator.setup, isCredentialNew: false, isRequestNew: isRequestNew))
            try Self.silentLogin(driver, proof, credential: "c")
            #expect((driver.token?.account == account) == !isRequestNew)
        }
    }

    @Test(
        "a login of Lanyard's own with the same credential is one of the same account, although nothing names it; another credential is not"
    )
    func silent() throws {
        for (first, second, isSame) in [("c", "c", true), ("c", "d", false), (nil, nil, false), ("c", nil, false)]
            as [(String?, String?, Bool)]
        {
            for refresh in ["one", nil] {
                let driver = try Self.loggedIn(nil, credential: first, refresh: refresh)
                let account = try #require(driver.token?.account)
                try Self.silentLogin(driver, nil, credential: second)
                #expect((driver.token?.account == account) == isSame)
                #expect(Self.changes(driver).map { $0.details["account"] } == (isSame ? [] : ["unknown"]))
            }
        }
        let named = try Self.loggedIn()
        let account = try #require(named.token?.account)
        try Self.silentLogin(named, Self.alice, credential: "another file")
        #expect(named.token?.account == account)
        try Self.silentLogin(named, Self.bob)
        #expect(named.token?.account != account)
    }

    @Test(
        "after an operator's login with an unknown account, a login of Lanyard's own with that credential stays with it"
    )
    func silentAfterExplicit() throws {
        let driver = try Self.loggedIn(Self.alice, credential: "c")
        try Self.operatorLogin(driver, nil, credential: "c")
        let account = try #require(driver.token?.account)
        try Self.silentLogin(driver, nil, credential: "c")
        #expect(driver.token?.account == account)
        // An account that comes back gets a number that no other has had.
        try Self.silentLogin(driver, Self.alice)
        #expect(driver.token?.account != account)
    }

    @Test("a reload that changes the login's name: the session keeps its account, and the next login has the other one")
    func reload() throws {
        let driver = try Self.loggedIn()
        let account = try #require(driver.token?.account)
        var setup = driver.coordinator.setup
        setup.credential = .configured(.password(username: "bob", "/x"))
        driver.handle(.reconfigured(setup, isCredentialNew: true))
        #expect(driver.token?.account == account && driver.state == .valid)
        try Self.silentLogin(driver, Self.bob)
        #expect(driver.token?.account != account && driver.stored?.session?.account == Self.bob)
    }

    @Test("a restart and a login as before: the account is known from the store")
    func restart() throws {
        for (stored, next, isSame) in [
            (Self.alice, Self.alice, true), (Self.alice, Self.bob, false), (nil, Self.alice, false),
        ] as [(AccountFingerprint?, AccountFingerprint, Bool)] {
            let driver = try Self.loggedIn(stored).restart()
            driver.begin()
            let account = try #require(driver.token?.account)
            #expect(driver.coordinator.session.tokens?.account.fingerprint == stored && Self.changes(driver).isEmpty)
            try Self.operatorLogin(driver, next)
            #expect((driver.token?.account == account) == isSame)
        }
    }

    @Test(
        "another process's refresh is one of the same account, known or not; its login is only if the store names the same account"
    )
    func elsewhere() throws {
        for (first, second, isSame) in [
            (Self.alice, Self.alice, true), (Self.alice, Self.bob, false), (Self.alice, nil, false),
            (nil, nil, false), (nil, Self.alice, false),
        ] as [(AccountFingerprint?, AccountFingerprint?, Bool)] {
            let one = try Self.loggedIn(first)
            let two = one.another()
            let account = try #require(two.token?.account)
            one.toDue()
            try one.grant(refresh: "next")
            two.pass((one.now - two.now).inSeconds)
            two.handle(.storeSnapshot(one.stored))
            #expect(two.token?.account == account && two.token?.generation == 2 && Self.changes(two).isEmpty)
            try Self.operatorLogin(one, second, credential: "c")
            two.handle(.storeSnapshot(one.stored))
            #expect(two.refresh == "two" && (two.token?.account == account) == isSame)
            #expect(Self.changes(two).map(\.reason) == (isSame ? [] : ["elsewhere"]))
        }
    }

    @Test("an adopted session is compared with the account that was served, although that session has ended here")
    func elsewhereAfterLogout() throws {
        let one = try Self.loggedIn()
        let two = one.another()
        let account = try #require(two.token?.account)
        one.terminate(.logOut, ticket: 9)
        two.handle(.storeSnapshot(one.stored))
        #expect(two.state == .loggedOut)
        try Self.operatorLogin(one, Self.alice)
        two.handle(.storeSnapshot(one.stored))
        #expect(two.token?.account == account)
        try Self.operatorLogin(one, nil)
        two.handle(.storeSnapshot(one.stored))
        #expect(two.token.map { $0.account != account } == true)
    }

    // MARK: Publications

    private static let orders = TokenVariant(scopes: ["orders"])

    @Test(
        "the account is published with the login, before the tokens of variants come, and although the plain token came too late"
    )
    func published() throws {
        let driver = try Self.loggedIn(variants: [Self.orders])
        try driver.grant(refresh: "one", token: "for orders")
        let account = try #require(driver.token?.account)
        #expect(driver.accounts == [account] && driver.variant(1)?.account == account)
        driver.login(.given(.clientCredentials), ticket: 1)
        try driver.grant(refresh: "two", proof: Self.bob)
        let next = try #require(driver.token?.account)
        #expect(next != account && driver.accounts == [account, next] && driver.variant(1) == nil)
        try driver.grant(refresh: "three", token: "for orders again")
        #expect(driver.variant(1)?.account == next)
        // The access token of the next login has ended when it comes.
        driver.login(.given(.clientCredentials), ticket: 2)
        driver.pass(4000)
        try driver.grant(refresh: "four", proof: Self.alice)
        #expect(driver.token == nil && driver.accounts.count == 3 && Set(driver.accounts).count == 3)
        #expect(driver.coordinator.session.tokens?.account.number == driver.accounts.last)
    }

    @Test("a login that only renews the access token ends the variants' tokens if it is of another account")
    func variants() throws {
        for (second, isSame) in [("c", true), ("d", false)] {
            let driver = try Self.loggedIn(nil, credential: "c", refresh: nil, variants: [Self.orders])
            try driver.grant(credential: "c", token: "for orders")
            try #require(Tokens.text(driver.variant(1)?.token) == "for orders")
            driver.toDue(until: { driver.call?.variant == .plain })
            try driver.grant(credential: second, token: "next")
            #expect((driver.variant(1) != nil) == isSame)
            #expect((driver.stored?.session?.tokens.others[Self.orders] != nil) == isSame)
        }
    }

    @Test("a fetch whose login is one of another account gives the variant nothing: the session logs in first")
    func fetchOfAnotherAccount() throws {
        for (first, second) in [(Self.alice, Self.bob), (Self.alice, nil), (nil, nil)]
            as [(AccountFingerprint?, AccountFingerprint?)]
        {
            let driver = try Self.loggedIn(first, credential: "c", refresh: nil, variants: [Self.orders])
            try #require(driver.call?.variant == Self.orders && driver.call?.kind == .login)
            // The file has changed since, and nobody has noticed yet.
            try driver.grant(proof: second, credential: "d", token: "another's")
            #expect(driver.variant(1) == nil && driver.stored?.session?.tokens.others == [:])
            #expect(
                driver.call?.variant == .plain && driver.call?.kind == .login && driver.call?.cause == .fetchRefused)
            let account = try #require(driver.token?.account)
            try driver.grant(proof: second, credential: "d", token: "next")
            #expect(driver.token.map { $0.account != account } == true)
            try driver.grant(proof: second, credential: "d", token: "for orders")
            #expect(driver.variant(1)?.account == driver.token?.account)
            #expect(Tokens.text(driver.variant(1)?.token) == "for orders")
        }
    }
}
