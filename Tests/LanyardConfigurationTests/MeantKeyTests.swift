import Testing

@testable import LanyardConfiguration

/// Words of other programs' configurations: each error names what they mean here, and not what is spelled alike.
@Suite("Configuration: what other programs call it") struct MeantKeyTests {
    private static func errors(identity: String = "", user: String = "", route: String = "", listener: String = "")
        throws
        -> [String]
    {
        let text = """
            listeners: [{address: "127.0.0.1:0"\(listener)}]
            identities: {corp: {oauth2: {issuer: "https://idp.example", client_id: c\(identity)}}}
            users: {robot: {identity: corp\(user)}}
            routes: [{upstream: "https://api.example", user: robot\(route)}]

            """
        return try Loading.diagnostics(text).filter { !$0.hasPrefix("warning: ") }
    }

    @Test(
        "keys of an identity",
        arguments: [
            ("audience: a", "params: {audience: ...}"), ("resource: a", "params: {resource: [...]}"),
            ("scope: a", "scopes: [...]"),
            ("token_url: a", "endpoints: {token: URL}"), ("token_endpoint: a", "endpoints: {token: URL}"),
            ("auth_url: a", "endpoints: {authorization: URL}"),
            ("authorization_endpoint: a", "endpoints: {authorization: URL}"),
            ("redirect_uri: a", "--redirect-port"),
            ("grant_type: client_credentials", "users.NAME.login: {client_credentials: {}}"),
            ("client_secret_post: true", "client_authentication"),
            ("token_endpoint_auth_method: x", "client_authentication"),
            ("discovery_url: a", "issuer of oauth2"), ("username: a", "users.NAME.login: {password: "),
            ("client_authentication: client_secret_post", "did you mean \"post\"?"),
            ("client_authentication: client_secret_basic", "did you mean \"basic\"?"),
            ("endpoints: {token_url: a}", "endpoints: {token: URL}"),
        ])
    func identity(_ line: String, _ remedy: String) throws {
        let errors = try Self.errors(identity: ", \(line)")
        #expect(errors.count == 1 && errors[0].contains(remedy), "\(errors)")
        #expect(!errors.joined().contains("client_key"), "\(errors)")
    }

    @Test(
        "keys of a route",
        arguments: [
            ("audience: a", "token: {audience: ...}"), ("resource: [a]", "token: {resource: [...]}"),
            ("scope: a", "token: {scopes: [...]}"), ("scopes: [a]", "token: {scopes: [...]}"),
            ("path: /a", "match: {path: /...}"),
            ("hosts: [a]", "match: {hosts: [...]}"), ("methods: [GET]", "match: {methods: [...]}"),
            ("token: {scope: a}", "scopes: [...]"),
        ])
    func route(_ line: String, _ remedy: String) throws {
        let errors = try Self.errors(route: ", \(line)")
        #expect(errors.count == 1 && errors[0].contains(remedy), "\(errors)")
    }

    @Test(
        "keys of a user and of a listener",
        arguments: [
            (", login: client_credentials", "", "write login: {client_credentials: {}}"),
            (", login: device", "", "write login: {device: {}}"), (", grant_type: password", "", "key of login"),
            (", login: client-credentials", "", "write login: {client_credentials: {}}"),
            (", login: authorizationCode", "", "write login: {authorization_code: {}}"),
            (", scope: a", "", "scopes: [...] of the identity"), (", audience: a", "", "params of the identity"),
            (", login: {token_exchange: {subject_token_file: /x, audience: a}}", "", "params of the identity"),
            ("", ", port: 1", "address: HOST:PORT"), ("", ", certificate_file: a", "tls: {certificate_file: PATH"),
        ])
    func others(_ user: String, _ listener: String, _ remedy: String) throws {
        let errors = try Self.errors(user: user, listener: listener)
        #expect(errors.count == 1 && errors[0].contains(remedy), "\(errors)")
    }

