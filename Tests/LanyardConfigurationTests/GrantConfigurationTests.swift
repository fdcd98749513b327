import TestSupport
import Testing

@testable import LanyardConfiguration
@testable import LanyardSettings

/// `jwt_bearer`, `token_exchange` and `github_app` (docs/reference/oauth-logins.md).
@Suite struct GrantConfigurationTests {
    private static func text(_ login: String, identity: String) -> String {
        """
        identities: {corp: {\(identity)}}
        users: {robot: {identity: corp, login: {\(login)}}}
        routes: [{upstream: "http://127.0.0.1:9000"}]

        """
    }

    private static let oauth = "oauth2: {issuer: \"http://127.0.0.1:1/i\", client_id: c}"

    private static func load(_ login: String, identity: String = oauth) throws -> LoadedConfiguration {
        try Loading.load(text(login, identity: identity), files: ["key", "subject", "actor"]).loaded
    }

    private static func login(_ text: String) throws -> UserSettings.Login {
        let loaded = try load(text)
        #expect(loaded.diagnostics == [])
        return try #require(loaded.configuration?.users.first?.login)
    }

    @Test("an assertion that Lanyard signs has its claims from the configuration")
    func assertion() throws {
        let plain = try Self.login("jwt_bearer: {key: {file: key}}")
        #expect(plain.kind == .signedAssertion && plain.assertion == AssertionSettings())
        #expect(plain.secretFile?.hasSuffix("/key") == true)
        let all = try Self.login(
            "jwt_bearer: {key: {file: key, id: k, algorithm: RS256, issuer: i, subject: s, audience: token_endpoint, "
                + "lifetime: 10m, scopes: both, claims: {tenant: blue, a: b}}}")
        let assertion = try #require(all.assertion)
        #expect(assertion.keyID == "k" && assertion.algorithm == .rs256 && assertion.issuer == "i")
        #expect(assertion.subject == "s" && assertion.audience == .tokenEndpoint && assertion.lifetime == .seconds(600))
        #expect(assertion.scopePlace == .both && assertion.claims == [.init("tenant", "blue"), .init("a", "b")])
        let google = try Self.login("jwt_bearer: {google_key_file: key, google_subject: alice@example.com}")
        #expect(google.kind == .googleKey && google.assertion?.subject == "alice@example.com")
        #expect(google.assertion?.algorithm == .rs256 && google.assertion?.scopePlace == .claim)
    }

    @Test("a token exchange has its types and its actor")
    func exchange() throws {
        let login = try Self.login(
            "token_exchange: {subject_token_file: subject, subject_token_type: saml2, actor_token_file: actor, "
                + "actor_token_type: jwt, requested_token_type: \"urn:own:type\"}")
        let prefix = "urn:ietf:params:oauth:token-type:"
        #expect(login.tokenTypes.subject == prefix + "saml2" && login.tokenTypes.actor == prefix + "jwt")
        #expect(login.tokenTypes.requested == "urn:own:type")
        #expect(login.files.map { $0.split(separator: "/").last } == ["subject", "actor"])
    }

    @Test("a GitHub App has its key, its base and what its tokens are restricted to")
    func gitHub() throws {
        let loaded = try Self.load(
            "github_app: {}",
            identity: "github_app: {app_id: Iv1.x, installation_id: 5678, key_file: key, "
                + "base_url: \"https://ghe.example/api/v3/\", repositories: [a, b], permissions: {contents: read, issues: write}}"
        )
        #expect(loaded.diagnostics == [])
        guard case .gitHubApp(let app)? = loaded.configuration?.identities.first?.kind else {
            throw TestFailure("no github_app identity")
        }
        #expect(app.appID == "Iv1.x" && app.installationID == "5678" && app.baseURL == "https://ghe.example/api/v3")
        #expect(app.repositories == ["a", "b"])
        #expect(app.permissions.map(\.name) == ["contents", "issues"])
        #expect(app.permissions.map(\.access) == [.read, .write])
        #expect(loaded.configuration?.identities.first?.clientFiles == [app.keyFile])
        #expect(loaded.configuration?.users.first?.login == .gitHubApp)
    }

    @Test(
        "each fault has its place and its remedy",
        arguments: [
            ("jwt_bearer: {}", "has no secret", "assertion_file or key: {file: …} or google_key_file"),
            ("jwt_bearer: {key: {file: key}, google_key_file: key}", "both key and google_key_file", "keep one"),
            (
                "jwt_bearer: {key: {file: key, claims: {sub: x}}}", "sub is a claim that Lanyard writes itself",
                "subject"
            ),
            ("jwt_bearer: {key: {file: key, claims: {a: [x]}}}", "a is a list", "one text"),
            ("jwt_bearer: {key: {file: key, lifetime: 5s}}", "lifetime", "from 1m to 1d"),
            (
                "jwt_bearer: {key: {file: key}, google_subject: a}", "google_subject needs google_key_file",
                "key.subject"
            ),
            (
                "token_exchange: {subject_token_file: subject, subject_token_type: token}",
                "token is no type of a token",
                "access_token, refresh_token"
            ),
            (
                "token_exchange: {subject_token_file: subject, actor_token_type: jwt}",
                "actor_token_type needs actor_token_file", "add the file"
            ),
            ("github_app: {}", "an oauth2 identity has no such login", "use one of client_credentials"),
        ])
    func faults(_ login: String, _ message: String, _ remedy: String) throws {
        let diagnostics = try Self.load(login).diagnostics
        let fault = try #require(diagnostics.first { $0.message.contains(message) }, "\(diagnostics)")
        #expect("\(fault)".contains(remedy), "\(fault)")
        #expect("\(fault)".contains(":2:"), "\(fault)")
    }

    @Test(
        "faults of a GitHub App",
        arguments: [
            ("app_id: a, installation_id: x1, key_file: key", "installation_id: x1 is no number"),
            (
                "app_id: a, installation_id: 1, key_file: key, permissions: {contents: all}",
                "contents has no known value"
            ),
            ("app_id: a, installation_id: 1", "key_file"),
            ("app_id: a, installation_id: 1, key_file: key, base_url: \"http://169.254.169.254\"", "metadata services"),
        ])
    func gitHubFaults(_ keys: String, _ message: String) throws {
        let diagnostics = try Self.load("github_app: {}", identity: "github_app: {\(keys)}").diagnostics
        #expect(diagnostics.contains { $0.message.contains(message) && "\($0)".contains(":1:") }, "\(diagnostics)")
    }
}
