import LanyardSessionInterface
import Testing

@testable import LanyardSessions

/// The active user, its logout, and what is remembered (architecture-control.md 5.6).
@Suite struct UserRegistryActiveTests {
    private func choice(_ user: String?, _ configured: String?) -> StoreContents.ActiveChoice {
        StoreContents.ActiveChoice(user: user, configured: configured)
    }

    // MARK: At the start

    @Test("the configured user is active at the start, otherwise the first configured one")
    func standard() {
        #expect(RegistryDriver(active: "kiosk").active == "kiosk")
        #expect(RegistryDriver().active == "alice")
        #expect(RegistryDriver(active: "ghost").active == nil)
    }

    @Test("the remembered user takes precedence over active_user until active_user changes")
    func remembered() {
        #expect(RegistryDriver(active: "alice", remembered: choice("carol", "alice")).active == "carol")
        #expect(RegistryDriver(active: "kiosk", remembered: choice("carol", "alice")).active == "kiosk")
        #expect(RegistryDriver(remembered: choice("carol", "alice")).active == "alice")
        #expect(RegistryDriver(remembered: choice("carol", nil)).active == "carol")
    }

    @Test("none, after a logout, is remembered, too")
    func rememberedNone() {
        #expect(RegistryDriver(active: "alice", remembered: choice(nil, "alice")).active == nil)
        #expect(RegistryDriver(active: "kiosk", remembered: choice(nil, "alice")).active == "kiosk")
    }

    @Test("a remembered user that is not known any more leaves the choice to the configuration")
    func rememberedUnknownUser() {
        #expect(RegistryDriver(active: "carol", remembered: choice("gone", "carol")).active == "carol")
    }

    // MARK: Switching

    @Test("switching needs no login, and is remembered with the configured value")
    func activate() {
        var driver = RegistryDriver(active: "alice")
        driver.begin("alice")
        driver.begin("carol")
        #expect(driver.ask(.activate("carol")) == ["activate carol carol of alice", "user carol"])
        #expect(driver.ask(.activate("carol")) == ["user carol"])
        #expect(driver.active == "carol")
    }

    @Test(
        "a user that active_user names is active once it has come, as after a restart, and nothing is remembered of that"
    )
    func configuredUserComes() {
        var driver = RegistryDriver(active: "ghost")
        let started = driver.ask(
            .add(name: "ghost", identity: RegistryDriver.service, RegistryDriver.email(), activates: false))
        #expect(driver.active == nil && !started.contains("follow ghost"))
        #expect(driver.succeed(driver.latest, "ghost", "account-ghost").first == "follow ghost")
        #expect(driver.active == "ghost" && driver.registry.remembered == nil)
    }

    @Test("only a user with a session can be made active; a failed attempt leaves the active one alone")
    func activateRefused() {
        var driver = RegistryDriver()
        driver.begin("alice")
        #expect(driver.ask(.activate("carol")) == ["fault notLoggedIn"])
        #expect(driver.ask(.activate("nobody")) == ["fault noSuchUser"])
        _ = driver.change("carol", .loggingIn, isLoggingIn: true)
        #expect(driver.ask(.activate("carol")) == ["fault notLoggedIn"])
        #expect(driver.active == "alice")
    }

    @Test("a static user with a token can be made active", arguments: [SessionState.valid, .refused])
    func activateFixed(_ state: SessionState) {
        var driver = RegistryDriver()
        _ = driver.change("robot", state)
        #expect(driver.ask(.activate("robot")).last == (state == .valid ? "user robot" : "fault notLoggedIn"))
    }

    @Test("in every state with a session it may be renewed or not: the user is authenticated")
    func authenticatedStates() {
        for state in SessionState.allCases {
            var driver = RegistryDriver()
            _ = driver.change("carol", state)
            let isAuthenticated = [.valid, .refreshing, .stale, .unreachable].contains(state)
            #expect(driver.ask(.activate("carol")).last == (isAuthenticated ? "user carol" : "fault notLoggedIn"))
        }
    }

    // MARK: Logging out

    @Test("logging out the active user leaves none active, though others are logged in")
    func logoutActive() {
        var driver = RegistryDriver(active: "alice")
        driver.begin("alice")
        driver.begin("carol")
        #expect(driver.ask(.logOut("alice")) == ["activate none none of alice", "log out alice"])
        #expect(driver.active == nil)
        #expect(driver.authenticated == ["carol"])
    }

