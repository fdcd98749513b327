import Foundation
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// Assertions that Lanyard signs for a login (RFC 7523 §2.1), and the tokens of an exchange (RFC 8693).
@Suite("OAuth: signed grants and token exchange") struct SignedGrantTests {
    /// A key of each kind that openssl makes, once for all tests.
    static var keys: KeyFolder { get throws { try made.get() } }
    private static let made = Result { try KeyFolder() }

    final class KeyFolder: Sendable {
        let folder: TemporaryFolder

        init() throws {
            folder = try TemporaryFolder()
            for (name, arguments) in [
                ("rsa", ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]),
                ("ec", ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]),
            ] { try Self.openssl(["genpkey"] + arguments + ["-out", folder.file(name)]) }
            try Self.openssl(
                ["pkey", "-in", folder.file("rsa"), "-aes128", "-passout", "pass:x", "-out", folder.file("locked")])
        }

        func text(_ name: String) throws -> String { try String(contentsOfFile: folder.file(name), encoding: .utf8) }

        private static func openssl(_ arguments: [String]) throws {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
            process.arguments = arguments
            process.standardError = FileHandle.nullDevice
            process.standardOutput = FileHandle.nullDevice
            try process.run()
            process.waitUntilExit()
        }
    }

    private static func fields(_ form: String) -> [String: String] {
        Dictionary(
            form.split(separator: "&").map { pair in
                let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                let value = String(parts[1]).replacing("+", with: " ").removingPercentEncoding
                return (String(parts[0]), value ?? "")
            }, uniquingKeysWith: { $1 })
    }

    static func part(_ index: Int, of token: String?) throws -> [String: Any] {
        let parts = try #require(token).split(separator: ".")
        let plain = parts[index].replacing("-", with: "+").replacing("_", with: "/")
        let data = try #require(Data(base64Encoded: plain + String(repeating: "=", count: (4 - plain.count % 4) % 4)))
        return try #require(JSONSerialization.jsonObject(with: data) as? [String: Any])
    }

    private func login(
        _ login: UserSettings.Login, _ change: @escaping (inout IdentitySettings.OAuth) -> Void = { _ in }
    ) async throws -> (result: Result<Grant, IdentityError>, form: [String: String], issuer: String) {
        let bench = try OAuthBench(settings: { client, _ in
            client.clientID = "lanyard"
            client.scopes = ["api", "more"]
            change(&client)
        })
        let result = await bench.login(login)
        return (result, bench.forms.last.map(Self.fields) ?? [:], bench.issuer)
    }

    @Test("a key signs iss, sub, aud, lifetime and claims as they are configured; the scopes stand in the form")
    func key() async throws {
        var method = UserSettings.Login.signedAssertion(key: try Self.keys.folder.file("ec"))
        method.assertion?.keyID = "k1"
        method.assertion?.subject = "alice"
        method.assertion?.lifetime = .seconds(600)
        method.assertion?.claims = [.init("tenant", "blue")]
        let (result, form, issuer) = try await login(method)
        _ = try result.get()
        #expect(form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer")
        #expect(form["scope"] == "api more" && form["client_id"] == "lanyard")
        let header = try Self.part(0, of: form["assertion"])
        #expect(header["alg"] as? String == "ES256" && header["kid"] as? String == "k1")
        let claims = try Self.part(1, of: form["assertion"])
        #expect(claims["iss"] as? String == "lanyard" && claims["sub"] as? String == "alice")
        #expect(claims["aud"] as? String == issuer && claims["tenant"] as? String == "blue")
        #expect(claims["scope"] == nil)
        let (start, end) = (try #require(claims["iat"] as? Int), try #require(claims["exp"] as? Int))
        #expect(end - start == 600)
    }

    @Test(
        "an assertion of the client names the token endpoint, also where it goes to another one, or that one if so configured",
        arguments: [ClientKey.Audience.tokenEndpoint, .issuer, .endpoint])
    func clientAudience(_ audience: ClientKey.Audience) async throws {
        let file = try Self.keys.folder.file("ec")
        let bench = try OAuthBench(settings: { client, _ in
            let issuer = client.issuer ?? ""
            client.endpoints = OAuthEndpoints(token: issuer + "/token", revocation: issuer + "/revoke")
            client.endpoints.deviceAuthorization = issuer + "/device"
            client.endpoints.authorization = issuer + "/a"
            client.endpoints.pushedAuthorization = issuer + "/par"
            // Without an issuer the token endpoint is the audience of the first two.
            client.issuer = nil
            var key = ClientKey(file: file)
            key.audience = audience
            client.authentication = .privateKeyJWT(key)
        })
        _ = await bench.refresh()
        _ = await bench.revoke()
        for request in [BrowserLoginRequest.device, .authorizationCode(redirectURI: "http://127.0.0.1:9/callback")] {
            let isEnded = Guarded(false)
            _ = bench.identity.begin(request, onPrompt: { _ in }, onEnd: { _ in isEnded.withLock { $0 = true } })
            for _ in 0..<4 { bench.loop.pass(FileSettling.settlingDelay) }
            try await eventually("the login has ended") { isEnded.withLock { $0 } }
        }
        let requests = bench.server.requests
        #expect(requests.map(\.target) == ["/token", "/revoke", "/device", "/par"])
        for request in requests {
            let claims = try Self.part(1, of: Self.fields(request.bodyText)["client_assertion"])
            let place = audience == .endpoint ? request.target : "/token"
            #expect(claims["aud"] as? String == bench.issuer + place, "\(request.target)")
        }
    }

    /// RFC 8705 §5 says where a client with a certificate sends its calls, and RFC 7523 §3 that the server knows itself by its token
    /// endpoint.
    @Test(
        "a client with a certificate calls the aliases; the token endpoint that an assertion names is the metadata's own",
        arguments: [ClientKey.Audience.tokenEndpoint, .endpoint])
    func aliases(_ audience: ClientKey.Audience) async throws {
        let file = try Self.keys.folder.file("ec")
        let own = Guarded("")
        let script: OAuthBench.Script = { request in
            let issuer = own.withLock { $0 }
            let named = #","mtls_endpoint_aliases":{"token_endpoint":"\#(issuer)/mtls/token"}"#
            return switch request.target {
            case "/.well-known/openid-configuration": OAuthBench.metadata(issuer, more: named)
            case "/mtls/token": OAuthBench.json(200, #"{"access_token":"a.b.c","expires_in":20}"#)
            default: nil
            }
        }
        let bench = try OAuthBench(
            script: script, certificateFile: file,
            settings: { client, _ in
                var key = ClientKey(file: file)
                key.audience = audience
                client.authentication = .privateKeyJWT(key)
            })
        own.withLock { $0 = bench.issuer }
        var method = UserSettings.Login.signedAssertion(key: file)
        method.assertion?.audience = audience
        _ = try await bench.login(method).get()
        _ = try await bench.refresh().get()
        try await bench.revoke().get()
        let requests = bench.server.requests.dropFirst()
        #expect(requests.map(\.target) == ["/mtls/token", "/mtls/token", "/revoke"])
        for request in requests {
            let fields = Self.fields(request.bodyText)
            let place = audience == .endpoint ? request.target : "/token"
            for assertion in [fields["client_assertion"], fields["assertion"]].compactMap(\.self) {
                let claims = try Self.part(1, of: assertion)
                #expect(claims["aud"] as? String == bench.issuer + place, "\(request.target)")
            }
        }
    }

    @Test("issuer, audience and the place of the scopes follow the settings")
    func places() async throws {
        var method = UserSettings.Login.signedAssertion(key: try Self.keys.folder.file("rsa"))
        method.assertion?.algorithm = .ps256
        method.assertion?.issuer = "https://me"
        method.assertion?.audience = .tokenEndpoint
        method.assertion?.scopePlace = .claim
        let (result, form, issuer) = try await login(method)
        _ = try result.get()
        let claims = try Self.part(1, of: form["assertion"])
        #expect(claims["iss"] as? String == "https://me" && claims["sub"] as? String == "https://me")
        #expect(claims["aud"] as? String == issuer + "/token" && claims["scope"] as? String == "api more")
        #expect(form["scope"] == nil)
        method.assertion?.scopePlace = .both
        let both = try await login(method)
        #expect(both.form["scope"] == "api more")
        #expect(try Self.part(1, of: both.form["assertion"])["scope"] as? String == "api more")
    }

    @Test("a fake of Google gets what the key file of a service account says, and no client_id")
    func google() async throws {
        let folder = try TemporaryFolder()
        let key = try JSONSerialization.data(withJSONObject: [
            "type": "service_account", "client_email": "robot@p.iam.gserviceaccount.com", "private_key_id": "a1b2",
            "private_key": try Self.keys.text("rsa"), "token_uri": "https://oauth2.googleapis.com/token",
            "client_id": "1", "universe_domain": "googleapis.com",
        ])
        var method = UserSettings.Login.googleKey(
            try folder.write("key.json", String(decoding: key, as: UTF8.self)))
        method.assertion?.algorithm = .rs256
        method.assertion?.scopePlace = .claim
        let (result, form, _) = try await login(method)
        _ = try result.get()
        #expect(Set(form.keys) == ["grant_type", "assertion"])
        #expect(try Self.part(0, of: form["assertion"])["kid"] as? String == "a1b2")
        let claims = try Self.part(1, of: form["assertion"])
        #expect(claims["iss"] as? String == "robot@p.iam.gserviceaccount.com" && claims["sub"] == nil)
        #expect(claims["aud"] as? String == "https://oauth2.googleapis.com/token")
        #expect(claims["scope"] as? String == "api more")
        method.assertion?.subject = "alice@example.com"
        let delegated = try await login(method)
        #expect(try Self.part(1, of: delegated.form["assertion"])["sub"] as? String == "alice@example.com")
    }

    @Test(
        "a key file that cannot sign says why, and nothing is sent",
        arguments: [
            (false, "no key", "holds no private key in PEM"), (false, "locked", "a key with a passphrase"),
            (false, "ec", "no RSA key"), (true, "{}", "has the type (none)"),
            (true, "no key", "is no JSON key file of a service account"),
            (true, #"{"type":"authorized_user"}"#, "has the type authorized_user"),
            (true, #"{"type":"service_account","client_email":"a@b"}"#, "has no private_key"),
            (true, #"{"type":"service_account","client_email":"a@b","private_key":"x"}"#, "has no token_uri"),
            (
                true, #"{"type":"service_account","client_email":"a@b","private_key":"x","token_uri":"https://t"}"#,
                "holds no private key in PEM"
            ),
        ])
    func unfit(_ isGoogle: Bool, _ content: String, _ message: String) async throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("k", ["locked", "ec"].contains(content) ? try Self.keys.text(content) : content)
        var method = isGoogle ? UserSettings.Login.googleKey(path) : .signedAssertion(key: path)
        method.assertion?.algorithm = .rs256
        let (result, form, _) = try await login(method)
        let error = try #require(throws: IdentityError.self) { try result.get() }
        #expect(error.verdict == .credentialUnavailable && form.isEmpty)
        #expect(error.message.hasPrefix(path + " ") && error.message.contains(message), "\(error.message)")
    }

    @Test("an exchange names the types of its tokens and who acts")
    func exchange() async throws {
        let folder = try TemporaryFolder()
        var method = UserSettings.Login.tokenExchange(subjectToken: try folder.write("s", "s1\n"))
        method.tokenTypes.subject = try #require(TokenTypes.uri("id_token"))
        method.tokenTypes.requested = TokenTypes.uri("urn:x:own")
        var (_, form, _) = try await login(method)
        let prefix = "urn:ietf:params:oauth:token-type:"
        #expect(form["subject_token"] == "s1" && form["subject_token_type"] == prefix + "id_token")
        #expect(form["requested_token_type"] == "urn:x:own" && form["actor_token_type"] == nil)
        method.actorToken = try folder.write("a", "a1")
        method.tokenTypes.actor = try #require(TokenTypes.uri("jwt"))
        form = try await login(method).form
        #expect(form["actor_token"] == "a1" && form["actor_token_type"] == prefix + "jwt")
        method.actorToken = folder.file("missing")
        let missing = try await login(method)
        #expect(missing.form.isEmpty)
        #expect(throws: IdentityError.self) { try missing.result.get() }
    }

    @Test("a type of a token is a word of RFC 8693 or a URI")
    func types() {
        #expect(TokenTypes.uri("saml2") == "urn:ietf:params:oauth:token-type:saml2")
        #expect(TokenTypes.uri("https://a/b") == "https://a/b")
        for text in ["", "access-token", "a b:c", "saml"] { #expect(TokenTypes.uri(text) == nil, "\(text)") }
    }

    @Test("a signature refused by a clock that is an hour away comes once more by the server's; nothing else does")
    func clock() async throws {
        let date = [("Date", "Fri, 01 Jan 2027 10:00:00 GMT")]
        for (isSigned, isHelped, calls) in [(true, true, 2), (true, false, 2), (false, false, 1)] {
            let count = Guarded(0)
            let bench = try OAuthBench(script: { request in
                guard request.target == "/token" else { return nil }
                let call = count.withLock {
                    $0 += 1; return $0
                }
                return call == 2 && isHelped
                    ? nil : OAuthBench.json(401, #"{"error":"invalid_client"}"#, fields: date)
            }) { client, folder in
                let key = ClientKey(file: try Self.keys.folder.file("ec"))
                client.authentication = isSigned ? .privateKeyJWT(key) : .post(secretFile: try folder.write("s", "s"))
            }
            let outcome = await bench.refresh()
            #expect(bench.forms.count == calls)
            if isHelped { _ = try outcome.get() } else { #expect(throws: IdentityError.self) { try outcome.get() } }
            guard isSigned else { continue }
            let form = Self.fields(bench.forms[1])
            let start = try #require(try Self.part(1, of: form["client_assertion"])["iat"] as? Int)
            #expect(abs(start - (1_798_797_600 - 30)) <= 2, "by the Date of the response")
        }
    }

    @Test("two calls that were signed before the clock was corrected come once more, both")
    func clockOfTwoCalls() async throws {
        let bothCame = Milestone()
        defer { bothCame.set() }
        let count = Guarded(0)
        let bench = try OAuthBench(script: { request in
            guard request.target == "/token" else { return nil }
            let form = Self.fields(request.bodyText)
            let claims = try? Self.part(1, of: form["client_assertion"])
            let start = claims?["iat"] as? Int ?? 0
            guard abs(start - (1_798_797_600 - 30)) > 60 else { return nil }
            let calls = count.withLock {
                $0 += 1; return $0
            }
            if calls == 2 { bothCame.set() }
            let refusal = OAuthBench.json(
                401, #"{"error":"invalid_client"}"#, fields: [("Date", "Fri, 01 Jan 2027 10:00:00 GMT")])
            return refusal.after(bothCame, "the second call has come")
        }) { client, _ in
            client.authentication = .privateKeyJWT(ClientKey(file: try Self.keys.folder.file("ec")))
        }
        async let one = bench.refresh()
        async let other = bench.refresh()
        for outcome in await [one, other] { _ = try outcome.get() }
        #expect(bench.forms.count == 4)
    }

    @Test(
        "the client's own signature comes once more by the server's clock to every endpoint",
        arguments: ["/device", "/par", "/token", "/revoke"])
    func clockElsewhere(_ place: String) async throws {
        let date = [("Date", "Fri, 01 Jan 2027 10:00:00 GMT")]
        let count = Guarded(0)
        let bench = try OAuthBench(script: { request in
            if request.target == place {
                let call = count.withLock {
                    $0 += 1; return $0
                }
                if call == 1 { return OAuthBench.json(401, #"{"error":"invalid_client"}"#, fields: date) }
            }
            return switch request.target {
            case "/device":
                OAuthBench.json(
                    200, #"{"device_code":"d","user_code":"A","verification_uri":"http://i/d","expires_in":600}"#)
            case "/par": OAuthBench.json(201, #"{"request_uri":"urn:x:1","expires_in":60}"#)
            default: nil
            }
        }) { client, _ in
            let issuer = client.issuer ?? ""
            client.endpoints = OAuthEndpoints(token: issuer + "/token", revocation: issuer + "/revoke")
            client.endpoints.deviceAuthorization = issuer + "/device"
            client.endpoints.authorization = issuer + "/a"
            if place == "/par" { client.endpoints.pushedAuthorization = issuer + "/par" }
            client.authentication = .privateKeyJWT(ClientKey(file: try Self.keys.folder.file("ec")))
        }
        if place == "/revoke" {
            try await bench.revoke().get()
        } else {
            try await expectLogin(place == "/device" ? .device : Self.redirect, at: bench, exchanges: place == "/token")
        }
        let requests = bench.server.requests.filter { $0.target == place }
        #expect(requests.count == 2)
        let form = Self.fields(try #require(requests.last?.bodyText))
        let start = try #require(try Self.part(1, of: form["client_assertion"])["iat"] as? Int)
        #expect(abs(start - (1_798_797_600 - 30)) <= 2, "by the Date of the response")
    }

    private static let redirect = BrowserLoginRequest.authorizationCode(redirectURI: "http://127.0.0.1:9/callback")

    /// A login in a browser comes as far as its prompt, or to its end.
    private func expectLogin(_ request: BrowserLoginRequest, at bench: OAuthBench, exchanges: Bool) async throws {
        let prompt = Guarded<BrowserLoginPrompt?>(nil)
        let result = Guarded<Result<LoginMethod<Secret>, IdentityError>?>(nil)
        let login = bench.identity.begin(
            request, onPrompt: { shown in prompt.withLock { $0 = shown } },
            onEnd: { end in result.withLock { $0 = end } })
        func wait(_ what: String, until isDone: () -> Bool) async throws {
            for _ in 0..<4 { bench.loop.pass(FileSettling.settlingDelay) }
            try await eventually(what, isDone)
        }
        try await wait("the login shows something") {
            prompt.withLock { $0 != nil } || result.withLock { $0 != nil }
        }
        let shown = try #require(prompt.withLock { $0 }, "\(result.withLock { "\($0 as Any)" })")
        guard exchanges else { return login.cancel() }
        let items = URLComponents(string: shown.uri)?.queryItems ?? []
        let state = try #require(items.first { $0.name == "state" }?.value)
        let refusal = await withCheckedContinuation { done in
            login.receive(query: Tokens.secret("code=c&state=\(state)")) { done.resume(returning: $0) }
        }
        #expect(refusal == nil)
        try await wait("the login has ended") { result.withLock { $0 != nil } }
        _ = try result.withLock { $0 }?.get()
    }

    @Test("a password that a server with another clock refuses is sent once, whatever signs for the client")
    func passwordOnce() async throws {
        let date = [("Date", "Fri, 01 Jan 2027 10:00:00 GMT")]
        let bench = try OAuthBench(script: { request in
            request.target == "/token" ? OAuthBench.json(400, #"{"error":"invalid_grant"}"#, fields: date) : nil
        }) { client, _ in
            client.authentication = .privateKeyJWT(ClientKey(file: try Self.keys.folder.file("ec")))
        }
        let login = LoginMethod<String>.password(username: "a", try bench.folder.write("p", "secret"))
        let outcome = await bench.login(login)
        #expect(throws: IdentityError.self) { try outcome.get() }
        #expect(bench.forms.count == 1)
    }

    @Test("a refused login is another one after its actor, its types or its assertion has changed")
    func fingerprints() throws {
        var method = LoginMethod<Secret>.tokenExchange(subjectToken: Tokens.secret("s"))
        var seen: [CredentialFingerprint] = []
        let guarded = LoginGuard(key: Tokens.secret(String(repeating: "k", count: 32)), refused: nil)
        func note() throws {
            let login = try OAuthLogin.prepare(
                .given(method), contents: [:], guarded: guarded, at: nil, proof: nil, request: Tokens.secret("")
            ).get()
            let fingerprint = try #require(login.fingerprint)
            #expect(!seen.contains { fingerprint.isSame(as: $0) })
            seen.append(fingerprint)
        }
        try note()
        method.tokenTypes.subject = "urn:x"
        try note()
        method.actorToken = Tokens.secret("a")
        try note()
        method = .signedAssertion(key: Tokens.secret("s"))
        try note()
        method.assertion?.subject = "alice"
        try note()
    }
}
