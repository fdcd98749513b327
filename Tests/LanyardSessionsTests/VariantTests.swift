import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

@Suite("Coordinator: the access tokens of variants")
struct VariantTests {
    private static let orders = TokenVariant(audience: "orders")
    private static let stock = TokenVariant(resources: ["https://stock.example"])

    /// Logged in with one-use refresh tokens, and both variants fetched.
    private static func fetched(
        _ rotation: RefreshTokenRotation = .oneUse, hasCredential: Bool = true
    ) throws -> CoordinatorDriver {
        let driver = CoordinatorDriver(hasCredential: true, rotation: rotation, variants: [orders, stock])
        driver.begin()
        try driver.grant(refresh: "one", account: "a", token: "plain")
        try driver.grant(refresh: "two", token: "for orders")
        try driver.grant(refresh: "three", token: "for stock")
        try #require(driver.call == nil)
        driver.forget()
        return driver
    }

    private static func others(_ driver: CoordinatorDriver) -> [TokenVariant: String] {
        (driver.stored?.session?.tokens.others ?? [:]).compactMapValues { Tokens.text($0.token) }
    }

    @Test(
        "a login brings the plain token; the variants follow one by one, each with the refresh token of the one before")
    func lane() throws {
        let driver = CoordinatorDriver(rotation: .oneUse, variants: [Self.orders, Self.stock])
        driver.begin()
        #expect(driver.calls.map(\.variant) == [.plain])
        try driver.grant(refresh: "one", account: "a", token: "plain")
        #expect(driver.sent == ["one"] && driver.call?.variant == Self.orders && driver.call?.kind == .refresh)
        // The answer is on its way into the store: no second call is made until it is there, and nothing is served.
        driver.holdsStore = true
        try driver.grant(refresh: "two", token: "for orders")
        #expect(driver.sent == ["one"] && driver.variant(1) == nil)
        driver.release()
        #expect(driver.sent == ["one", "two"] && driver.call?.variant == Self.stock)
        #expect(driver.storedRefresh == "two" && Self.others(driver) == [Self.orders: "for orders"])
        #expect(Tokens.text(driver.variant(1)?.token) == "for orders" && driver.variant(2) == nil)
        try driver.grant(refresh: "three", token: "for stock")
        #expect(driver.storedRefresh == "three" && driver.refresh == "three" && driver.call == nil)
        #expect(Self.others(driver) == [Self.orders: "for orders", Self.stock: "for stock"])
        #expect(Tokens.text(driver.token?.token) == "plain" && driver.stored?.session?.hasRotated == true)
        #expect(driver.noted(.variantFetched) && driver.stored?.intent == nil)
    }