    @Test("with on_active_logout: next the next authenticated user is active then, if there is one")
    func logoutNext() {
        var driver = RegistryDriver(next: true)
        driver.begin("alice")
        driver.begin("carol")
        #expect(driver.ask(.logOut("alice")) == ["activate carol carol of none", "log out alice"])
        #expect(driver.ask(.remove("carol")) == ["activate none none of none", "forget carol"])
    }

    @Test("logging out another user does not move the active one")
    func logoutOther() {
        var driver = RegistryDriver()
        driver.begin("alice")
        driver.begin("carol")
        #expect(driver.ask(.logOut("carol")) == ["log out carol"])
        #expect(driver.active == "alice")
    }

    @Test("a second logout makes no second change, unless the store has a session: another process has logged in")
    func logoutTwice() {
        var driver = RegistryDriver()
        driver.begin("alice")
        _ = driver.ask(.logOut("alice"))
        #expect(driver.ask(.logOut("alice")) == ["read alice"])
        #expect(driver.finds("alice", hasSession: false) == ["logged out before: alice"])
        #expect(driver.ask(.logOut("alice")) == ["read alice"])
        #expect(driver.finds("alice", hasSession: true) == ["log out alice"])
        // Removed while the store was read.
        #expect(driver.ask(.logOut("alice")) == ["read alice"])
        let logout = driver.latest
        _ = driver.ask(.remove("alice"))
        #expect(driver.finds("alice", hasSession: true, logout) == ["logged out before: alice"])
    }

    @Test("an explicit logout holds for a user without a session, too", arguments: [SessionState.loggingIn, .refused])
    func logoutWithoutSession(_ state: SessionState) {
        var driver = RegistryDriver()
        _ = driver.change("alice", state)
        #expect(driver.ask(.logOut("alice")) == ["activate none none of none", "log out alice"])
    }

    @Test("a login that a logout has overtaken is reported so, and activates no user")
    func logoutMeanwhile() {
        var driver = RegistryDriver()
        driver.begin("alice")
        _ = driver.ask(.login("alice", nil))
        let login = driver.latest
        _ = driver.ask(.logOut("alice"))
        #expect(driver.overtake(login) == ["fault notLoggedIn"])
        #expect(driver.authenticated == [])
        #expect(driver.active == nil)
    }

    // MARK: Removing

    @Test("a removed user is forgotten; the active one leaves none active")
    func remove() {
        var driver = RegistryDriver()
        _ = driver.add("bob")
        #expect(driver.ask(.remove("bob")) == ["activate none none of none", "forget bob"])
        #expect(driver.ask(.remove("bob")) == ["fault noSuchUser"])
        #expect(driver.known == ["alice", "kiosk", "robot", "carol"])
        // While the store knows the user, the name is not free.
        #expect(driver.add("bob") == ["fault nameInUse"])
        driver.goes("bob")
        #expect(driver.add("bob").last == "added bob")
    }

    @Test("a configured user that is removed is unknown until the next start, where it is back")
    func removeConfigured() {
        var driver = RegistryDriver()
        driver.begin("alice")
        _ = driver.ask(.remove("alice"))
        #expect(driver.ask(.login("alice", nil)) == ["fault noSuchUser"])
        #expect(RegistryDriver().known.contains("alice"))
    }

    @Test("a user that is removed during its first login does not come back by it")
    func removeMeanwhile() {
        var driver = RegistryDriver()
        _ = driver.ask(.login("carol", RegistryDriver.email()))
        let login = driver.latest
        _ = driver.ask(.remove("carol"))
        #expect(driver.overtake(login) == ["fault noSuchUser"])
        #expect(!driver.known.contains("carol"))
    }

    @Test("a provisional user whose login was overtaken is forgotten again")
    func provisionalUserOvertaken() {
        var driver = RegistryDriver()
        _ = driver.ask(.add(name: "bob", identity: "demo", RegistryDriver.email()))
        #expect(driver.overtake(driver.latest) == ["drop bob", "fault noSuchUser"])
        #expect(!driver.known.contains("bob"))
    }

    // MARK: Refreshing

    @Test("a refresh needs a session of Lanyard's own")
    func refresh() {
        var driver = RegistryDriver()
        driver.begin("alice")
        _ = driver.change("robot", .valid)
        #expect(driver.ask(.refresh("alice")) == ["refresh alice"])
        #expect(driver.ask(.refresh("carol")) == ["fault notLoggedIn"])
        #expect(driver.ask(.refresh("robot")) == ["fault notSupported"])
        #expect(driver.ask(.logOut("robot")) == ["fault notSupported"])
        #expect(driver.ask(.refresh("nobody")) == ["fault noSuchUser"])
    }
}