    @Test(
        "keys at the top, of health and of the store",
        arguments: [
            ("audience: a", "token: {audience: ...} of a route"), ("scope: a", "scopes: [...], of oauth2"),
            ("scopes: [a]", "scopes: [...], of oauth2"), ("resource: [a]", "token: {resource: [...]} of a route"),
            ("upstream: \"http://a\"", "upstream of a route"), ("url: a", "upstream of a route"),
            ("token: a", "static: {token_file: PATH}"), ("token_file: a", "static: {token_file: PATH}"),
            ("peers: {}", "belongs below listeners[]"), ("token_url: a", "endpoints: {token: URL}"),
            ("auth_url: a", "endpoints: {authorization: URL}"), ("redirect_uri: a", "--redirect-port"),
            ("grant_type: a", "users.NAME.login"), ("login_type: a", "users.NAME.login"),
            ("client_secret: a", "client_secret_file of oauth2"), ("client_secret_post: true", "client_authentication"),
            ("clientSecret: a", "client_secret_file of oauth2"), ("tokenUrl: a", "endpoints: {token: URL}"),
            ("port: 1", "address of a listener"), ("bind: a", "address of a listener"),
            ("debug: true", "log: {level: debug}"),
            ("log_level: debug", "log: {level: debug}"), ("cors: [a]", "allowed_origins of a listener"),
            ("tls: {}", "below listeners[], brokers[] or elsewhere"),
            ("client_id: a", "below identities.*.oauth2:"), ("upstreamDNS: {}", "did you mean \"upstream_dns\"?"),
            ("Shards: 1", "did you mean \"shards\"?"), ("listener: []", "did you mean \"listeners\"?"),
            ("health: {port: 1}", "address: HOST:PORT"), ("store: {password_file: a}", "passphrase_file: PATH"),
        ])
    func top(_ line: String, _ remedy: String) throws {
        let text = """
            \(line)
            identities: {corp: {oauth2: {issuer: "https://idp.example", client_id: c}}}
            users: {robot: {identity: corp}}
            routes: [{upstream: "https://api.example", user: robot}]

            """
        let errors = try Loading.diagnostics(text).filter { !$0.hasPrefix("warning: ") }
        #expect(errors.count == 1 && errors[0].contains(remedy), "\(errors)")
        #expect(!errors.joined().contains("client_key"), "\(errors)")
    }

    @Test(
        "keys of a static identity",
        arguments: [
            "file: a", "path: a", "token_path: a", "api_key_file: a", "key_file: a", "tokenFile: a", "secret_file: a",
        ])
    func staticIdentity(_ line: String) throws {
        let text = "identities: {demo: {static: {\(line)}}}\nusers: {alice: {identity: demo}}\n" + Loading.routes
        let errors = try Loading.diagnostics(text).filter { $0.contains("unknown key") }
        #expect(errors.count == 1 && errors[0].contains("token_file"), "\(errors)")
        #expect(!errors.joined().contains("belongs"), "\(errors)")
    }

    @Test(
        "keys of a login without keys, and values in another case",
        arguments: [
            (", login: {client_credentials: {auth_url: a}}", "", "endpoints: {authorization: URL}"),
            (", login: {client_credentials: {zzzz: a}}", "", "write {} in place of its keys"),
            (", login: {client_credentials: true}", "", "write {} in its place"),
            (", login: {client_credentials: {client_secret: a}}", "", "oauth2 of the identity"),
            ("", ", client_key: {file: token, algorithm: es384}", "did you mean \"ES384\"?"),
            ("", ", client_key: {file: token, algorithm: rs-256}", "did you mean \"RS256\"?"),
            ("", ", client_authentication: Private-Key-JWT", "did you mean \"private_key_jwt\"?"),
        ])
    func cases(_ user: String, _ identity: String, _ remedy: String) throws {
        let errors = try Self.errors(identity: identity, user: user)
        #expect(errors.count == 1 && errors[0].contains(remedy), "\(errors)")
    }
}
