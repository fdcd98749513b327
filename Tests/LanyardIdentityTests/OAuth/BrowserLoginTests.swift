import Foundation
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// Logins in a browser before a scripted server: what is sent, in which order, and what each end is.
@Suite("OAuth: logins in a browser") struct BrowserLoginTests {
    /// What a login has reported.
    private final class Reports: Sendable {
        let prompt = Guarded<BrowserLoginPrompt?>(nil)
        let result = Guarded<Result<LoginMethod<Secret>, IdentityError>?>(nil)
    }

    private static func begin(_ bench: OAuthBench, _ request: BrowserLoginRequest = .device) -> (
        Reports, any BrowserLogin
    ) {
        let reports = Reports()
        let login = bench.identity.begin(
            request, onPrompt: { prompt in reports.prompt.withLock { $0 = prompt } },
            onEnd: { end in reports.result.withLock { $0 = end } })
        return (reports, login)
    }

    private static let codes =
        #"{"device_code":"d1","user_code":"AB-CD","verification_uri":"http://i/d","expires_in":600,"interval":5}"#

    /// - Parameter polls: the responses to the polls, one after another; the last one repeats.
    private static func bench(_ polls: [RawResponse], scopes: [String] = ["api"]) throws -> OAuthBench {
        let count = Guarded(0)
        let own = Guarded("")
        let bench = try OAuthBench(
            script: { request in
                switch request.target {
                case "/.well-known/openid-configuration":
                    let issuer = own.withLock { $0 }
                    return OAuthBench.metadata(
                        issuer,
                        more:
                            #","device_authorization_endpoint":"\#(issuer)/device","authorization_endpoint":"\#(issuer)/a?x=1""#
                    )
                case "/device": return OAuthBench.json(200, codes)
                case "/token":
                    return count.withLock { count in
                        defer { count += 1 }
                        return polls[min(count, polls.count - 1)]
                    }
                default: return nil
                }
            },
            settings: { client, _ in
                own.withLock { $0 = client.issuer ?? "" }
                client.clientID = "lanyard"
                client.scopes = scopes
            })
        return bench
    }

    private static func error(_ code: String, _ status: Int = 400) -> RawResponse {
        OAuthBench.json(status, #"{"error":"\#(code)"}"#)
    }

    private static let granted = OAuthBench.json(
        200, #"{"access_token":"a.b.c","token_type":"bearer","expires_in":20,"refresh_token":"r2"}"#)

    /// Time passes from poll to poll, and stands while one is in progress. Then nothing ends a call but its response.
    private func settle(
        _ bench: OAuthBench, _ reports: Reports, _ login: any BrowserLogin, requests: Int
    ) async throws {
        let login = try #require(login as? DeviceLogin)
        try await waits(login, in: bench, reports)
        for _ in 0..<requests {
            let before = bench.forms.count
            while bench.forms.count == before && reports.result.withLock({ $0 == nil }) {
                bench.loop.pass(.seconds(5))
                try await waits(login, in: bench, reports)
            }
        }
    }

    /// Waits until the next poll has its time, or the login has ended.
    private func waits(_ login: DeviceLogin, in bench: OAuthBench, _ reports: Reports) async throws {
        try await eventually("the next poll has its time") {
            bench.loop.perform { login.timer.instant < .never } || reports.result.withLock { $0 != nil }
        }
    }

    @Test("the codes are asked for with PKCE; polls send the verifier; the session's login takes the tokens once")
    func device() async throws {
        let bench = try Self.bench([Self.error("authorization_pending"), Self.granted])
        let (reports, login) = Self.begin(bench)
        try await settle(bench, reports, login, requests: 2)
        try await eventually("the login has ended") { reports.result.withLock { $0 != nil } }
        let prompt = try #require(reports.prompt.withLock { $0 })
        #expect(prompt.uri == "http://i/d" && prompt.userCode == "AB-CD" && prompt.interval == .seconds(5))
        let method = try #require(try reports.result.withLock { $0 }?.get())
        #expect(method.kind == .device && method.ticket != nil)
        let asked = try #require(bench.server.requests.first { $0.target == "/device" }?.bodyText)
        #expect(asked.hasPrefix("scope=api&code_challenge=") && asked.contains("&code_challenge_method=S256"))
        #expect(asked.hasSuffix("&client_id=lanyard"))
        let polls = bench.forms
        #expect(polls.count == 2 && polls[0] == polls[1])
        #expect(
            polls[0].hasPrefix(
                "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code&device_code=d1&code_verifier="))
        let grant = try await bench.login(.given(method)).get()
        #expect(Tokens.text(grant.accessToken) == "a.b.c" && Tokens.text(grant.refreshToken) == "r2")
        #expect(bench.forms.count == 2)
        // A ticket works once.
        let again = await bench.login(.given(method))
        #expect(throws: IdentityError.self) { try again.get() }
    }

    @Test(
        "each end of a device login has its error",
        arguments: [
            ("access_denied", "access_denied", "denied the login"), ("expired_token", "expired_token", "has expired"),
            ("invalid_client", "invalid_client", "check client_id"), ("invalid_grant", "invalid_grant", "wrong"),
            ("authorization_declined", "access_denied", "denied the login"),
            ("something_new", "something_new", "which ends the login"),
        ])
    func refusals(_ code: String, _ shown: String, _ message: String) async throws {
        let bench = try Self.bench([Self.error(code)])
        let (reports, login) = Self.begin(bench)
        try await settle(bench, reports, login, requests: 1)
        try await eventually("the login has ended") { reports.result.withLock { $0 != nil } }
        let result = try #require(reports.result.withLock { $0 })
        let error = try #require(throws: IdentityError.self) { try result.get() }
        #expect(
            error.verdict == .credentialRefused && error.code == shown && error.message.contains(message), "\(error)")
    }

    @Test(
        "an error code that says neither to wait nor to come later ends a device login, with any status",
        arguments: [200, 400, 401, 403])
    func unknownCodes(_ status: Int) async throws {
        let bench = try Self.bench([Self.error("device_flow_disabled", status), Self.granted])
        let (reports, login) = Self.begin(bench)
        try await settle(bench, reports, login, requests: 2)
        try await eventually("the login has ended") { reports.result.withLock { $0 != nil } }
        let result = try #require(reports.result.withLock { $0 })
        let error = try #require(throws: IdentityError.self) { try result.get() }
        #expect(error.verdict == .credentialRefused && error.code == "device_flow_disabled", "\(error)")
        #expect(error.status == status && bench.forms.count == 1)
    }

