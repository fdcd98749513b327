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
            (", scope: a", "", "scopes: [...] of the identity"), (", audience: a", "", "params of the identity"),
            (", login: {token_exchange: {subject_token_file: /x, audience: a}}", "", "params of the identity"),
            ("", ", port: 1", "address: HOST:PORT"), ("", ", certificate_file: a", "tls: {certificate_file: PATH"),
        ])
    func others(_ user: String, _ listener: String, _ remedy: String) throws {
        let errors = try Self.errors(user: user, listener: listener)
        #expect(errors.count == 1 && errors[0].contains(remedy), "\(errors)")
    }
}
