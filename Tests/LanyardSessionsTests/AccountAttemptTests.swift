import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// A call as a user: which token it sends, and what follows a 401. Each is sent twice at most.
@Suite struct AccountAttemptTests {
    private static let now = Instant(nanoseconds: 1_000_000_000_000)

    private static func tokens(
        _ access: String = "access", refresh: String? = "refresh", age: Double = 0
    ) -> SessionTokens {
        let grant = Grant(
            accessToken: Tokens.secret(access), refreshToken: refresh.map(Tokens.secret), userID: "u",
            lifetime: .seconds(1800), refreshTokenExpiry: nil, serverDate: nil)
        return SessionTokens(
            grant, generation: 1, accountID: "u", account: .none, startedAt: now - .seconds(age),
            startedAtWall: WallTime(seconds: 1_800_000_000), keeping: (nil, nil), skew: .zero,
            settings: RefreshSettings())
    }

    private static func refusal(_ status: Int = 401, _ code: String? = "InvalidSession") -> IdentityError {
        IdentityError(.callRefused, status: status, code: code, message: "no")
    }

    private static func send(_ token: String) -> AccountAttempt.Step { .send(Tokens.secret(token)) }

    @Test("a usable access token is sent; one that has expired is renewed first, once")
    func accessToken() {
        var attempt = AccountAttempt(.accessToken)
        #expect(attempt.begin(Self.tokens(), at: Self.now) == Self.send("access"))
        var late = AccountAttempt(.accessToken)
        #expect(late.begin(Self.tokens(age: 1800), at: Self.now) == .renew)
        #expect(late.handleRenewal(nil, Self.tokens("new"), at: Self.now) == Self.send("new"))
        var expired = AccountAttempt(.accessToken)
        #expect(expired.begin(Self.tokens(age: 1800), at: Self.now) == .renew)
        #expect(expired.handleRenewal(nil, Self.tokens(age: 1800), at: Self.now) == .fail(.notLoggedIn))
        #expect(expired.begin(nil, at: Self.now) == .fail(.notLoggedIn))
    }

    @Test("a 401 renews the token and repeats the call once; the second 401 is passed on")
    func refusedTwice() {
        var attempt = AccountAttempt(.accessToken)
        _ = attempt.begin(Self.tokens(), at: Self.now)
        #expect(attempt.handleRefusal(Self.refusal(), Self.tokens(), at: Self.now) == .renew)
        #expect(attempt.handleRenewal(nil, Self.tokens("two"), at: Self.now) == Self.send("two"))
        let second = Self.refusal(401, "AuthError")
        #expect(attempt.handleRefusal(second, Self.tokens("three"), at: Self.now) == .fail(.identity(second)))
    }

    @Test("a 401 for a token that has been renewed since repeats the call without another renewal")
    func renewedMeanwhile() {
        var attempt = AccountAttempt(.accessToken)
        _ = attempt.begin(Self.tokens(), at: Self.now)
        #expect(attempt.handleRefusal(Self.refusal(), Self.tokens("two"), at: Self.now) == Self.send("two"))
        #expect(
            attempt.handleRefusal(Self.refusal(), Self.tokens("two"), at: Self.now) == .fail(.identity(Self.refusal())))
    }

    @Test("a renewal that fails says why; a session that has ended since is not logged in")
    func renewalFails() {
        let down = IdentityError(.transient(retryAfter: nil), status: 503, message: "down")
        for error in [UserError.identity(down), .loginRequired, .notLoggedIn, .stopping] {
            var attempt = AccountAttempt(.accessToken)
            _ = attempt.begin(Self.tokens(), at: Self.now)
            _ = attempt.handleRefusal(Self.refusal(), Self.tokens(), at: Self.now)
            #expect(attempt.handleRenewal(error, nil, at: Self.now) == .fail(error))
        }
    }

    @Test("of calls with the refresh token one renewal decides: a living session passes the 401 on")
    func refreshToken() {
        var attempt = AccountAttempt(.refreshToken)
        #expect(attempt.begin(Self.tokens(age: 1800), at: Self.now) == Self.send("refresh"))
        #expect(attempt.handleRefusal(Self.refusal(), Self.tokens(), at: Self.now) == .renew)
        #expect(attempt.handleRenewal(nil, Self.tokens("two"), at: Self.now) == .fail(.identity(Self.refusal())))
        // Where the renewal brings another refresh token, the call is repeated with it.
        var rotating = AccountAttempt(.refreshToken)
        _ = rotating.begin(Self.tokens(), at: Self.now)
        _ = rotating.handleRefusal(Self.refusal(), Self.tokens(), at: Self.now)
        #expect(rotating.handleRenewal(nil, Self.tokens(refresh: "next"), at: Self.now) == Self.send("next"))
        var dead = AccountAttempt(.refreshToken)
        #expect(dead.begin(Self.tokens(refresh: nil), at: Self.now) == .renew)
    }

    @Test("a 401 of a link that speaks of the credential is not repeated: it would be another wrong guess")
    func link() {
        for code in ["InvalidPassword", "AuthError", "UserDisabled"] {
            var attempt = AccountAttempt(.accessToken, isLink: true)
            _ = attempt.begin(Self.tokens(), at: Self.now)
            let error = Self.refusal(401, code)
            #expect(attempt.handleRefusal(error, Self.tokens("two"), at: Self.now) == .fail(.identity(error)))
        }
        for code in ["InvalidSession", nil] {
            var attempt = AccountAttempt(.accessToken, isLink: true)
            _ = attempt.begin(Self.tokens(), at: Self.now)
            #expect(attempt.handleRefusal(Self.refusal(401, code), Self.tokens(), at: Self.now) == .renew)
        }
    }

    @Test("other errors end the call at once; an unknown outcome says so")
    func others() {
        var attempt = AccountAttempt(.accessToken)
        _ = attempt.begin(Self.tokens(), at: Self.now)
        for status in [400, 403, 404, 500] {
            let error = Self.refusal(status)
            #expect(attempt.handleRefusal(error, Self.tokens("two"), at: Self.now) == .fail(.identity(error)))
        }
        let lost = IdentityError(.unknownOutcome, message: "lost")
        #expect(attempt.handleRefusal(lost, Self.tokens("two"), at: Self.now) == .fail(.serviceOutcomeUnknown(lost)))
    }
}
