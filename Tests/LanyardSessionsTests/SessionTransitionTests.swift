import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

@Suite("Session: states")
struct SessionTransitionTests {
    private static let transient = IdentityError.Verdict.transient(retryAfter: nil)

    /// A driver whose session is in `state`.
    static func driver(in state: SessionState, hasCredential: Bool = true) throws -> SessionDriver {
        let driver = SessionDriver(hasCredential: hasCredential)
        if state == .loggedOut { return driver }
        if state == .loginRequired {
            let bare = SessionDriver(hasCredential: false)
            bare.adopt()
            bare.toDue()
            try bare.fail(.sessionDead)
            return bare
        }
        if state == .refused, !hasCredential {
            driver.adopt()
            driver.toDue()
            try driver.fail(.unknownApp)
            return driver
        }
        if state == .loggingIn || state == .refused {
            driver.handle(.logIn)
            if state == .refused { try driver.fail(.credentialRefused) }
            return driver
        }
        driver.adopt()
        if state == .valid { return driver }
        driver.toDue()
        if state == .refreshing { return driver }
        try driver.fail(transient)
        if state == .stale { return driver }
        driver.pass(2000)
        driver.handle(.due)
        try driver.fail(transient)
        return driver
    }

    @Test(
        "Rule 10: a login's 401 without words is tried again, and is a refusal once it comes again half a minute later")
    func doubted() throws {
        let driver = try Self.driver(in: .loggingIn)
        try driver.fail(.credentialDoubted)
        driver.toDue()
        try driver.fail(.credentialDoubted)
        #expect(driver.state == .loggingIn)
        driver.pass(30)
        driver.handle(.due)
        try driver.fail(.credentialDoubted)
        #expect(driver.state == .refused)
        #expect(driver.refusal == .credentialRefused(because: "planned"))
    }

