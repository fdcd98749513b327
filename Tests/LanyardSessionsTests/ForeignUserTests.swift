import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

@Suite("Coordinator: the identity of the stored user")
struct ForeignUserTests {
    private static let demo = StoredIdentity("demo", IdentityFingerprint(of: ["demo"]))
    /// The same name, but another service behind it.
    private static let moved = StoredIdentity("demo", IdentityFingerprint(of: ["moved"]))
    private static let corp = StoredIdentity("corp", IdentityFingerprint(of: ["corp"]))
    private static let given = Credential.given(.emailPassword(email: "b@example.com", password: Tokens.secret("p")))

    /// Another start or process on the same store, with another configuration.
    private static func other(
        _ identity: StoredIdentity, after first: CoordinatorDriver, isAdded: Bool = false, others: [StoredIdentity] = []
    ) -> CoordinatorDriver {
        let next = CoordinatorDriver(
            hasCredential: !isAdded, isAdded: isAdded, disk: first.disk, identity: identity, others: [identity] + others
        )
        (next.now, next.wall) = (first.now + .seconds(1), first.wall + .seconds(1))
        return next
    }

    @Test(
        "a session of another identity is not restored: a login replaces it, and its own service is told",
        arguments: ["corp", "demo"])
    func changedIdentity(_ name: String) throws {
        let first = CoordinatorDriver(identity: Self.demo)
        try first.logIn()
        let next = Self.other(name == "corp" ? Self.corp : Self.moved, after: first)
        next.begin()
        #expect(next.token == nil && next.noted(.foreignUser) && next.call?.kind == .login)
        #expect(next.stored?.session != nil, "as long as the login may fail, what is stored stays")
        try next.grant(refresh: "new", account: "c")
        #expect(
            next.sent.isEmpty && next.storedRefresh == "new" && next.stored?.storedIdentity == next.coordinator.identity
        )
        #expect(next.revoked == ["one"] && next.revocations.map(\.fingerprint) == [Self.demo.fingerprint])
        #expect(next.contents.revocations.map { StoredIdentity($0.identity, $0.fingerprint) } == [Self.demo])
        #expect(next.stored?.generation == 2 && next.disk.holder == nil)
    }

    @Test(
        "a session that an older release has stored without a fingerprint belongs to the identity of that name, and gets the fingerprint"
    )
    func unmarked() throws {
        let first = CoordinatorDriver()
        try first.logIn()
        let next = Self.other(Self.demo, after: first)
        next.begin()
        #expect(next.token?.generation == 1 && next.calls.isEmpty)
        next.toCall()
        try next.grant()
        #expect(next.sent == ["one"] && next.stored?.identityFingerprint == Self.demo.fingerprint)
    }

    @Test("two processes that disagree about a user's identity: each continues with its own token, with one log line")
    func disagreement() throws {
        let one = CoordinatorDriver(rotation: .oneUse, identity: Self.demo)
        try one.logIn()
        let two = Self.other(Self.corp, after: one)
        two.begin()
        try two.grant(refresh: "corp-1", account: "c")
        for round in 2...4 {
            one.pass(max((two.now - one.now).inSeconds, 0))
            one.toCall()
            try one.grant(refresh: "demo-\(round)")
            two.pass(max((one.now - two.now).inSeconds, 0))
            two.toCall()
            try two.grant(refresh: "corp-\(round)")
        }
        #expect(one.sent == ["one", "demo-2", "demo-3"] && two.sent == ["corp-1", "corp-2", "corp-3"])
        #expect(one.calls.count == 4 && two.calls.count == 4, "no login but the first")
        #expect(one.logEvents.filter { $0.event == .foreignUser && $0.level == .error }.count == 1)
        #expect(one.revoked.isEmpty && one.state == .valid && one.refresh == "demo-4")
        #expect(two.storedRefresh == "corp-4" && two.stored?.identity == "corp")
        one.terminate(.logOut, ticket: 1)
        #expect(one.state == .loggedOut && one.revoked == ["demo-4"] && two.storedRefresh == "corp-4")
    }

    @Test(
        "a logout or a removal leaves another process's user of another identity alone, before it is read as after",
        arguments: [SessionCoordinator.Termination.logOut, .remove])
    func unreadDisagreement(_ termination: SessionCoordinator.Termination) throws {
        for isUnsavedFirst in [false, true] {
            let one = CoordinatorDriver(identity: Self.demo)
            try one.logIn()
            let two = Self.other(Self.corp, after: one)
            two.begin()
            try two.grant(refresh: "corp-1", account: "c")
            if isUnsavedFirst { one.storeError = CoordinatorDriver.full }
            one.terminate(termination, ticket: 1)
            if isUnsavedFirst {
                one.storeError = nil
                one.toDue { one.coordinator.isIdle }
            }
            #expect(one.state == .loggedOut && one.revoked.contains("one") && !one.revoked.contains("corp-1"))
            #expect(two.storedRefresh == "corp-1" && two.stored?.identity == "corp")
            #expect(one.coordinator.isIdle && !one.contents.revocations.contains { $0.identity == "corp" })
        }
    }

    @Test(
        "a session that was taken over from another process is not written over another identity's user that came since"
    )
    func displacedAfterAdoption() throws {
        let one = CoordinatorDriver(hasCredential: false, identity: Self.demo)
        one.begin()
        let former = Self.other(Self.demo, after: one)
        former.begin()
        try former.grant(refresh: "one", account: "a")
        one.pass(2)
        one.handle(.storeSnapshot(one.stored))
        #expect(one.state == .valid && one.refresh == "one")
        let two = Self.other(Self.corp, after: former)
        two.begin()
        try two.grant(refresh: "corp-1", account: "c")
        one.toCall()
        try one.grant(refresh: "demo-2")
        #expect(one.sent == ["one"] && one.refresh == "demo-2" && one.revoked.isEmpty)
        #expect(two.storedRefresh == "corp-1" && two.stored?.identity == "corp")
    }

    /// A session that lives beside another identity's user, with a refresh token that no store has.
    private static func displaced(
        rotation: RefreshTokenRotation = .none
    ) throws -> (one: CoordinatorDriver, two: CoordinatorDriver) {
        let one = CoordinatorDriver(rotation: rotation, identity: demo)
        try one.logIn()
        let two = other(corp, after: one)
        two.begin()
        try two.grant(refresh: "corp-1", account: "c")
        one.pass(2)
        one.toCall()
        try one.grant(refresh: "demo-2")
        try #require(one.refresh == "demo-2" && one.revoked.isEmpty && one.coordinator.knownRecord.isDisplaced)
        return (one, two)
    }

    @Test(
        "a displaced session is revoked when the other identity's user is removed elsewhere",
        arguments: [false, true])
    func displacedThenRemoved(isReadByCall: Bool) throws {
        let (one, two) = try Self.displaced()
        two.terminate(.remove, ticket: 1)
        if isReadByCall { one.toDue { one.state != .valid } } else { one.handle(.storeSnapshot(one.stored)) }
        #expect(one.state == .loggedOut && one.revoked == ["demo-2"] && one.sent == ["one"])
    }

    @Test("a displaced session is revoked when a session of its own identity takes the name again")
    func displacedThenReplaced() throws {
        let (one, two) = try Self.displaced()
        let three = Self.other(Self.demo, after: two)
        three.begin()
        try three.grant(refresh: "three", account: "a")
        one.pass(2)
        one.handle(.storeSnapshot(one.stored))
        #expect(one.refresh == "three" && one.revoked == ["demo-2"])
    }

    @Test("a displaced session is not revoked when the session that takes the name again has the same refresh token")
    func displacedThenReplacedBySame() throws {
        let (one, two) = try Self.displaced()
        let three = Self.other(Self.demo, after: two)
        three.begin()
        try three.grant(refresh: "demo-2", account: "a")
        one.pass(2)
        one.handle(.storeSnapshot(one.stored))
        #expect(one.refresh == "demo-2" && one.revoked.isEmpty)
    }

    @Test(
        "a displaced session that another process found refused is revoked when its login has replaced it: it serves until then"
    )
    func displacedThenRefused() throws {
        let (one, two) = try Self.displaced()
        let three = Self.other(Self.demo, after: two)
        three.begin()
        try three.grant(refresh: "three", account: "a")
        three.toCall()
        try three.fail(.sessionDead)
        let fingerprint = CredentialFingerprint(bytes: [UInt8](repeating: 3, count: 32))
        try three.fail(.credentialRefused, credential: fingerprint)
        try #require(three.stored?.session == nil && three.stored?.refused == fingerprint)
        one.pass(2)
        one.toCall()
        #expect(one.call?.kind == .login && one.token != nil && one.revoked.isEmpty && one.sent == ["one"])
        try one.grant(refresh: "four", account: "a")
        #expect(one.revoked == ["demo-2"] && one.storedRefresh == "four")
    }

    @Test(
        "what was to be written behind a logout is not written over another identity's user that the logout has found")
    func refusalBehindLogout() throws {
        let one = CoordinatorDriver(identity: Self.demo)
        try one.logIn()
        one.toCall()
        try one.fail(.sessionDead)
        // Its lock was lost.
        one.disk.holder = nil
        let two = Self.other(Self.corp, after: one)
        two.begin()
        try two.grant(refresh: "corp-1", account: "c")
        one.holdsStore = true
        var grant = SessionDriver.grant(.seconds(1800), refresh: "spent-1", account: "a")
        grant.spentCredential = CredentialFingerprint(bytes: [UInt8](repeating: 7, count: 32)).spent
        one.handle(.callCompleted(.success(grant), try #require(one.call)))
        one.terminate(.logOut, ticket: 1)
        one.release()
        #expect(two.storedRefresh == "corp-1" && two.stored?.identity == "corp" && two.stored?.refused == nil)
        #expect(one.state == .loggedOut && one.revoked.contains("spent-1") && !one.revoked.contains("corp-1"))
    }

    @Test("a displaced session whose response was lost is dropped: its one-use token is not sent again")
    func displacedDoubtThenRemoved() throws {
        let (one, two) = try Self.displaced(rotation: .grace)
        one.toCall()
        two.terminate(.remove, ticket: 1)
        try one.fail(.unknownOutcome)
        one.handle(.storeSnapshot(one.stored))
        #expect(one.state == .loggedOut && one.revoked.isEmpty)
    }

    @Test("a lost response of a displaced process stays known to it: a one-use token is not sent twice")
    func displacedDoubt() throws {
        let one = CoordinatorDriver(hasCredential: false, rotation: .oneUse, identity: Self.demo)
        one.begin()
        one.login(Self.given, ticket: nil)
        try one.grant(refresh: "one", account: "a")
        let two = Self.other(Self.corp, after: one)
        two.begin()
        try two.grant(refresh: "corp-1", account: "c")
        one.pass(2)
        one.toCall()
        try one.fail(.unknownOutcome)
        for _ in 0..<10 { one.toDue() }
        #expect(one.sent == ["one"] && one.state == .loginRequired && two.storedRefresh == "corp-1")
    }

    @Test("a name that another process has given away at an identity known here is in use, and no call is made")
    func provisionalUserElsewhere() throws {
        let first = CoordinatorDriver(isAdded: true, identity: Self.demo)
        first.login(Self.given, ticket: 1)
        try first.grant(refresh: "one", account: "a")
        let known = Self.other(Self.corp, after: first, isAdded: true, others: [Self.demo])
        known.login(Self.given, ticket: 1)
        guard case .nameInUse(isKnown: false)? = known.replies[1] else { throw SessionCoordinatorTests.Missing() }
        #expect(known.calls.isEmpty && known.storedRefresh == "one" && known.coordinator.isIdle)
        // If no process knows that identity, its user is ignored.
        let unknown = Self.other(Self.corp, after: first, isAdded: true)
        unknown.login(Self.given, ticket: 1)
        try unknown.fail(.credentialRefused)
        #expect(unknown.storedRefresh == "one", "a login that failed has changed nothing")
        unknown.login(Self.given, ticket: 2)
        try unknown.grant(refresh: "new", account: "c")
        #expect(unknown.storedRefresh == "new" && unknown.revoked == ["one"] && unknown.sent.isEmpty)
    }

    @Test("a name that another process has given away is in use, and its user is known here from then on")
    func provisionalUser() throws {
        let first = CoordinatorDriver(isAdded: true)
        first.login(Self.given, ticket: 1)
        try first.grant(refresh: "one", account: "a")
        let second = Self.other("demo", after: first, isAdded: true)
        second.login(Self.given, ticket: 1)
        guard case .nameInUse(isKnown: true)? = second.replies[1] else { throw SessionCoordinatorTests.Missing() }
        #expect(second.calls.isEmpty && second.token != nil && second.coordinator.context.accountID == "a")
        #expect(second.storedRefresh == "one" && second.revoked.isEmpty && second.disk.holder == nil)
    }

    @Test("a name whose user was configured once is in use, and the refused call does not bring that user back")
    func formerlyConfiguredUser() throws {
        let first = CoordinatorDriver()
        try first.logIn()
        let stored = first.stored
        let second = Self.other("demo", after: first, isAdded: true)
        second.login(Self.given, ticket: 1)
        guard case .nameInUse(isKnown: false)? = second.replies[1] else { throw SessionCoordinatorTests.Missing() }
        #expect(second.calls.isEmpty && second.token == nil && second.revoked.isEmpty && second.coordinator.isIdle)
        #expect(second.stored == stored && second.disk.holder == nil)
    }

    // MARK: Reads of all users

    @Test("another process's logout ends the session here, and its login is taken over, without a call")
    func storeSnapshot() throws {
        let one = CoordinatorDriver()
        try one.logIn()
        let two = one.another()
        one.terminate(.logOut, ticket: nil)
        two.handle(.storeSnapshot(two.stored))
        #expect(two.state == .loggedOut && two.refusal == .loggedOut && two.revoked.isEmpty)
        one.login(Self.given, ticket: nil)
        try one.grant(refresh: "new", account: "b")
        two.handle(.storeSnapshot(two.stored))
        #expect(two.state == .valid && two.refresh == "new" && two.calls.isEmpty)
        #expect(two.noted(.accountChanged) && two.coordinator.context.accountID == "b")
        two.forget()
        two.handle(.storeSnapshot(two.stored))
        #expect(two.trail.isEmpty && two.logEvents.isEmpty)
    }

    @Test("an account that another user of this process has is not taken over")
    func adoptedAccountInUse() throws {
        let one = CoordinatorDriver()
        try one.logIn()
        let two = one.another()
        one.login(Self.given, ticket: nil)
        try one.grant(refresh: "new", account: "carols")
        two.ownership = .inUse(by: "carol")
        two.toDue()
        #expect(two.state == .refused && two.reason == .accountInUse && two.noted(.accountTaken) && two.calls.isEmpty)
        #expect(two.storedRefresh == "new" && two.revoked.isEmpty && two.disk.holder == nil)
        let three = one.another()
        one.login(Self.given, ticket: nil)
        try one.grant(refresh: "newer", account: "daves")
        three.ownership = .inUse(by: "dave")
        three.handle(.storeSnapshot(three.stored))
        #expect(three.state == .loggedOut && three.token == nil && three.noted(.accountTaken))
    }

    // MARK: An older file

    @Test("an older file that replaces a newer one restores no old refresh token: the newer one is written again")
    func olderFile() throws {
        let driver = CoordinatorDriver(rotation: .oneUse)
        let old = try driver.refreshedContents()
        let sibling = driver.another(rotation: .oneUse)
        driver.disk.contents = old
        driver.forget()
        driver.toCall()
        #expect(driver.sent == ["one", "two"] && driver.noted(.storeOlder) && !driver.noted(.adopted))
        #expect(driver.logEvents.first { $0.event == .storeOlder }?.counts.keys.sorted() == ["known", "stored"])
        #expect(driver.storedRefresh == "two" && driver.stored?.generation == 2 && driver.stored?.intent?.tries == 1)
        try driver.grant(refresh: "three")
        #expect(driver.storedRefresh == "three" && driver.stored?.generation == 3)
        sibling.pass(max((driver.now - sibling.now).inSeconds, 0))
        sibling.handle(.storeSnapshot(sibling.stored))
        #expect(sibling.refresh == "three" && !sibling.noted(.storeOlder))
    }

    @Test("an older file that appears during a call changes nothing about the call's result")
    func olderFileDuringCall() throws {
        let driver = CoordinatorDriver(rotation: .oneUse)
        let old = try driver.refreshedContents()
        driver.toCall()
        driver.disk.contents = old
        try driver.grant(refresh: "three")
        #expect(driver.storedRefresh == "three" && driver.stored?.generation == 3 && driver.revoked.isEmpty)
        driver.disk.contents = old
        driver.handle(.storeSnapshot(driver.stored))
        #expect(driver.storedRefresh == "three" && driver.stored?.generation == 3 && driver.state == .valid)
        driver.toCall()
        #expect(driver.sent == ["one", "two", "three"])
    }
}
