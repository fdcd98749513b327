import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// Fakes of providers that no test can reach: their documented responses, as far as they differ from RFC 6749.
@Suite struct ProviderShapeTests {
    /// Replies to the token endpoint with these bodies, one after another.
    private static func bench(
        _ profile: OAuthProfile, _ responses: [(status: Int, body: String)],
        _ change: (inout IdentitySettings.OAuth) -> Void = { _ in }
    ) throws -> OAuthBench {
        let left = Guarded(responses.map { (status: $0.status, body: $0.body) })
        return try OAuthBench(script: { request in
            guard request.target == "/token" else { return nil }
            return left.withLock { left in
                guard !left.isEmpty else { return OAuthBench.json(500, "{}") }
                let next = left.removeFirst()
                return OAuthBench.json(next.status, next.body)
            }
        }) { client, _ in
            client.profile = profile
            change(&client)
        }
    }

    @Test("a fake of Salesforce: a session id with a `!`, no lifetime; a revoked session; a user who is locked")
    func salesforce() async throws {
        let token =
            "00D50000000IehZ!AQcAQH0dMHZfz972Szmpkb58urFRkgeBGsxL_QJWwYMfAbUeeG7c1E6LYUfiDUkWe6H34r1AAwOR8B8fLEz6n04NPGRrq0FM"
        let success = """
            {"access_token":"\(token)","signature":"0CmxinZir53Yex7nE0TD+zMpvIWYGb/bdJh6XfOH6EQ=","scope":"refresh_token api",\
            "instance_url":"https://x.my.salesforce.com","id":"https://login.salesforce.com/id/00D5/0055",\
            "token_type":"Bearer","issued_at":"1700000000000"}
            """
        let bench = try Self.bench(
            .salesforce,
            [
                (200, success), (400, #"{"error":"invalid_grant","error_description":"expired access/refresh token"}"#),
                (400, #"{"error":"inactive_user","error_description":"user is inactive"}"#),
            ]
        ) { $0.tokenLifetime = .seconds(7200) }
        let grant = try await bench.refresh().get()
        #expect(
            Tokens.text(grant.accessToken) == token && grant.lifetime == .seconds(7200) && grant.refreshToken == nil)
        #expect(await bench.refresh().failure?.verdict == .sessionDead)
        let locked = try #require(await bench.refresh().failure)
        #expect(locked.verdict == .sessionDead && locked.action(canLogIn: false) == .user)
    }

    @Test(
        "a `!` in a token is none of RFC 6750: another profile refuses it, and Salesforce's has no other such character"
    )
    func exclamationMark() async throws {
        for (profile, token) in [
            (OAuthProfile.generic, "00D!AQ"), (.entra, "00D!AQ"), (.salesforce, "00D!A Q"),
            (.salesforce, "00D!A\\u000aQ"),
            (.salesforce, "00D!A,Q"), (.salesforce, "00D!=A"),
        ] {
            let bench = try Self.bench(profile, [(200, #"{"access_token":"\#(token)","token_type":"Bearer"}"#)])
            let error = try #require(await bench.refresh().failure, "\(profile) \(token)")
            #expect(error.message.contains("characters that a bearer token cannot have"), "\(error.message)")
        }
    }

    @Test(
        "a fake of Entra: its causes stand in numbers, lifetimes come twice, and the refresh token rotates without being revoked"
    )
    func entra() async throws {
        let success = #"""
            {"token_type":"Bearer","scope":"api://orders/.default","expires_in":3599,"ext_expires_in":3599,\#
            "access_token":"eyJ0.e30.c2ln","refresh_token":"1.AXEA-next"}
            """#
        func refusal(_ number: Int, _ more: String = "") -> String {
            #"{"error":"invalid_grant","error_description":"AADSTS\#(number): x","error_codes":[\#(number)],"#
                + #""timestamp":"2026-11-27 20:00:00Z","trace_id":"t","correlation_id":"c"\#(more)}"#
        }
        let bench = try Self.bench(
            .entra,
            [
                (200, success), (400, refusal(700_082, #","suberror":"token_expired""#)),
                (400, refusal(65_001, #","suberror":"consent_required""#)), (400, refusal(90_033)),
                (401, #"{"error":"invalid_client","error_description":"AADSTS7000215: x","error_codes":[7000215]}"#),
            ])
        let grant = try await bench.refresh().get()
        #expect(grant.lifetime == .seconds(3599) && Tokens.text(grant.refreshToken) == "1.AXEA-next")
        #expect(await bench.refresh().failure?.verdict == .sessionDead)
        let consent = try #require(await bench.refresh().failure)
        #expect(consent.verdict == .sessionDead && consent.action(canLogIn: false) == .user)
        #expect(await bench.refresh().failure?.verdict == .transient(retryAfter: nil))
        #expect(await bench.refresh().failure?.verdict == .clientRefused)
    }

    @Test("a fake of Slack: the secret in the form, `ok` in a 200, tokens for 12 hours that rotate")
    func slack() async throws {
        let success = #"""
            {"ok":true,"access_token":"xoxe.xoxb-1-next","token_type":"bot","expires_in":43200,"refresh_token":"xoxe-1-next",\#
            "scope":"chat:write","bot_user_id":"U0","app_id":"A0","team":{"id":"T0","name":"x"},"enterprise":null}
            """#
        let bench = try Self.bench(
            .slack,
            [
                (200, success), (200, #"{"ok":false,"error":"invalid_refresh_token"}"#),
                (200, #"{"ok":false,"error":"ratelimited"}"#), (200, #"{"ok":false,"error":"bad_client_secret"}"#),
            ])
        let grant = try await bench.refresh().get()
        #expect(
            Tokens.text(grant.accessToken) == "xoxe.xoxb-1-next" && Tokens.text(grant.refreshToken) == "xoxe-1-next")
        #expect(grant.lifetime == .seconds(43_200))
        #expect(await bench.refresh().failure?.verdict == .sessionDead)
        #expect(await bench.refresh().failure?.verdict == .transient(retryAfter: nil))
        #expect(await bench.refresh().failure?.verdict == .clientRefused)
    }
}
