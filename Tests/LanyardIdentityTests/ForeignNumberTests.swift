import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// Each reader of a number or a date that an identity service sends, with the edges. None of them ends the process, and what each makes
/// of them is bounded.
@Suite("Identity: foreign numbers") struct ForeignNumberTests {
    private static let lifetimes = Duration.seconds(2)...Duration.seconds(315_360_000)
    private static let now = WallTime(seconds: 1_798_797_600)

    /// A number as it may stand in JSON: bare, and as a string.
    private static let values = ForeignNumbers.texts.flatMap { [$0, "\"\($0)\""] }

    private static func response(
        _ status: Int, _ body: String, _ change: (inout CurlResponse.Fields) -> Void = { _ in }
    ) -> CurlResponse {
        var fields = CurlResponse.Fields(contentType: "application/json")
        change(&fields)
        return CurlResponse(status: status, fields: fields, body: Tokens.secret(body), requestStartedAt: .now)
    }

    /// A member of a response or a claim, or nothing, if the value is no JSON.
    private static func grants(_ value: String) -> [Result<Grant, IdentityError>] {
        let bodies =
            [
                #"{"access_token":"\#(Tokens.access())","refresh_token":"r","user_id":"u","expires_in":\#(value)}"#,
                #"{"access_token":"opaque","refresh_token":"r","refresh_expires_in":\#(value)}"#,
            ]
            + ["iat", "exp"].flatMap { name in
                ["0", "9223372036854775807", "-9223372036854775808"].map { other in
                    let claims = #"{"\#(name)":\#(value),"\#(name == "iat" ? "exp" : "iat")":\#(other)}"#
                    return
                        #"{"access_token":"\#(Tokens.jwt(claims))","refresh_token":"\#(Tokens.jwt(claims))","user_id":"u"}"#
                }
            }
        return bodies.flatMap { body -> [Result<Grant, IdentityError>] in
            let dated = response(200, body) { $0.date = "Fri, 01 Jan 2027 10:00:00 GMT" }
            return [
                AppServicesGrant.make(.login, dated, secrets: []),
                OAuthGrant.make(.login, dated, keepsRefreshToken: true, lifetime: nil, profile: .generic),
            ]
        }
    }

    @Test("lifetimes of tokens, and their claims: 2 s to ten years, or the response cannot be used")
    func lifetimes() {
        for value in Self.values {
            for case .success(let grant) in Self.grants(value) {
                #expect(Self.lifetimes.contains(grant.lifetime), "\(value)")
                if let end = grant.refreshTokenExpiry { _ = (end - .now, end - WallTime(nanoseconds: .min)) }
            }
        }
    }

    @Test("an ID token of any times is judged; one that ends after all time has not expired")
    func idToken() throws {
        for value in Self.values {
            for name in ["exp", "iat"] {
                let claims = #"{"aud":"c","exp":9e9,"iat":1,"\#(name)":\#(value)}"#
                for now in ForeignNumbers.integers.map({ WallTime(nanoseconds: $0) }) {
                    _ = IDToken(Tokens.secret(Tokens.jwt(claims)))?.defect(
                        clientID: "c", issuer: nil, nonce: nil, now: now)
                }
            }
        }
        let endless = try #require(IDToken(Tokens.secret(Tokens.jwt(#"{"aud":"c","exp":1e400,"iat":1}"#))))
        #expect(endless.defect(clientID: "c", issuer: nil, nonce: nil, now: Self.now) == nil)
    }

    @Test("Retry-After, Date and a GitHub limit's reset: a wait that is not negative")
    func waits() {
        for text in ForeignNumbers.texts + ForeignNumbers.httpDates {
            for date in [nil] + ForeignNumbers.httpDates {
                for now in [Self.now, WallTime(nanoseconds: .min), WallTime(nanoseconds: .max)] {
                    let limited = Self.response(403, #"{"message":"rate limit"}"#) { fields in
                        (fields.date, fields.rateLimitRemaining, fields.rateLimitReset) = (date, "0", text)
                    }
                    let outcome = GitHubAppResponse.grant(in: .success(limited), without: [], now: now)
                    guard case .failure(let error) = outcome,
                        case .transient(let wait?) = error.verdict
                    else { return #expect(Bool(false), "\(text)") }
                    #expect(wait >= .seconds(1))
                    let asked = Self.response(503, "") { ($0.date, $0.retryAfter) = (date, text) }
                    #expect(asked.retryAfter(now: now) ?? .zero >= .zero)
                }
            }
        }
        let far = Self.response(403, #"{"message":"rate limit"}"#) { fields in
            (fields.rateLimitRemaining, fields.rateLimitReset) = ("0", "9223372037")
        }
        let outcome = GitHubAppResponse.grant(in: .success(far), without: [], now: Self.now)
        guard case .failure(let error) = outcome else { return }
        #expect(error.verdict.label == "transient")
    }

    @Test("expires_at of GitHub: a token of 2 s to ten years, or none")
    func expiresAt() throws {
        for end in ForeignNumbers.timestamps {
            for date in [nil] + ForeignNumbers.httpDates {
                let body = #"{"token":"ghs_a","expires_at":"\#(end)"}"#
                let response = Self.response(201, body) { $0.date = date }
                let outcome = GitHubAppResponse.grant(in: .success(response), without: [], now: Self.now)
                if case .success(let grant) = outcome { #expect(Self.lifetimes.contains(grant.lifetime), "\(end)") }
            }
        }
        let endless = Self.response(201, #"{"token":"ghs_a","expires_at":"9999-12-31T23:59:59Z"}"#)
        let grant = try GitHubAppResponse.grant(in: .success(endless), without: [], now: Self.now).get()
        #expect(grant.lifetime == Self.lifetimes.upperBound)
    }

    @Test("expires_in and interval of a device login: at most a day and five minutes")
    func device() {
        let start = Instant(nanoseconds: 1_000_000_000_000)
        for value in Self.values {
            for name in ["expires_in", "interval"] {
                let body =
                    #"{"device_code":"d","user_code":"u","verification_uri":"https://x/","expires_in":600,"interval":5,"#
                    .replacing(name == "interval" ? #""interval":5,"# : #""expires_in":600,"#, with: "")
                    + #""\#(name)":\#(value)}"#
                guard let read = Array(body.utf8).withUnsafeBytes({ try? DeviceResponse($0) }) else { continue }
                #expect((.seconds(1)...(.seconds(300))).contains(read.interval))
                #expect((.seconds(1)...(.seconds(86_400))).contains(read.lifetime))
                var polling = DeviceAuthorization(lifetime: read.lifetime, interval: read.interval, now: start)
                for retryAfter in ForeignNumbers.integers.map({ Duration.seconds($0) }) {
                    _ = polling.handle(.unreachable(retryAfter: retryAfter), at: start)
                }
            }
        }
    }

    @Test("the clock of a service may be any: assertions are signed, and JWTs of credentials are judged")
    func clocks() {
        for text in ForeignNumbers.httpDates {
            var clock = ServiceClock()
            clock.update(from: .success(Self.response(200, "{}") { $0.date = text }))
            _ = clock.time()
            let again = clock.corrected(
                by: .success(Self.response(400, "{}") { $0.date = "Fri, 31 Dec 9999 23:59:59 GMT" }))
            _ = again?.time()
        }
        for value in ForeignNumbers.texts {
            guard let claims = JWTClaims(of: Tokens.secret(Tokens.jwt(#"{"exp":\#(value)}"#))) else { continue }
            for now in ForeignNumbers.integers { _ = claims.expiry?.clampedDifference(now) }
        }
    }
}
