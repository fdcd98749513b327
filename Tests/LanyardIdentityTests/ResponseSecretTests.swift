import Foundation
import IdentityTestSupport
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// A service that writes each secret of a call into each member of its response: none comes into a text of Lanyard's.
@Suite("A response with a secret of the call") struct ResponseSecretTests {
    /// What a response may repeat: what was sent, and its own tokens.
    private static let password = "WonderlandRabbithole"
    private static let clientSecret = "Top.Secret~Client-Key"
    private static let accessToken = "issued-access-ABCDEFGH"
    private static let refreshToken = "issued-refresh-IJKLMNOP"
    private static let sent = "sent-refresh-QRSTUVWX"
    private static let secrets = [password, clientSecret, accessToken, refreshToken, sent]

    /// In forms that pass as one word, and in others.
    private static let words: [@Sendable (String) -> String] = [
        { $0.lowercased() }, { "bad_" + $0.prefix(10) + "_x" }, { String($0.prefix(11)) },
        { String($0.suffix(9)) }, { "for:" + $0 }, { $0.uppercased() + ".x" },
    ]
    private static let writings: [@Sendable (String) -> String] = words + ServiceWordsTests.echoes.map(\.write)
    private static let issued = [accessToken, refreshToken]

    private static func quoted(_ text: String) -> String {
        String(decoding: (try? JSONEncoder().encode(text)) ?? Data(), as: UTF8.self)
    }

    private static let tokens =
        #""access_token":"\#(accessToken)","refresh_token":"\#(refreshToken)","expires_in":20"#

    /// Where the value comes, with the status.
    private static let members: [(name: String, status: Int, body: @Sendable (String) -> String)] =
        errors + successes

