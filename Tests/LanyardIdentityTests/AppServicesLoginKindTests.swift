import IdentityTestSupport
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

@Suite("App Services: the kinds of login")
struct AppServicesLoginKindTests {
    static let jwt = Tokens.jwt(#"{"sub":"alice"}"#, signature: "c2lnbmF0dXJl")

    struct Kind: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let provider: String
        let secret: String
        let login: @Sendable (String) -> UserSettings.Login
        let given: @Sendable (Secret) -> LoginMethod<Secret>
        /// The body before `options`.
        let body: String
    }

    static let kinds = [
        Kind(
            testDescription: "function", provider: "custom-function",
            secret: #"{ "user": "alice", "n": {"$numberInt":"1"}, "a": [1.50, null] }"#,
            login: { .function(payload: $0) }, given: { .function(payload: $0) },
            body: #"{ "user": "alice", "n": {"$numberInt":"1"}, "a": [1.50, null],"#),
        Kind(
            testDescription: "jwt", provider: "custom-token", secret: jwt, login: { .jwt($0) },
            given: { .jwt($0) }, body: #"{"token":"\#(jwt)","provider":"custom-token","#),
        Kind(
            testDescription: "facebook", provider: "oauth2-facebook", secret: "EAAB\"x",
            login: { .facebook(accessToken: $0) }, given: { .facebook(accessToken: $0) },
            body: #"{"accessToken":"EAAB\"x","provider":"oauth2-facebook","#),
        Kind(
            testDescription: "google, ID token", provider: "oauth2-google", secret: jwt,
            login: { .googleIDToken($0) }, given: { .googleIDToken($0) },
            body: #"{"id_token":"\#(jwt)","provider":"oauth2-google","#),
        Kind(
            testDescription: "google, authorization code", provider: "oauth2-google", secret: "4/0AX4",
            login: { .googleAuthCode($0) }, given: { .googleAuthCode($0) },
            body: #"{"authCode":"4/0AX4","provider":"oauth2-google","#),
        Kind(
            testDescription: "apple", provider: "oauth2-apple", secret: jwt, login: { .apple(idToken: $0) },
            given: { .apple(idToken: $0) }, body: #"{"id_token":"\#(jwt)","provider":"oauth2-apple","#),
    ]

    @Test("a login is sent to its provider with the secret under the provider's key, and the device", arguments: kinds)
    func body(_ kind: Kind) async throws {
        let bench = try IdentityBench()
        let file = try bench.folder.write("secret", kind.secret + "\n")
        _ = try await bench.login(kind.login(file)).get()
        _ = try await bench.login(.given(kind.given(Tokens.secret(kind.secret))), guarded: nil).get()
        let requests = bench.server.requests.filter { $0.target.hasSuffix("/login") }
        #expect(requests.count == 2)
        for request in requests {
            #expect(
                request.startLine
                    == "POST \(IdentityBench.appPath)/auth/providers/\(kind.provider)/login HTTP/1.1")
            #expect(request.bodyText.hasPrefix(kind.body + #""options":{"device":{"appId":"demo-abcde","#))
            #expect(try request.json["options"]["device"].object.count == 12)
            #expect(request["Authorization"] == nil && request["Expect"] == nil)
        }
    }

    @Test(
        "a payload becomes the body with options added, whatever its members are",
        arguments: [
            ("{}", #"{"options":"#), (" { } ", #"{"options":"#), (#"{"a":1 }"#, #"{"a":1,"options":"#),
            ("{\n\"provider\": \"mine\"\n}\n", "{\n\"provider\": \"mine\",\"options\":"),
            (#"{"Options":1,"x":{"options":2}}"#, #"{"Options":1,"x":{"options":2},"options":"#),
        ])
    func payload(_ text: String, _ start: String) async throws {
        let bench = try IdentityBench()
        _ = try await bench.login(.function(payload: try bench.folder.write("payload", text))).get()
        let request = try #require(bench.server.requests.last)
        #expect(request.bodyText.hasPrefix(start))
        #expect(try request.json["options"]["device"]["appId"].string == "demo-abcde")
    }

    private static let byItself = "it is read again by itself"

    @Test(
        "a payload that cannot be a body is not sent, and the file is named with the fault and the remedy",
        arguments: [
            ("[1]", "JSON that is no object; write one JSON object into it"),
            ("\"x\"", "JSON that is no object; write one JSON object into it"),
            ("user=alice", "no JSON: a syntax error at byte 0; write one JSON object into it"),
            (#"{"a":1"#, "no JSON: an unexpected end at byte 6; write one JSON object into it"),
            (#"{"a":1}{}"#, "no JSON: a syntax error at byte 7; write one JSON object into it"),
            (#"{"a":1,"\u0061":2}"#, "no JSON: a duplicate key at byte 7; write one JSON object into it"),
            (#"{"a":{"b":1,"b":2}}"#, "no JSON: a duplicate key at byte 12; write one JSON object into it"),
            (
                #"{"a":"# + String(repeating: "[", count: 100),
                "no JSON: too many nested levels at byte 104; write one JSON object into it"
            ),
            (
                #"{"\u006fptions":{}}"#,
                "an object with a member options, under which the client API sends the device; the function would not get it; "
                    + "rename that member"
            ),
        ])
    func unfitPayload(_ text: String, _ fault: String) async throws {
        let bench = try IdentityBench(baseURL: "http://127.0.0.1:1")
        let file = try bench.folder.write("payload", text)
        let error = try #require(await bench.login(.function(payload: file)).failure)
        #expect(error.verdict == .credentialUnavailable)
        #expect(error.message == "\(file) holds \(fault), \(Self.byItself)")
        let given = Credential.given(.function(payload: Tokens.secret(text)))
        let other = try #require(await bench.login(given, guarded: nil).failure)
        #expect(other.verdict == .credentialUnavailable)
        let reason = fault.split(separator: "; ").dropLast().joined(separator: "; ")
        #expect(other.message == "the credential given is \(reason)")
    }

    @Test(
        "what is no JWT is not sent, and the message says what the service would have answered",
        arguments: [
            (
                "abc",
                "it has 1 segment in place of 3, and the service would respond with \"token contains an invalid number of segments\""
            ),
            (
                "a.b",
                "it has 2 segments in place of 3, and the service would respond with \"token contains an invalid number of segments\""
            ),
            (
                "aaaa.bbbb.cccc.dddd.eeee",
                "it has 5 segments in place of 3, and the service would respond with \"token contains an invalid number of segments\""
            ),
            (".bbbb.cccc", "its first segment is empty"), ("aaaa..cccc", "its second segment is empty"),
            ("aaaa.bbbb.", "its third segment is empty"),
            ("aaaa.bb=.cccc", "the character at byte 7 of it is none of base64url"),
            ("aaaa.bbbb.cc cc", "the character at byte 12 of it is none of base64url"),
            ("aaaa.bbbb.ccc+", "the character at byte 13 of it is none of base64url"),
            ("aaaa.bbbb.ccccc", "its third segment has a length that no base64url text has"),
        ])
    func noJWT(_ text: String, _ fault: String) async throws {
        let bench = try IdentityBench(baseURL: "http://127.0.0.1:1")
        let file = try bench.folder.write("token", text)
        let remedy = "the file is wrong or truncated: write the whole token into it, \(Self.byItself)"
        let logins: [UserSettings.Login] = [
            .jwt(file), .googleIDToken(file), .apple(idToken: file),
        ]
        for login in logins {
            let error = try #require(await bench.login(login).failure)
            #expect(error.verdict == .credentialUnavailable)
            // What an editor may have added is named behind it.
            let note = text.contains(" ") ? " (the file has a blank at byte 12)" : ""
            #expect(error.message == "\(file) holds no JWT: \(fault); \(remedy)\(note)")
        }
        let error = try #require(await bench.login(.given(.jwt(Tokens.secret(text))), guarded: nil).failure)
        let note = text.contains(" ") ? " (it has a blank at byte 12)" : ""
        #expect(error.message == "the credential given is no JWT: \(fault)\(note)")
    }

    @Test("the largest JWT and the largest payload are sent, larger ones are not")
    func sizes() async throws {
        let bench = try IdentityBench()
        let head = "aaaa.bbbb."
        let token = head + String(repeating: "c", count: 1_000_000 - head.utf8.count)
        _ = try await bench.login(.jwt(try bench.folder.write("token", token + "\n"))).get()
        #expect(try bench.server.requests.last?.json["token"].string == token)
        let payload = #"{"a":""# + String(repeating: "x", count: (1 << 20) - 8) + #""}"#
        _ = try await bench.login(.function(payload: try bench.folder.write("payload", payload))).get()
        let sent = bench.server.requests.count

        let longer = try bench.folder.write("longer", token + "cccc")
        let error = try #require(await bench.login(.jwt(longer)).failure)
        #expect(error.message.hasPrefix("\(longer) holds more than 1,000,000 characters"))
        let larger = try bench.folder.write("larger", payload + " ")
        let tooLarge = try #require(await bench.login(.function(payload: larger)).failure)
        #expect(tooLarge.message.hasPrefix("\(larger) is larger than 1 MiB"))
        let given = Credential.given(.function(payload: Tokens.secret(payload + " ")))
        let other = try #require(await bench.login(given, guarded: nil).failure)
        #expect(other.message == "the credential given is more than 1 MiB, the most that a payload has")
        let wide = try bench.folder.write("wide", String(repeating: "x", count: 65537))
        let password = try #require(await bench.login(.facebook(accessToken: wide)).failure)
        #expect(password.message.hasPrefix("\(wide) holds text larger than 64 KiB"))
        #expect(bench.server.requests.count == sent)
    }

    // MARK: Expiry

    private static func token(expiresIn seconds: Int64) -> String {
        Tokens.jwt(#"{"exp":\#(WallTime.now.seconds + seconds),"sub":"alice"}"#, signature: "c2lnbmF0dXJl")
    }

    @Test(
        "a JWT that has expired or is about to is not sent; one without an end is",
        arguments: [(-3600, "expired at "), (0, "expired at "), (5, "expires at "), (60, nil), (nil, nil)]
            as [(Int64?, String?)])
    func expiry(_ seconds: Int64?, _ message: String?) async throws {
        let bench = try IdentityBench()
        let text = seconds.map { Self.token(expiresIn: $0) } ?? Self.jwt
        let file = try bench.folder.write("token", text)
        for login in [UserSettings.Login.jwt(file), .googleIDToken(file), .apple(idToken: file)] {
            let outcome = await bench.login(login)
            guard let message else {
                #expect(outcome.success != nil)
                continue
            }
            let error = try #require(outcome.failure)
            #expect(error.verdict == .credentialUnavailable)
            #expect(error.message.hasPrefix("\(file) holds a JWT that \(message)20"))
            #expect(error.message.hasSuffix("; write a new one into the file, \(Self.byItself)"))
        }
        let isSent = bench.server.requests.contains { $0.target.hasSuffix("/login") }
        #expect(isSent == (message == nil))
    }

    @Test("the service's clock decides whether a JWT has expired", arguments: [-7200, 7200])
    func skew(_ skew: Int64) async throws {
        let date = String(unsafeUninitializedCapacity: HTTPDate.count) { bytes in
            HTTPDate.write(WallTime.now + .seconds(skew), into: bytes.baseAddress!)
            return HTTPDate.count
        }
        let own = Guarded("")
        let bench = try IdentityBench { _, path in
            guard path.hasSuffix("/location") else { return nil }
            return IdentityBench.json(200, #"{"hostname":"\#(own.withLock { $0 })"}"#, fields: [("Date", date)])
        }
        own.withLock { $0 = bench.origin }
        let file = try bench.folder.write("token", Self.token(expiresIn: skew / 2))
        let outcome = await bench.login(.jwt(file))
        // A slow service takes what has expired here; a fast one refuses what is still good here.
        #expect((outcome.success != nil) == (skew < 0))
        #expect(skew < 0 || outcome.failure?.message.contains("holds a JWT that expired at") == true)
    }

    // MARK: One use

    private static let key = Tokens.secret("key of the store")

    @Test("an authorization code is sent once; a new one in the file is sent again")
    func authorizationCode() async throws {
        let bench = try IdentityBench()
        let file = try bench.folder.write("code", "4/first")
        let login = Credential.configured(.googleAuthCode(file))
        let grant = try await bench.login(login, guarded: LoginGuard(key: Self.key, refused: nil)).get()
        let spent = try #require(grant.spentCredential)
        #expect(spent.isSpent)
        let armed = LoginGuard(key: Self.key, refused: spent)
        let error = try #require(await bench.login(login, guarded: armed).failure)
        #expect(error.verdict == .credentialRefused && error.credential == spent && error.code == nil)
        #expect(
            error.message
                == "the credential in google.auth_code_file \(file) has served its only login and is not sent again; "
                + "write a new one into the file, or log the user in by the admin API")
        #expect(bench.server.requests.count { $0.target.hasSuffix("/login") } == 1)
        try bench.folder.write("code", "4/second")
        #expect(try await bench.login(login, guarded: armed).get().spentCredential?.isSame(as: spent) == false)
        // The same text as an ID token would be another credential.
        for kind in Self.kinds where kind.testDescription != "google, authorization code" {
            let path = try bench.folder.write("other", kind.secret)
            let other = try await bench.login(.configured(kind.login(path)), guarded: armed).get()
            #expect(other.spentCredential == nil)
        }
    }

    @Test("an authorization code whose login ended in an unusable response is spent as well")
    func unusableCode() async throws {
        let bench = try IdentityBench { _, path in
            path.hasSuffix("/login") ? IdentityBench.json(200, #"{"refresh_token":"r.r.r","user_id":"u"}"#) : nil
        }
        let file = try bench.folder.write("code", "4/first")
        let guarded = LoginGuard(key: Self.key, refused: nil)
        let error = try #require(
            await bench.login(.configured(.googleAuthCode(file)), guarded: guarded).failure)
        #expect(error.verdict == .credentialRefused && error.credential?.isSpent == true)
        #expect(error.unusedRefreshToken != nil && error.message.contains("cannot be used: there is no access_token"))
        // A JWT can be sent again.
        let token = try bench.folder.write("token", Self.jwt)
        let other = try #require(await bench.login(.configured(.jwt(token)), guarded: guarded).failure)
        #expect(other.verdict == .transient(retryAfter: nil) && other.credential?.isSpent == false)
    }

    // MARK: Refusals

    @Test("a refusal names the key, the file and what else may be the reason, and never the secret", arguments: kinds)
    func refusal(_ kind: Kind) async throws {
        let bench = try IdentityBench { _, path in
            path.hasSuffix("/login")
                ? IdentityBench.json(401, #"{"error":"unauthorized","error_code":"AuthError"}"#) : nil
        }
        let file = try bench.folder.write("secret", kind.secret)
        let guarded = LoginGuard(key: Self.key, refused: nil)
        let error = try #require(await bench.login(.configured(kind.login(file)), guarded: guarded).failure)
        #expect(error.verdict == .credentialRefused && error.code == "AuthError")
        let shown = try #require(AppServicesLoginKind(of: kind.given(Tokens.secret("")).kind))
        #expect(error.message.hasSuffix("(\(shown.key ?? "") \(file); \(shown.refusalHint ?? ""))"))
        #expect(!error.message.contains(kind.secret) && !"\(error)".contains(kind.secret))
        let fingerprint = try #require(error.credential)
        let armed = LoginGuard(key: Self.key, refused: fingerprint)
        let count = bench.server.requests.count
        let again = try #require(await bench.login(.configured(kind.login(file)), guarded: armed).failure)
        #expect(again.message.contains("was refused before (AuthError)") && again.message.contains(file))
        #expect(bench.server.requests.count == count)
        for other in Self.kinds where other.testDescription != kind.testDescription {
            let path = try bench.folder.write("other", kind.secret)
            guard let mark = await bench.login(.configured(other.login(path)), guarded: guarded).failure?.credential
            else { continue }
            #expect(!mark.isSame(as: fingerprint), "\(other.testDescription)")
        }
    }
}
