import LanyardEmulator
import TestSupport
import Testing

@Suite struct OAuthCodeTests {
    typealias Fixture = OAuthFixture

    @Test("a user logs in at the page: state and issuer come back, the code brings tokens with the nonce")
    func login() async throws {
        let it = try await Fixture()
        let query = try await it.browse()
        #expect(query["state"] == "s t" && query["iss"] == it.issuer)
        let tokens = try await it.redeem(query["code"]).json
        let id = try EmulatorFixture.claims(try #require(tokens["id_token"].string))
        #expect(id["nonce"].string == "n-1" && id["aud"].string == "lanyard" && id["auth_time"].int != nil)
        let hash = Fixture.sha256(tokens["access_token"].string ?? "")
        #expect(try Base64URL.decode(id["at_hash"].string ?? "") == Array(try Base64URL.decode(hash).prefix(16)))
        #expect(tokens["scope"].string == "openid api" && tokens["refresh_token"].string != nil)
        let again = try await it.refresh(tokens["refresh_token"].string).json
        let renewed = try EmulatorFixture.claims(try #require(again["id_token"].string))
        #expect(renewed["nonce"] == .null && renewed["sub"] == id["sub"] && renewed["auth_time"] == id["auth_time"])
        await it.emulator.stop()
    }

    @Test("a code that comes twice ends the session that it began, its access token included (RFC 6749 section 4.1.2)")
    func twice() async throws {
        let it = try await Fixture()
        let code = try await it.browse()["code"]
        let tokens = try await it.redeem(code).json
        #expect(try await Fixture.error(it.redeem(code)) == "400 invalid_grant")
        #expect(try await Fixture.error(it.refresh(tokens["refresh_token"].string)) == "400 invalid_grant")
        #expect(try await it.protected(tokens["access_token"].string).status == 401)
        await it.emulator.stop()
    }

    @Test("a code is good for its verifier, its redirect URI, its client and its minute")
    func refused() async throws {
        let it = try await Fixture()
        let code = try await it.browse()["code"]
        let wrong = String(repeating: "w", count: 43)
        #expect(try await Fixture.error(it.redeem(code, [("code_verifier", wrong)])) == "400 invalid_grant")
        #expect(try await Fixture.error(it.redeem(code, [("code_verifier", "")])) == "400 invalid_grant")
        #expect(
            try await Fixture.error(it.redeem(code, [("redirect_uri", "http://127.0.0.1:1/")])) == "400 invalid_grant")
        #expect(try await Fixture.error(it.redeem("x")) == "400 invalid_grant")
        #expect(try await Fixture.error(it.redeem(nil)) == "400 invalid_request")
        let other = try await it.post(
            "/oauth/token",
            [
                ("grant_type", "authorization_code"), ("client_id", "device"), ("code", code ?? ""),
                ("redirect_uri", Fixture.callback), ("code_verifier", Fixture.verifier),
            ])
        #expect(try Fixture.error(other) == "400 invalid_grant")
        try await it.control("PUT", "/settings", #"{"clock_offset_seconds":61}"#)
        #expect(try await Fixture.error(it.redeem(code)) == "400 invalid_grant")
        await it.emulator.stop()
    }

    @Test(
        "a request that is not done here goes back to the client with its error",
        arguments: [
            (["response_type": "token"], "unsupported_response_type"), (["response_type": ""], "invalid_request"),
            (["code_challenge": ""], "invalid_request"), (["code_challenge_method": "plain"], "invalid_request"),
            (["code_challenge_method": ""], "invalid_request"), (["code_challenge": "short"], "invalid_request"),
            (["scope": "nonsense"], "invalid_scope"), (["prompt": "none"], "login_required"),
            (["request": "x"], "request_not_supported"), (["response_mode": "form_post"], "invalid_request"),
            (["resource": "no-uri"], "invalid_target"),
        ])
    func redirected(form: [String: String], error: String) async throws {
        let it = try await Fixture()
        let response = try await it.raw("GET", Fixture.authorization(form))
        #expect(response.status == 302, "\(response.bodyText)")
        #expect(response["location"]?.hasPrefix(Fixture.callback + "?") == true)
        let query = try Fixture.query(response)
        #expect(query["error"] == error && query["state"] == "s t" && query["iss"] == it.issuer)
        #expect(query["error_description"]?.isEmpty == false)
        await it.emulator.stop()
    }

    @Test(
        "without a client or a good redirect URI the browser goes nowhere",
        arguments: [
            ["client_id": "nobody"], ["client_id": ""], ["redirect_uri": ""],
            ["redirect_uri": "https://evil.example/cb"],
            ["redirect_uri": "http://127.0.0.1.evil.example/cb"], ["redirect_uri": "http://127.0.0.1:1/cb#x"],
            ["redirect_uri": "http://evil@127.0.0.1/cb"], ["redirect_uri": "javascript:alert(1)"],
            ["redirect_uri": "https://127.0.0.1:4711/callback"],
            ["redirect_uri": "http://127.0.0.1/a\r\nSet-Cookie: x"],
        ])
    func shown(form: [String: String]) async throws {
        let it = try await Fixture()
        let response = try await it.raw("GET", Fixture.authorization(form))
        #expect(response["location"] == nil && response["set-cookie"] == nil)
        #expect(try Fixture.error(response) == "400 invalid_request")
        await it.emulator.stop()
    }

    @Test("a registered redirect URI is compared as it is, but for the port of a loopback one (RFC 8252 section 7.3)")
    func registered() async throws {
        let it = try await Fixture {
            $0.oauth = nil
            $0.seed = try SeedReader.parse(
                """
                users: [{email: alice@example.com, password: correct-horse}]
                oauth:
                  clients:
                    - {client_id: lanyard, secret: s3cret,
                       redirect_uris: ["https://app.example/cb?x=1", "http://127.0.0.1/callback", "com.example.app:/cb"]}
                """)
        }
        for uri in [
            "https://app.example/cb?x=1", "http://127.0.0.1:1/callback", Fixture.callback, "com.example.app:/cb",
        ] {
            #expect(try await it.raw("GET", Fixture.authorization(["redirect_uri": uri])).status == 200, "\(uri)")
        }
        for uri in ["https://app.example/cb", "http://127.0.0.1:1/other", "http://[::1]:1/callback"] {
            #expect(try await it.raw("GET", Fixture.authorization(["redirect_uri": uri])).status == 400, "\(uri)")
        }
        let query = try await it.raw(
            "GET",
            Fixture.authorization([
                "redirect_uri": "https://app.example/cb?x=1", "response_type": "token",
            ]))
        #expect(query["location"]?.hasPrefix("https://app.example/cb?x=1&error=") == true)
        await it.emulator.stop()
    }

    @Test("the page shows the client and its text as text, says what is wrong, and can be used once")
    func page() async throws {
        let it = try await Fixture()
        let page = try await it.raw("GET", Fixture.authorization(["login_hint": "\"><script>"]))
        #expect(page.status == 200 && page.bodyText.contains("<b>lanyard</b>"))
        #expect(page.bodyText.contains("&quot;&gt;&lt;script&gt;") && !page.bodyText.contains("<script>"))
        let id = ("id", try Fixture.pageID(page)), user = ("username", "alice@example.com")
        let wrong = try await it.post("/oauth/authorize", [id, user, ("password", "x")])
        #expect(wrong.status == 401 && wrong.bodyText.contains("the user name or the password is wrong"))
        let form = [id, user, ("password", "correct-horse")]
        let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<2 { group.addTask { try await it.post("/oauth/authorize", form).status } }
            return try await group.reduce(into: [Int]()) { $0.append($1) }
        }
        #expect(statuses.sorted() == [303, 400], "two at once")
        #expect(try await Fixture.error(it.post("/oauth/authorize", [("id", "x")])) == "400 invalid_request")
        await it.emulator.stop()
    }

    @Test("a user who refuses sends access_denied to the client; a page ends after ten minutes")
    func denied() async throws {
        let it = try await Fixture()
        let first = try Fixture.pageID(try await it.raw("GET", Fixture.authorization()))
        let query = try Fixture.query(try await it.post("/oauth/authorize", [("id", first), ("action", "deny")]))
        #expect(query["error"] == "access_denied" && query["state"] == "s t" && query["iss"] == it.issuer)
        let second = try Fixture.pageID(try await it.raw("GET", Fixture.authorization()))
        try await it.control("PUT", "/settings", #"{"clock_offset_seconds":601}"#)
        let late = try await it.post("/oauth/authorize", [("id", second), ("action", "deny")])
        #expect(try Fixture.error(late) == "400 invalid_request")
        await it.emulator.stop()
    }
}
