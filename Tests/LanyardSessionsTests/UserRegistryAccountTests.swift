import LanyardSettings
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions

/// Which user may make which call about its account, and what a link or a deletion does to the users.
@Suite struct UserRegistryAccountTests {
    private static let email = RegistryDriver.email()

    @Test("calls about an account need a user with a session, at an identity with accounts")
    func calls() {
        var driver = RegistryDriver()
        driver.begin("alice")
        _ = driver.change("robot", .valid)
        let requests: [(String) -> UserCall] = [
            { .call($0, .profile) }, { .customData($0) }, { .link($0, Self.email) }, { .deleteAccount($0) },
        ]
        for request in requests {
            #expect(driver.ask(request("carol")) == ["fault notLoggedIn"])
            #expect(driver.ask(request("nobody")) == ["fault noSuchUser"])
            #expect(driver.ask(request("robot")) == ["fault notSupported"])
            #expect(driver.ask(request("alice")) == ["call alice"])
            _ = driver.endsChange(driver.latest)
        }
        #expect(driver.ask(.accessToken("robot")) == ["call robot"])
        #expect(driver.ask(.accessToken("carol", TokenVariant(audience: "orders"))) == ["call carol"])
        #expect(driver.ask(.accessToken("nobody")) == ["fault noSuchUser"])
        let call = EmailPasswordCall.sendResetEmail(email: "a@x")
        #expect(driver.ask(.manageAccount(identity: "demo", call)) == ["manage at demo"])
        #expect(driver.ask(.manageAccount(identity: "fixed", call)) == ["fault notSupported"])
        #expect(driver.ask(.manageAccount(identity: "nowhere", call)) == ["fault noSuchIdentity"])
    }

    @Test("one of login, link and deletion at a time for each user")
    func oneAtATime() {
        var driver = RegistryDriver()
        driver.begin("alice")
        #expect(driver.ask(.link("alice", Self.email)) == ["call alice"])
        let link = driver.latest
        for request in [.link("alice", Self.email), .deleteAccount("alice"), .login("alice", nil)] as [UserCall] {
            #expect(driver.ask(request) == ["fault loginInProgress"])
        }
        #expect(driver.ask(.call("alice", .profile)) == ["call alice"])
        #expect(driver.endsChange(link) == [])
        #expect(driver.ask(.login("alice", nil)) == ["log in alice"])
        #expect(driver.ask(.deleteAccount("alice")) == ["fault loginInProgress"])
    }

    @Test("a deleted account's user is logged out if it is configured, and forgotten if it is not")
    func deletion() {
        var driver = RegistryDriver()
        driver.begin("alice")
        _ = driver.add("bob")
        _ = driver.ask(.deleteAccount("bob"))
        #expect(driver.deletes(driver.latest) == ["activate none none of none", "forget bob"])
        _ = driver.ask(.activate("alice"))
        _ = driver.ask(.deleteAccount("alice"))
        #expect(driver.deletes(driver.latest) == ["activate none none of none", "log out alice"])
        #expect(driver.known == ["alice", "kiosk", "robot", "carol"] && driver.authenticated == [])
        #expect(driver.ask(.deleteAccount("alice")) == ["fault notLoggedIn"])
    }

    @Test("a logout or a removal during the deletion stays: the deletion then only says that it is done")
    func endedMeanwhile() {
        var driver = RegistryDriver()
        driver.begin("alice")
        _ = driver.add("bob")
        _ = driver.ask(.deleteAccount("alice"))
        let alice = driver.latest
        _ = driver.ask(.logOut("alice"))
        #expect(driver.deletes(alice) == ["logged out before: alice"])
        _ = driver.ask(.deleteAccount("bob"))
        let bob = driver.latest
        _ = driver.ask(.remove("bob"))
        #expect(driver.deletes(bob) == ["logged out before: bob"])
    }

    @Test("an anonymous user that was linked is anonymous no more: not reused, and not removed by its logout")
    func linkedAnonymous() {
        var driver = RegistryDriver()
        _ = driver.add("guest", .anonymous)
        #expect(driver.ask(.add(name: "other", identity: "demo", .anonymous)) == ["user guest"])
        _ = driver.change("guest", .valid, "account-guest", "email_password")
        #expect(driver.ask(.add(name: "other", identity: "demo", .anonymous)).last == "log in other")
        _ = driver.fail(driver.latest, .notLoggedIn)
        #expect(driver.ask(.logOut("guest")).last == "log out guest")
        #expect(driver.known.contains("guest"))
    }

    @Test("a login that is not to activate leaves the active user as it is")
    func notActive() {
        var driver = RegistryDriver(active: "alice")
        driver.begin("alice")
        _ = driver.ask(.add(name: "bob", identity: "demo", Self.email, activates: false))
        #expect(driver.succeed(driver.latest, "bob", "account-bob") == ["added bob"])
        _ = driver.ask(.login("bob", Self.email, activates: false))
        #expect(driver.succeed(driver.latest, "bob", "account-bob") == ["user bob"])
        #expect(driver.active == "alice")
        _ = driver.add("guest", .anonymous)
        _ = driver.ask(.activate("alice"))
        #expect(driver.ask(.add(name: "x", identity: "demo", .anonymous, activates: false)) == ["user guest"])
        #expect(driver.active == "alice")
    }
}
