import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

@Suite("Coordinator: operations and the store")
struct SessionCoordinatorTests {
    @Test("a login: the lock, the store read, the intent, the call, the write, and only then the token is served")
    func order() throws {
        let driver = CoordinatorDriver()
        driver.begin()
        #expect(driver.trail == ["begin", "login"])
        #expect(driver.stored?.intent == StoredIntent(kind: .login, at: driver.wall, tries: 0))
        driver.holdsStore = true
        try driver.grant(refresh: "one", account: "a")
        #expect(driver.token == nil && driver.state == .loggingIn)
        driver.release()
        #expect(driver.trail.suffix(3) == ["hold", "publish 1", "unlock"])
        let user = try #require(driver.stored)
        #expect(user.generation == 1 && user.intent == nil && user.accountID == "a")
        #expect(user.provider == "email_password" && user.accountSince == driver.wall)
    }

    @Test("Rule 1: a login that waited before it was sent is usable: its token's lifetime counts from the sending")
    func waitedBeforeSending() throws {
        let driver = CoordinatorDriver()
        driver.begin()
        let call = try #require(driver.call)
        driver.now = driver.now + .seconds(5)
        driver.wall = driver.wall + .seconds(5)
        var grant = SessionDriver.grant(.seconds(4), refresh: "one", account: "a")
        grant.requestStartedAt = ClockReading(instant: driver.now, wall: driver.wall)
        driver.now = driver.now + .seconds(1)
        driver.wall = driver.wall + .seconds(1)
        driver.handle(.callCompleted(.success(grant), call))
        #expect(driver.state == .valid && driver.noted(.loginSucceeded))
        let tokens = try #require(driver.coordinator.session.tokens)
        #expect(tokens.isUsable(at: driver.now + .seconds(2)) && !tokens.isUsable(at: driver.now + .seconds(3)))
        #expect(driver.stored?.session?.issuedAt == grant.requestStartedAt?.wall)
        #expect(driver.stored?.session?.tokens.plain.issuedAtBoot.instant == grant.requestStartedAt?.instant)
    }

    @Test("a refresh leaves the session's tokens of other variants in the store; a login does not")
    func otherVariants() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        let stored = try #require(driver.stored?.session)
        let plain = stored.tokens.plain
        let variant = TokenVariant(audience: "orders")
        let others = [
            variant: StoredAccessToken(
                Tokens.secret("for orders"), issuedAt: plain.issuedAt, issuedAtBoot: plain.issuedAtBoot,
                lifetime: plain.lifetime)
        ]
        driver.disk.contents.users[0].status = .active(
            StoredSession(
                id: stored.id, access: plain.token, refresh: stored.refresh, refreshExpiry: nil,
                issuedAt: plain.issuedAt, issuedAtBoot: plain.issuedAtBoot, lifetime: plain.lifetime, others: others))
        let next = driver.restart()
        next.begin()
        next.toCall()
        try next.grant(refresh: "two")
        #expect(next.storedRefresh == "two" && next.stored?.session?.tokens.others == others)
        next.storeError = CoordinatorDriver.full
        next.toCall()
        try next.grant(refresh: "three")
        next.storeError = nil
        next.toDue()
        #expect(next.storedRefresh == "three" && next.stored?.session?.tokens.others == others)
        next.login(try #require(next.coordinator.setup.credential), ticket: 1)
        try next.grant(refresh: "four")
        #expect(next.storedRefresh == "four" && next.stored?.session?.tokens.others.isEmpty == true)
    }

    @Test("a request that finds an expired token costs two calls of the store and one of the service")
    func expiredToken() throws {
        let driver = CoordinatorDriver()
        try driver.logIn(.seconds(60))
        driver.toDue()
        try driver.fail(.transient(retryAfter: nil))
        driver.pass(120)
        driver.forget()
        driver.handle(.session(.tokenNeeded))
        driver.toCall()
        try driver.grant(refresh: "two")
        // ExpiredTokenCostTests counts the turns of queues, and the waits for the disk.
        #expect(driver.trail == ["begin", "refresh", "hold", "publish 2", "unlock"])
    }

