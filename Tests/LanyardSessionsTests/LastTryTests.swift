import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// Rule 9: before an operator must log in, a refresh token with an unknown outcome is sent once more, when nothing is left to lose.
@Suite("Coordinator: the last try")
struct LastTryTests {
    private static let orders = TokenVariant(audience: "orders")
    /// Of access tokens. Their allowance is 5 s.
    private static let lifetime = Duration.seconds(1800)

    /// An operator has logged in, and the response to the first refresh is lost.
    private static func lost(
        _ rotation: RefreshTokenRotation = .oneUse, lastTry: Bool = true, variants: [TokenVariant] = [],
        asks: Bool = false
    ) throws -> (driver: CoordinatorDriver, issuedAt: Instant) {
        let driver = CoordinatorDriver(
            hasCredential: false, rotation: rotation, variants: variants, asksBeforeSending: asks, lastTry: lastTry)
        driver.begin()
        driver.login(.given(.anonymous), ticket: 1)
        let issuedAt = driver.now
        try driver.grant(lifetime, refresh: "one", account: "a")
        for _ in variants {
            if asks { try driver.connect() }
            try driver.grant(.seconds(3600), token: "for orders")
        }
        driver.forget()
        driver.toCall()
        if asks { try driver.connect() }
        try driver.fail(.unknownOutcome)
        if rotation == .grace {
            driver.toCall()
            try driver.fail(.unknownOutcome)
            for _ in 0..<9 where !driver.noted(.lastTryAwaited) { driver.toDue() }
        }
        return (driver, issuedAt)
    }

    /// To the next call, at most so many deadlines away, or nothing.
    private static func sentLater(_ driver: CoordinatorDriver) -> [String] {
        let sent = driver.sent.count
        driver.toCall(60)
        return Array(driver.sent.dropFirst(sent))
    }

    @Test(
        "Rule 9: the access token serves to its end, then the refresh token is sent once more, and the session continues",
        arguments: [RefreshTokenRotation.oneUse, .grace])
    func made(_ rotation: RefreshTokenRotation) throws {
        let (driver, issuedAt) = try Self.lost(rotation)
        #expect(driver.state == .stale && driver.reason == .refreshFailing && driver.token?.generation == 1)
        #expect(driver.noted(.lastTryAwaited) && driver.stored?.intent?.tries ?? 0 > 0 && driver.storedRefresh == "one")
        driver.toDue { driver.state == .unreachable }
        #expect(driver.reason == .outcomeUnknown && driver.now < issuedAt + Self.lifetime && driver.call == nil)
        #expect(Self.sentLater(driver) == ["one"])
        // The service may have begun the lifetime with a response at the end of the attempt.
        let end = issuedAt + Self.lifetime + .seconds(30)
        #expect(driver.now >= end + .seconds(5) && driver.call?.cause == .lastTry)
        #expect(driver.stored?.session?.hasMadeLastTry == true && driver.disk.holder === driver)
        try driver.grant(refresh: "two")
        #expect(driver.state == .valid && driver.storedRefresh == "two" && driver.stored?.intent == nil)
        #expect(driver.stored?.session?.hasMadeLastTry == false && driver.token != nil)
    }

    @Test("Rule 9: the next refresh token has a last try of its own, and one that no response has replaced has none")
    func again() throws {
        for next in ["two", nil] {
            let (driver, _) = try Self.lost()
            driver.toCall(60)
            try driver.grant(Self.lifetime, refresh: next)
            #expect(driver.refresh == next ?? "one" && driver.storedRefresh == driver.refresh)
            #expect(driver.stored?.session?.hasMadeLastTry == (next == nil))
            driver.toCall()
            try driver.fail(.unknownOutcome)
            #expect(driver.state == (next == nil ? .loginRequired : .stale))
        }
    }

    @Test(
        "Rule 9: whatever error the last try gets, there is none after it, and an operator must log in",
        arguments: [
            IdentityError.Verdict.sessionDead, .unknownOutcome, .transient(retryAfter: nil),
            .transient(retryAfter: .seconds(9)),
            .clientRefused, .gone, .credentialDoubted,
        ])
    func once(_ verdict: IdentityError.Verdict) throws {
        let (driver, _) = try Self.lost()
        driver.toCall(60)
        try driver.fail(verdict)
        #expect(driver.state == .loginRequired && driver.reason == .outcomeUnknown && driver.stored?.session == nil)
        #expect(Self.sentLater(driver).isEmpty && driver.revoked.isEmpty)
        let next = driver.restart(hasCredential: false, rotation: .oneUse)
        next.begin()
        #expect(Self.sentLater(next).isEmpty && next.state == .loginRequired)
    }