    private static let errors: [(name: String, status: Int, body: @Sendable (String) -> String)] = [
        ("error", 400, { #"{"error":\#(quoted($0))}"# }), ("error", 401, { #"{"error":\#(quoted($0)),"ok":false}"# }),
        ("error in a 200", 200, { #"{"error":\#(quoted($0)),\#(tokens)}"# }),
        ("error_code", 400, { #"{"error_code":\#(quoted($0))}"# }),
        ("error_code", 500, { #"{"error_code":\#(quoted($0))}"# }),
        ("code", 400, { #"{"code":\#(quoted($0))}"# }), ("errorCode", 403, { #"{"errorCode":\#(quoted($0))}"# }),
        ("__type", 400, { #"{"__type":\#(quoted($0)),"message":\#(quoted($0))}"# }),
        ("suberror", 400, { #"{"error":"invalid_grant","suberror":\#(quoted($0))}"# }),
        ("error_description", 400, { #"{"error":"x","error_description":\#(quoted($0))}"# }),
        ("its own token", 400, { #"{"error":"x","error_description":\#(quoted($0)),\#(tokens)}"# }),
        ("error_uri", 400, { #"{"error":"x","error_uri":\#(quoted("http://h/?p=" + $0))}"# }),
        ("detail", 422, { #"{"detail":\#(quoted($0))}"# }),
        (
            "an error object", 400,
            { #"{"error":{"message":\#(quoted($0)),"status":\#(quoted($0)),"code":\#(quoted($0))}}"# }
        ),
    ]

    private static let successes: [(name: String, status: Int, body: @Sendable (String) -> String)] = [
        ("token_type", 200, { #"{"token_type":\#(quoted($0)),\#(tokens)}"# }),
        ("scope", 200, { #"{"token_type":"bearer","scope":\#(quoted($0)),\#(tokens)}"# }),
        ("scopes", 200, { #"{"token_type":"bearer","scope":["read",\#(quoted($0))],\#(tokens)}"# }),
        ("aud", 200, { audience($0) }),
    ]

    private static func audience(_ value: String) -> String {
        let token = Tokens.jwt(#"{"aud":["x",\#(quoted("pw=" + value))]}"#, signature: "x")
        return #"{"access_token":"\#(token)","token_type":"bearer","refresh_token":"\#(refreshToken)","expires_in":20}"#
    }

    /// All that a result says.
    private static func texts(of result: Result<Grant, IdentityError>) -> [String] {
        switch result {
        case .success(let grant):
            [grant.audienceMismatch, grant.subject, grant.userID].compactMap(\.self) + (grant.scopes ?? [])
        case .failure(let error): [error.operatorMessage, error.code ?? "", error.remedy ?? ""]
        }
    }

    private static func leak(of secret: String, written: String, in texts: [String]) -> String? {
        let known = ["issued-access-x", "read", "write"]
        let pieces = (0...(secret.count - 8)).map { String(secret.dropFirst($0).prefix(8)).lowercased() }
        return texts.first { text in
            let lower = text.lowercased()
            return !known.contains(text) && (text.contains(written) || pieces.contains(where: lower.contains))
        }
    }

    @Test("tells no part of it, whatever the member, the form and the call", arguments: members.indices)
    func member(_ index: Int) async throws {
        let (name, status, body) = Self.members[index]
        let value = Guarded("")
        let bench = try OAuthBench(
            script: { request in
                request.target == "/token" ? OAuthBench.json(status, body(value.withLock { $0 })) : nil
            },
            settings: { client, folder in
                client.authentication = .post(secretFile: try folder.write("s", Self.clientSecret))
                client.scopes = ["read", "write"]
            })
        let file = try bench.folder.write("p", Self.password)
        let login = UserSettings.Login.password(username: "alice", file)
        let variant = TokenVariant(audience: "orders")
        for (number, secret) in Self.secrets.enumerated()
        where !Self.issued.contains(secret) || body("").contains(secret) {
            // All forms come somewhere: the gate is the same for all members.
            let turn = (index * Self.secrets.count + number) * 2
            for write in [
                { $0 }, Self.writings[turn % Self.writings.count], Self.writings[(turn + 1) % Self.writings.count],
            ] {
                let written = write(secret)
                value.withLock { $0 = written }
                var results: [Result<Grant, IdentityError>] = []
                // Which call has sent it.
                if secret != Self.sent { results.append(await bench.login(login)) }
                if secret != Self.password { results.append(await bench.refresh(Self.sent)) }
                if secret != Self.sent, ["aud", "scope"].contains(name) {
                    results.append(
                        await bench.settling {
                            bench.identity.fetch(
                                variant, by: .login(.configured(login), nil), progress: CallProgress(.login), reply: $0)
                        })
                }
                for result in results {
                    let texts = Self.texts(of: result)
                    let leak = Self.leak(of: secret, written: written, in: texts)
                    #expect(leak == nil, "\(name) \(status) \(written): \(leak ?? "")")
                }
            }
        }
    }

    @Test("keeps the names that servers are known by, and those that the configuration has, whatever the secrets are")
    func known() async throws {
        for (body, secret, shown) in [
            (#"{"error":"invalid_request"}"#, "my-invalid_request-1", "invalid_request"),
            (#"{"access_token":"mac","token_type":"mac"}"#, "mac", "its token_type is mac"),
            (#"{"access_token":"a","token_type":"N_A"}"#, "a", "its token_type is N_A"),
        ] {
            let bench = try OAuthBench(script: { request in
                request.target == "/token" ? OAuthBench.json(body.contains("error") ? 400 : 200, body) : nil
            })
            let file = try bench.folder.write("p", secret)
            let error = try #require(await bench.login(.password(username: "alice", file)).failure)
            #expect(error.message.contains(shown), "\(error.message)")
        }
        let bench = try OAuthBench(
            script: { request in
                request.target == "/token"
                    ? OAuthBench.json(200, #"{"access_token":"r","scope":"orders.read-all","expires_in":20}"#) : nil
            }, settings: { client, _ in client.scopes = ["orders.read-all", "w"] })
        let file = try bench.folder.write("p", "the-orders.read-all-user")
        let grant = try await bench.login(.password(username: "alice", file)).get()
        #expect(grant.scopes == ["orders.read-all"])
    }

    @Test("a short secret is looked for as a word: names that have its letters stay")
    func short() async throws {
        for (scope, password, expected) in [
            ("read api", "a", ["read", "api"]), ("read x.pw1!.y", "pw1!", ["read"]), ("read PW1!", "pw1!", ["read"]),
            ("PW1!", "pw1!", ["read", "write"]), ("read bar", "ea", ["read", "bar"]),
        ] {
            let bench = try OAuthBench(
                script: { request in
                    request.target == "/token"
                        ? OAuthBench.json(200, #"{"access_token":"t","scope":"\#(scope)","expires_in":20}"#) : nil
                }, settings: { client, _ in client.scopes = ["read", "write"] })
            let file = try bench.folder.write("p", password)
            let grant = try await bench.login(.password(username: "alice", file)).get()
            #expect(grant.scopes == Set(expected), "\(scope) \(password)")
        }
    }

    // MARK: Other services

    @Test("of App Services: neither the code nor the account's id has it")
    func appServices() async throws {
        let response = Guarded((status: 200, body: ""))
        let bench = try IdentityBench { _, path in
            guard path.hasSuffix("/login") else { return nil }
            let (status, body) = response.withLock { $0 }
            return IdentityBench.json(status, body)
        }
        let file = try bench.folder.write("p", Self.password)
        let tokens = #""access_token":"\#(Tokens.access())","refresh_token":"\#(Tokens.refresh)""#
        for (number, write) in ([{ $0 }] + Self.words).enumerated() {
            let written = write(Self.password)
            let quoted = Self.quoted(written)
            var bodies = [
                (401, #"{"error":"no","error_code":\#(quoted)}"#), (400, #"{"error":"no","error_code":\#(quoted)}"#),
                (403, #"{"error":\#(quoted),"error_code":"UserDisabled"}"#),
                (200, #"{\#(tokens),"error":"x","error_code":\#(quoted)}"#),
            ]
            // Of an id a whole secret counts: a piece may be there by chance, and the login would fail for it.
            if [0, 1, 5].contains(number) { bodies.append((200, #"{\#(tokens),"user_id":\#(quoted)}"#)) }
            for (status, body) in bodies {
                response.withLock { $0 = (status, body) }
                let result = await bench.login(.emailPassword(email: "a@example.com", password: file))
                let leak = Self.leak(of: Self.password, written: written, in: Self.texts(of: result))
                #expect(leak == nil, "\(status) \(body): \(leak ?? "")")
            }
        }
        // The account's id is no place for its token either.
        response.withLock { $0 = (200, #"{\#(tokens),"user_id":"\#(Tokens.refresh)"}"#) }
        let error = try #require(await bench.login().failure)
        #expect(error.message.contains("user_id") && !error.message.contains("canary"), "\(error.message)")
        #expect(Tokens.text(error.unusedRefreshToken) == Tokens.refresh)
        // By chance it has a piece of the password.
        response.withLock { $0 = (200, #"{\#(tokens),"user_id":"Wonderland-7"}"#) }
        let chance = await bench.login(.emailPassword(email: "a@example.com", password: file))
        #expect(try chance.get().userID == "Wonderland-7")
    }

    @Test("of metadata: the issuer is shown if it is a plain URL without a secret of the call")
    func metadata() async throws {
        for (issuer, isShown) in [
            ("https://other.example/realms/x", true), ("https://other.example:8443/", true),
            ("https://other.example/t/\(Self.password)", false), ("https://\(Self.password).example", false),
            ("https://other.example/?code=1", false), ("urn:\(Self.password)", false),
            ("https://other.example/abcdef0123456789", false),
        ] {
            let bench = try OAuthBench(script: { request in
                request.target.hasPrefix("/.well-known")
                    ? OAuthBench.json(200, #"{"issuer":"\#(issuer)","token_endpoint":"\#(issuer)/t"}"#) : nil
            })
            let file = try bench.folder.write("p", Self.password)
            let error = try #require(await bench.login(.password(username: "alice", file)).failure)
            #expect(error.message.contains("issuer is \(issuer),") == isShown, "\(error.message)")
            #expect(!error.message.lowercased().contains("wonderland"), "\(error.message)")
            #expect(error.message.contains("they must be the same text"), "\(error.message)")
        }
    }

    @Test("no query of a URL that a service has named is shown")
    func addresses() {
        let progress = CallProgress(.login)
        progress.wait(for: "https://h/token?p=secret#f")
        #expect(progress.url == "https://h/token")
        progress.wait(for: "https://h/token")
        #expect(progress.url == "https://h/token")
    }
}
