import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions
import LanyardSettings
import Testing

/// The rules of architecture-control.md 5.6 to 5.8 about several users, one by one.
@Suite struct UserRegistryTests {
    // MARK: Known users

    @Test("users are known in the order of the configuration, then in the order in which they were added")
    func order() {
        var driver = RegistryDriver()
        #expect(driver.known == ["alice", "kiosk", "robot", "carol"])
        _ = driver.add("zoe")
        _ = driver.add("bob")
        #expect(driver.known == ["alice", "kiosk", "robot", "carol", "zoe", "bob"])
    }

    @Test("a login adds a user, which becomes active")
    func add() {
        var driver = RegistryDriver()
        #expect(driver.add("bob") == ["admit bob", "log in bob", "activate bob bob of none", "added bob"])
        #expect(driver.active == "bob")
        #expect(driver.authenticated == ["bob"])
    }

    @Test("a login that fails changes nothing, and the name is free again")
    func addFails() {
        var driver = RegistryDriver()
        _ = driver.ask(.add(name: "bob", identity: "demo", RegistryDriver.email()))
        let error = IdentityError(.credentialRefused, status: 401, message: "no")
        #expect(driver.fail(driver.latest, .identity(error)) == ["drop bob", "fault credential_refused"])
        #expect(driver.known == ["alice", "kiosk", "robot", "carol"])
        #expect(driver.active == "alice")
        driver.goes("bob")
        #expect(driver.add("bob").last == "added bob")
    }

    @Test("names whose logins fail share one place; a name that comes to a login keeps it")
    func placesGivenBack() {
        var driver = RegistryDriver()
        for number in 0..<100 {
            #expect(driver.ask(.add(name: "n\(number)", identity: "demo", RegistryDriver.email())).count == 2)
            _ = driver.fail(driver.latest, .loginInProgress)
            _ = driver.registry.handle(.removalCompleted(UserIndex(4)))
        }
        #expect(driver.names.count == 5)
        _ = driver.add("bob")
        #expect(driver.registry.users.last?.index == UserIndex(4))
        _ = driver.ask(.remove("bob"))
        _ = driver.registry.handle(.removalCompleted(UserIndex(4)))
        _ = driver.ask(.add(name: "zoe", identity: "demo", RegistryDriver.email()))
        #expect(driver.registry.users.last?.index == UserIndex(5))
        #expect(driver.names[UserIndex(4)] == "bob")
    }

    @Test("a provisional user is neither shown nor found, though its name is in use")
    func provisionalUser() {
        var driver = RegistryDriver()
        _ = driver.ask(.add(name: "bob", identity: "demo", RegistryDriver.email()))
        #expect(driver.known == ["alice", "kiosk", "robot", "carol"])
        for request in [.activate("bob"), .refresh("bob"), .logOut("bob"), .remove("bob"), .login("bob", nil)]
            as [UserCall]
        {
            #expect(driver.ask(request) == ["fault noSuchUser"])
        }
    }

    @Test("an unknown identity, a static one and a name in use are refused before any call")
    func addRefused() {
        var driver = RegistryDriver()
        let email = RegistryDriver.email()
        #expect(driver.ask(.add(name: "bob", identity: "nowhere", email)) == ["fault noSuchIdentity"])
        #expect(driver.ask(.add(name: "bob", identity: "fixed", email)) == ["fault notSupported"])
        #expect(driver.ask(.add(name: "alice", identity: "demo", email)) == ["fault nameInUse"])
        #expect(driver.known == ["alice", "kiosk", "robot", "carol"])
    }

    @Test("of two logins at once for one name the second is refused, for every name")
    func twoAtOnce() {
        var driver = RegistryDriver()
        let email = RegistryDriver.email()
        _ = driver.ask(.add(name: "bob", identity: "demo", email))
        #expect(driver.ask(.add(name: "bob", identity: "demo", email)) == ["fault loginInProgress"])
        #expect(driver.ask(.login("alice", nil)) == ["log in alice"])
        #expect(driver.ask(.login("alice", email)) == ["fault loginInProgress"])
        #expect(driver.ask(.login("carol", email)) == ["log in carol"])
    }

    @Test("a login that another login of the same user forbids is reported so")
    func besideTheSessionsOwn() {
        var driver = RegistryDriver()
        _ = driver.change("alice", .loggingIn, isLoggingIn: true)
        #expect(driver.ask(.login("alice", nil)) == ["log in alice"])
        #expect(driver.fail(driver.latest, .loginInProgress) == ["fault loginInProgress"])
    }