    @Test("Rule 9: last_try: false, a repetition without rotation, and a login that can follow: as before")
    func none() throws {
        let (off, _) = try Self.lost(lastTry: false)
        #expect(off.state == .loginRequired && off.reason == .outcomeUnknown && off.stored?.session == nil)
        let (steady, _) = try Self.lost(.none)
        steady.toCall()
        #expect(steady.call?.cause == .retry && steady.stored?.session?.hasMadeLastTry == false)
        let other = CoordinatorDriver(rotation: .oneUse, lastTry: true)
        try other.logIn()
        other.toCall()
        try other.fail(.unknownOutcome)
        #expect(other.call?.kind == .login && other.storedRefresh == nil)
    }

    @Test(
        "Rule 9: nothing brings the last try forward: a refused token, a request, an operator's refresh, a jump of the clocks"
    )
    func notEarlier() throws {
        let (driver, issuedAt) = try Self.lost()
        let end = issuedAt + Self.lifetime
        driver.handle(.session(.tokenRefused(Generation(driver.token?.generation ?? 0))))
        driver.refreshNow(ticket: 2)
        #expect({ if case .failed? = driver.replies[2] { true } else { false } }())
        driver.handle(.session(.limited(IdentityError(.transient(retryAfter: .seconds(1)), message: "limited"))))
        // The wall clock says that the token has ended.
        driver.wall = driver.wall + .seconds(7200)
        driver.handle(.session(.clockJumped))
        while driver.now < end - .seconds(10) {
            #expect(driver.call == nil && driver.sent == ["one"])
            driver.handle(.session(.tokenNeeded))
            driver.handle(.session(.credentialChanged))
            driver.refreshNow(ticket: 3)
            driver.pass(7)
            driver.handle(.due)
        }
        #expect(Self.sentLater(driver) == ["one"] && driver.now >= end)
    }