    @Test("a plain refresh that waited behind a fetch sends the refresh token that the fetch has brought")
    func refreshBehindFetch() throws {
        let driver = CoordinatorDriver(rotation: .oneUse, variants: [Self.orders])
        driver.begin()
        try driver.grant(refresh: "one", account: "a")
        driver.refreshNow(ticket: 1)
        #expect(driver.state == .refreshing && driver.sent == ["one"])
        try driver.grant(refresh: "two", token: "for orders")
        #expect(driver.sent == ["one", "two"] && driver.call?.variant == .plain)
        try driver.grant(refresh: "three")
        #expect(driver.storedRefresh == "three" && Self.others(driver) == [Self.orders: "for orders"])
        guard case .refreshed? = driver.replies[1] else { return #expect(Bool(false), "no reply") }
    }

    @Test("a restart serves the stored tokens of variants without a call; one that the store lacks is fetched")
    func restart() throws {
        let driver = try Self.fetched()
        let third = TokenVariant(scopes: ["read"])
        let next = driver.restart(rotation: .oneUse, variants: [Self.orders, third])
        next.begin()
        #expect(Tokens.text(next.variant(1)?.token) == "for orders" && next.call?.variant == third)
        try next.grant(refresh: "four", token: "to read")
        #expect(Self.others(next) == [Self.orders: "for orders", Self.stock: "for stock", third: "to read"])
    }

    @Test("a token is renewed while it is used, else looked at again, and then fetched by the next request")
    func use() throws {
        let driver = try Self.fetched()
        let orders = UserIndex(1)
        driver.uses = [orders: 0, UserIndex(2): 0]
        // Until the first look the number at issue is unknown, which counts as used: one renewal each.
        driver.toDue { driver.call?.variant == Self.orders }
        try driver.grant(.seconds(1800), refresh: "r1", token: "orders 2")
        driver.uses[orders] = 1
        driver.toDue {
            driver.sent.count > 6 || driver.variant(1).map { Tokens.text($0.token) == "orders 3" } ?? false
                ? true : Self.grantAll(driver)
        }
        #expect(Tokens.text(driver.variant(1)?.token) == "orders 3")
        // No request uses it: it ends without a call.
        let until = try #require(driver.variant(1)?.usableUntil)
        while driver.now < until {
            driver.toDue()
            if let call = driver.call, call.variant != Self.orders {
                try driver.grant(refresh: "x\(driver.sent.count)")
            }
            try #require(driver.call?.variant != Self.orders)
        }
        let status = try #require(driver.coordinator.variants.first)
        #expect(status.renewal == .onDemand)
        // A request needs it: one call, and the request after it is served.
        driver.pass(3600)
        driver.handle(.variant(orders, .tokenNeeded))
        driver.handle(.variant(orders, .tokenNeeded))
        // The token has ended long ago. The request still waits for the call.
        driver.handle(.due)
        guard case .pending? = driver.variantAvailability[orders] else {
            return #expect(Bool(false), "\(String(describing: driver.variantAvailability[orders]))")
        }
        if driver.call?.variant == .plain { try driver.grant(refresh: "y") }
        #expect(driver.call?.variant == Self.orders)
        try driver.grant(refresh: "z", token: "orders 4")
        #expect(Tokens.text(driver.variant(1)?.token) == "orders 4")
    }

    @Test("a variant that was fetched for a request, or after an upstream's refusal, is not renewed for ever")
    func demandEnds() throws {
        let driver = try Self.fetched()
        driver.uses = [UserIndex(1): 0, UserIndex(2): 0]
        driver.handle(.variant(UserIndex(1), .tokenRefused(Generation(try #require(driver.variant(1)?.generation)))))
        try driver.grant(refresh: "again", token: "orders 2")
        var fetches = 0
        let end = driver.now + .seconds(20_000)
        while driver.now < end {
            driver.toDue()
            guard let call = driver.call else { continue }
            if call.variant == Self.orders { fetches += 1 }
            try driver.grant(refresh: "r\(driver.sent.count)", token: "access \(driver.sent.count)")
        }
        #expect(fetches <= 1)
    }

    private static func grantAll(_ driver: CoordinatorDriver) -> Bool {
        if let call = driver.call {
            try? driver.grant(
                refresh: "g\(driver.sent.count)",
                token: call.variant == orders ? "orders 3" : "other \(driver.sent.count)")
        }
        return false
    }

    @Test("an upstream's refusal renews that variant alone; the plain token and the other variant stay")
    func refusedByUpstream() throws {
        let driver = try Self.fetched()
        let generation = try #require(driver.variant(1)?.generation)
        driver.handle(.variant(UserIndex(1), .tokenRefused(Generation(generation))))
        #expect(driver.call?.variant == Self.orders && driver.call?.cause == .forced)
        try driver.grant(refresh: "four", token: "for orders again")
        let renewed = try #require(driver.variant(1))
        #expect(renewed.generation > generation && Tokens.text(driver.variant(2)?.token) == "for stock")
        // The former token's refusal, told late, is answered by the present token.
        driver.handle(.variant(UserIndex(1), .tokenRefused(Generation(generation))))
        #expect(driver.call == nil && driver.variant(1)?.generation == renewed.generation)
        #expect(Tokens.text(driver.token?.token) == "plain" && driver.state == .valid)
    }

    @Test("a JWT for another audience is not served; its refresh token is the session's, and the reason is told")
    func audience() throws {
        let driver = CoordinatorDriver(rotation: .oneUse, variants: [Self.orders, Self.stock])
        driver.begin()
        try driver.grant(refresh: "one", account: "a", token: "plain")
        try driver.grant(refresh: "two", token: "for all", mismatch: "for the audience all, asked for orders")
        #expect(driver.sent == ["one", "two"] && driver.storedRefresh == "two")
        #expect(Self.others(driver) == [:] && driver.variant(1) == nil)
        guard case .none(.variantRefused(let reason, .operator))? = driver.variantAvailability[UserIndex(1)] else {
            return #expect(Bool(false), "not refused")
        }
        #expect(reason.contains("all") && reason.contains("orders"))
        #expect(driver.logEvents.contains { $0.event == .variantRefused && $0.reason == "audience_mismatch" })
        try driver.grant(refresh: "three", token: "for stock")
        #expect(driver.state == .valid && Tokens.text(driver.variant(2)?.token) == "for stock")
        // It is asked for again some minutes later.
        driver.toDue { driver.call?.variant == Self.orders }
        #expect(driver.sent.last == "three")
        try driver.grant(refresh: "four", token: "for orders")
        #expect(Tokens.text(driver.variant(1)?.token) == "for orders")
    }

    @Test("a machine that has slept renews the tokens of variants that are used, and no other")
    func afterSleep() throws {
        let driver = try Self.fetched()
        driver.uses = [UserIndex(1): 0, UserIndex(2): 0]
        driver.handle(.variant(UserIndex(1), .tokenRefused(Generation(try #require(driver.variant(1)?.generation)))))
        try driver.grant(.seconds(90_000), refresh: "r", token: "orders 2")
        driver.handle(.variant(UserIndex(2), .tokenRefused(Generation(try #require(driver.variant(2)?.generation)))))
        try driver.grant(.seconds(90_000), refresh: "s", token: "stock 2")
        // The demand has brought one more token each.
        for _ in 0..<2 {
            driver.toDue { driver.call.map { $0.variant != .plain } ?? false ? true : Self.grantAll(driver) }
            try driver.grant(.seconds(90_000), refresh: "t\(driver.sent.count)", token: "other \(driver.sent.count)")
        }
        driver.uses[UserIndex(1)] = 1
        driver.pass(80_000)
        driver.handle(.session(.clockJumped))
        var fetched: [TokenVariant] = []
        for _ in 0..<30 {
            if let call = driver.call {
                if call.variant != .plain { fetched.append(call.variant) }
                try driver.grant(.seconds(90_000), refresh: "u\(driver.sent.count)", token: "new \(driver.sent.count)")
            }
            driver.pass(1)
            driver.handle(.due)
        }
        #expect(fetched == [Self.orders] && driver.variant(2) != nil)
    }

    @Test("a JWT for another audience without a new refresh token is a response: no intent stays open")
    func audienceWithoutRotation() throws {
        let driver = CoordinatorDriver(rotation: .none, variants: [Self.orders])
        driver.begin()
        try driver.grant(refresh: "one", account: "a", token: "plain")
        try driver.fail(.unknownOutcome)
        driver.toCall()
        #expect(driver.stored?.intent?.tries == 2)
        try driver.grant(token: "for all", mismatch: "for the audience all, asked for orders")
        #expect(driver.stored?.intent == nil && driver.storedRefresh == "one" && Self.others(driver) == [:])
        #expect(driver.variant(1) == nil && driver.state == .valid)
        #expect(driver.logEvents.contains { $0.event == .variantRefused && $0.reason == "audience_mismatch" })
    }

    @Test("the service's Retry-After, in the response to one call, holds for the other tokens of the user")
    func retryAfter() throws {
        let driver = try Self.fetched()
        // The second fetch and a plain refresh wait in the lane.
        for place in [1, 2] {
            let generation = try #require(driver.variant(place)?.generation)
            driver.handle(.variant(UserIndex(place), .tokenRefused(Generation(generation))))
        }
        driver.handle(.session(.tokenRefused(Generation(try #require(driver.token?.generation)))))
        #expect(driver.sent.count == 3 && driver.state == .refreshing)
        let asked = driver.now
        try driver.fail(.transient(retryAfter: .seconds(300)))
        #expect(driver.call == nil && driver.variant(1) != nil && driver.variant(2) != nil && driver.token != nil)
        driver.toDue { driver.call != nil }
        #expect(driver.now - asked >= .seconds(300))
        // The same the other way: a refresh has failed, and the variants are due soon.
        while driver.call != nil { try driver.grant(.seconds(600), refresh: "r\(driver.sent.count)") }
        driver.handle(.refresh)
        try #require(driver.call?.variant == .plain)
        let again = driver.now
        try driver.fail(.transient(retryAfter: .seconds(500)))
        driver.toDue { driver.call != nil }
        #expect(driver.now - again >= .seconds(440))
    }

    @Test("the Retry-After of a doubtful refusal, or of a success that cannot be used, holds for the other tokens, too")
    func otherRetryAfter() throws {
        for verdict in [IdentityError.Verdict.credentialDoubted, .unknownOutcome] {
            let driver = try Self.fetched(.none)
            driver.handle(
                .variant(UserIndex(1), .tokenRefused(Generation(try #require(driver.variant(1)?.generation)))))
            let asked = driver.now
            var error = IdentityError(verdict, status: 400, message: "planned")
            error.retryAfter = .seconds(200)
            driver.handle(.callCompleted(.failure(error), try #require(driver.call)))
            #expect(driver.call == nil && driver.state == .valid && driver.token != nil)
            driver.handle(.session(.tokenRefused(Generation(try #require(driver.token?.generation)))))
            #expect(driver.call == nil, "no refresh is forced before that time")
            driver.toDue { driver.call != nil }
            #expect(driver.now - asked >= .seconds(200), "\(verdict)")
        }
    }

    @Test("invalid_target refuses the variant alone: the session and its other tokens stay")
    func invalidTarget() throws {
        let driver = CoordinatorDriver(rotation: .oneUse, variants: [Self.orders, Self.stock])
        driver.begin()
        try driver.grant(refresh: "one", account: "a")
        try driver.fail(.clientRefused)
        #expect(driver.noted(.variantRefused) && driver.stored?.intent?.tries == 1 && driver.sent == ["one", "one"])
        try driver.grant(refresh: "two", token: "for stock")
        #expect(driver.state == .valid && driver.variant(2) != nil && driver.variant(1) == nil)
        // An operator has corrected it.
        driver.refreshNow(ticket: 1)
        try driver.grant(refresh: "three")
        #expect(driver.call?.variant == Self.orders)
        try driver.grant(refresh: "four", token: "for orders")
        #expect(driver.variant(1) != nil && driver.storedRefresh == "four")
    }

    @Test(
        "a fetch whose refresh token is refused: one refresh of the session decides, and the variant alone is refused")
    func doubtfulRefreshToken() throws {
        let driver = try Self.fetched()
        driver.handle(.variant(UserIndex(1), .tokenRefused(Generation(try #require(driver.variant(1)?.generation)))))
        try driver.fail(.sessionDead)
        #expect(driver.call?.kind == .refresh && driver.call?.variant == .plain)
        #expect(driver.stored?.session?.refresh != nil && driver.state == .refreshing)
        #expect(driver.call?.cause.rawValue == "fetch_refused", "no operator has asked for it")
        try driver.grant(refresh: "next")
        #expect(driver.state == .valid && driver.storedRefresh == "next")
        #expect(driver.logEvents.contains { $0.event == .refreshSucceeded && $0.reason == "fetch_refused" })
        #expect(driver.call == nil, "the variant rests")
    }

    @Test("a 410 to a fetch holds it up until a call for another token is successful")
    func gone() throws {
        let driver = try Self.fetched()
        driver.handle(.variant(UserIndex(1), .tokenRefused(Generation(try #require(driver.variant(1)?.generation)))))
        try driver.fail(.gone)
        #expect(driver.call == nil)
        driver.handle(.session(.tokenRefused(Generation(try #require(driver.token?.generation)))))
        #expect(driver.call?.variant == .plain)
        try driver.grant(refresh: "next")
        #expect(driver.call?.variant == Self.orders)
        try driver.grant(refresh: "later", token: "for orders again")
        #expect(Tokens.text(driver.variant(1)?.token) == "for orders again")
    }

    @Test("a 410 to a refresh holds it up until a fetch is successful")
    func goneRefresh() throws {
        let driver = try Self.fetched()
        for _ in 0..<20 where driver.call?.variant != .plain { driver.toDue() }
        try #require(driver.call?.kind == .refresh && driver.state == .refreshing)
        try driver.fail(.gone)
        #expect(driver.state == .stale && driver.call?.variant == Self.orders)
        driver.forget()
        var made: [TokenVariant] = []
        while let call = driver.call, made.count < 4 {
            made.append(call.variant)
            try driver.grant(refresh: "next \(made.count)")
        }
        #expect(Set(made) == [Self.orders, Self.stock, .plain] && driver.state == .valid)
    }

    @Test("a fetch that finds the refresh token dead: the session's own refresh finds it, too, and ends it")
    func deadRefreshToken() throws {
        for hasCredential in [true, false] {
            let driver = try Self.fetched()
            let next = driver.restart(
                hasCredential: hasCredential, rotation: .oneUse, variants: [Self.orders, Self.stock])
            next.begin()
            next.handle(.variant(UserIndex(1), .tokenRefused(Generation(try #require(next.variant(1)?.generation)))))
            try next.fail(.sessionDead)
            try next.fail(.sessionDead)
            if hasCredential {
                #expect(
                    next.call?.kind == .login && next.call?.variant == .plain && next.stored?.session?.refresh == nil)
                try next.grant(refresh: "new", account: "a")
                #expect(next.state == .valid && Self.others(next) == [:] && next.call?.variant == Self.orders)
                #expect(next.sent.last == "new")
            } else {
                #expect(next.state == .loginRequired && next.stored?.session == nil)
                #expect(next.variant(1) == nil && next.variant(2) == nil)
            }
        }
    }

    @Test("a fetch without a response: its refresh token is not sent again where it works once")
    func lostResponse() throws {
        let driver = try Self.fetched()
        driver.handle(.variant(UserIndex(1), .tokenRefused(Generation(try #require(driver.variant(1)?.generation)))))
        try driver.fail(.unknownOutcome)
        #expect(driver.noted(.outcomeUnknown) && driver.call?.kind == .login && driver.call?.variant == .plain)
        // Without rotation it is sent once more, after two seconds, by the plain token's call or the variant's.
        let other = CoordinatorDriver(rotation: .none, variants: [Self.orders])
        other.begin()
        try other.grant(refresh: "one", account: "a")
        try other.fail(.unknownOutcome)
        #expect(other.stored?.intent?.tries == 1 && other.state == .valid)
        other.toCall()
        #expect(other.call?.variant == Self.orders && other.stored?.intent?.tries == 2)
        try other.grant(token: "for orders")
        #expect(other.stored?.intent == nil && other.variant(1) != nil)
    }

    @Test("a fetch inside a Retry-After, as its token ends, loses the refresh token: the login waits")
    func lostResponseInsideLimit() throws {
        let driver = try Self.fetched()
        driver.handle(.variant(UserIndex(1), .tokenRefused(Generation(try #require(driver.variant(1)?.generation)))))
        try driver.grant(.seconds(120), refresh: "four", token: "for orders")
        driver.handle(.variant(UserIndex(2), .tokenRefused(Generation(try #require(driver.variant(2)?.generation)))))
        let asked = driver.now
        try driver.fail(.transient(retryAfter: .seconds(300)))
        driver.uses[UserIndex(1)] = 1
        driver.toDue { driver.call != nil }
        try #require(driver.call?.variant == Self.orders && driver.now - asked < .seconds(120))
        let lost = driver.now
        try driver.fail(.unknownOutcome)
        #expect(driver.call == nil && driver.state == .stale && driver.refresh == nil && driver.token != nil)
        driver.toDue { driver.call != nil }
        #expect(driver.call?.kind == .login && driver.call?.variant == .plain)
        // The variant has no token: the Retry-After is honoured for 30 s, not to the end of the plain token.
        #expect(driver.now - lost >= .seconds(30) && driver.now - lost < .seconds(32))
        try driver.grant(refresh: "new", account: "a")
        // So does its fetch.
        driver.toDue { driver.call != nil }
        #expect(driver.now - lost < .seconds(64))
        #expect(driver.call?.kind == .refresh && driver.call?.variant == Self.orders && driver.sent.last == "new")
    }

    @Test("fetches whose response is lost each time cost ever fewer logins, and the plain token serves")
    func lostEachTime() throws {
        let driver = CoordinatorDriver(rotation: .oneUse, variants: [Self.orders])
        driver.begin()
        let start = driver.now
        var logins = 0
        while driver.now - start < .seconds(3600) {
            guard let call = driver.call else {
                driver.toDue()
                continue
            }
            if call.variant == Self.orders {
                try driver.fail(.unknownOutcome)
            } else {
                logins += call.kind == .login ? 1 : 0
                driver.pass(1)
                try driver.grant(.seconds(7200), refresh: "r\(logins)", account: "a")
                #expect(driver.token != nil && driver.variant(1) == nil)
                guard driver.call == nil else { continue }
                // It waits, and requests are told until when.
                guard case .none(.identityUnreachable(let next, _, _, _))? = driver.variantAvailability[UserIndex(1)]
                else {
                    Issue.record("\(String(describing: driver.variantAvailability))")
                    return
                }
                #expect(next > driver.now)
            }
        }
        // Two at once, then after 15 s, 30 s, … 5 minutes.
        #expect(logins >= 10 && logins <= 32, "\(logins)")
        // An operator need not wait, and a success ends it.
        driver.refreshNow(ticket: 1)
        driver.toDue { driver.call == nil || driver.call?.variant == Self.orders }
        while driver.call?.variant == .plain { try driver.grant(refresh: "new", account: "a") }
        try #require(driver.call?.variant == Self.orders)
        try driver.grant(refresh: "newer", token: "for orders")
        #expect(driver.variant(1) != nil)
    }

    @Test("another process has fetched the variant: its token is taken over, and no call is made")
    func anotherProcess() throws {
        let driver = CoordinatorDriver(rotation: .oneUse, variants: [Self.orders])
        driver.begin()
        try driver.grant(refresh: "one", account: "a", token: "plain")
        driver.disk.holder = nil
        let other = driver.another(rotation: .oneUse)
        // The other process fetches for its own routes while this one's call has no response: the lock was lost.
        #expect(other.state == .valid)
        try driver.grant(refresh: "two", token: "for orders")
        let third = driver.another(rotation: .oneUse, variants: [Self.orders, Self.stock])
        #expect(Tokens.text(third.variant(1)?.token) == "for orders" && third.call?.variant == Self.stock)
        try third.grant(refresh: "three", token: "for stock")
        third.pass(1)
        (driver.now, driver.wall) = (third.now, third.wall)
        driver.forget()
        let generation = driver.token?.generation
        driver.handle(.storeSnapshot(driver.stored))
        #expect(driver.refresh == "three" && driver.token?.generation == generation && driver.call == nil)
        #expect(Tokens.text(driver.variant(1)?.token) == "for orders")
        // A refusal of its token: this process reads under the lock what the other has renewed in between.
        third.handle(.variant(UserIndex(1), .tokenRefused(Generation(try #require(third.variant(1)?.generation)))))
        try third.grant(refresh: "four", token: "renewed")
        driver.forget()
        let sent = driver.sent.count
        driver.handle(.variant(UserIndex(1), .tokenRefused(Generation(try #require(driver.variant(1)?.generation)))))
        #expect(driver.sent.count == sent && Tokens.text(driver.variant(1)?.token) == "renewed")
        #expect(driver.refresh == "four")
    }

    @Test(
        "another process has renewed the session while a fetch waited: it is made at once, with the new refresh token")
    func renewedElsewhere() throws {
        let driver = try Self.fetched()
        driver.disk.holder = nil
        let other = driver.another(rotation: .oneUse, variants: [Self.orders, Self.stock])
        other.handle(.session(.tokenRefused(Generation(try #require(other.token?.generation)))))
        try other.grant(refresh: "four", token: "plain 2")
        other.disk.holder = nil
        driver.handle(.variant(UserIndex(1), .tokenRefused(Generation(try #require(driver.variant(1)?.generation)))))
        #expect(Tokens.text(driver.token?.token) == "plain 2" && driver.call?.variant == Self.orders)
        #expect(driver.sent.last == "four" && !driver.noted(.variantFailed))
        try driver.grant(refresh: "five", token: "for orders again")
        #expect(Tokens.text(driver.variant(1)?.token) == "for orders again" && driver.storedRefresh == "five")
    }

    @Test("a session that has lost its refresh token logs in first: no variant is fetched by a login of its own")
    func lostRefreshToken() throws {
        let driver = try Self.fetched()
        driver.handle(.session(.tokenRefused(Generation(try #require(driver.token?.generation)))))
        try driver.fail(.sessionDead)
        #expect(driver.call?.kind == .login && driver.call?.variant == .plain)
        try driver.fail(.transient(retryAfter: nil))
        driver.handle(.variant(UserIndex(1), .tokenRefused(Generation(try #require(driver.variant(1)?.generation)))))
        #expect(driver.call == nil)
        driver.toCall()
        #expect(driver.call?.kind == .login && driver.call?.variant == .plain)
        try driver.grant(refresh: "new", account: "a")
        #expect(driver.call?.kind == .refresh && driver.call?.variant == Self.orders && driver.sent.last == "new")
    }

    @Test(
        "while the session's login waits for an operator, the refusal of a variant names the operator, as the status does"
    )
    func operatorOfLostRefreshToken() throws {
        for verdict in [IdentityError.Verdict.credentialUnavailable, .transient(retryAfter: nil)] {
            let driver = CoordinatorDriver(hasCredential: true, rotation: .oneUse, variants: [Self.orders])
            driver.begin()
            try driver.grant(refresh: "one", account: "a", token: "plain")
            // The fetch has no response: the refresh token is spent, and the login follows.
            try driver.fail(.unknownOutcome)
            #expect(driver.call?.kind == .login)
            try driver.fail(verdict)
            driver.handle(.variant(UserIndex(1), .tokenNeeded))
            let published = driver.variantAvailability[UserIndex(1)]
            let action: ResponsibleParty? =
                switch published {
                case .none(.identityUnreachable(_, _, let action, _))?, .none(.credentialRefused(_, let action))?:
                    action
                default: nil
                }
            #expect(action == (verdict == .credentialUnavailable ? .operator : .nobody), "\(verdict)")
        }
    }

    @Test("without a refresh token and without a credential a variant waits for a login: no credential is blamed")
    func neitherRefreshTokenNorCredential() throws {
        let driver = CoordinatorDriver(hasCredential: false, rotation: .oneUse, variants: [Self.orders])
        driver.begin()
        driver.login(.configured(.emailPassword(email: "a", password: "/x")), ticket: 1)
        try driver.grant(account: "a", token: "plain")
        #expect(driver.state == .valid && driver.call == nil && driver.variant(1) == nil)
        guard case .none(.variantRefused(let message, let action))? = driver.variantAvailability[UserIndex(1)] else {
            return #expect(Bool(false), "\(String(describing: driver.variantAvailability[UserIndex(1)]))")
        }
        #expect(action == .user && message.contains("offline_access") && message.contains("orders"), "\(message)")
        #expect(driver.noted(.variantRefused))
    }

    @Test("a session without refresh token: each variant is a login's call of its own, and a renewal keeps them")
    func machine() throws {
        let driver = CoordinatorDriver(variants: [Self.orders])
        driver.begin()
        try driver.grant(.seconds(600), token: "plain")
        #expect(driver.call?.kind == .login && driver.call?.variant == Self.orders)
        try driver.grant(.seconds(3600), token: "for orders")
        #expect(Self.others(driver) == [Self.orders: "for orders"])
        let generation = try #require(driver.variant(1)?.generation)
        driver.toCall()
        #expect(driver.call?.kind == .login && driver.call?.variant == .plain)
        try driver.grant(.seconds(600), token: "plain 2")
        #expect(Self.others(driver) == [Self.orders: "for orders"] && driver.variant(1)?.generation == generation)
        #expect(driver.call == nil)
        #expect(driver.stored?.refused == nil)
    }

    @Test(
        "a credential that is refused for a variant: the session's own login says whether it is refused",
        arguments: [
            IdentityError.Verdict.credentialRefused, .credentialDoubted,
        ])
    func refusedCredential(verdict: IdentityError.Verdict) throws {
        for isRefused in [false, true] {
            let driver = CoordinatorDriver(variants: [Self.orders])
            driver.begin()
            try driver.grant(.seconds(86400), token: "plain")
            let fingerprint = CredentialFingerprint(bytes: [1])
            var refusals = 0
            repeat {
                try driver.fail(verdict, credential: fingerprint)
                refusals += 1
                driver.toDue { driver.call != nil }
            } while driver.call?.variant == Self.orders && refusals < 10
            // A doubtful refusal counts when it is repeated.
            #expect(verdict == .credentialRefused ? refusals == 1 : 2...9 ~= refusals)
            #expect(driver.noted(.variantRefused) && driver.stored?.refused == nil)
            #expect(
                driver.call?.kind == .login && driver.call?.variant == .plain && driver.call?.cause == .fetchRefused)
            guard !isRefused else {
                try driver.fail(.credentialRefused, credential: fingerprint)
                #expect(driver.state == .refused && driver.stored?.refused == fingerprint && driver.call == nil)
                continue
            }
            let since = driver.now
            try driver.grant(.seconds(86400), token: "plain 2")
            // The token was refused alone. It is asked for again after minutes, not with the next renewal of a day.
            #expect(driver.state == .valid)
            driver.toDue { driver.call != nil }
            #expect(driver.call?.variant == Self.orders && driver.now - since <= .seconds(600))
            try driver.grant(.seconds(3600), token: "for orders")
            #expect(Self.others(driver) == [Self.orders: "for orders"])
        }
    }

    @Test(
        "the plain token's renewal fails: the variants of a session without a refresh token are fetched all the same",
        arguments: [503, 400, 401, 0])
    func machineWithoutPlain(status: Int) throws {
        let driver = CoordinatorDriver(login: .clientCredentials, rotation: .auto, variants: [Self.orders])
        driver.begin()
        try driver.grant(.seconds(600), token: "plain")
        try driver.grant(.seconds(600), token: "for orders")
        let end = driver.now + .seconds(3600)
        var fetched = 0
        for _ in 0..<2000 where driver.now < end {
            driver.toDue()
            guard let call = driver.call else { continue }
            if call.variant == Self.orders {
                fetched += 1
                try driver.grant(.seconds(600), token: "orders \(fetched)")
                continue
            }
            switch status {
            case 0: try driver.fail(.credentialDoubted, status: 401)
            case 503: try driver.fail(.transient(retryAfter: nil), status: status)
            default: try driver.fail(.credentialRefused, status: status, isOfClient: status == 401)
            }
            #expect(driver.variant(1).map { driver.now < $0.usableUntil } == true)
        }
        #expect(fetched >= 7 && driver.state == .unreachable && driver.variant(1) != nil)
        for _ in 0..<200 where driver.call?.variant != .plain {
            if driver.call == nil { driver.toDue() } else { try driver.grant(.seconds(600), token: "orders") }
        }
        try driver.grant(.seconds(600), token: "plain 2")
        #expect(driver.state == .valid && driver.variant(1) != nil && Tokens.text(driver.token?.token) == "plain 2")
    }

    @Test("the plain token is refused for good once no token of the session is left")
    func machineRefusedAtEnd() throws {
        let driver = CoordinatorDriver(login: .clientCredentials, rotation: .auto, variants: [Self.orders])
        driver.begin()
        try driver.grant(.seconds(600), token: "plain")
        try driver.grant(.seconds(1200), token: "for orders")
        for _ in 0..<200 where driver.state != .refused {
            guard let call = driver.call else {
                driver.toDue()
                continue
            }
            let isUsable = driver.variant(1).map { driver.now < $0.usableUntil } ?? false
            try driver.fail(call.variant == .plain ? .credentialRefused : .clientRefused, status: 403)
            #expect(driver.state != .refused || !isUsable)
        }
        #expect(driver.state == .refused)
    }

    @Test("a restart while the plain token is not given: the variants are fetched and served")
    func machineRestart() throws {
        let driver = CoordinatorDriver(login: .clientCredentials, rotation: .auto, variants: [Self.orders])
        driver.begin()
        let account = AccountFingerprint(of: ["client"])
        try driver.grant(.seconds(600), proof: account, token: "plain")
        try driver.grant(.seconds(3600), proof: account, token: "for orders")
        driver.disk.holder = nil
        let next = CoordinatorDriver(
            login: .clientCredentials, rotation: .auto, variants: [Self.orders, Self.stock], disk: driver.disk)
        (next.now, next.wall) = (driver.now + .seconds(700), driver.wall + .seconds(700))
        next.begin()
        #expect(next.call?.variant == .plain && Tokens.text(next.variant(1)?.token) == "for orders")
        try next.fail(.credentialRefused, status: 403)
        #expect(next.call?.variant == Self.stock && Tokens.text(next.variant(1)?.token) == "for orders")
        try next.grant(.seconds(3600), proof: account, token: "for stock")
        #expect(next.variant(2) != nil)
    }

    @Test(
        "a fetch that waits for a login that waits is not in progress: no request waits for it, and its error says why")
    func waitsForLogin() throws {
        let driver = try Self.fetched()
        driver.handle(.session(.tokenRefused(Generation(try #require(driver.token?.generation)))))
        try driver.fail(.sessionDead)
        try driver.fail(.transient(retryAfter: nil), status: 503)
        try #require(driver.call == nil && driver.state == .stale)
        driver.handle(.variant(UserIndex(1), .tokenRefused(Generation(try #require(driver.variant(1)?.generation)))))
        let token = try #require(driver.variant(1))
        #expect(token.waitsFrom == .never && token.renewal != .inProgress && driver.call == nil)
        let status = driver.coordinator.variantStatus(
            at: EventContext(instant: driver.now, wall: driver.wall, chance: 0))
        #expect(status[0].state == .stale && status[0].lastError?.contains("refresh token") == true)
        driver.toDue { driver.call != nil }
        #expect(driver.call?.kind == .login && driver.call?.variant == .plain)
        try driver.grant(refresh: "new", account: "a")
        #expect(driver.call?.kind == .refresh && driver.call?.variant == Self.orders && driver.sent.last == "new")
    }

    @Test("a logout erases all tokens, and what a fetch in progress brings is revoked")
    func logout() throws {
        let driver = try Self.fetched()
        driver.handle(.variant(UserIndex(1), .tokenRefused(Generation(try #require(driver.variant(1)?.generation)))))
        let call = try #require(driver.call)
        driver.terminate(.logOut, ticket: 7)
        #expect(driver.variant(1) == nil && driver.variant(2) == nil && driver.token == nil)
        #expect(driver.stored?.session == nil && driver.revoked == ["three"])
        driver.handle(.callCompleted(.success(SessionDriver.grant(refresh: "late")), call))
        #expect(driver.revoked == ["three", "late"] && driver.variant(1) == nil)
    }

    @Test("an operator's login starts the variants anew")
    func operatorLogin() throws {
        let driver = try Self.fetched()
        driver.login(try #require(driver.coordinator.setup.credential), ticket: 1)
        try driver.grant(refresh: "fresh", account: "b")
        #expect(driver.variant(1) == nil && driver.call?.variant == Self.orders && driver.sent.last == "fresh")
        #expect(Self.others(driver) == [:])
    }

    @Test("a reload: a new variant is fetched, one that no route names is not served, the others stay")
    func reload() throws {
        let driver = try Self.fetched()
        var setup = driver.coordinator.setup
        let third = TokenVariant(scopes: ["read"])
        setup.variants = [
            (NamedVariant("other", Self.orders), UserIndex(1)), (NamedVariant("r3", third), UserIndex(3)),
        ]
        let generation = driver.variant(1)?.generation
        driver.handle(.reconfigured(setup, isCredentialNew: false))
        #expect(driver.variant(1)?.generation == generation && driver.variant(2) == nil)
        #expect(driver.call?.variant == third)
        try driver.grant(refresh: "four", token: "to read")
        #expect(Tokens.text(driver.variant(3)?.token) == "to read")
    }

    @Test("a full disk: the tokens of fetches serve from memory, and are stored together later")
    func fullDisk() throws {
        let driver = CoordinatorDriver(rotation: .oneUse, variants: [Self.orders, Self.stock])
        driver.begin()
        try driver.grant(refresh: "one", account: "a", token: "plain")
        driver.storeError = CoordinatorDriver.full
        try driver.grant(refresh: "two", token: "for orders")
        #expect(driver.variant(1) != nil && driver.storedRefresh == "one" && driver.sent.last == "two")
        try driver.grant(refresh: "three", token: "for stock")
        #expect(driver.variant(2) != nil && driver.refresh == "three")
        driver.storeError = nil
        driver.toDue()
        #expect(driver.storedRefresh == "three")
        #expect(Self.others(driver) == [Self.orders: "for orders", Self.stock: "for stock"])
    }
}