    @Test("Rule 10: an untrusted certificate of the service is tried again, and alerts")
    func trust() throws {
        let driver = try Self.driver(in: .refreshing)
        let error = IdentityError(Self.transient, message: "no trust", isAlarming: true)
        driver.handle(.failed(error, try #require(driver.call)))
        #expect(driver.state == .stale && driver.due < .never && driver.logEvents.last?.level == .error)
    }

    @Test("every state can be reached", arguments: SessionState.allCases)
    func reachable(_ state: SessionState) throws {
        #expect(try Self.driver(in: state).state == state)
    }

    @Test(
        "the start logs in with the credential, and without one asks for an operator",
        arguments: [(true, SessionState.loggingIn), (false, .loggedOut)])
    func start(_ hasCredential: Bool, _ state: SessionState) {
        let driver = SessionDriver(hasCredential: hasCredential)
        driver.handle(.logIn)
        #expect(driver.state == state)
        #expect(driver.calls.map(\.kind) == (hasCredential ? [.login] : []))
        #expect(hasCredential ? driver.isPending : driver.refusal == .loginRequired)
    }

    @Test(
        "Rule 10: what a failed refresh does, with a credential and without",
        arguments: [
            (transient, true, SessionState.stale), (transient, false, .stale), (.unknownOutcome, true, .stale),
            (.unknownOutcome, false, .stale), (.gone, true, .stale), (.gone, false, .stale),
            (.sessionDead, true, .refreshing), (.sessionDead, false, .loginRequired),
            (.unknownApp, true, .refused), (.unknownApp, false, .refused),
            (.credentialRefused, true, .refreshing), (.credentialRefused, false, .loginRequired),
        ])
    func failedRefresh(_ verdict: IdentityError.Verdict, _ hasCredential: Bool, _ after: SessionState) throws {
        let driver = try Self.driver(in: .refreshing, hasCredential: hasCredential)
        try driver.fail(verdict)
        #expect(driver.state == after)
    }

    @Test(
        "Rule 10: what a failed first login does",
        arguments: [
            (transient, SessionState.loggingIn, SessionReason.identityUnreachable),
            (.unknownOutcome, .loggingIn, .identityUnreachable),
            (.credentialDelayed, .loggingIn, .identityUnreachable), (.gone, .loggingIn, .identityGone),
            (.credentialRefused, .refused, .credentialRefused), (.unknownApp, .refused, .credentialRefused),
            (.credentialUnavailable, .refused, .credentialRefused), (.sessionDead, .refused, .credentialRefused),
        ])
    func failedLogin(_ verdict: IdentityError.Verdict, _ after: SessionState, _ reason: SessionReason) throws {
        let driver = try Self.driver(in: .loggingIn)
        try driver.fail(verdict)
        #expect(driver.state == after && driver.reason == reason)
        #expect((driver.due == .never) == (after == .refused))
        if after == .refused {
            #expect(driver.refusal == .credentialRefused(because: "planned"))
        } else {
            let action: ResponsibleParty = reason == .identityGone ? .operator : .nobody
            guard case .identityUnreachable(driver.due, "planned", action, _) = driver.refusal else {
                Issue.record("\(String(describing: driver.refusal))")
                return
            }
            driver.toDue()
            #expect(driver.call?.kind == .login && driver.call?.cause == .retry)
        }
    }

    @Test(
        "Rule 12: a dead refresh token without a credential ends the session at once, and no call follows, whatever comes"
    )
    func deadWithoutCredential() throws {
        let driver = try Self.driver(in: .refreshing, hasCredential: false)
        try driver.fail(.sessionDead)
        let calls = driver.calls.count
        #expect(driver.state == .loginRequired && driver.refusal == .loginRequired && driver.due == .never)
        for event in [Session.Event.due, .tokenNeeded, .tokenRefused(1), .credentialChanged, .clockJumped, .due] {
            driver.pass(1000)
            driver.handle(event)
        }
        #expect(driver.calls.count == calls && driver.state == .loginRequired)
    }

    @Test("Rule 12: a dead refresh token with a credential logs in again while the access token serves on")
    func deadWithCredential() throws {
        let driver = try Self.driver(in: .refreshing)
        let publications = driver.publications
        try driver.fail(.sessionDead)
        #expect(driver.call?.kind == .login && driver.call?.cause == .sessionDead)
        #expect(driver.publications == publications && driver.token?.generation == 1)
        try driver.grant(refresh: "second", account: "a")
        #expect(driver.state == .valid && driver.token?.generation == 2)
        driver.toDue()
        #expect(driver.call?.kind == .refresh)
    }

    @Test("Rule 12: a new login that is refused stops for good, until the credential changes")
    func reloginRefused() throws {
        let driver = try Self.driver(in: .refreshing)
        try driver.fail(.sessionDead)
        try driver.fail(.credentialRefused)
        #expect(
            driver.state == .refused && driver.due == .never && driver.refusal == .credentialRefused(because: "planned")
        )
        driver.handle(.tokenNeeded)
        #expect(driver.call == nil)
        driver.handle(.credentialChanged)
        #expect(driver.state == .loggingIn && driver.call?.cause == .credentialChanged && driver.isPending)
    }

    @Test("a credential that changes while it is being refused is tried once more")
    func changedMeanwhile() throws {
        let driver = try Self.driver(in: .loggingIn)
        driver.pass(1)
        driver.handle(.credentialChanged)
        #expect(driver.calls.count == 1)
        try driver.fail(.credentialRefused)
        #expect(driver.state == .loggingIn && driver.calls.count == 2)
        driver.pass(1)
        try driver.fail(.credentialRefused)
        #expect(driver.state == .refused)
    }

    @Test("a login that could not read its credential in time is repeated at once when the credential can be read")
    func readableAgain() throws {
        let driver = try Self.driver(in: .loggingIn)
        for _ in 0..<8 {
            try driver.fail(.credentialDelayed)
            driver.toDue()
        }
        try driver.fail(.credentialDelayed)
        let calls = driver.calls.count
        #expect(driver.due > driver.now)
        driver.handle(.credentialChanged)
        #expect(driver.state == .loggingIn && driver.calls.count == calls + 1 && driver.call?.kind == .login)
        // A response of the service is another matter: its back-off holds.
        try driver.fail(Self.transient)
        driver.handle(.credentialChanged)
        #expect(driver.calls.count == calls + 1 && driver.due > driver.now)
    }

    @Test("so is the login of a session whose refresh token is dead, while its access token serves and afterwards")
    func readableAgainAfterDeath() throws {
        for hasExpired in [false, true] {
            let driver = try Self.driver(in: .refreshing)
            try driver.fail(.sessionDead)
            try driver.fail(.credentialDelayed)
            for _ in 0..<1000 where (driver.state == .unreachable) != hasExpired {
                driver.toDue()
                if driver.call != nil { try driver.fail(.credentialDelayed) }
            }
            #expect((driver.state == .unreachable) == hasExpired)
            let calls = driver.calls.count
            driver.handle(.credentialChanged)
            #expect(driver.calls.count == calls + 1 && driver.call?.kind == .login)
            try driver.grant(refresh: "second", account: "a")
            #expect(driver.state == .valid)
        }
    }

    @Test(
        "a changed credential leaves every other state alone",
        arguments: SessionState.allCases.filter { $0 != .refused && $0 != .loginRequired })
    func healthyAndChanged(_ state: SessionState) throws {
        let driver = try Self.driver(in: state)
        let calls = driver.calls
        driver.handle(.credentialChanged)
        #expect(driver.state == state && driver.calls == calls)
    }

    @Test(
        "a logout wins over every call in progress, and no late response revives the session",
        arguments: SessionState.allCases)
    func logoutWins(_ state: SessionState) throws {
        let driver = try Self.driver(in: state)
        let call = driver.call
        let hadTokens = driver.tokens != nil
        driver.handle(.logOut)
        #expect(
            driver.state == .loggedOut && driver.due == .never && driver.refusal == driver.context.refusalAfterLogout)
        #expect(driver.revoked.count == (hadTokens ? 1 : 0))
        guard let call else { return }
        let publications = driver.publications
        driver.handle(.granted(SessionDriver.grant(refresh: "late", account: "a"), call))
        driver.handle(.failed(IdentityError(.transient(retryAfter: nil), message: "late"), call))
        #expect(driver.state == .loggedOut && driver.publications == publications)
        // The session of a late login is revoked; a refresh made no new session.
        let late = driver.revoked.filter { Tokens.text($0) == "late" }
        #expect(late.count == (call.kind == .login ? 1 : 0))
    }