    @Test("Rule 9: the access token of a variant lives longer: the last try waits for its end, and the variant serves")
    func variant() throws {
        let (driver, issuedAt) = try Self.lost(variants: [Self.orders])
        driver.toDue { driver.state == .unreachable }
        #expect(
            driver.variant(1) != nil && driver.coordinator.variants[0].session.tokens?.isUsable(at: driver.now) == true)
        #expect(Self.sentLater(driver) == ["one"] && driver.now >= issuedAt + .seconds(3600))
        try driver.grant(refresh: "two")
        driver.toCall()
        #expect(driver.call?.variant == Self.orders && driver.sent.last == "two")
    }

    @Test(
        "Rule 9: a variant that no route names any more still has its token in the store: the last try waits for that, too"
    )
    func removedVariant() throws {
        let (driver, issuedAt) = try Self.lost(variants: [Self.orders])
        let next = driver.restart(hasCredential: false, rotation: .oneUse)
        next.begin()
        #expect(Self.sentLater(next) == ["one"] && next.now >= issuedAt + .seconds(3600))
    }

    @Test("Rule 9: the response to the fetch of a variant is lost: the same")
    func lostFetch() throws {
        let driver = CoordinatorDriver(hasCredential: false, rotation: .oneUse, variants: [Self.orders], lastTry: true)
        driver.begin()
        driver.login(.given(.anonymous), ticket: 1)
        let issuedAt = driver.now
        try driver.grant(Self.lifetime, refresh: "one", account: "a")
        try #require(driver.call?.variant == Self.orders)
        try driver.fail(.unknownOutcome)
        #expect(driver.state == .stale && driver.token != nil)
        // No credential can log in: the route says so, as the status does.
        let action: ResponsibleParty? =
            if case .none(.variantRefused(_, let action))? = driver.variantAvailability[UserIndex(1)] { action } else {
                nil
            }
        #expect(action == .user)
        #expect(
            Self.sentLater(driver) == ["one"] && driver.now >= issuedAt + Self.lifetime
                && driver.call?.cause == .lastTry)
        try driver.grant(refresh: "two")
        driver.toCall()
        #expect(driver.call?.variant == Self.orders && driver.sent.last == "two")
    }

    @Test(
        "Rule 9: a start finds the open intent: before the end of the access token it waits, after it the last try is made"
    )
    func restart() throws {
        for seconds in [1.0, 7200] {
            let (driver, issuedAt) = try Self.lost()
            let next = driver.restart(after: seconds, hasCredential: false, rotation: .oneUse, boot: "boot-2")
            next.begin()
            if seconds == 1 { #expect(next.token?.generation == 1) }
            next.toCall(60)
            #expect(next.sent == ["one"] && next.now >= issuedAt + Self.lifetime)
            try next.grant(refresh: "two")
            #expect(next.state == .valid && next.storedRefresh == "two")
        }
    }

    @Test("Rule 9: killed before the mark, between the mark and the token, after the token: never twice")
    func killed() throws {
        for step in ["prepared", "marking", "marked", "sent"] {
            let (driver, _) = try Self.lost(asks: true)
            driver.forget()
            driver.toCall(60)
            try #require(driver.trail.last == "prepare")
            if step != "prepared" {
                driver.holdsStore = step == "marking"
                if step == "marked" { driver.storeError = nil }
                try driver.connect()
            }
            #expect(driver.trail.contains("send") == (step == "marked" || step == "sent"))
            let isMarked = driver.stored?.session?.hasMadeLastTry == true
            #expect(isMarked == (step == "marked" || step == "sent"))
            let next = driver.restart(hasCredential: false, rotation: .oneUse)
            next.begin()
            next.toCall(60)
            #expect(next.sent == (isMarked ? [] : ["one"]), "\(step)")
            if isMarked { #expect(next.state == .loginRequired && next.reason == .outcomeUnknown) }
        }
    }

    @Test("Rule 9: what cannot be connected is no try: it is repeated")
    func unconnected() throws {
        let (driver, _) = try Self.lost(asks: true)
        for _ in 0..<3 {
            driver.toCall(60)
            try driver.fail(.transient(retryAfter: nil))
            #expect(driver.state == .unreachable && driver.stored?.session?.hasMadeLastTry == false)
        }
        driver.toCall(60)
        try driver.connect()
        try driver.grant(refresh: "two")
        #expect(driver.state == .valid && driver.storedRefresh == "two")
    }

    @Test("Rule 9: two processes: one makes the last try, the other takes over what it brings, or ends with it")
    func twoProcesses() throws {
        for isGranted in [true, false] {
            let (one, _) = try Self.lost()
            let other = one.another(rotation: .oneUse, hasCredential: false)
            other.toDue()
            one.toCall(60)
            try #require(one.sent == ["one", "one"])
            other.pass((one.now - other.now).inSeconds)
            for _ in 0..<40 { other.handle(.due); other.pass(0.1) }
            #expect(other.call == nil && other.sent.isEmpty, "the lock is held")
            if isGranted { try one.grant(refresh: "two") } else { try one.fail(.sessionDead) }
            for _ in 0..<40 where other.call == nil { other.toDue() }
            #expect(other.sent.allSatisfy { $0 == "two" })
            #expect(isGranted ? other.refresh == "two" : other.state == .loginRequired)
        }
    }

    @Test("Rule 9: another process has a successor: it is taken over, and the last try is not made")
    func successorElsewhere() throws {
        let (one, _) = try Self.lost()
        var session = try #require(one.stored?.session)
        session.refresh = Tokens.secret("two")
        let login = StoreChange.StoredLogin(
            identity: "demo", session: session, accountID: nil, provider: nil, isAdded: false)
        let verdict = one.disk.contents.apply(
            .saveSession(user: "alice", login, base: try #require(one.stored).version), now: one.wall)
        guard case .stored = verdict else { throw SessionCoordinatorTests.Missing() }
        one.toDue { one.refresh == "two" }
        #expect(one.sent.first == "one" && one.sent.dropFirst().allSatisfy { $0 == "two" } && one.refresh == "two")
    }

    @Test("Rule 9: another process has marked its last try after this one has read the store: it is not made here")
    func markedElsewhere() throws {
        let (one, _) = try Self.lost(asks: true)
        one.toCall(60)
        var user = try #require(one.disk.contents.users.first)
        user.markLastTry()
        one.disk.contents.users = [user]
        one.forget()
        try one.connect()
        #expect(one.trail.contains("cancel") && !one.trail.contains("send"))
        #expect(one.state == .loginRequired && one.reason == .outcomeUnknown)
    }

    @Test("Rule 9: the lock cannot be had, the store cannot be read, or cannot be written: the last try waits")
    func troubledStore() throws {
        for trouble in ["lock", "read", "write"] {
            let (driver, _) = try Self.lost(asks: true)
            driver.toDue { driver.state == .unreachable }
            driver.forget()
            if trouble == "lock" {
                driver.lockReply = .failed("no locks available")
            } else {
                driver.storeError = CoordinatorDriver.full
            }
            driver.failsReads = trouble == "read"
            for _ in 0..<40 {
                driver.toDue()
                if driver.call != nil { try driver.connect() }
                #expect(!driver.trail.contains("send"), "\(trouble)")
                #expect(driver.state == .unreachable && driver.stored?.session?.hasMadeLastTry == false, "\(trouble)")
                // The service is not what is waited for.
                driver.handle(.session(.tokenNeeded))
                #expect(!driver.coordinator.wantsProbe(at: driver.now), "\(trouble)")
            }
            (driver.lockReply, driver.storeError, driver.failsReads) = (.taken, nil, false)
            driver.forget()
            driver.toCall(60)
            try driver.connect()
            #expect(driver.trail.last == "send" && driver.stored?.session?.hasMadeLastTry == true, "\(trouble)")
        }
    }

    @Test("Rule 9: an intent that was not stored is stored while the last try is awaited")
    func unsavedIntent() throws {
        let driver = CoordinatorDriver(hasCredential: false, rotation: .oneUse, lastTry: true)
        driver.begin()
        driver.login(.given(.anonymous), ticket: 1)
        try driver.grant(Self.lifetime, refresh: "one", account: "a")
        driver.storeError = CoordinatorDriver.full
        driver.toDue { driver.call != nil }
        try driver.fail(.unknownOutcome)
        #expect(driver.state == .stale && driver.stored?.intent == nil && driver.coordinator.hasUnsavedRefreshToken)
        driver.storeError = nil
        driver.toDue { driver.stored?.intent != nil }
        #expect(driver.stored?.intent?.tries == 1 && driver.sent == ["one"])
        #expect(Self.sentLater(driver) == ["one"])
    }

    @Test("Rule 9: an older file in the place of the one with the mark does not undo a last try that was made here")
    func olderFile() throws {
        let (driver, _) = try Self.lost(asks: true)
        driver.toCall(60)
        let old = driver.disk.contents
        driver.holdsStore = true
        try driver.connect()
        driver.release()
        try #require(driver.trail.last == "send" && driver.stored?.session?.hasMadeLastTry == true)
        driver.disk.contents = old
        try driver.fail(.unknownOutcome)
        #expect(driver.state == .loginRequired && Self.sentLater(driver).isEmpty)
        let (other, _) = try Self.lost(asks: true)
        other.toCall(60)
        let former = other.disk.contents
        try other.connect()
        other.disk.contents = former
        other.coordinator.recordStored(other.stored)
        #expect(other.coordinator.refreshToken.hasMadeLastTry)
    }

    @Test("Rule 9: an operator's login in between cancels the last try; a logout, too, and revokes the token")
    func cancelled() throws {
        let (driver, _) = try Self.lost()
        driver.login(.given(.anonymous), ticket: 2)
        try driver.grant(refresh: "new", account: "a")
        #expect(driver.state == .valid && driver.storedRefresh == "new" && driver.revoked.isEmpty)
        #expect(Self.sentLater(driver) == ["new"])
        let (other, _) = try Self.lost()
        other.terminate(.logOut, ticket: 3)
        #expect(Self.sentLater(other).isEmpty && other.state == .loggedOut && other.revoked == ["one"])
    }

    @Test("Rule 9: a configured refresh token has served its only login: the last try follows its refusal")
    func spentFile() throws {
        let driver = CoordinatorDriver(login: .refreshToken("/x"), rotation: .oneUse, lastTry: true)
        driver.begin()
        let issuedAt = driver.now
        try driver.grant(Self.lifetime, refresh: "one", account: "a")
        driver.toCall()
        try driver.fail(.unknownOutcome)
        try #require(driver.call?.kind == .login && driver.storedRefresh == "one")
        try driver.fail(
            .credentialRefused, credential: CredentialFingerprint(bytes: [UInt8](repeating: 1, count: 32)).spent)
        #expect(driver.state == .stale && driver.token != nil && driver.stored?.intent?.tries == 1)
        #expect(Self.sentLater(driver) == ["one"] && driver.now >= issuedAt + Self.lifetime)
        try driver.grant(refresh: "two")
        #expect(driver.state == .valid && driver.storedRefresh == "two")
        // The file changes while another last try is awaited.
        driver.toCall()
        try driver.fail(.unknownOutcome)
        try driver.fail(.credentialRefused)
        driver.handle(.session(.credentialChanged))
        #expect(driver.call?.kind == .login && driver.call?.cause == .credentialChanged)
    }

    // MARK: A refused credential

    private static let refused = CredentialFingerprint(bytes: [UInt8](repeating: 1, count: 32))

    /// The configured login was refused, and the last try in its place has renewed the session.
    private static func renewed(variants: [TokenVariant] = []) throws -> CoordinatorDriver {
        let driver = CoordinatorDriver(
            login: .refreshToken("/x"), rotation: .oneUse, variants: variants, lastTry: true)
        driver.begin()
        try driver.grant(lifetime, refresh: "one", account: "a")
        for _ in variants { try driver.grant(lifetime, token: "for orders") }
        driver.toCall()
        try driver.fail(.unknownOutcome)
        try driver.fail(.credentialRefused, credential: refused)
        try #require(sentLater(driver).last == "one" && driver.call?.cause == .lastTry)
        try driver.grant(lifetime, refresh: "two")
        try #require(driver.state == .valid && driver.storedRefresh == "two")
        return driver
    }

    @Test(
        "Rule 12: a refresh proves nothing of a refused credential: it is not sent when the session of the last try ends",
        arguments: [false, true])
    func refusalStays(isRestarted: Bool) throws {
        var driver = try Self.renewed()
        #expect(driver.stored?.refused == Self.refused)
        driver.toCall()
        try driver.grant(Self.lifetime, refresh: "three")
        #expect(driver.stored?.refused == Self.refused && driver.storedRefresh == "three")
        if isRestarted {
            driver = driver.restart()
            driver.begin()
        }
        driver.toCall()
        try driver.fail(.sessionDead)
        #expect(driver.call?.kind == .login && driver.refused == Self.refused)
        try driver.fail(.credentialRefused, credential: Self.refused)
        #expect(driver.state == .refused && driver.stored?.session == nil)
        // A login that works ends it.
        driver.handle(.session(.credentialChanged))
        try driver.grant(Self.lifetime, refresh: "four")
        #expect(driver.state == .valid && driver.stored?.refused == nil)
    }

    @Test("Rule 12: the fetch of a variant leaves the refusal, too")
    func refusalStaysWithFetch() throws {
        let driver = try Self.renewed(variants: [Self.orders])
        for _ in 0..<5 where driver.call?.variant != Self.orders { driver.toCall() }
        try #require(driver.call?.variant == Self.orders && driver.call?.kind == .refresh)
        try driver.grant(Self.lifetime, refresh: "three", token: "for orders")
        #expect(driver.storedRefresh == "three" && driver.stored?.refused == Self.refused)
    }

    @Test("Rule 12: a session that is written again over an older file brings the refusal along")
    func refusalStaysOverOlderFile() throws {
        let driver = CoordinatorDriver(login: .refreshToken("/x"), rotation: .oneUse, lastTry: true)
        driver.begin()
        try driver.grant(Self.lifetime, refresh: "one", account: "a")
        let old = driver.disk.contents
        driver.toCall()
        try driver.fail(.unknownOutcome)
        try driver.fail(.credentialRefused, credential: Self.refused)
        try #require(Self.sentLater(driver).last == "one")
        try driver.grant(Self.lifetime, refresh: "two")
        driver.disk.contents = old
        driver.toCall()
        #expect(driver.noted(.storeOlder) && driver.storedRefresh == "two")
        #expect(driver.stored?.refused == Self.refused)
    }
}
