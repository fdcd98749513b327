import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// The mark of a deletion while this process, or another one, has a call of the same user in progress: a crash before the
/// deletion's end must find the mark.
@Suite("Coordinator: deletions beside calls")
struct DeletionRaceTests {
    /// Two processes with the same session; the second one makes its next call.
    private static func calling() throws -> (CoordinatorDriver, other: CoordinatorDriver) {
        let driver = CoordinatorDriver()
        try driver.logIn()
        let other = driver.another()
        other.toCall()
        return (driver, other)
    }

    private static func expectLoggedOutAfterCrash(_ driver: CoordinatorDriver) {
        #expect(driver.stored?.isLoggedOut == true)
        let next = driver.restart()
        next.begin()
        #expect(next.state == .loggedOut && next.calls.isEmpty)
    }

    @Test("a refresh that completes while the mark is being stored leaves the mark")
    func refreshWhileMarking() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.toCall()
        driver.holdsStore = true
        driver.beginDeletion(ticket: 7)
        try driver.grant()
        driver.release()
        #expect(driver.stored?.generation == 2)
        Self.expectLoggedOutAfterCrash(driver)
    }

    @Test("another process's refresh leaves the mark; its next one ends the session there")
    func refreshElsewhere() throws {
        let (driver, other) = try Self.calling()
        driver.beginDeletion(ticket: 7)
        try other.grant()
        #expect(other.state == .valid && driver.stored?.generation == 2)
        #expect(driver.stored?.isLoggedOut == true)
        other.toCall()
        #expect(other.state == .loggedOut && other.call == nil && driver.stored?.session != nil)
        Self.expectLoggedOutAfterCrash(driver)
    }

    @Test("another process's own login comes too late: it is revoked, and the user is logged out there")
    func loginElsewhere() throws {
        let (driver, other) = try Self.calling()
        try other.fail(.sessionDead)
        try #require(other.call?.kind == .login)
        driver.beginDeletion(ticket: 7)
        try other.grant(refresh: "two", account: "a-2")
        #expect(other.state == .loggedOut && other.revoked == ["two"])
        Self.expectLoggedOutAfterCrash(driver)
    }

    @Test("an operator's login in another process goes before the mark")
    func requestedLoginElsewhere() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        let other = driver.another()
        let given = LoginMethod<Secret>.emailPassword(email: "a@example.com", password: Tokens.secret("p"))
        other.login(.given(given), ticket: 8)
        driver.beginDeletion(ticket: 7)
        try other.grant(refresh: "two", account: "a")
        #expect(other.state == .valid && other.storedRefresh == "two" && other.stored?.isLoggedOut == false)
    }

    @Test(
        "a call that another process begins after the mark waits for the end of the deletion", arguments: [false, true])
    func markBeforeBegin(isDeleted: Bool) throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        let other = driver.another()
        other.holdsStore = true
        other.toDue()
        driver.beginDeletion(ticket: 7)
        other.release()
        #expect(other.trail == ["begin"] && other.calls.isEmpty && driver.stored?.intent == nil)
        driver.handle(.endDeletion(isDeleted: isDeleted))
        if isDeleted { driver.terminate(.logOut, ticket: 8) }
        other.toDue()
        #expect(other.state == (isDeleted ? .loggedOut : .valid) && other.calls.isEmpty)
    }

    @Test("a call that begins after the mark without a lock is not made, and leaves no intent")
    func markBeforeBeginWithoutLock() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        let other = driver.another()
        other.holdsStore = true
        other.toDue()
        driver.lockReply = .failed("no lock")
        driver.beginDeletion(ticket: 7)
        other.release()
        #expect(other.trail == ["begin", "unlock"] && other.calls.isEmpty && other.state == .loggedOut)
        #expect(driver.stored?.intent == nil && driver.disk.holder == nil)
    }

    @Test("another process that has read the store before the mark makes no call after it")
    func markAfterRead() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        let other = driver.another()
        // With a call open, the store is read before the intent is stored.
        other.toDue()
        try other.fail(.unknownOutcome)
        other.holdsStore = true
        other.toDue()
        other.release(holdingOn: true)
        driver.beginDeletion(ticket: 7)
        other.release()
        #expect(other.calls.count == 1 && other.state == .loggedOut)
        // The first call stays open.
        #expect(driver.stored?.intent?.tries == 1 && driver.disk.holder == nil)
    }

    @Test("a session whose deletion was cancelled is found again")
    func cancelledAfterMark() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        let other = driver.another()
        driver.beginDeletion(ticket: 7)
        driver.pass(1)
        driver.refreshNow(ticket: 8)
        try driver.grant()
        other.pass(1)
        other.handle(.storeSnapshot(other.stored))
        #expect(other.state == .loggedOut)
        // The account was not deleted.
        driver.handle(.endDeletion(isDeleted: false))
        other.handle(.storeSnapshot(other.stored))
        #expect(other.state == .valid)
    }

    @Test("an external change beside the mark is not taken over")
    func markedElsewhere() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        let other = driver.another()
        driver.toCall()
        try driver.grant()
        driver.beginDeletion(ticket: 7)
        other.handle(.storeSnapshot(other.stored))
        #expect(other.state == .loggedOut && other.revoked.isEmpty)
    }

    @Test("no login is made during the deletion; one that has begun keeps the deletion from beginning")
    func loginDuringDeletion() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.beginDeletion(ticket: 7)
        driver.refreshNow(ticket: 8)
        try driver.fail(.sessionDead)
        #expect(driver.calls.map(\.kind) == [.login, .refresh])
        driver.handle(.endDeletion(isDeleted: false))
        driver.toCall()
        #expect(driver.call?.kind == .login)
        driver.beginDeletion(ticket: 9)
        guard case .loginInProgress? = driver.replies[9] else {
            Issue.record("a deletion has begun beside a login")
            return
        }
    }

    @Test(
        "a cancelled deletion that the store could not take is stored with the refresh after it",
        arguments: [false, true])
    func unsavedCancellation(isRefreshUnsaved: Bool) throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.pass(1)
        driver.beginDeletion(ticket: 7)
        driver.refreshNow(ticket: 8)
        driver.storeError = CoordinatorDriver.full
        driver.handle(.endDeletion(isDeleted: false))
        if !isRefreshUnsaved { driver.storeError = nil }
        try driver.grant()
        #expect(driver.stored?.isLoggedOut == isRefreshUnsaved)
        driver.storeError = nil
        driver.toDue()
        #expect(driver.stored?.isLoggedOut == false && driver.stored?.generation ?? 0 >= 2)
        let next = driver.restart()
        next.begin()
        #expect(next.state == .valid)
    }

    @Test("of two processes that delete one account, the second is refused and leaves the first one's mark")
    func twice() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        let other = driver.another()
        driver.beginDeletion(ticket: 7)
        other.beginDeletion(ticket: 8)
        guard case .loginInProgress? = other.replies[8] else {
            Issue.record("two deletions have begun")
            return
        }
        Self.expectLoggedOutAfterCrash(driver)
    }

    @Test("a mark that reached the disk although its write failed is taken back")
    func failedMark() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        (driver.storeError, driver.makesFailedWrites) = (CoordinatorDriver.full, true)
        driver.beginDeletion(ticket: 7)
        #expect(driver.stored?.isLoggedOut == true)
        driver.storeError = nil
        driver.toDue()
        #expect(driver.stored?.isLoggedOut == false && driver.state == .valid && !driver.coordinator.isUnsaved)
    }

    @Test("a cancelled deletion does not cost another process the token of its refresh", arguments: [false, true])
    func refreshOverCancellation(isUnsaved: Bool) throws {
        let driver = CoordinatorDriver(rotation: .oneUse)
        try driver.logIn()
        let other = driver.another(rotation: .oneUse)
        other.toCall()
        if isUnsaved {
            other.storeError = CoordinatorDriver.full
            try other.grant(refresh: "two")
        }
        driver.beginDeletion(ticket: 7)
        driver.handle(.endDeletion(isDeleted: false))
        other.storeError = nil
        if isUnsaved { other.toDue() } else { try other.grant(refresh: "two") }
        #expect(other.refresh == "two" && other.storedRefresh == "two" && other.state == .valid)
        #expect(other.stored?.isLoggedOut == false && !other.coordinator.isUnsaved)
    }

    @Test("a cancellation that changes nothing does not pass for another process's refresh")
    func lateCancellation() throws {
        let driver = CoordinatorDriver(rotation: .oneUse)
        try driver.logIn()
        let other = driver.another(rotation: .oneUse)
        driver.storeError = CoordinatorDriver.full
        driver.beginDeletion(ticket: 7)
        other.toCall()
        try other.grant(refresh: "two")
        driver.storeError = nil
        driver.toCall()
        #expect(driver.sent.isEmpty || driver.sent == ["two"])
        #expect(driver.refresh == "two")
    }

    @Test("a refresh that meets its own process's refused deletion continues", arguments: [false, true])
    func refreshWhileCancelling(isIntentHeld: Bool) throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.beginDeletion(ticket: 7)
        driver.holdsStore = true
        driver.refreshNow(ticket: 8)
        if isIntentHeld { driver.release(holdingOn: true) }
        driver.handle(.endDeletion(isDeleted: false))
        driver.release()
        #expect(driver.state == .refreshing && driver.call?.kind == .refresh)
        try driver.grant()
        #expect(driver.state == .valid && driver.stored?.isLoggedOut == false)
    }

    // MARK: A start beside a deletion

    @Test("a process that starts while another one deletes the account leaves the session and its mark")
    func startDuringDeletion() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.beginDeletion(ticket: 7)
        let other = driver.another()
        #expect(other.state == .loggedOut && other.calls.isEmpty && other.revoked.isEmpty)
        #expect(!other.noted(.deletionInterrupted))
        #expect(driver.storedRefresh == "one" && driver.stored?.isLoggedOut == true)
        // The service does not delete the account: the session continues in both.
        driver.handle(.endDeletion(isDeleted: false))
        #expect(driver.state == .valid && driver.stored?.isLoggedOut == false && driver.disk.holder == nil)
        other.handle(.storeSnapshot(other.stored))
        #expect(other.state == .valid && other.refresh == "one")
    }

    @Test("the user's lock is held until the store has the end of the deletion", arguments: [false, true])
    func lockDuringDeletion(isDeleted: Bool) throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.beginDeletion(ticket: 7)
        #expect(driver.disk.holder === driver)
        // A call in between keeps it.
        driver.refreshNow(ticket: 8)
        try driver.grant()
        #expect(driver.disk.holder === driver && driver.state == .valid)
        driver.holdsStore = true
        driver.handle(.endDeletion(isDeleted: isDeleted))
        if isDeleted { driver.terminate(.logOut, ticket: 9) }
        #expect(driver.disk.holder === driver)
        driver.release()
        #expect(driver.disk.holder == nil && driver.coordinator.isIdle)
    }

    @Test("the lock of a process that calls is waited for; the deletion does not wait")
    func lockAfterCall() throws {
        let (driver, other) = try Self.calling()
        driver.beginDeletion(ticket: 7)
        guard case .deletionBegun? = driver.replies[7] else {
            Issue.record("the deletion has waited")
            return
        }
        #expect(driver.disk.holder === other)
        try other.grant()
        driver.toDue(until: { driver.disk.holder === driver })
        #expect(driver.disk.holder === driver)
        let third = driver.another()
        #expect(third.state == .loggedOut && third.revoked.isEmpty && driver.storedRefresh == "one")
    }

    @Test("a call that waits for the lock continues with the lock of the deletion, and does not ask for it again")
    func lockForCallAndDeletion() throws {
        let (driver, other) = try Self.calling()
        driver.refreshNow(ticket: 8)
        // It looks again sooner than the call does.
        driver.chance = 0
        driver.beginDeletion(ticket: 7)
        driver.chance = 0.5
        try other.grant()
        driver.forget()
        driver.toDue(until: { driver.disk.holder === driver })
        try #require(driver.trail == ["lock"])
        driver.toDue(until: { driver.call != nil || driver.replies[8] != nil })
        #expect(driver.trail.filter { $0 == "lock" || $0 == "begin" }.count == 1)
        driver.handle(.endDeletion(isDeleted: false))
        if driver.call != nil { try driver.grant() }
        #expect(driver.disk.holder == nil && driver.state == .valid)
    }

    @Test("an unsaved cancellation keeps the lock until the store has it")
    func lockOfUnsavedCancellation() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.beginDeletion(ticket: 7)
        driver.storeError = CoordinatorDriver.full
        driver.handle(.endDeletion(isDeleted: false))
        let other = driver.another()
        #expect(other.revoked.isEmpty && driver.storedRefresh == "one")
        driver.storeError = nil
        driver.toDue()
        #expect(driver.stored?.isLoggedOut == false && driver.disk.holder == nil)
    }

    @Test("a refusal that the store cannot take is known to the next login")
    func unsavedRefusal() throws {
        let driver = CoordinatorDriver()
        driver.begin()
        driver.storeError = CoordinatorDriver.full
        let fingerprint = CredentialFingerprint(bytes: [UInt8](repeating: 7, count: 32))
        try driver.fail(.credentialRefused, credential: fingerprint)
        driver.handle(.session(.credentialChanged))
        #expect(driver.call?.kind == .login && driver.refused == fingerprint)
    }
}