    @Test("a response to an earlier call is dropped when a later one is in progress")
    func responseOfAnEarlierCall() throws {
        let driver = try Self.driver(in: .loggingIn)
        let first = try #require(driver.call)
        driver.handle(.logOut)
        driver.handle(.logIn)
        driver.handle(.granted(SessionDriver.grant(refresh: "late", account: "b"), first))
        #expect(driver.state == .loggingIn && driver.revoked.count == 1)
        try driver.grant(refresh: "mine", account: "a")
        #expect(driver.state == .valid && driver.context.generation == 1 && driver.context.accountID == "a")
    }

    @Test("410 is asked again every five minutes, and requests do not shorten that")
    func gone() throws {
        let driver = try Self.driver(in: .refreshing)
        try driver.fail(.gone)
        #expect(driver.state == .stale && driver.reason == .identityGone)
        driver.pass(1000)
        driver.handle(.due)
        #expect(driver.state == .unreachable && driver.reason == .identityGone)
        for _ in 0..<5 {
            try driver.fail(.gone)
            #expect((285.0...315.0).contains(driver.dueIn))
            driver.handle(.tokenNeeded)
            #expect((285.0...315.0).contains(driver.dueIn))
            driver.toDue()
        }
    }

    @Test("who must act, by the reason, the latest error and whether a credential can log in")
    func actions() {
        let outage = IdentityError(.transient(retryAfter: nil), message: "x")
        let client = IdentityError(.clientRefused, message: "x")
        let dead = IdentityError(.sessionDead, message: "x")
        let unrenewable = IdentityError(.credentialUnavailable, message: "x")
        let intercepted = IdentityError(.transient(retryAfter: nil), message: "x", isAlarming: true)
        // The service wants a consent or a second factor.
        var consent = IdentityError(.credentialRefused, message: "x")
        consent.responsible = .user
        let rows: [(SessionReason, IdentityError?, Bool, ResponsibleParty)] = [
            (.credentialRefused, consent, true, .user), (.variantRefused, consent, true, .user),
            (.variantRefused, nil, true, .operator), (.audienceMismatch, nil, true, .operator),
            (.tokenValid, nil, true, .nobody), (.loggingIn, nil, true, .nobody),
            (.refreshFailing, nil, false, .user), (.refreshFailing, unrenewable, false, .user),
            (.refreshFailing, unrenewable, true, .operator), (.refreshFailing, outage, false, .nobody),
            (.refreshFailing, client, true, .operator), (.refreshFailing, dead, true, .nobody),
            (.refreshFailing, dead, false, .user), (.refreshFailing, intercepted, true, .operator),
            (.identityUnreachable, nil, true, .nobody), (.identityUnreachable, outage, true, .nobody),
            (.identityUnreachable, client, false, .operator), (.identityGone, nil, true, .operator),
            (.credentialRefused, nil, true, .operator), (.accountInUse, nil, true, .operator),
            (.loggedOut, nil, true, .operator), (.loggedOut, nil, false, .user), (.loginRequired, nil, false, .user),
            (.outcomeUnknown, nil, false, .user),
        ]
        for (reason, error, canLogIn, party) in rows {
            #expect(reason.action(latest: error, canLogIn: canLogIn) == party, "\(reason) \(String(describing: error))")
        }
        #expect(Set(rows.map(\.0)) == Set(SessionReason.allCases))
    }