    @Test(
        "a poll's Retry-After holds the next one back, whatever the response is",
        arguments: [
            (400, #"{"error":"authorization_pending"}"#), (400, #"{"error":"slow_down"}"#), (401, ""), (400, ""),
            (400, #"{"error":"invalid_grant","error_description":"Authorization pending"}"#), (503, ""), (500, ""),
            (200, "<html>"), (404, "{}"),
        ])
    func pollRetryAfter(_ status: Int, _ body: String) async throws {
        let bench = try Self.bench([
            OAuthBench.json(status, body, fields: [("Retry-After", "77")]), Self.granted,
        ])
        bench.loop.freezeTime()
        let (reports, login) = Self.begin(bench)
        try await settle(bench, reports, login, requests: 1)
        let device = try #require(login as? DeviceLogin)
        try await waits(device, in: bench, reports)
        #expect(bench.loop.perform { device.timer.instant - bench.loop.now } == .seconds(77))
    }

    @Test("network trouble and pages of gateways do not end a device login")
    func trouble() async throws {
        let bench = try Self.bench([
            .close, .response(502, "Bad Gateway", body: "<html>").closing, Self.error("slow_down"),
            Self.error("temporarily_unavailable"), Self.error("whatever", 503),
            OAuthBench.json(404, #"{"message":"no route"}"#), OAuthBench.json(400, #"{"error":{"code":400}}"#),
            Self.granted,
        ])
        let (reports, login) = Self.begin(bench)
        try await settle(bench, reports, login, requests: 8)
        try await eventually("the login has ended") { reports.result.withLock { $0 != nil } }
        let result = try #require(reports.result.withLock { $0 })
        #expect(throws: Never.self) { try result.get() }
    }

    @Test("a login that is cancelled polls no more; tokens that no session takes are revoked")
    func cancel() async throws {
        let bench = try Self.bench([Self.error("authorization_pending"), Self.granted])
        let (reports, login) = Self.begin(bench)
        try await settle(bench, reports, login, requests: 1)
        login.cancel()
        bench.loop.pass(.seconds(600))
        #expect(bench.forms.count == 1 && reports.result.withLock { $0 == nil })
        let (second, other) = Self.begin(bench)
        try await settle(bench, second, other, requests: 1)
        try await eventually("the login has ended") { second.result.withLock { $0 != nil } }
        let method = try #require(try second.result.withLock { $0 }?.get())
        bench.identity.discard(method)
        try await eventually("the tokens are revoked") {
            bench.server.requests.contains { $0.target == "/revoke" && $0.bodyText.hasPrefix("token=r2") }
        }
    }

    @Test("a server without the endpoint is named")
    func missing() async throws {
        let bench = try OAuthBench()
        for request in [BrowserLoginRequest.device, .authorizationCode(redirectURI: "http://127.0.0.1:9/callback")] {
            let (reports, _) = Self.begin(bench, request)
            try await eventually("the login has ended") { reports.result.withLock { $0 != nil } }
            let result = try #require(reports.result.withLock { $0 })
            let error = try #require(throws: IdentityError.self) { try result.get() }
            #expect(error.verdict == .clientRefused && error.message.contains("endpoints."), "\(error.message)")
        }
    }

    // MARK: Authorization code

    private static let redirect = BrowserLoginRequest.authorizationCode(redirectURI: "http://127.0.0.1:9/callback")

    private static func fields(_ uri: String) -> [String: String] {
        let items = URLComponents(string: uri)?.queryItems ?? []
        return Dictionary(items.map { ($0.name, ($0.value ?? "").replacing("+", with: " ")) }, uniquingKeysWith: { $1 })
    }

    private static func receive(_ login: any BrowserLogin, _ query: String) async -> String? {
        await withCheckedContinuation { done in
            login.receive(query: Tokens.secret(query)) { done.resume(returning: $0) }
        }
    }

    @Test(
        "the browser gets state, challenge and redirect; only this login's state is taken; the code goes with the verifier"
    )
    func code() async throws {
        let bench = try Self.bench([Self.granted])
        let (reports, login) = Self.begin(bench, Self.redirect)
        try await eventually("the address has come") { reports.prompt.withLock { $0 != nil } }
        let uri = try #require(reports.prompt.withLock { $0 }?.uri)
        #expect(uri.hasPrefix(bench.issuer + "/a?x=1&response_type=code&"))
        let fields = Self.fields(uri)
        #expect(fields["client_id"] == "lanyard" && fields["scope"] == "api" && fields["nonce"] == nil)
        #expect(fields["redirect_uri"] == "http://127.0.0.1:9/callback" && fields["code_challenge_method"] == "S256")
        let state = try #require(fields["state"])
        #expect(state.count == 43)
        #expect(await Self.receive(login, "code=c1&state=other") == "its state is not that of this login")
        #expect(await Self.receive(login, "code=c1&code=c2&state=\(state)") != nil)
        #expect(bench.forms.isEmpty)
        #expect(await Self.receive(login, "code=c%2F1&state=\(state)") == nil)
        bench.loop.pass(FileSettling.settlingDelay)
        try await eventually("the login has ended") { reports.result.withLock { $0 != nil } }
        let method = try #require(try reports.result.withLock { $0 }?.get())
        #expect(method.kind == .authorizationCode)
        #expect(
            bench.forms.first?.hasPrefix(
                "grant_type=authorization_code&code=c%2F1&redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2Fcallback&code_verifier="
            )
                == true)
        #expect(await Self.receive(login, "code=c1&state=\(state)") == "this login does not wait for the browser")
    }

    @Test("a code that could not be sent is sent when the server can be reached again")
    func unsentCode() async throws {
        let authority = TestAuthority()
        let server = try RawServer { _ in Self.granted }
        let relay = try TLSRelay(.server(authority.issue("IP:127.0.0.1")), before: server.endpoint)
        let gate = try FaultGate(before: relay.endpoint, mode: .dropRequest(.reset))
        let bench = try OAuthBench(
            tls: IdentityTLSContents(authorities: Tokens.secret(authority.pem)),
            settings: { client, _ in
                client.endpoints.token = "https://\(gate.endpoint)/token"
                client.endpoints.authorization = (client.issuer ?? "") + "/a"
            })
        let (reports, login) = Self.begin(bench, Self.redirect)
        try await eventually("the address has come") { reports.prompt.withLock { $0 != nil } }
        let state = try #require(Self.fields(reports.prompt.withLock { $0 }?.uri ?? "")["state"])
        #expect(await Self.receive(login, "code=c1&state=\(state)") == nil)
        try await eventually("the first connection has failed") { gate.connectionCount > 0 && gate.openCount == 0 }
        try gate.set(.pass)
        try await eventually("the login has ended") { reports.result.withLock { $0 != nil } }
        let method = try #require(try reports.result.withLock { $0 }?.get())
        #expect(method.kind == .authorizationCode && server.requests.count == 1)
    }

    @Test("a code that was sent is not sent again, and one that cannot be sent for long ends the login")
    func endOfCode() async throws {
        for (mode, isSent) in [(FaultGate.Mode.dropRequest(.reset), true), (.refuse, false)] {
            let gate = try FaultGate(before: .tcp(1), mode: mode)
            let bench = try OAuthBench(settings: { client, _ in
                client.endpoints.token = "http://\(gate.endpoint)/token"
                client.endpoints.authorization = (client.issuer ?? "") + "/a"
            })
            let (reports, login) = Self.begin(bench, Self.redirect)
            try await eventually("the address has come") { reports.prompt.withLock { $0 != nil } }
            let state = try #require(Self.fields(reports.prompt.withLock { $0 }?.uri ?? "")["state"])
            #expect(await Self.receive(login, "code=c1&state=\(state)") == nil)
            try await eventually("the login has ended") {
                if !isSent { bench.loop.pass(.seconds(1)) }
                return reports.result.withLock { $0 != nil }
            }
            let result = try #require(reports.result.withLock { $0 })
            let error = try #require(throws: IdentityError.self) { try result.get() }
            #expect(error.verdict == .transient(retryAfter: nil), "\(error)")
            #expect(gate.connectionCount == (isSent ? 1 : 0))
        }
    }

    @Test(
        "a response of another issuer, an error and a missing code end the login",
        arguments: [
            ("code=c&iss=https%3A%2F%2Fevil", "names another issuer"), ("error=access_denied", "denied the login"),
            ("error=invalid_scope", "responded with invalid_scope"),
            ("error=invalid_scope&error_description=no+such+scope", #"the service says: "no such scope"#),
            ("error=access_denied&error_description=policy+%0a", #"the service says: "policy \x0a""#),
            ("error=%3Cb%3E", "responded with an error"),
            ("x=1", "without a code"),
        ])
    func responses(_ query: String, _ message: String) async throws {
        let bench = try Self.bench([Self.granted])
        let (reports, login) = Self.begin(bench, Self.redirect)
        try await eventually("the address has come") { reports.prompt.withLock { $0 != nil } }
        let state = try #require(Self.fields(reports.prompt.withLock { $0 }?.uri ?? "")["state"])
        #expect(await Self.receive(login, query + "&state=" + state) == nil)
        try await eventually("the login has ended") { reports.result.withLock { $0 != nil } }
        let result = try #require(reports.result.withLock { $0 })
        let error = try #require(throws: IdentityError.self) { try result.get() }
        #expect(error.verdict == .credentialRefused && error.operatorMessage.contains(message), "\(error)")
        #expect(bench.forms.isEmpty)
    }

    @Test("a browser that does not come back ends the login after ten minutes")
    func patience() async throws {
        let bench = try Self.bench([Self.granted])
        bench.loop.freezeTime()
        let (reports, _) = Self.begin(bench, Self.redirect)
        try await eventually("the address has come") { reports.prompt.withLock { $0 != nil } }
        bench.loop.pass(CodeLogin.lifetime - .nanoseconds(1))
        #expect(reports.result.withLock { $0 == nil })
        bench.loop.pass(.nanoseconds(1))
        let result = try #require(reports.result.withLock { $0 })
        #expect(throws: IdentityError.self) { try result.get() }
    }

    @Test("the ID token's claims must be those of this login")
    func identityToken() throws {
        let now = WallTime(seconds: 1_700_000_000)
        func defect(_ more: String, without name: String = "") throws -> String? {
            var claims: [(String, String)] = [
                ("iss", "\"https://i\""), ("aud", "\"c\""), ("nonce", "\"n\""), ("exp", "1700000060"),
                ("iat", "1700000000"),
            ]
            claims.removeAll { more.contains("\"\($0.0)\"") || $0.0 == name }
            let body = claims.map { "\"\($0.0)\":\($0.1)" }.joined(separator: ",") + (more.isEmpty ? "" : "," + more)
            let token = try #require(IDToken(Tokens.secret(Tokens.jwt("{\(body)}"))))
            return token.defect(
                clientID: "c", issuer: ExpectedIssuer("https://i", hasTenants: false), nonce: "n", now: now)
        }
        #expect(try defect("") == nil)
        #expect(try defect(#""aud":["x","c"],"azp":"c""#) == nil)
        #expect(try defect(#""iss":"https://i/""#)?.contains("iss") == true)
        #expect(try defect(#""aud":"x""#)?.contains("aud") == true)
        #expect(try defect(#""aud":["x","c"]"#)?.contains("azp") == true)
        #expect(try defect(#""azp":"x""#)?.contains("azp") == true)
        #expect(try defect(#""nonce":"m""#)?.contains("nonce") == true)
        #expect(try defect("", without: "nonce")?.contains("nonce") == true)
        #expect(try defect(#""exp":1699999000"#)?.contains("expired") == true)
        #expect(try defect(#""iat":1700009000"#)?.contains("iat") == true)
        #expect(try defect("", without: "iat")?.contains("iat") == true)
        // null is as good as absent.
        #expect(try defect(#""azp":null"#) == nil)
        #expect(try defect(#""aud":["x","c"],"azp":null"#)?.contains("azp") == true)
        #expect(try defect(#""nonce":null"#) == "it has no nonce")
        #expect(try defect("", without: "nonce") == "it has no nonce")
        for name in ["iss", "aud", "exp", "iat"] {
            #expect(try defect("\"\(name)\":null")?.contains(name == "exp" ? "expired" : name) == true)
        }
        // What the account is called is shown, and may be anything.
        for (claim, subject) in [
            (#""sub":"248289761001""#, "248289761001"), (#""sub":7"#, nil), (#""sub":{"a":[1]}"#, nil),
            (#""sub":"""#, nil), (#""sub":"a b""#, nil), ("\"sub\":\"\(String(repeating: "s", count: 256))\"", nil),
        ] {
            #expect(try defect(claim) == nil)
            #expect(IDToken(Tokens.secret(Tokens.jwt("{\(claim)}")))?.subject == subject)
        }
        #expect(IDToken(Tokens.secret("a.b.c")) == nil && IDToken(Tokens.secret(Tokens.jwt(#"{"aud":7}"#))) == nil)
    }

    @Test("with openid the ID token is needed; a wrong one revokes what came with it", arguments: [true, false])
    func openID(hasRefreshToken: Bool) async throws {
        let refreshToken = hasRefreshToken ? #""refresh_token":"r9","# : ""
        let bench = try Self.bench(
            [
                OAuthBench.json(
                    200,
                    #"{"access_token":"a.b.c","token_type":"bearer","expires_in":20,\#(refreshToken)"id_token":"#
                        + "\"\(Tokens.jwt(#"{"iss":"x","aud":"lanyard","nonce":"n","exp":9999999999,"iat":1}"#))\"}")
            ], scopes: ["openid"])
        let (reports, login) = Self.begin(bench, Self.redirect)
        try await eventually("the address has come") { reports.prompt.withLock { $0 != nil } }
        let fields = Self.fields(reports.prompt.withLock { $0 }?.uri ?? "")
        #expect(fields["nonce"]?.count == 43)
        #expect(await Self.receive(login, "code=c&state=" + (fields["state"] ?? "")) == nil)
        bench.loop.pass(FileSettling.settlingDelay)
        try await eventually("the login has ended") { reports.result.withLock { $0 != nil } }
        let result = try #require(reports.result.withLock { $0 })
        let error = try #require(throws: IdentityError.self) { try result.get() }
        #expect(error.code == "wrong_id_token" && error.message.contains("iss"))
        try await eventually("the tokens are revoked") {
            bench.server.requests.contains {
                $0.target == "/revoke" && $0.bodyText.hasPrefix(hasRefreshToken ? "token=r9" : "token=a.b.c")
            }
        }
    }

    /// The grant of a login at a server whose ID tokens have these claims; NONCE stands for the login's.
    private func grant(
        _ request: BrowserLoginRequest, idTokenOf claims: String, sub: String = #""248289761001""#,
        issuer: (String) -> Void = { _ in }
    ) async throws -> Grant {
        let own = Guarded((issuer: "", nonce: ""))
        let bench = try OAuthBench(
            script: { request in
                let (issuer, nonce) = own.withLock { $0 }
                switch request.target {
                case "/.well-known/openid-configuration":
                    return OAuthBench.metadata(
                        issuer,
                        more: #","device_authorization_endpoint":"\#(issuer)/device","#
                            + #""authorization_endpoint":"\#(issuer)/a""#)
                case "/device": return OAuthBench.json(200, Self.codes)
                case "/token":
                    let token = Tokens.jwt(
                        #"{"iss":"\#(issuer)","exp":9999999999,"iat":1,"sub":\#(sub),\#(claims)}"#
                            .replacing("NONCE", with: nonce))
                    return OAuthBench.json(
                        200, #"{"access_token":"a.b.c","token_type":"bearer","expires_in":20,"id_token":"\#(token)"}"#)
                default: return nil
                }
            },
            settings: { client, _ in
                own.withLock { $0.issuer = client.issuer ?? "" }
                client.clientID = "lanyard"
                client.scopes = ["openid"]
            })
        issuer(bench.issuer)
        let (reports, login) = Self.begin(bench, request)
        if request.kind == .device {
            try await settle(bench, reports, login, requests: 1)
        } else {
            try await eventually("the address has come") { reports.prompt.withLock { $0 != nil } }
            let fields = Self.fields(reports.prompt.withLock { $0 }?.uri ?? "")
            own.withLock { $0.nonce = fields["nonce"] ?? "" }
            #expect(await Self.receive(login, "code=c&state=" + (fields["state"] ?? "")) == nil)
        }
        try await eventually("the login has ended") { reports.result.withLock { $0 != nil } }
        return try bench.identity.obtained(try #require(try reports.result.withLock { $0 }?.get())).get()
    }

    @Test("a login has the account that its ID token names, if that token is valid")
    func subject() async throws {
        let code = try await grant(Self.redirect, idTokenOf: #""aud":"lanyard","nonce":"NONCE""#)
        #expect(code.subject == "248289761001" && code.userID == nil)
        // A device login has no nonce, and needs no ID token.
        let device = try await grant(.device, idTokenOf: #""aud":"lanyard""#)
        #expect(device.subject == "248289761001" && device.userID == nil)
        let other = try await grant(.device, idTokenOf: #""aud":"other""#)
        #expect(other.subject == nil && other.account == nil)
        #expect(code.account != nil && device.account != nil)
    }

    @Test(
        "the account of a login is that of iss and sub: exact, also a sub that is not shown; without one of them it is unknown"
    )
    func account() async throws {
        func account(_ sub: String) async throws -> AccountFingerprint? {
            try await grant(Self.redirect, idTokenOf: #""aud":"lanyard","nonce":"NONCE""#, sub: sub).account
        }
        let issuer = Guarded("")
        let first = try await grant(
            .device, idTokenOf: #""aud":"lanyard""#, sub: #""248289761001""#,
            issuer: { issued in issuer.withLock { $0 = issued } })
        #expect(first.account == AccountFingerprint(of: ["id_token", issuer.withLock { $0 }, "248289761001"]))
        #expect(try await account(#""bj\u00f6rn""#) != nil)
        for missing in ["null", "17", #""""#, "{}"] { #expect(try await account(missing) == nil, "\(missing)") }
    }

    @Test("a server that requires it gets the request itself, and the browser a reference")
    func pushed() async throws {
        let own = Guarded("")
        let bench = try OAuthBench(
            script: { request in
                let issuer = own.withLock { $0 }
                switch request.target {
                case "/.well-known/openid-configuration":
                    return OAuthBench.metadata(
                        issuer,
                        more: #","authorization_endpoint":"\#(issuer)/a","require_pushed_authorization_requests":true,"#
                            + #""pushed_authorization_request_endpoint":"\#(issuer)/par""#)
                case "/par": return OAuthBench.json(201, #"{"request_uri":"urn:x:1","expires_in":60}"#)
                default: return nil
                }
            }, settings: { client, _ in own.withLock { $0 = client.issuer ?? "" } })
        let (reports, _) = Self.begin(bench, Self.redirect)
        try await eventually("the address has come") { reports.prompt.withLock { $0 != nil } }
        #expect(
            reports.prompt.withLock { $0 }?.uri == bench.issuer + "/a?client_id=lan+yard&request_uri=urn%3Ax%3A1")
        let form = try #require(bench.server.requests.first { $0.target == "/par" }?.bodyText)
        #expect(form.hasPrefix("response_type=code&redirect_uri=") && form.contains("&code_challenge="))
        #expect(form.hasSuffix("&client_id=lan+yard"))
    }
}

// MARK: - Metadata, unusable responses, issuers

extension BrowserLoginTests {
    /// A server whose metadata in the store is former: it names `/former` endpoints, or none. The server's own words name others.
    private static func movedBench(
        stored names: [WritableKeyPath<OAuthEndpoints, String?>], discoveryStatus: Int = 200, status: Int = 404,
        pushedFor seconds: Int = 60,
        endpoints: String = #","device_authorization_endpoint":"ISSUER/device","authorization_endpoint":"ISSUER/a""#
            + #","pushed_authorization_request_endpoint":"ISSUER/par","require_pushed_authorization_requests":true"#
    ) throws -> OAuthBench {
        let own = Guarded("")
        let bench = try OAuthBench(
            script: { request in
                let issuer = own.withLock { $0 }
                switch request.target {
                case "/.well-known/openid-configuration":
                    return discoveryStatus == 200
                        ? OAuthBench.metadata(issuer, more: endpoints.replacing("ISSUER", with: issuer))
                        : OAuthBench.json(discoveryStatus, "{}")
                case "/device": return OAuthBench.json(200, codes)
                case "/par": return OAuthBench.json(201, #"{"request_uri":"urn:x:1","expires_in":\#(seconds)}"#)
                case "/former": return .response(status, "X", body: "<html>").closing
                default: return nil
                }
            }, settings: { client, _ in own.withLock { $0 = client.issuer ?? "" } })
        var known = OAuthEndpoints(token: bench.issuer + "/token")
        for name in names { known[keyPath: name] = bench.issuer + "/former" }
        var stored = StoredMetadata(
            issuer: bench.issuer, url: bench.issuer, readAt: .now, endpoints: known, aliases: OAuthEndpoints())
        stored.requiresPushedAuthorization = names.contains(\.pushedAuthorization)
        bench.identity.keepMetadata([stored]) { _ in }
        return bench
    }

    private func prompt(_ bench: OAuthBench, _ request: BrowserLoginRequest) async throws -> BrowserLoginPrompt {
        let (reports, login) = Self.begin(bench, request)
        try await eventually("the login shows something") {
            reports.prompt.withLock { $0 != nil } || reports.result.withLock { $0 != nil }
        }
        login.cancel()
        if let result = reports.result.withLock({ $0 }) { _ = try result.get() }
        return try #require(reports.prompt.withLock { $0 })
    }

    @Test("an endpoint that is missing or gone is asked for once more, if it was only remembered")
    func moved() async throws {
        let discovery = "/.well-known/openid-configuration"
        for status in [302, 404, 410, 421] {
            let bench = try Self.movedBench(stored: [\.deviceAuthorization], status: status)
            #expect(try await prompt(bench, .device).userCode == "AB-CD")
            #expect(bench.server.requests.map(\.target) == ["/former", discovery, "/device"])
        }
        let added = try Self.movedBench(stored: [])
        #expect(try await prompt(added, .device).userCode == "AB-CD")
        #expect(added.server.requests.map(\.target) == [discovery, "/device"])
        let code = try Self.movedBench(stored: [])
        #expect(try await prompt(code, Self.redirect).uri.hasPrefix(code.issuer + "/a?"))
        #expect(code.server.requests.map(\.target) == [discovery, "/par"])
        let pushed = try Self.movedBench(stored: [\.authorization, \.pushedAuthorization])
        #expect(try await prompt(pushed, Self.redirect).uri.hasSuffix("&request_uri=urn%3Ax%3A1"))
        #expect(pushed.server.requests.map(\.target) == ["/former", discovery, "/par"])
    }

    @Test("metadata that says the same, or does not come, leaves the first response as it is")
    func unmoved() async throws {
        for status in [200, 503] {
            let bench = try Self.movedBench(
                stored: [\.deviceAuthorization], discoveryStatus: status,
                endpoints: #","device_authorization_endpoint":"ISSUER/former""#)
            let error = try await #require(throws: IdentityError.self) { try await prompt(bench, .device) }
            #expect(error.status == 404)
            let places = ["/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"]
            #expect(bench.server.requests.map(\.target) == ["/former"] + places.prefix(status == 200 ? 1 : 2))
        }
    }

    @Test("a revocation endpoint that is missing or gone is asked for once more, too")
    func movedRevocation() async throws {
        for stored in [[\OAuthEndpoints.revocation], []] {
            let bench = try Self.movedBench(stored: stored)
            try await bench.revoke("r1").get()
            let targets = bench.server.requests.map(\.target)
            #expect(targets == stored.map { _ in "/former" } + ["/.well-known/openid-configuration", "/revoke"])
        }
    }

    @Test("what the server said of iss when the login began counts when the browser comes back")
    func issuerSaid() async throws {
        let own = Guarded((issuer: "", says: true))
        let bench = try OAuthBench(
            script: { request in
                let (issuer, says) = own.withLock { $0 }
                guard request.target == "/.well-known/openid-configuration" else {
                    return request.target == "/token" ? OAuthBench.json(404, "{}") : nil
                }
                return OAuthBench.metadata(
                    issuer,
                    more: #","authorization_endpoint":"\#(issuer)/a","#
                        + #""authorization_response_iss_parameter_supported":\#(says)"#)
            }, settings: { client, _ in own.withLock { $0.issuer = client.issuer ?? "" } })
        let (reports, login) = Self.begin(bench, Self.redirect)
        try await eventually("the address has come") { reports.prompt.withLock { $0 != nil } }
        let state = try #require(Self.fields(reports.prompt.withLock { $0 }?.uri ?? "")["state"])
        // Another user's call finds the endpoint gone, and the server says something else now.
        own.withLock { $0.says = false }
        for _ in 0..<2 { _ = await bench.refresh() }
        #expect(await Self.receive(login, "code=c&state=" + state) == nil)
        try await eventually("the login has ended") { reports.result.withLock { $0 != nil } }
        let result = try #require(reports.result.withLock { $0 })
        let error = try #require(throws: IdentityError.self) { try result.get() }
        #expect(error.code == "wrong_issuer", "\(error.message)")
        #expect(!bench.forms.contains { $0.contains("authorization_code") })
    }

    @Test("a pushed request ends when its reference does: what is shown says so, and the browser still has its time")
    func pushedEnd() async throws {
        for (seconds, isCut) in [(60, true), (7200, false)] {
            let bench = try Self.movedBench(stored: [], pushedFor: seconds)
            bench.loop.freezeTime()
            let now = bench.loop.perform { WallTime.now }
            let (reports, _) = Self.begin(bench, Self.redirect)
            try await eventually("the address has come") { reports.prompt.withLock { $0 != nil } }
            let shown = try #require(reports.prompt.withLock { $0 }).expiresAt
            let left = shown - (now + (isCut ? Duration.seconds(seconds) : CodeLogin.lifetime))
            // A reading of two clocks is exact to some nanoseconds.
            #expect(.milliseconds(-1) < left && left < .milliseconds(1), "\(left)")
            // A user who has opened the address in time may need longer to log in.
            bench.loop.pass(CodeLogin.lifetime - .nanoseconds(1))
            #expect(reports.result.withLock { $0 == nil })
            bench.loop.pass(.nanoseconds(1))
            #expect(reports.result.withLock { $0 != nil })
        }
    }

    // MARK: Secrets in responses

    /// The end of a login by code, whose server responds with what it has got.
    private func end(
        query: (_ state: String) -> String, token respond: @escaping @Sendable (_ form: [String: String]) -> RawResponse
    ) async throws -> (Result<LoginMethod<Secret>, IdentityError>, OAuthBench) {
        let own = Guarded("")
        let bench = try OAuthBench(
            script: { request in
                let issuer = own.withLock { $0 }
                switch request.target {
                case "/.well-known/openid-configuration":
                    return OAuthBench.metadata(issuer, more: #","authorization_endpoint":"\#(issuer)/a""#)
                case "/token": return respond(Self.fields("http://x/?" + request.bodyText))
                default: return nil
                }
            },
            settings: { client, _ in
                own.withLock { $0 = client.issuer ?? "" }
                (client.clientID, client.scopes) = ("lanyard", ["openid"])
            })
        let (reports, login) = Self.begin(bench, Self.redirect)
        try await eventually("the address has come") { reports.prompt.withLock { $0 != nil } }
        let state = Self.fields(reports.prompt.withLock { $0 }?.uri ?? "")["state"] ?? ""
        #expect(await Self.receive(login, query(state)) == nil)
        try await eventually("the login has ended") { reports.result.withLock { $0 != nil } }
        return (try #require(reports.result.withLock { $0 }), bench)
    }

    @Test("no text of a login by code has its code, its verifier or a token, wherever the server writes them")
    func echoes() async throws {
        let code = "AuthorizationCodeOfLetters"
        @Sendable func token(_ claims: String) -> RawResponse {
            let token = Tokens.jwt(claims, signature: "x")
            return OAuthBench.json(
                200, #"{"access_token":"issued-access-1","token_type":"bearer","id_token":"\#(token)"}"#)
        }
        typealias Respond = @Sendable (_ code: String, _ verifier: String) -> RawResponse
        let errors: [Respond] = [
            { code, _ in OAuthBench.json(400, #"{"error":"\#(code.uppercased())"}"#) },
            { code, _ in OAuthBench.json(400, #"{"error":"x_\#(code.prefix(9))"}"#) },
        ]
        let successes: [Respond] = [
            { _, verifier in OAuthBench.json(200, #"{"access_token":"a","token_type":"\#(verifier)"}"#) },
            { _, _ in OAuthBench.json(200, #"{"access_token":"a.b.c.d.e.f","token_type":"a.b.c.d.e.f"}"#) },
            { code, _ in token(#"{"iss":"https://\#(code)","aud":"lanyard","sub":"s"}"#) },
            { _, verifier in token(#"{"iss":"https://h/\#(verifier)","aud":"lanyard","sub":"s"}"#) },
            { _, _ in token(#"{"iss":"issued-access-1","aud":"lanyard","sub":"s"}"#) },
        ]
        for respond in errors + successes {
            let verifier = Guarded("")
            let (result, _) = try await end(query: { "code=\(code)&state=\($0)" }) { form in
                verifier.withLock { $0 = form["code_verifier"] ?? "-" }
                return respond(form["code"] ?? "", form["code_verifier"] ?? "")
            }
            let error = try #require(result.failure)
            let text = (error.operatorMessage + " " + (error.code ?? "")).lowercased()
            for secret in [code, verifier.withLock { $0 }, "issued-access-1", "a.b.c.d.e.f"] {
                #expect(!text.contains(secret.lowercased().prefix(8)), "\(text)")
            }
        }
        // What the browser brings.
        for query in [
            "error=\(code)&code=\(code)", "error=x_\(code.prefix(9))&code=\(code)",
            "error=foo&error_description=the+code+is+\(code)&code=\(code)",
        ] {
            let (result, _) = try await end(query: { query + "&state=\($0)" }) { _ in OAuthBench.json(500, "") }
            let error = try #require(result.failure)
            #expect(!error.operatorMessage.contains("Authorizat") && error.code?.contains("Authorizat") != true)
        }
    }

    @Test("an ID token's sub that is a secret of the login is not shown; the account stays")
    func secretSubject() async throws {
        for sub in ["VERIFIER", "a.b.c.d.e.f", "CODE"] {
            let own = Guarded((issuer: "", nonce: ""))
            let bench = try OAuthBench(
                script: { request in
                    let (issuer, nonce) = own.withLock { $0 }
                    switch request.target {
                    case "/.well-known/openid-configuration":
                        return OAuthBench.metadata(issuer, more: #","authorization_endpoint":"\#(issuer)/a""#)
                    case "/token":
                        let form = Self.fields("http://x/?" + request.bodyText)
                        let text = sub.replacing("VERIFIER", with: form["code_verifier"] ?? "").replacing(
                            "CODE", with: form["code"] ?? "")
                        let token = Tokens.jwt(
                            #"{"iss":"\#(issuer)","aud":"lanyard","nonce":"\#(nonce)","exp":9999999999,"iat":1,"sub":"\#(text)"}"#
                        )
                        return OAuthBench.json(
                            200,
                            #"{"access_token":"a.b.c.d.e.f","token_type":"bearer","expires_in":20,"id_token":"\#(token)"}"#
                        )
                    default: return nil
                    }
                },
                settings: { client, _ in
                    own.withLock { $0.issuer = client.issuer ?? "" }
                    (client.clientID, client.scopes) = ("lanyard", ["openid"])
                })
            let (reports, login) = Self.begin(bench, Self.redirect)
            try await eventually("the address has come") { reports.prompt.withLock { $0 != nil } }
            let fields = Self.fields(reports.prompt.withLock { $0 }?.uri ?? "")
            own.withLock { $0.nonce = fields["nonce"] ?? "" }
            #expect(await Self.receive(login, "code=the-code-of-it&state=" + (fields["state"] ?? "")) == nil)
            try await eventually("the login has ended") { reports.result.withLock { $0 != nil } }
            let method = try #require(try reports.result.withLock { $0 }?.get())
            let grant = try bench.identity.obtained(method).get()
            #expect(grant.subject == nil && grant.account != nil, "\(sub)")
        }
    }

    @Test("codes of a device login with the client's secret are not shown")
    func secretCodes() async throws {
        for codes in [
            #"{"device_code":"d","user_code":"the-client-secret","verification_uri":"http://i/d","expires_in":600}"#,
            #"{"device_code":"d","user_code":"A","verification_uri":"http://i/the-client-secret","expires_in":600}"#,
            #"{"device_code":"d","user_code":"A","verification_uri":"http://i/d","expires_in":600,"#
                + #""verification_uri_complete":"http://i/?c=the-client-secret"}"#,
        ] {
            let own = Guarded("")
            let bench = try OAuthBench(
                script: { request in
                    let issuer = own.withLock { $0 }
                    switch request.target {
                    case "/.well-known/openid-configuration":
                        return OAuthBench.metadata(
                            issuer, more: #","device_authorization_endpoint":"\#(issuer)/device""#)
                    case "/device": return OAuthBench.json(200, codes)
                    default: return nil
                    }
                },
                settings: { client, folder in
                    own.withLock { $0 = client.issuer ?? "" }
                    client.authentication = .post(secretFile: try folder.write("s", "the-client-secret"))
                })
            let (reports, _) = Self.begin(bench)
            for _ in 0..<2 { bench.loop.pass(FileSettling.settlingDelay) }
            try await eventually("the login has ended or asks") {
                reports.result.withLock { $0 != nil } || reports.prompt.withLock { $0 != nil }
            }
            #expect(reports.prompt.withLock { $0 == nil }, "\(codes)")
            let error = try #require(reports.result.withLock { $0 }?.failure)
            #expect(!error.operatorMessage.contains("the-client"), "\(error.operatorMessage)")
        }
    }

    // MARK: What an operator does

    @Test(
        "an error that the browser brings has the cause of its class; the remedy is not to log in once more alone",
        arguments: [
            ("invalid_scope", IdentityCause.scope, "scopes"), ("unauthorized_client", .grant, "authorization_code"),
            ("invalid_request", .request, "params"), ("unsupported_response_type", .grant, "authorization_code"),
            ("temporarily_unavailable", .serviceFailure, "look at"), ("server_error", .serviceFailure, "look at"),
            ("consent_required", .user, "consent"), ("something_new", .request, "redirect URIs"),
            ("invalid_target", .target, "params"),
        ])
    func browserErrors(_ name: String, _ cause: IdentityCause, _ remedy: String) async throws {
        let (result, _) = try await end(query: { "error=\(name)&state=\($0)" }) { _ in OAuthBench.json(500, "") }
        let error = try #require(result.failure)
        #expect(error.verdict == .credentialRefused && error.code == name && error.cause == cause, "\(error)")
        #expect(error.remedy?.contains(remedy) == true, "\(error.remedy ?? "")")
        #expect(error.remedy?.contains("by itself") == false, "\(error.remedy ?? "")")
        #expect(error.remedy?.contains("lanyard login NAME") == true, "\(error.remedy ?? "")")
    }

    @Test("another issuer and a wrong ID token are the operator's: issuer, client_id, the clocks")
    func wrongIssuer() async throws {
        for (query, code) in [("code=c&iss=https%3A%2F%2Fevil", "wrong_issuer"), ("code=c", "wrong_id_token")] {
            let (result, _) = try await end(query: { query + "&state=\($0)" }) { _ in
                OAuthBench.json(
                    200, #"{"access_token":"a.b.c","token_type":"bearer","id_token":"\#(Tokens.jwt(#"{"iss":"x"}"#))"}"#
                )
            }
            let error = try #require(result.failure)
            #expect(error.code == code && error.action(canLogIn: false) == .operator)
            #expect(error.remedy?.contains("check issuer and client_id") == true, "\(error.remedy ?? "")")
        }
    }

    @Test("a server without the endpoint of a login blames the endpoints, and no secret of the client")
    func missingEndpoints() async throws {
        for request in [BrowserLoginRequest.device, Self.redirect] {
            let bench = try OAuthBench()
            let (reports, _) = Self.begin(bench, request)
            try await eventually("the login has ended") { reports.result.withLock { $0 != nil } }
            let error = try #require(reports.result.withLock { $0 }?.failure)
            #expect(error.cause == .noEndpoint && error.action(canLogIn: false) == .operator, "\(error)")
            #expect(error.remedy?.contains("endpoints") == true, "\(error.remedy ?? "")")
        }
    }

    // MARK: Unusable responses of success

    @Test(
        "a success that cannot be used ends the login with its reason, and what came with it is revoked",
        arguments: [
            (#"{"access_token":"a\nb","token_type":"bearer","refresh_token":"r5"}"#, "characters"),
            (#"{"access_token":"a","token_type":"mac","refresh_token":"r5"}"#, "token_type"),
            (#"{"refresh_token":"r5","token_type":"bearer"}"#, "no access_token"),
        ])
    func unusable(_ body: String, _ reason: String) async throws {
        for request in [BrowserLoginRequest.device, Self.redirect] {
            let bench = try Self.bench([OAuthBench.json(200, body), Self.error("invalid_grant")])
            let (reports, login) = Self.begin(bench, request)
            if request == .device {
                try await settle(bench, reports, login, requests: 2)
            } else {
                try await eventually("the address has come") { reports.prompt.withLock { $0 != nil } }
                let state = Self.fields(reports.prompt.withLock { $0 }?.uri ?? "")["state"]
                #expect(await Self.receive(login, "code=c&state=" + (state ?? "")) == nil)
            }
            try await eventually("the login has ended") { reports.result.withLock { $0 != nil } }
            let result = try #require(reports.result.withLock { $0 })
            let error = try #require(throws: IdentityError.self) { try result.get() }
            #expect(error.verdict == .credentialRefused && error.code == "unusable_response", "\(error)")
            #expect(error.message.contains(reason), "\(error.message)")
            #expect(bench.forms.count == 1)
            try await eventually("the refresh token is revoked") {
                bench.server.requests.contains { $0.target == "/revoke" && $0.bodyText.hasPrefix("token=r5") }
            }
        }
    }

    @Test("a page in place of the response to a poll does not end a device login")
    func page() async throws {
        let bench = try Self.bench([.response(200, "OK", body: "<html>").closing, Self.granted])
        let (reports, login) = Self.begin(bench)
        try await settle(bench, reports, login, requests: 2)
        try await eventually("the login has ended") { reports.result.withLock { $0 != nil } }
        let result = try #require(reports.result.withLock { $0 })
        #expect(throws: Never.self) { try result.get() }
    }

    // MARK: Entra's issuers

    /// The error of a login with `openid` at an issuer of several tenants, whose ID token has these claims; nil: it has succeeded.
    private func error(
        issuer path: String, stated: String, claims: String, isRestored: Bool = false
    ) async throws -> IdentityError? {
        let own = Guarded((issuer: "", nonce: ""))
        let bench = try OAuthBench(
            script: { request in
                let (issuer, nonce) = own.withLock { $0 }
                let base = String(issuer.dropLast(path.utf8.count))
                switch request.target {
                case path + "/.well-known/openid-configuration":
                    return OAuthBench.json(
                        200,
                        #"{"issuer":"\#(base)\#(stated)","token_endpoint":"\#(base)/token","#
                            + #""authorization_endpoint":"\#(base)/a"}"#)
                case "/token":
                    let token = Tokens.jwt(
                        #"{"aud":"lanyard","nonce":"\#(nonce)","exp":9999999999,"iat":1,\#(claims)}"#
                            .replacing("BASE", with: base))
                    return OAuthBench.json(
                        200, #"{"access_token":"a.b.c","token_type":"bearer","expires_in":20,"id_token":"\#(token)"}"#)
                default: return nil
                }
            },
            settings: { client, _ in
                client.issuer = (client.issuer ?? "") + path
                own.withLock { $0.issuer = client.issuer ?? "" }
                client.clientID = "lanyard"
                client.scopes = ["openid"]
            })
        if isRestored {
            let base = bench.issuer
            var endpoints = OAuthEndpoints(token: base + "/token")
            endpoints.authorization = base + "/a"
            bench.identity.keepMetadata([
                StoredMetadata(
                    issuer: base + path, url: base + path, readAt: .now, endpoints: endpoints, aliases: OAuthEndpoints()
                )
            ]) { _ in }
        }
        let (reports, login) = Self.begin(bench, Self.redirect)
        try await eventually("the address has come") { reports.prompt.withLock { $0 != nil } }
        let fields = Self.fields(reports.prompt.withLock { $0 }?.uri ?? "")
        own.withLock { $0.nonce = fields["nonce"] ?? "" }
        #expect(await Self.receive(login, "code=c&state=" + (fields["state"] ?? "")) == nil)
        try await eventually("the login has ended") { reports.result.withLock { $0 != nil } }
        guard case .failure(let error)? = reports.result.withLock({ $0 }) else { return nil }
        return error
    }

    @Test(
        "an issuer of several tenants is compared with the ID token's tid in place of {tenantid}",
        arguments: [false, true])
    func tenants(_ isRestored: Bool) async throws {
        for word in ["common", "organizations"] {
            let check = { (claims: String) in
                try await error(
                    issuer: "/\(word)/v2.0", stated: "/{tenantid}/v2.0", claims: claims, isRestored: isRestored)
            }
            #expect(try await check(#""iss":"BASE/t-1/v2.0","tid":"t-1""#) == nil)
            for claims in [
                #""iss":"BASE/t-2/v2.0","tid":"t-1""#, #""iss":"BASE/t-1/v2.0""#, #""iss":"BASE/t/1/v2.0","tid":"t/1""#,
            ] {
                let error = try #require(try await check(claims))
                #expect(error.code == "wrong_id_token" && error.message.contains("iss"), "\(error.message)")
            }
            let message = try #require(try await check(#""iss":"BASE/t-2/v2.0","tid":"t-1""#)).message
            #expect(message.contains("/t-2/v2.0") && message.contains("/t-1/v2.0"), "\(message)")
        }
    }

    @Test("an issuer of one tenant is that tenant, also where the metadata has {tenantid}; an error has both texts")
    func tenant() async throws {
        let check = { (claims: String) in
            try await error(issuer: "/t-1/v2.0", stated: "/{tenantid}/v2.0", claims: claims)
        }
        #expect(try await check(#""iss":"BASE/t-1/v2.0","tid":"t-1""#) == nil)
        let message = try #require(try await check(#""iss":"BASE/t-2/v2.0","tid":"t-2""#)).message
        #expect(message.contains("/t-2/v2.0") && message.contains("/t-1/v2.0"), "\(message)")
    }
}
