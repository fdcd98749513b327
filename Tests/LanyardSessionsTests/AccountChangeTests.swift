import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// Links and deletions in one user's coordinator: what is stored, and what a crash leaves.
@Suite("Coordinator: links and deletions")
struct AccountChangeTests {
    /// The token of a link that was made just now, a second after whatever came before it.
    private static func linked(
        _ driver: CoordinatorDriver, session: UInt64? = nil, provider: String? = "api_key"
    ) -> ObtainedSession {
        driver.pass(1)
        return ObtainedSession(
            SessionDriver.grant(account: "a"), startedAt: driver.now, startedAtWall: driver.wall, provider: provider,
            continuedSession: session ?? driver.coordinator.sessionID)
    }

    private static func word(_ reply: SessionReply?) -> String {
        switch reply {
        case .linked: "linked"
        case .overtaken: "overtaken"
        case .deletionBegun: "begun"
        case .storeFailing: "store failing"
        case .notLoggedIn: "not logged in"
        case .terminated: "terminated"
        case .refreshed: "refreshed"
        case nil: "none"
        default: "other"
        }
    }

    // MARK: Links

    @Test("a link's token is stored, then served: same session, new generation, same refresh token, new provider")
    func link() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        let session = try #require(driver.stored?.session?.id)
        driver.obtain(Self.linked(driver), ticket: 7)
        #expect(driver.trail == ["lock", "read", "hold", "publish 2", "unlock"])
        #expect(driver.stored?.session?.id == session && driver.storedRefresh == "one" && driver.refresh == "one")
        #expect(driver.stored?.generation == 2)
        #expect(driver.token?.generation == 2 && driver.state == .valid)
        #expect(driver.stored?.provider == "api_key" && driver.coordinator.provider == "api_key")
        #expect(driver.revoked.isEmpty && Self.word(driver.replies[7]) == "linked")
    }

    @Test("a link that keeps the kind of login changes the token alone")
    func linkOfNamedUser() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        let provider = driver.stored?.provider
        driver.obtain(Self.linked(driver, provider: nil), ticket: nil)
        #expect(driver.stored?.provider == provider && driver.stored?.generation == 2)
    }

    @Test("a link waits for the refresh in progress, and the next refresh is scheduled anew")
    func linkDuringRefresh() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.toDue()
        driver.obtain(Self.linked(driver), ticket: 7)
        #expect(Self.word(driver.replies[7]) == "none")
        try driver.grant()
        #expect(Self.word(driver.replies[7]) == "linked" && driver.stored?.generation == 3)
        #expect(driver.coordinator.operation == nil && driver.state == .valid && driver.disk.holder == nil)
    }

    @Test("a refresh that waits for the link's turn is not needed any more")
    func refreshDuringLink() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.holdsStore = true
        driver.obtain(Self.linked(driver), ticket: 7)
        driver.refreshNow(ticket: 8)
        driver.release()
        #expect(Self.word(driver.replies[7]) == "linked" && Self.word(driver.replies[8]) == "refreshed")
        #expect(driver.calls.count == 1 && driver.state == .valid)
    }

    @Test("a link for a session that has ended or was replaced since is dropped")
    func lateLink() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        let link = Self.linked(driver)
        driver.terminate(.logOut, ticket: nil)
        driver.obtain(link, ticket: 7)
        #expect(Self.word(driver.replies[7]) == "overtaken" && driver.stored?.session == nil)
        let other = CoordinatorDriver()
        try other.logIn()
        other.obtain(Self.linked(other, session: 4711), ticket: 7)
        #expect(Self.word(other.replies[7]) == "overtaken" && other.stored?.generation == 1)
        #expect(other.disk.holder == nil && other.state == .valid)
    }

    @Test("a link does not close the question of a refresh whose response was lost")
    func linkAfterLostRefresh() throws {
        let driver = CoordinatorDriver(rotation: .oneUse)
        try driver.logIn()
        driver.disk.contents = {
            var contents = driver.contents
            contents.users[0].intent = StoredIntent(kind: .refresh, at: driver.wall, tries: 1)
            return contents
        }()
        driver.obtain(Self.linked(driver), ticket: 7)
        #expect(Self.word(driver.replies[7]) == "linked" && driver.stored?.intent?.tries == 1)
    }

    @Test("a link that the store cannot take serves from memory, like a refresh")
    func unsavedLink() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.storeError = CoordinatorDriver.full
        driver.obtain(Self.linked(driver), ticket: 7)
        #expect(Self.word(driver.replies[7]) == "linked" && driver.token?.generation == 2)
        driver.storeError = nil
        driver.toDue()
        #expect(driver.stored?.generation == 2 && driver.stored?.provider == "api_key")
    }

    // MARK: Deletions

    @Test("a deletion is marked in the store before the service is called; a crash then leaves a logged-out user")
    func deletionCrash() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.holdsStore = true
        driver.beginDeletion(ticket: 7)
        #expect(Self.word(driver.replies[7]) == "none")
        driver.release()
        #expect(driver.trail == ["lock", "mark"] && Self.word(driver.replies[7]) == "begun")
        #expect(driver.stored?.isLoggedOut == true && driver.stored?.isAuthenticated == false)
        #expect(driver.state == .valid && driver.storedRefresh == "one")
        let next = driver.restart()
        next.begin()
        #expect(next.state == .loggedOut && next.calls.isEmpty && next.revoked == ["one"])
        #expect(next.stored?.session == nil && next.stored?.isLoggedOut == true)
        #expect(next.noted(.deletionInterrupted))
        let third = next.restart()
        third.begin()
        #expect(third.state == .loggedOut && third.calls.isEmpty && !third.noted(.deletionInterrupted))
    }

    @Test("a refresh during the deletion keeps the mark and the session")
    func refreshDuringDeletion() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.beginDeletion(ticket: 7)
        driver.pass(1)
        driver.refreshNow(ticket: 8)
        try driver.grant()
        #expect(Self.word(driver.replies[8]) == "refreshed" && driver.state == .valid)
        #expect(driver.stored?.isLoggedOut == true && driver.stored?.generation == 2)
        let next = driver.restart()
        next.begin()
        #expect(next.state == .loggedOut && next.calls.isEmpty)
    }

    @Test("a deleted account ends the session without a revocation: its sessions have ended at the service")
    func deleted() throws {
        for termination in [SessionCoordinator.Termination.logOut, .remove] {
            let driver = CoordinatorDriver()
            try driver.logIn()
            driver.beginDeletion(ticket: 7)
            driver.handle(.endDeletion(isDeleted: true))
            driver.terminate(termination, ticket: 8)
            #expect(Self.word(driver.replies[8]) == "terminated")
            #expect(driver.revoked.isEmpty && driver.contents.revocations.isEmpty && driver.state == .loggedOut)
            #expect(driver.stored?.session == nil && driver.stored?.isLoggedOut != false)
        }
    }

    @Test("a deletion that failed leaves the session as it was, here, in the store and in other processes")
    func notDeleted() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        let other = driver.another()
        driver.beginDeletion(ticket: 7)
        driver.handle(.endDeletion(isDeleted: false))
        #expect(driver.stored?.isLoggedOut == false && driver.storedRefresh == "one" && driver.state == .valid)
        driver.refreshNow(ticket: 8)
        try driver.grant()
        #expect(Self.word(driver.replies[8]) == "refreshed" && driver.state == .valid)
        other.handle(.storeSnapshot(other.stored))
        #expect(other.state == .valid)
        let next = driver.restart()
        next.begin()
        #expect(next.state == .valid)
    }

    @Test("a cancelled deletion that the store cannot take is stored later")
    func unsavedCancellation() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.beginDeletion(ticket: 7)
        driver.storeError = CoordinatorDriver.full
        driver.handle(.endDeletion(isDeleted: false))
        #expect(driver.stored?.isLoggedOut == true)
        driver.storeError = nil
        driver.toDue()
        #expect(driver.stored?.isLoggedOut == false && driver.state == .valid)
    }

    @Test("without the mark in the store nothing is deleted; nor without a session")
    func noMark() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.storeError = CoordinatorDriver.full
        driver.beginDeletion(ticket: 7)
        #expect(Self.word(driver.replies[7]) == "store failing")
        driver.storeError = nil
        driver.terminate(.logOut, ticket: nil)
        driver.beginDeletion(ticket: 8)
        #expect(Self.word(driver.replies[8]) == "not logged in")
    }

    @Test("a logout while the mark is being stored wins")
    func logOutWhileMarking() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.holdsStore = true
        driver.beginDeletion(ticket: 7)
        driver.terminate(.logOut, ticket: 8)
        driver.release()
        driver.release()
        #expect(Self.word(driver.replies[7]) == "overtaken" && driver.revoked == ["one"])
        #expect(driver.stored?.session == nil)
    }
}