    @Test("a refusal says who must act: the operator, or the user if the service wants a login or a consent")
    func refusedActions() throws {
        for party in [ResponsibleParty.operator, .user] {
            let driver = CoordinatorDriver()
            driver.begin()
            var error = IdentityError(.credentialRefused, message: "planned")
            if party == .user { error.responsible = .user }
            driver.handle(.callCompleted(.failure(error), try #require(driver.call)))
            #expect(driver.refusal == .credentialRefused(because: "planned", action: party))
        }
    }

    @Test(
        "without a token the refusal says who must act, and why: an outage, a refused client, a token that cannot be used"
    )
    func unreachableActions() throws {
        var unusable = IdentityError(.transient(retryAfter: nil), message: "planned")
        unusable.cause = .unusableToken
        for (error, party, reason) in [
            (
                IdentityError(.transient(retryAfter: nil), message: "planned"), ResponsibleParty.nobody,
                SessionReason.identityUnreachable
            ), (IdentityError(.clientRefused, message: "planned"), .operator, .credentialRefused),
            (unusable, .operator, .identityUnreachable),
        ] {
            let driver = CoordinatorDriver(hasCredential: false)
            driver.begin()
            driver.login(.given(.anonymous), ticket: 1)
            try driver.grant(refresh: "one", account: "a")
            driver.toCall()
            driver.handle(.callCompleted(.failure(error), try #require(driver.call)))
            driver.pass(3600)
            driver.toDue()
            switch driver.refusal {
            case .identityUnreachable(_, "planned", let action, _)?:
                #expect(action == party && error.cause == nil && error.verdict != .clientRefused)
            case .clientRefused("planned", let action)?: #expect(action == party && error.verdict == .clientRefused)
            case .tokenUnusable("planned")?: #expect(error.cause == .unusableToken)
            default: Issue.record("\(String(describing: driver.refusal))")
            }
            #expect(driver.reason == reason && error.action(canLogIn: false) == party)
        }
    }

    @Test(
        "Rule 9: an unknown outcome is asked again with the same refresh token after at least two seconds",
        arguments: [0, 0.999])
    func unknownOutcome(_ chance: Double) throws {
        let driver = try Self.driver(in: .refreshing)
        driver.fixedChance = chance
        try driver.fail(.unknownOutcome)
        #expect((2.0...60.0).contains(driver.dueIn))
        driver.toDue()
        #expect(driver.call?.kind == .refresh)
        try driver.grant()
        #expect(driver.state == .valid)
    }

    @Test("a login that ends in another account is logged")
    func accountChanged() throws {
        let driver = SessionDriver()
        try driver.logIn()
        driver.toDue()
        try driver.fail(.sessionDead)
        try driver.grant(refresh: "r", account: "other")
        #expect(driver.logEvents.contains { $0.event == .accountChanged && $0.level == .warning })
    }

    @Test(
        "each publication names its account: refreshes and logins as before name the same, another account a new number"
    )
    func accountPublished() throws {
        let driver = SessionDriver()
        try driver.logIn()
        let first = try #require(driver.token?.account)
        var numbers: Set = [first]
        driver.toDue()
        // A refresh's response need not name it.
        try driver.grant()
        #expect(driver.token?.account == first && driver.token?.generation == 2)
        for (account, isNew) in [("a", false), ("other", true), ("other", false), ("a", true)] {
            driver.toDue()
            try driver.fail(.sessionDead)
            // The old token serves while the login is in progress.
            let old = driver.token?.account
            driver.handle(.clockJumped)
            #expect(driver.token?.account == old)
            try driver.grant(refresh: "r", account: account)
            let next = try #require(driver.token?.account)
            #expect((next != old) == isNew && numbers.insert(next).inserted == isNew)
            #expect(driver.context.accountID == account)
        }
        let call = driver.context.begin(
            .login, .asked, at: EventContext(instant: driver.now, wall: driver.wall, chance: 0.5))
        driver.handle(.loggedIn(SessionDriver.grant(refresh: "p", account: "persons"), call))
        #expect(driver.token.map { numbers.insert($0.account).inserted } == true)
        // A session has a context of its own, because the user may have been removed and added again under the name.
        let again = SessionDriver()
        try again.logIn()
        #expect(again.token.map { numbers.insert($0.account).inserted } == true)
    }

    @Test("a login whose response comes too late to serve has still changed the account")
    func accountChangedLate() throws {
        let driver = SessionDriver()
        try driver.logIn()
        let first = try #require(driver.token?.account)
        driver.toDue()
        try driver.fail(.sessionDead)
        driver.pass(4000)
        try driver.grant(refresh: "r", account: "other")
        #expect(driver.context.accountID == "other" && driver.logEvents.contains { $0.event == .accountChanged })
        driver.toCall()
        #expect(driver.call?.kind == .refresh)
        try driver.grant()
        #expect(driver.token.map { $0.account != first } == true)
    }

    @Test("a token that is renewed elsewhere is valid without an expiry, refused while it cannot be read")
    func fed() {
        let driver = SessionDriver(hasCredential: false)
        driver.handle(.fed(.success(Tokens.secret("one"))))
        #expect(driver.state == .valid && driver.due == .never)
        #expect(driver.token?.usableUntil == .never && driver.token?.generation == 1)
        driver.pass(1e9)
        driver.handle(.due)
        driver.handle(.tokenNeeded)
        driver.handle(.tokenRefused(1))
        driver.handle(.clockJumped)
        #expect(driver.state == .valid && driver.calls.isEmpty)
        driver.handle(.fed(.failure(IdentityError(.credentialUnavailable, message: "no such file: /x"))))
        #expect(driver.state == .refused && driver.refusal == .credentialRefused(because: "no such file: /x"))
        #expect(driver.context.lastError?.message == "no such file: /x")
        driver.handle(.fed(.success(Tokens.secret("two"))))
        #expect(driver.state == .valid && driver.token?.generation == 2 && driver.context.lastError == nil)
    }

    @Test("while its file is written the former token serves as refresh_failing, whatever happens")
    func fedInTransition() {
        let driver = SessionDriver(hasCredential: false)
        let kept = IdentityError(.credentialDelayed, message: "/x is empty")
        driver.handle(.fed(.failure(kept)))
        #expect(driver.state == .refused)
        driver.handle(.fed(.success(Tokens.secret("one"))))
        driver.handle(.fed(.failure(kept)))
        #expect(driver.state == .stale && driver.reason == .refreshFailing && driver.due == .never)
        #expect(Tokens.text(driver.token?.token) == "one" && driver.token?.renewal == .elsewhere)
        #expect(driver.context.lastError == kept)
        #expect(driver.reason.action(latest: kept, canLogIn: false) == .nobody)
        let event = driver.logEvents.last
        #expect(event?.name == "session.token.kept" && event?.nextAt == driver.now + .seconds(10))
        driver.pass(1e6)
        for event: Session.Event in [
            .due, .tokenNeeded, .tokenRefused(1), .clockJumped, .refreshNow(.forced), .credentialChanged, .probe,
            .serviceReturned(after: .zero),
        ] { driver.handle(event) }
        #expect(driver.state == .stale && driver.calls.isEmpty && Tokens.text(driver.token?.token) == "one")
        driver.handle(.fed(.failure(IdentityError(.credentialUnavailable, message: "/x is empty"))))
        #expect(driver.state == .refused && driver.refusal == .credentialRefused(because: "/x is empty"))
    }

    @Test("each decision makes a log event, and a failure's event names the next attempt")
    func logEvents() throws {
        let driver = try Self.driver(in: .stale)
        let failed = try #require(driver.logEvents.last)
        #expect(failed.name == "session.refresh.failed" && failed.nextAt == driver.due && failed.error != nil)
    }
}