    @Test(
        "a name that another process has given away: the request is refused, its user is known here, the active user stays"
    )
    func takenElsewhere() {
        var driver = RegistryDriver(active: "alice")
        driver.begin("alice")
        _ = driver.ask(.add(name: "bob", identity: "demo", RegistryDriver.email()))
        let ask = driver.latest
        #expect(driver.change("bob", .valid, "account-bob").isEmpty)
        #expect(driver.nameExists(ask) == ["fault nameInUse"])
        #expect(driver.known.contains("bob") && driver.authenticated.contains("bob") && driver.active == "alice")
        #expect(driver.ask(.activate("bob")).last == "user bob" && driver.active == "bob")
        #expect(driver.ask(.add(name: "bob", identity: "demo", RegistryDriver.email())) == ["fault nameInUse"])
        #expect(driver.nameExists(ask).isEmpty, "it is answered once")
    }

    // MARK: Logging in again

    @Test("an explicit login makes the user active; one of the session's own does not")
    func loginActivates() {
        var driver = RegistryDriver(active: "carol")
        driver.begin("alice")
        #expect(driver.active == "carol")
        _ = driver.ask(.login("alice", nil))
        #expect(
            driver.succeed(driver.latest, "alice", "account-alice") == ["activate alice alice of carol", "user alice"])
        #expect(driver.active == "alice")
    }

    @Test("a login needs a known user and a credential")
    func loginRefused() {
        var driver = RegistryDriver()
        #expect(driver.ask(.login("nobody", nil)) == ["fault noSuchUser"])
        #expect(driver.ask(.login("carol", nil)) == ["fault noCredential"])
        #expect(driver.ask(.login("robot", nil)) == ["fault notSupported"])
        #expect(driver.ask(.login("robot", RegistryDriver.email())) == ["fault notSupported"])
    }

    @Test("a failed login leaves the existing session")
    func failedLogin() {
        var driver = RegistryDriver()
        driver.begin("alice")
        _ = driver.ask(.login("alice", RegistryDriver.email()))
        let error = IdentityError(.transient(retryAfter: nil), message: "down")
        #expect(driver.fail(driver.latest, .identity(error)) == ["fault transient"])
        #expect(driver.authenticated == ["alice"])
    }

    // MARK: Accounts

    @Test("a login that ends in the account of an authenticated user is refused by its name, and revoked")
    func accountInUse() {
        var driver = RegistryDriver()
        driver.begin("alice")
        #expect(
            driver.add("bob", account: "account-alice").suffix(2) == ["drop bob", "fault accountInUse(by: \"alice\")"])
        #expect(driver.known == ["alice", "kiosk", "robot", "carol"])
        _ = driver.ask(.login("carol", RegistryDriver.email()))
        #expect(driver.succeed(driver.latest, "carol", "account-alice") == ["fault accountInUse(by: \"alice\")"])
        #expect(driver.authenticated == ["alice"])
        #expect(driver.active == "alice")
    }

    @Test("a login that ends in the account of a user without a session is that user's login")
    func accountKnown() {
        var driver = RegistryDriver()
        driver.begin("alice")
        _ = driver.ask(.logOut("alice"))
        #expect(
            driver.add("bob", account: "account-alice").suffix(4)
                == ["drop bob", "give alice", "activate alice alice of none", "user alice"])
        #expect(driver.known == ["alice", "kiosk", "robot", "carol"])
        #expect(driver.active == "alice")
    }

    @Test("the same account at another identity is another account")
    func accountElsewhere() {
        let other = RegisteredUser(
            name: "eve", index: UserIndex(4), identity: "elsewhere", isConfigured: false, accountID: "account-bob",
            loginState: .authenticated)
        var driver = RegistryDriver(stored: [other])
        #expect(driver.add("bob").last == "added bob")
    }

    @Test("a user's own account is free to it; that of another authenticated user is not")
    func claims() {
        var driver = RegistryDriver()
        driver.begin("alice")
        #expect(driver.registry.claim("account-alice", for: driver.index("alice")) == .free)
        #expect(driver.registry.claim("account-alice", for: driver.index("carol")) == .inUse(by: "alice"))
        _ = driver.change("alice", .valid, "account-alice")
        _ = driver.ask(.logOut("alice"))
        #expect(driver.registry.claim("account-alice", for: driver.index("carol")) == .belongs(to: "alice"))
    }

    @Test("a service that names no accounts: two logins at the same time take nothing from each other")
    func claimsNothing() {
        var driver = RegistryDriver()
        _ = driver.change("alice", .loggingIn, isLoggingIn: true)
        #expect(driver.registry.claim(nil, for: driver.index("alice")) == .free)
        #expect(driver.registry.claim(nil, for: driver.index("carol")) == .free)
    }

    @Test("of two logins in progress that end in one account, the second finds the first")
    func claimsAtOnce() {
        var driver = RegistryDriver()
        _ = driver.change("alice", .loggingIn, isLoggingIn: true)
        #expect(driver.registry.claim("one", for: driver.index("alice")) == .free)
        #expect(driver.registry.claim("one", for: driver.index("carol")) == .inUse(by: "alice"))
        // The first login failed: the account that it claimed is free again.
        _ = driver.change("alice", .refused)
        #expect(driver.registry.claim("one", for: driver.index("carol")) == .free)
    }

    // MARK: Anonymous users

    @Test("a second anonymous login returns the first user, made active, with no call and no new name")
    func anonymousReuse() {
        var driver = RegistryDriver()
        #expect(driver.add("guest", .anonymous).last == "added guest")
        _ = driver.add("bob")
        #expect(driver.active == "bob")
        #expect(
            driver.ask(.add(name: "other", identity: "demo", .anonymous))
                == ["activate guest guest of none", "user guest"])
        #expect(driver.ask(.add(name: "guest", identity: "demo", .anonymous)) == ["user guest"])
        #expect(driver.known.suffix(2) == ["guest", "bob"])
    }

    @Test("two anonymous logins at once do not make two accounts")
    func anonymousAtOnce() {
        var driver = RegistryDriver()
        _ = driver.ask(.add(name: "guest", identity: "demo", .anonymous))
        let first = driver.latest
        #expect(driver.ask(.add(name: "other", identity: "demo", .anonymous)) == ["fault loginInProgress"])
        _ = driver.succeed(first, "guest", "anonymous-1", "anonymous")
        #expect(driver.ask(.add(name: "other", identity: "demo", .anonymous)) == ["user guest"])
    }

    @Test("an anonymous user whose session has ended is not used again")
    func anonymousOver() {
        var driver = RegistryDriver()
        driver.begin("kiosk", "anonymous")
        _ = driver.change("kiosk", .loginRequired)
        #expect(driver.ask(.add(name: "guest", identity: "demo", .anonymous)).last == "log in guest")
    }

    @Test("an anonymous user is removed by its logout; a configured one may be logged in again by name")
    func anonymousLogout() {
        var driver = RegistryDriver()
        driver.begin("kiosk", "anonymous")
        _ = driver.add("guest", .emailPassword(email: "g", password: Secret(copying: .init(start: nil, count: 0))))
        #expect(driver.ask(.logOut("kiosk")) == ["hide kiosk"])
        #expect(driver.known == ["alice", "robot", "carol", "guest"])
        #expect(driver.ask(.activate("kiosk")) == ["fault noSuchUser"])
        #expect(driver.ask(.add(name: "kiosk", identity: "demo", .anonymous)) == ["fault nameInUse"])
        #expect(driver.ask(.login("kiosk", nil)) == ["log in kiosk"])
        #expect(
            driver.succeed(driver.latest, "kiosk", "account-2", "anonymous")
                == ["activate kiosk kiosk of none", "user kiosk"])
        #expect(driver.known == ["alice", "kiosk", "robot", "carol", "guest"])
    }

    @Test("an added anonymous user is removed by its logout, and by the death of its session")
    func addedAnonymousEnds() {
        var driver = RegistryDriver()
        _ = driver.add("guest", .anonymous)
        #expect(driver.ask(.logOut("guest")) == ["activate none none of none", "forget guest"])
        #expect(driver.ask(.login("guest", .anonymous)) == ["fault noSuchUser"])
        driver.goes("guest")
        #expect(driver.add("guest", .anonymous, account: "second").last == "added guest")
        #expect(driver.change("guest", .loginRequired) == ["activate none none of none", "forget guest"])
        #expect(driver.known == ["alice", "kiosk", "robot", "carol"])
    }

    @Test("a configured anonymous user whose session dies stays, and logs in again automatically")
    func configuredAnonymousDies() {
        var driver = RegistryDriver()
        driver.begin("kiosk", "anonymous")
        #expect(driver.change("kiosk", .loginRequired) == [])
        #expect(driver.known.contains("kiosk"))
    }
}