    @Test("a call that was cut off before it began is made step by step: the store says first what is open")
    func openCall() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.toDue()
        let next = driver.restart(after: 5)
        next.begin()
        next.toCall()
        #expect(next.trail.suffix(4) == ["lock", "read", "intend", "refresh"])
        #expect(next.stored?.intent?.tries == 2)
    }

    @Test("a call does not begin over one that another process has left open: that one counts as a try")
    func beginOverOpenCall() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        let other = driver.another()
        other.toDue()
        // It dies during its call.
        driver.disk.holder = nil
        (driver.now, driver.wall) = (other.now + .seconds(5), other.wall + .seconds(5))
        driver.toDue()
        #expect(driver.trail.suffix(3) == ["begin", "intend", "refresh"])
        #expect(driver.stored?.intent?.tries == 2)
    }

    @Test("an intent that the store cannot take does not keep the call from being made, and what was read counts")
    func beginOnFullDisk() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.storeError = CoordinatorDriver.full
        driver.toDue()
        #expect(driver.trail.first == "begin" && driver.sent == ["one"] && driver.noted(.storeFailing))
        // Another process has renewed the session, and the disk is full for the intent: no call is made.
        let other = CoordinatorDriver()
        try other.logIn()
        let theirs = other.another()
        theirs.toDue()
        try theirs.grant(refresh: "theirs")
        (other.now, other.wall) = (theirs.now, theirs.wall)
        other.storeError = CoordinatorDriver.full
        other.toDue()
        #expect(other.sent == [])
        #expect(other.refresh == "theirs")
        #expect(other.trail == ["begin", "publish 2", "unlock"])
    }

    @Test("a process that is about to end waits for a call that begins, and makes none after a busy lock")
    func drainWhileBeginning() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.holdsStore = true
        driver.toDue()
        driver.handle(.drain)
        #expect(!driver.coordinator.isDrained)
        driver.lockReply = .busy
        driver.release()
        #expect(driver.coordinator.isDrained && driver.sent.isEmpty && driver.stored?.intent == nil)
    }

    @Test(
        "what an ID token calls the account is stored with the login, stays over refreshes, and goes with the next login"
    )
    func subject() throws {
        let driver = CoordinatorDriver()
        driver.begin()
        var grant = SessionDriver.grant(refresh: "one")
        grant.subject = "248289761001"
        driver.handle(.callCompleted(.success(grant), try #require(driver.call)))
        driver.toCall()
        try driver.grant(refresh: "two")
        #expect(driver.stored?.subject == "248289761001" && driver.stored?.accountID == nil)
        let next = driver.restart()
        next.begin()
        #expect(next.coordinator.subject == "248289761001")
        next.login(.given(.anonymous), ticket: 1)
        try next.grant(refresh: "three")
        #expect(next.stored?.subject == nil && next.coordinator.subject == nil)
    }

    @Test("Rule 8: a refreshed token is stored before it is used")
    func persistBeforePublish() throws {
        let driver = CoordinatorDriver(rotation: .grace)
        try driver.logIn()
        driver.toDue()
        #expect(driver.trail == ["begin", "refresh"] && driver.sent == ["one"])
        driver.holdsStore = true
        try driver.grant(refresh: "two")
        #expect(driver.token?.generation == 1 && driver.state == .refreshing)
        driver.release()
        #expect(driver.trail.suffix(3) == ["hold", "publish 2", "unlock"] && driver.storedRefresh == "two")
        #expect(driver.stored?.session?.id == driver.coordinator.base.session)
    }

    @Test(
        "Rule 8: what cannot be stored serves from memory, is stored later, and the old refresh token is never used again"
    )
    func unsaved() throws {
        let driver = CoordinatorDriver(rotation: .grace)
        try driver.refreshUnsaved()
        #expect(driver.state == .valid && driver.token?.generation == 2 && driver.refresh == "two")
        #expect(driver.coordinator.storeError == CoordinatorDriver.full && driver.noted(.storeFailing))
        // No other process may send the old token in between.
        #expect(!driver.trail.contains("unlock"))
        var waits: [Double] = []
        for _ in 0..<8 {
            waits.append((driver.coordinator.due - driver.now).inSeconds)
            driver.toDue()
        }
        #expect(waits.first! >= 0.5 && waits.first! <= 1 && waits.last! >= 15 && waits.last! <= 30)
        driver.toCall(200)
        #expect(driver.sent.last == "two")
        try driver.grant(refresh: "three")
        driver.storeError = nil
        driver.forget()
        driver.toDue()
        #expect(
            driver.coordinator.storeError == nil && driver.storedRefresh == "three" && driver.noted(.storeRecovered))
        #expect(driver.trail == ["hold", "unlock"])
        driver.toCall()
        #expect(driver.sent.last == "three")
    }

    @Test(
        "an unsaved login as another account is stored with the refresh that follows it")
    func unsavedAccount() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.storeError = CoordinatorDriver.full
        driver.login(.given(.anonymous), ticket: 1)
        try driver.grant(refresh: "theirs", account: "b")
        driver.toCall(200)
        try driver.grant()
        #expect(driver.stored?.accountID == "a")
        driver.storeError = nil
        driver.toDue()
        #expect(
            driver.coordinator.storeError == nil && driver.storedRefresh == "theirs" && driver.stored?.accountID == "b")
    }

    @Test("without rotation the lock is given back although the store is failing")
    func unsavedWithoutRotation() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.toDue()
        driver.storeError = CoordinatorDriver.full
        try driver.grant()
        #expect(driver.trail.last == "unlock" && driver.token?.generation == 2)
    }

    @Test("an intent that cannot be stored does not stop the refresh")
    func fullDisk() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.storeError = CoordinatorDriver.full
        driver.failsReads = true
        driver.toDue()
        #expect(driver.call?.kind == .refresh && driver.coordinator.storeError == CoordinatorDriver.full)
        driver.storeError = nil
        try driver.grant()
        #expect(driver.coordinator.storeError == nil && driver.noted(.storeRecovered) && driver.stored?.generation == 2)
    }

    @Test("the generation continues from the store's, over logins, logouts, restarts and processes")
    func generations() throws {
        var driver = CoordinatorDriver()
        try driver.logIn()
        driver.toDue()
        try driver.grant()
        #expect(driver.token?.generation == 2)
        driver.terminate(.logOut, ticket: nil)
        #expect(driver.stored?.generation == 3)
        driver = driver.restart()
        driver.handle(.begin(driver.stored))
        driver.login(.given(.anonymous), ticket: 1)
        try driver.grant(refresh: "new", account: "b")
        #expect(driver.stored?.generation == 4 && driver.token?.generation == 4)
    }

    @Test("a transient failure closes the intent and gives the lock back; the retry starts anew")
    func transient() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.toDue()
        try driver.fail(.transient(retryAfter: nil))
        #expect(
            driver.trail.suffix(2) == ["settle", "unlock"] && driver.stored?.intent == nil && driver.state == .stale)
        driver.toDue()
        #expect(driver.trail.suffix(2) == ["begin", "refresh"] && driver.sent == ["one", "one"])
    }

    @Test("a dead refresh token is erased from the store; the access token serves on during the new login")
    func dead() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.toDue()
        try driver.fail(.sessionDead)
        #expect(driver.call?.kind == .login && driver.stored?.session?.refresh == nil)
        #expect(driver.stored?.session != nil && driver.token?.generation == 1)
        #expect(
            driver.trail == ["begin", "refresh", "spend", "unlock", "begin", "login"])
        try driver.grant(refresh: "two", account: "a")
        #expect(driver.state == .valid && driver.storedRefresh == "two" && driver.revoked.isEmpty)
    }

    @Test("without a credential a dead session ends in the store, too")
    func deadForGood() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        let bare = driver.restart(hasCredential: false)
        bare.begin()
        bare.toDue()
        try bare.fail(.sessionDead)
        #expect(bare.state == .loginRequired && bare.stored?.session == nil && bare.stored?.isLoggedOut == false)
        let next = bare.restart(hasCredential: false)
        next.begin()
        #expect(next.state == .loginRequired && next.reason == .loginRequired)
    }

    @Test("a user that has no credential and was never logged in at this identity is logged out")
    func neverLoggedIn() throws {
        let first = CoordinatorDriver(hasCredential: false)
        first.begin()
        #expect(first.state == .loggedOut && first.reason == .loggedOut)
        #expect(first.refusal == .loginRequired && first.noted(.loginRequired) && first.stored == nil)
        let refused = CoordinatorDriver()
        refused.begin()
        try refused.fail(.credentialRefused)
        let bare = refused.restart(hasCredential: false)
        bare.begin()
        #expect(bare.state == .loggedOut && bare.refusal == .loginRequired)
        let elsewhere = CoordinatorDriver()
        try elsewhere.logIn()
        let moved = CoordinatorDriver(hasCredential: false, disk: elsewhere.disk, identity: "corp")
        moved.begin()
        #expect(moved.state == .loggedOut && moved.refusal == .loginRequired)
    }

    @Test("Rule 12: a definite refusal is remembered over restarts, and an operator's login may ignore it")
    func remembered() throws {
        let driver = CoordinatorDriver()
        driver.begin()
        let fingerprint = CredentialFingerprint(bytes: [1, 2, 3])
        try driver.fail(.credentialRefused, credential: fingerprint)
        #expect(
            driver.state == .refused && driver.stored?.refused == fingerprint
                && driver.trail.suffix(2) == ["refuse", "unlock"])
        let next = driver.restart()
        next.begin()
        #expect(next.call?.kind == .login && next.refused == fingerprint)
        try next.fail(.credentialRefused, credential: fingerprint)
        next.login(next.coordinator.setup.credential!, ticket: 1)
        #expect(next.call?.cause == .asked && next.refused == nil)
        try next.grant(refresh: "one", account: "a")
        #expect(next.state == .valid && next.stored?.refused == nil)
        guard case .loggedIn = next.replies[1] else { throw Missing() }
    }

    @Test("Rule 12: a refusal ends the rest of the session: neither a restart nor another process serves it")
    func refusalEndsSession() throws {
        let one = CoordinatorDriver()
        try one.logIn()
        let two = one.another()
        one.toDue()
        try one.fail(.sessionDead)
        let fingerprint = CredentialFingerprint(bytes: [1])
        try one.fail(.credentialRefused, credential: fingerprint)
        #expect(one.state == .refused && one.token == nil && one.trail.last == "unlock")
        #expect(one.stored?.session == nil && one.stored?.refused == fingerprint && one.stored?.generation == 2)
        // The change is its own: nothing is new.
        one.forget()
        one.handle(.storeSnapshot(one.stored))
        #expect(one.trail.isEmpty && one.logEvents.isEmpty)

        let next = one.restart()
        next.begin()
        #expect(next.token == nil && next.state == .loggingIn && next.refused == fingerprint)
        try next.fail(.credentialRefused, credential: fingerprint)
        #expect(next.state == .refused && next.stored?.generation == 2, "nothing was left to be ended")

        two.pass((next.now - two.now).inSeconds)
        #expect(two.token != nil)
        two.handle(.storeSnapshot(two.stored))
        #expect(two.token == nil && two.call?.kind == .login && two.refused == fingerprint)
        try two.fail(.credentialRefused, credential: fingerprint)
        #expect(two.state == .refused && two.stored?.generation == 2)
    }

    @Test(
        "a session that nothing can renew ends in the store as it does here, whatever refused the login",
        arguments: [IdentityError.Verdict.credentialUnavailable, .unknownApp])
    func refusedOtherwise(_ verdict: IdentityError.Verdict) throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.toDue()
        try driver.fail(.sessionDead)
        try driver.fail(verdict)
        #expect(driver.state == .refused && driver.stored?.session == nil && driver.stored?.intent == nil)
        let next = driver.restart()
        next.begin()
        #expect(next.token == nil && next.call?.kind == .login)
    }

    @Test("a login in an account that is in use ends the rest of the session, too")
    func takenEndsSession() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.toDue()
        try driver.fail(.sessionDead)
        driver.ownership = .inUse(by: "bob")
        try driver.grant(refresh: "two", account: "b")
        #expect(driver.state == .refused && driver.reason == .accountInUse && driver.revoked == ["two"])
        #expect(driver.stored?.session == nil && driver.stored?.accountID == "a")
    }

    @Test(
        "an operator's login that is refused leaves the session unchanged, in the store too",
        arguments: [false, true]
    )
    func refusedByHand(_ isDead: Bool) throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        if isDead {
            driver.toDue()
            try driver.fail(.sessionDead)
            try driver.fail(.transient(retryAfter: nil))
            #expect(driver.state == .stale)
        }
        let before = driver.stored
        driver.login(driver.coordinator.setup.credential!, ticket: 1)
        let fingerprint = CredentialFingerprint(bytes: [1])
        try driver.fail(.credentialRefused, credential: fingerprint)
        #expect(driver.stored?.refused == fingerprint && driver.token?.generation == 1)
        #expect(driver.stored?.session == before?.session && driver.stored?.generation == 1)
        // The access token that serves without a refresh token ends when its own login is refused.
        guard isDead else { return #expect(driver.state == .valid) }
        driver.toCall()
        try driver.fail(.credentialRefused, credential: fingerprint)
        #expect(driver.state == .refused && driver.stored?.session == nil)
    }

    @Test("a refused session from an older release is not served: the login finds the refused credential")
    func refusedByOlderRelease() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        let fingerprint = CredentialFingerprint(bytes: [1])
        driver.disk.contents.users[0].dropRefreshToken()
        driver.disk.contents.users[0].refused = fingerprint
        let next = driver.restart()
        next.begin()
        #expect(next.token == nil && next.call?.kind == .login && next.refused == fingerprint)
        try next.fail(.credentialRefused, credential: fingerprint)
        #expect(next.state == .refused && next.stored?.session == nil)
    }

    @Test("a stored session of another kind of login than the configured one continues, with a log line")
    func otherLogin() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        for provider in ["email_password", "api_key", nil] {
            driver.disk.contents.users[0].provider = provider
            let next = driver.restart()
            next.begin()
            #expect(next.token != nil && next.noted(.credentialDiffers) == (provider == "api_key"))
            let bare = driver.restart(hasCredential: false)
            bare.begin()
            #expect(!bare.noted(.credentialDiffers))
        }
    }

    @Test("the operator that requested the refresh learns of the refusal when the store has it")
    func refusalStoredBeforeReply() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.refreshNow(ticket: 1)
        try driver.fail(.sessionDead)
        driver.holdsStore = true
        try driver.fail(.credentialRefused, credential: CredentialFingerprint(bytes: [1]))
        #expect(driver.state == .refused && driver.token == nil && driver.replies[1] == nil)
        driver.release()
        guard case .failed(let error) = driver.replies[1] else { throw Missing() }
        #expect(error.verdict == .credentialRefused && driver.stored?.session == nil)
    }

    @Test(
        "the operator that requested the refresh that ended a session gets a reply, though the user is removed in between"
    )
    func endedAndRemoved() throws {
        let first = CoordinatorDriver()
        try first.logIn()
        let driver = first.restart(hasCredential: false)
        driver.begin()
        driver.refreshNow(ticket: 1)
        driver.holdsStore = true
        try driver.fail(.sessionDead)
        #expect(driver.state == .loginRequired && driver.replies[1] == nil)
        driver.terminate(.remove, ticket: nil)
        guard case .failed(let error) = driver.replies[1] else { throw Missing() }
        #expect(error.verdict == .sessionDead)
        driver.release()
    }

    @Test("a refusal that is stored late ends nothing that another process has begun in between")
    func lateRefusal() throws {
        let one = CoordinatorDriver()
        try one.logIn()
        let two = one.another()
        one.toDue()
        try one.fail(.sessionDead)
        one.storeError = CoordinatorDriver.full
        let fingerprint = CredentialFingerprint(bytes: [1])
        try one.fail(.credentialRefused, credential: fingerprint)
        #expect(one.state == .refused && one.stored?.session != nil && one.coordinator.isUnsaved)
        two.login(.given(.anonymous), ticket: 1)
        try two.grant(refresh: "theirs", account: "b")
        one.storeError = nil
        one.toDue()
        #expect(!one.coordinator.isUnsaved && one.storedRefresh == "theirs" && one.stored?.generation == 2)
        one.handle(.storeSnapshot(one.stored))
        #expect(one.state == .valid && one.refresh == "theirs")
    }

    struct Missing: Error {}

    @Test("a doubted credential is remembered once the doubt is confirmed")
    func doubted() throws {
        let driver = CoordinatorDriver()
        driver.begin()
        let fingerprint = CredentialFingerprint(bytes: [1])
        try driver.fail(.credentialDoubted, credential: fingerprint)
        #expect(driver.stored?.refused == nil && driver.state == .loggingIn)
        driver.pass(31)
        driver.toCall()
        try driver.fail(.credentialDoubted, credential: fingerprint)
        #expect(driver.state == .refused && driver.stored?.refused == fingerprint)
    }

    @Test("a refusal that cannot be stored is stored later")
    func refusalLater() throws {
        let driver = CoordinatorDriver()
        driver.begin()
        driver.storeError = CoordinatorDriver.full
        let fingerprint = CredentialFingerprint(bytes: [1])
        try driver.fail(.credentialRefused, credential: fingerprint)
        driver.toDue()
        #expect(driver.stored?.refused == nil && driver.coordinator.storeError != nil)
        driver.storeError = nil
        driver.toDue()
        #expect(
            driver.stored?.refused == fingerprint && driver.coordinator.storeError == nil
                && driver.coordinator.due == .never)
    }

    @Test("a credential that changes while it is refused: the refusal is remembered, and the new credential is tried")
    func changedWhileRefused() throws {
        let driver = CoordinatorDriver()
        driver.begin()
        driver.handle(.session(.credentialChanged))
        let fingerprint = CredentialFingerprint(bytes: [1])
        try driver.fail(.credentialRefused, credential: fingerprint)
        #expect(
            driver.stored?.refused == fingerprint && driver.call?.cause == .credentialChanged
                && driver.refused == fingerprint)
    }

    @Test("unsaved changes are stored before the next intent, so that a crash finds the newest refresh token")
    func unsavedChangeBeforeIntent() throws {
        let driver = CoordinatorDriver(rotation: .grace)
        try driver.refreshUnsaved(.seconds(20))
        // The store works again when the next refresh is due.
        driver.pass(13)
        driver.storeError = nil
        driver.forget()
        driver.handle(.session(.tokenRefused(2)))
        #expect(driver.trail == ["publish 2", "read", "hold", "intend", "refresh"])
        #expect(driver.sent.last == "two")
        #expect(driver.storedRefresh == "two" && driver.stored?.intent?.tries == 1)
        let next = driver.restart(rotation: .grace)
        next.begin()
        next.toCall()
        #expect(next.sent == ["two"])
    }

    @Test("unsaved changes are not stored during a call: that would erase the call's intent")
    func noUnsavedChangeDuringCall() throws {
        let driver = CoordinatorDriver(rotation: .grace)
        try driver.refreshUnsaved(.seconds(20))
        driver.pass(13)
        driver.handle(.session(.tokenRefused(2)))
        #expect(driver.call != nil)
        driver.storeError = nil
        driver.forget()
        for _ in 0..<5 { driver.toDue() }
        #expect(driver.trail.isEmpty)
        try driver.fail(.transient(retryAfter: nil))
        driver.toDue()
        #expect(driver.storedRefresh == "two" && driver.coordinator.storeError == nil)
    }

    @Test("the lifetime of a token whose request has no known start counts from its call, after any wait for the lock")
    func lifeFromTheCall() throws {
        let driver = CoordinatorDriver()
        driver.lockReply = .busy
        driver.begin()
        for _ in 0..<20 { driver.toDue() }
        driver.lockReply = .taken
        driver.toDue()
        let began = driver.now
        try driver.grant(.seconds(1000), refresh: "one", account: "a")
        #expect(driver.token?.usableUntil == began + .seconds(995))
    }
}
