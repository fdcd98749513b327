import TestSupport
import Testing

@testable import LanyardConfiguration
@testable import LanyardSettings

/// `routes[].token` (docs/reference/oauth-variants.md 4.2).
@Suite struct VariantConfigurationTests {
    private static let head = """
        identities:
          corp: {oauth2: {issuer: "http://127.0.0.1:1/i", client_id: c, client_secret_file: secret}}
          demo: {app_services: {app_id: demo-abcde, base_url: "http://127.0.0.1:2"}}
          fixed: {static: {token_file: secret}}
          ci: {github_app: {app_id: a, installation_id: "1", key_file: secret}}
        users:
          robot: {identity: corp, login: {client_credentials: {}}}
          kiosk: {identity: demo, login: {anonymous: {}}}
          rock: {identity: fixed}
          octo: {identity: ci, login: {github_app: {}}}

        """

    private static func load(_ routes: [String]) throws -> LoadedConfiguration {
        let lines = routes.enumerated().map { index, route in
            "  - {name: r\(index), match: {path: /\(index)}, upstream: \"http://127.0.0.1:9\", \(route)}\n"
        }
        return try Loading.load(head + "routes:\n" + lines.joined(), files: ["secret"]).loaded
    }

    private static func messages(_ route: String) throws -> [String] {
        try load([route]).diagnostics.map { "\($0)" }
    }

    @Test("each token that differs is a variant of its user, under the name of its first route; {} is the plain one")
    func variants() throws {
        let loaded = try Self.load([
            "user: robot, token: {audience: orders}",
            "user: robot, token: {resource: ['https://b', 'https://a'], scopes: [x]}",
            "user: robot, token: {}", "user: robot, token: {audience: none, resource: [], scopes: []}",
            "user: robot, token: {scopes: [x], resource: ['https://a', 'https://b']}", "user: kiosk, token: {}",
            "token: {}",
        ])
        #expect(loaded.diagnostics == [])
        let variants = try #require(loaded.configuration?.variants)
        let stock = TokenVariant(resources: ["https://a", "https://b"], scopes: ["x"])
        #expect(
            variants == ["robot": [NamedVariant("r0", TokenVariant(audience: "orders")), NamedVariant("r1", stock)]])
        // What is printed loads again, as the same configuration.
        let again = try Loading.load(loaded.printed, files: []).loaded
        #expect(again.diagnostics.filter { $0.severity != .warning } == [])
        #expect(again.configuration?.routes.map(\.route.token) == loaded.configuration?.routes.map(\.route.token))
    }

    @Test(
        "only a configured user of an oauth2 identity has variants: the error has place and remedy",
        arguments: [
            ("token: {audience: a}", "the route follows the active user", "name the user with user:"),
            (
                "user: kiosk, token: {audience: a}", "a user of a app_services identity has one access token",
                "remove token"
            ),
            ("user: rock, token: {scopes: [a]}", "a user of a static identity has one access token", "remove token"),
            (
                "user: octo, token: {audience: a}", "a user of a github_app identity has one access token",
                "remove token"
            ),
            ("user: nobody, token: {audience: a}", "no user \"nobody\" is configured", "add it below users"),
            ("user: robot, token: {resource: [api]}", "is no absolute URI", "use audience"),
            ("user: robot, token: {resource: ['https://a#b']}", "is no absolute URI", "use audience"),
            ("user: robot, token: {resource: ['https://a', 'https://a']}", "twice", "keep one"),
            ("user: robot, token: {scopes: ['a b']}", "is no scope", "as an element of its own"),
            ("user: robot, token: {audience: ''}", "no value", ""),
            ("user: robot, token: {audiences: a}", "unknown key", "did you mean \"audience\"?"),
        ])
    func faults(route: String, message: String, remedy: String) throws {
        let faults = try Self.messages(route)
        #expect(faults.count == 1, "\(faults)")
        let fault = try #require(faults.first)
        #expect(fault.contains("lanyard.yaml:12:"), "\(fault)")
        #expect(fault.contains(message) && fault.contains(remedy), "\(fault)")
    }

    @Test("an identity with one access token at a time has none for a route: the error names the key")
    func singleToken() throws {
        let yaml = { (value: String, token: String) in
            """
            identities:
              corp: {oauth2: {issuer: "http://127.0.0.1:1/i", client_id: c, access_tokens: \(value)}}
            users: {robot: {identity: corp, login: {password: {username: u, password_file: p}}}}
            routes: [{name: r, upstream: "http://127.0.0.1:9", user: robot, token: {\(token)}}]

            """
        }
        let single = try Loading.load(yaml("single", "audience: a"), files: ["p"]).loaded
        let faults = single.diagnostics.map { "\($0)" }
        #expect(faults.count == 1 && faults[0].contains("lanyard.yaml:4:"), "\(faults)")
        #expect(faults[0].contains("access_tokens: single") && faults[0].contains("remove token"), "\(faults)")
        for (value, token) in [("single", ""), ("several", "audience: a")] {
            let loaded = try Loading.load(yaml(value, token), files: ["p"]).loaded
            #expect(loaded.diagnostics == [] && loaded.printed.contains("access_tokens: \(value)"))
        }
        #expect(try Loading.load(yaml("one", ""), files: ["p"]).loaded.diagnostics.count == 1)
    }

    @Test("a plain token is needed unless each route that may carry the user names a token, and nothing shows it")
    func plainToken() throws {
        let named = ["user: robot, token: {audience: a}", "user: robot, token: {audience: b}", "user: kiosk"]
        #expect(try Self.load(named).configuration?.usersWithoutPlainToken == ["robot"])
        #expect(try Self.load(named + ["user: robot"]).configuration?.usersWithoutPlainToken == [])
        // Any user may become the active one.
        #expect(try Self.load(named + ["token: {}"]).configuration?.usersWithoutPlainToken == [])
        var shown = try #require(try Self.load(named).configuration)
        shown.admin?.exposesTokens = true
        #expect(shown.admin == nil || shown.usersWithoutPlainToken == [])
    }

    @Test("a user has at most 16 variants")
    func count() throws {
        let routes = { (count: Int) in (0..<count).map { "user: robot, token: {audience: a\($0)}" } }
        #expect(try Self.load(routes(16)).diagnostics == [])
        let faults = try Self.load(routes(17)).diagnostics.map { "\($0)" }
        #expect(faults.count == 1 && faults[0].contains("routes ask for 17 access tokens of robot; at most 16"))
    }
}
