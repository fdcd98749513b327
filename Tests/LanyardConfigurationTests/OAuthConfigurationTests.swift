import TestSupport
import Testing

@testable import LanyardConfiguration
@testable import LanyardSettings

/// `identities.*.oauth2` (docs/reference/oauth-logins.md).
@Suite struct OAuthConfigurationTests {
    private static let files = ["secret", "key", "assertion", "field"]

    private static func text(
        _ keys: String, login: String = "password: {username: a, password_file: secret}", more: String = ""
    ) -> String {
        """
        identities: {corp: {oauth2: {\(keys)}\(more)}}
        users: {robot: {identity: corp, login: {\(login)}}}
        routes: [{upstream: "http://127.0.0.1:9000"}]

        """
    }

    private static func client(_ keys: String) throws -> IdentitySettings.OAuth {
        let loaded = try Loading.load(text(keys), files: files).loaded
        #expect(loaded.diagnostics == [])
        let kind = try #require(loaded.configuration?.identities.first?.kind)
        guard case .oauth(let client) = kind else { throw TestFailure("not an oauth2 identity") }
        return client
    }

    private static let server = "issuer: \"http://127.0.0.1:1/i\", client_id: c"

    @Test("the authentication follows from the files, or is named")
    func authentication() throws {
        let name = { (path: String?) in path.map { String($0.split(separator: "/").last ?? "") } }
        #expect(try Self.client(Self.server).authentication == .none)
        guard
            case .basic(let secret, false) = try Self.client(Self.server + ", client_secret_file: secret")
                .authentication
        else { throw TestFailure("not basic") }
        #expect(name(secret) == "secret")
        guard
            case .post(let posted) = try Self.client(
                Self.server + ", client_secret_file: secret, client_authentication: post"
            ).authentication
        else { throw TestFailure("not post") }
        #expect(name(posted) == "secret")
        let automatic = try Self.client(Self.server + ", client_secret_file: secret")
        let named = try Self.client(Self.server + ", client_secret_file: secret, client_authentication: basic_with_id")
        guard case .basicWithID(let file) = named.authentication else { throw TestFailure("not basic_with_id") }
        #expect(name(file) == "secret" && automatic.isAuthenticationAutomatic && !named.isAuthenticationAutomatic)
        guard
            case .privateKeyJWT(let key) = try Self.client(
                Self.server + ", client_key: {file: key, id: k, algorithm: PS256, audience: token_endpoint}"
            ).authentication
        else { throw TestFailure("no key") }
        #expect(key.id == "k" && key.algorithm == .ps256 && key.audience == .tokenEndpoint)
        for (text, audience) in [("endpoint", ClientKey.Audience.endpoint), ("https://x", .value("https://x"))] {
            guard
                case .privateKeyJWT(let key) = try Self.client(
                    Self.server + ", client_key: {file: key, audience: \"\(text)\"}"
                ).authentication
            else { throw TestFailure("no key") }
            #expect(key.audience == audience)
        }
        guard
            case .assertion(_, let type) = try Self.client(Self.server + ", client_assertion_file: assertion")
                .authentication
        else { throw TestFailure("no assertion") }
        #expect(type == ClientAuthentication.jwtAssertionType)
    }

    @Test("hosts of URLs have one form; the issuer, which is compared as a text, stays as it is written")
    func hosts() throws {
        let client = try Self.client(
            "issuer: \"http://LOCALHOST.:1/i/\", client_id: c, endpoints: {token: \"http://[0:0::1]:2/T/\"}")
        #expect(client.issuer == "http://LOCALHOST.:1/i/" && client.issuerURL == "http://localhost:1/i/")
        #expect(client.endpoints.token == "http://[::1]:2/T/")
    }

    @Test("parameters keep their order and their lists; fields are texts or files; what is printed loads as the same")
    func lists() throws {
        let keys =
            Self.server + ", params: {resource: [\"https://a\", \"https://b\"], audience: x}, "
            + "token_headers: {X-Plain: one, X-Key: {file: field}}, scopes: [a, b], token_lifetime: 10m, profile: slack"
        let client = try Self.client(keys)
        #expect(
            client.parameters == [
                .init("resource", "https://a"), .init("resource", "https://b"), .init("audience", "x"),
            ])
        #expect(client.tokenFields.map(\.name) == ["X-Plain", "X-Key"] && client.tokenFields[0].value == .text("one"))
        #expect(client.scopes == ["a", "b"] && client.tokenLifetime == .seconds(600) && client.profile == .slack)
        let folder = try TemporaryFolder()
        for file in Self.files { try folder.write(file, "secret") }
        let load = {
            try Configuration.load(arguments: ["--config", folder.write("lanyard.yaml", $0)], environment: [:])
        }
        let loaded = try load(Self.text(keys))
        #expect(
            try load(loaded.printed).configuration?.identities == loaded.configuration?.identities, "\(loaded.printed)")
    }

    @Test("rotation is auto, a word, or a grace window")
    func rotation() throws {
        func tokens(_ rotation: RefreshTokenRotation, _ window: Duration? = nil) -> RefreshTokenSettings {
            var settings = RefreshTokenSettings(rotation, graceWindow: window)
            settings.lastTry = true
            return settings
        }
        #expect(try Self.client(Self.server).refreshTokens == tokens(.auto))
        for (word, rotation) in [("auto", RefreshTokenRotation.auto), ("none", .none), ("one_use", .oneUse)] {
            let settings = try Self.client(Self.server + ", rotation: \(word)").refreshTokens
            #expect(settings == tokens(rotation))
        }
        let settings = try Self.client(Self.server + ", rotation: {grace: 30s}").refreshTokens
        #expect(settings == tokens(.grace, .seconds(30)))
        #expect(try Self.client(Self.server + ", last_try: false").refreshTokens == RefreshTokenSettings(.auto))
        let ends = try Self.client(Self.server + ", refresh_lifetime: 30d, refresh_idle: 12h").refreshTokens
        #expect(ends.lifetime == .seconds(30 * 86_400) && ends.idle == .seconds(12 * 3600))
        for (value, message) in [
            ("grace", "lanyard.yaml:1:86: identities.corp.oauth2.rotation"), ("{grace: 5s}", "lanyard.yaml:1:94: "),
            ("{}", "grace"), ("{grace: 30s, none: 1s}", "none"),
        ] {
            let diagnostics = try Loading.diagnostics(
                Self.text(Self.server + ", rotation: \(value)"), files: Self.files)
            #expect(diagnostics.count == 1 && diagnostics[0].contains(message), "\(diagnostics)")
        }
    }

    @Test("an endpoint keeps its query, as Azure AD B2C needs it (RFC 6749 §3.1); a scheme in capitals is the same one")
    func query() throws {
        let names = ["token", "revocation", "device_authorization", "authorization", "pushed_authorization"]
        let urls = names.map { "\($0): \"HTTPS://Corp.b2clogin.com/corp/oauth2/\($0)?p=B2C_1_signin&x=%20y@z\"" }
        let endpoints = try Self.client("client_id: c, endpoints: {\(urls.joined(separator: ", "))}").endpoints
        let read = [
            endpoints.token, endpoints.revocation, endpoints.deviceAuthorization, endpoints.authorization,
            endpoints.pushedAuthorization,
        ]
        #expect(
            read == names.map { "https://corp.b2clogin.com/corp/oauth2/\($0)?p=B2C_1_signin&x=%20y@z" })
        #expect(
            try Self.client("client_id: c, endpoints: {token: \"https://idp.example.com?\"}").endpoints.token
                == "https://idp.example.com?")
        for (endpoint, message) in [
            ("https://h/t?a#b", "has a fragment; remove everything from the # on"),
            ("https://h/t?a b", "is not a query"), ("https://h/t?a=%zz", "is not a query"),
            ("HTTP://idp.example.com/t?a=b", "plain http would show"),
            ("hTTp://169.254.169.254/t?a", "metadata services"),
            ("https://u:p@h/t?a", "user info"),
        ] {
            let diagnostics = try Loading.diagnostics(
                Self.text("client_id: c, endpoints: {token: \"\(endpoint)\"}"), files: Self.files)
            #expect(diagnostics.contains { $0.contains(message) }, "\(endpoint): \(diagnostics)")
        }
        let issuer = try Loading.diagnostics(
            Self.text("client_id: c, issuer: \"https://h/i?a=b\""), files: Self.files)
        #expect(issuer.contains { $0.contains("a query or fragment") }, "\(issuer)")
    }

    @Test(
        "openid is allowed where the ID token comes over TLS or from this machine",
        arguments: [
            "issuer: \"http://127.0.0.1:9\"", "issuer: \"http://localhost:9\"", "issuer: \"https://idp.example.com\"",
            "issuer: \"https://idp.example.com\", endpoints: {token: \"https://idp.example.com/t\"}",
        ])
    func openID(_ server: String) throws {
        #expect(try Self.client(server + ", client_id: c, scopes: [openid]").scopes == ["openid"])
    }

    @Test("scopes in one text are read one by one, so that openid is found among them")
    func scopesInOneText() throws {
        for (sent, scopes) in [
            ("\"openid profile\"", ["openid", "profile"]), ("\"profile  openid\"", ["profile", "openid"]),
            ("\"openid \", a", ["openid", "a"]), ("\" openid\"", ["openid"]), ("a b, b, a", ["a", "b"]),
            ("\" \"", []), ("\"read,write\"", ["read,write"]),
        ] {
            let found = try Self.client(Self.server + ", scopes: [\(sent)]").scopes
            #expect(found == scopes, "\(sent)")
        }
    }

    @Test(
        "what cannot work is a fault with its remedy",
        arguments: [
            ("client_id: c", "identities.corp.oauth2 names no server; add issuer, or endpoints: {token: URL}"),
            (
                "issuer: \"https://idp.example.com\", client_id: c, endpoints: {revocation: \"http://idp.example.com/r\"}",
                "identities.corp.oauth2.endpoints.revocation is plain http, and the issuer is at https: tokens would be "
                    + "exposed; use https, or an endpoint on this machine"
            ),
            (server + ", params: {scope: x}", "params: scope is a field that Lanyard sends itself; use scopes"),
            (server + ", params: {assertion: x}", "params: assertion is a field that Lanyard sends itself; remove it"),
            (server + ", token_headers: {Authorization: x}", "Authorization is a field that Lanyard sends itself"),
            (server + ", client_authentication: tls", "client_authentication: tls needs a certificate"),
            (
                server + ", client_authentication: none, client_secret_file: secret",
                "client_secret_file is not used by client_authentication: none; remove it, or choose basic or basic_raw "
                    + "or basic_with_id or post"
            ),
            (server + ", client_authentication: post", "client_secret_file"),
            ("issuer: \"http://169.254.169.254/\", client_id: c", "is an address of metadata services"),
            (
                "issuer: \"http://idp.example.com\", client_id: c, scopes: [api, openid]",
                "identities.corp.oauth2.scopes: an ID token that comes by plain http from idp.example.com proves nothing; use "
                    + "https, or leave openid out"
            ),
            (
                "issuer: \"http://127.0.0.1:9\", endpoints: {token: \"http://idp.example.com/t\"}, client_id: c, scopes: [openid]",
                "identities.corp.oauth2.scopes: an ID token that comes by plain http from idp.example.com proves nothing"
            ),
            (
                "issuer: \"http://idp.example.com\", client_id: c, scopes: [\"profile openid\"]",
                "identities.corp.oauth2.scopes: an ID token that comes by plain http from idp.example.com proves nothing"
            ),
            (server + ", scopes: ['a\"b']", "is no scope; write each scope as an element of its own"),
            (server + ", scopes: ['a\\b']", "is no scope"),
            (server + ", scopes: [ö]", "is no scope"),
        ])
    func faults(_ keys: String, _ message: String) throws {
        let diagnostics = try Loading.diagnostics(Self.text(keys, more: ", unsafe_plain: true"), files: Self.files)
        #expect(diagnostics.contains { $0.contains(message) && !$0.hasPrefix("warning") }, "\(diagnostics)")
    }

    @Test(
        "a login in a browser is begun by an operator: no session begins it by itself",
        arguments: ["device", "authorization_code"])
    func interactive(_ provider: String) throws {
        let loaded = try Loading.load(Self.text(Self.server, login: "\(provider): {}"), files: Self.files).loaded
        #expect(loaded.diagnostics == [])
        let user = try #require(loaded.configuration?.users.first)
        #expect(user.login == nil && user.interactiveLogin?.provider == provider)
    }

    @Test("a login of the other kind of identity is a fault")
    func logins() throws {
        let wrong = try Loading.diagnostics(Self.text(Self.server, login: "anonymous: {}"))
        #expect(wrong.count == 1)
        #expect(
            wrong.first?.hasSuffix(
                "users.robot.login.anonymous: an oauth2 identity has no such login; use one of client_credentials, password, "
                    + "refresh_token, jwt_bearer, token_exchange, device, authorization_code") == true, "\(wrong)")
        let other = """
            identities: {demo: {app_services: {app_id: a, base_url: "http://127.0.0.1:1"}}}
            users: {robot: {identity: demo, login: {client_credentials: {}}}}
            routes: [{upstream: "http://127.0.0.1:9000"}]

            """
        #expect(try Loading.diagnostics(other).contains { $0.contains("an app_services identity has no such login") })
    }
}
