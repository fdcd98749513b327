import Glibc
import TestSupport
import Testing

@testable import LanyardConfiguration

/// Each mistake is reported once, with file and line; logins that cannot succeed are named before they are tried.
@Suite struct OneReportTests {
    private static let files = ["secret", "a", "b"]

    private static func text(_ identity: String, _ login: String, more: String = "") -> String {
        """
        identities:
          corp:
            \(identity)
        users:
          robot: {identity: corp, login: {\(login)}}
        \(more)
        routes: [{upstream: "http://127.0.0.1:9000"}]

        """
    }

    private static let oauth = "oauth2: {issuer: \"https://idp.example.com\", client_id: c, client_secret_file: secret}"
    private static let app = "app_services: {app_id: a, base_url: \"https://services.example.com\"}"

    @Test(
        "a mistake is reported once, at a line of the file",
        arguments: [
            (
                "oauth2: {issuer: \"https://h\", client_id: c, client_key: {}}",
                "password: {username: u, password_file: a}",
                ["missing key \"identities.corp.oauth2.client_key.file\""]
            ),
            (
                "oauth2: {issuer: \"https://h\", client_id: c, client_authentication: private_key_jwt}",
                "password: {username: u, password_file: a}",
                ["missing key \"identities.corp.oauth2.client_key.file\""]
            ),
            (
                "oauth2: {issuer: \"https://h\", client_id: c, client_authentication: basic}",
                "password: {username: u, password_file: a}",
                ["missing key \"identities.corp.oauth2.client_secret_file\""]
            ),
            (
                "oauth2: {issuer: \"https://h\"}", "password: {username: u, password_file: a}",
                ["missing key \"identities.corp.oauth2.client_id\""]
            ),
            (
                "oauth2: {client_id: c}", "password: {username: u, password_file: a}",
                ["identities.corp.oauth2 names no server"]
            ),
            // The login needs the same endpoint; what is missing is told once.
            ("oauth2: {client_id: c}", "device: {}", ["identities.corp.oauth2 names no server"]),
            ("oauth2: {client_id: c}", "authorization_code: {}", ["identities.corp.oauth2 names no server"]),
            (
                "oauth2: {client_id: c, scopes: [openid]}", "device: {}", ["identities.corp.oauth2 names no server"]
            ),
            (
                "oauth2: {issuer: \"https://h\", client_id: c, client_authentication: none, client_secret_file: secret}",
                "client_credentials: {}", ["client_secret_file is not used by client_authentication: none"]
            ),
            (
                "oauth2: {issuer: \"https://h\", client_id: c, client_authentication: none, client_key: {file: secret}}",
                "client_credentials: {}", ["client_key is not used by client_authentication: none"]
            ),
            (
                "oauth2: {issuer: \"https://h\", client_id: c, client_authentication: none, client_secret_credential: x}",
                "client_credentials: {}", ["client_secret_credential is not used by client_authentication: none"]
            ),
            (
                "oauth2: {}", "password: {username: u, password_file: a}",
                ["missing key \"identities.corp.oauth2.client_id\"", "identities.corp.oauth2 names no server"]
            ),
            (oauth, "jwt_bearer: {key: {}}", ["missing key \"users.robot.login.jwt_bearer.key.file\""]),
            (oauth, "jwt_bearer: {}", ["users.robot.login.jwt_bearer has no secret"]),
            (
                oauth, "password: {}",
                [
                    "missing key \"users.robot.login.password.username\"",
                    "missing key \"users.robot.login.password.password_file\"",
                ]
            ),
            (oauth, "refresh_token: {}", ["missing key \"users.robot.login.refresh_token.token_file\""]),
            (oauth, "token_exchange: {}", ["missing key \"users.robot.login.token_exchange.subject_token_file\""]),
            (oauth, "", ["users.robot.login has no kind"]),
            (oauth, "email_password: {}", ["an oauth2 identity has no such login"]),
            (oauth, "google: {}", ["an oauth2 identity has no such login"]),
            (oauth, "github_app: {}", ["an oauth2 identity has no such login"]),
            (app, "device: {}", ["an app_services identity has no such login"]),
            (app, "jwt_bearer: {key: {}}", ["an app_services identity has no such login"]),
            (
                "github_app: {app_id: \"1\", installation_id: \"2\", key_file: a}", "password: {}",
                ["a github_app identity has no such login"]
            ),
            (
                "github_app: {}", "github_app: {}",
                [
                    "missing key \"identities.corp.github_app.app_id\"",
                    "missing key \"identities.corp.github_app.installation_id\"",
                    "missing key \"identities.corp.github_app.key_file\"",
                ]
            ),
            (
                "app_services: {}", "anonymous: {}",
                [
                    "missing key \"identities.corp.app_services.app_id\"",
                    "missing key \"identities.corp.app_services.base_url\"",
                ]
            ),
            (
                "static: {}", "",
                ["missing key \"identities.corp.static.token_file\"", "a static identity has no login"]
            ),
            ("{}", "anonymous: {}", ["identities.corp has no kind"]),
            (
                "oauth2: {issuer: \"http://idp.example.com\", client_id: c, client_secret_file: secret, scopes: [openid]}",
                "client_credentials: {}",
                ["plain http would show passwords and tokens"]
            ),
            (
                "oauth2: {issuer: \"https://h\", client_id: c, client_secret_file: secret, scopes: [openid], "
                    + "endpoints: {token: \"HTTP://idp.example.com/t\"}}",
                "client_credentials: {}", ["is plain http, and the issuer is at https"]
            ),
            (
                "oauth2: {issuer: \"https://h\", client_id: c, token_headers: {X-A: {}}}",
                "password: {username: u, password_file: a}",
                ["missing key \"identities.corp.oauth2.token_headers.X-A.file\""]
            ),
        ] as [(String, String, [String])])
    func once(_ identity: String, _ login: String, _ messages: [String]) throws {
        let diagnostics = try Loading.diagnostics(Self.text(identity, login), files: Self.files)
        #expect(diagnostics.count == messages.count, "\(diagnostics)")
        for message in messages {
            #expect(diagnostics.count { $0.contains(message) } == 1, "\(message): \(diagnostics)")
        }
        for line in diagnostics {
            #expect(line.firstMatch(of: /^(warning: )?lanyard\.yaml:[1-9][0-9]*:[1-9][0-9]*:[ ]/) != nil, "\(line)")
        }
    }

    @Test("a missing key of listeners, routes, store and at the top has file and line, too")
    func places() throws {
        for (text, key) in [
            ("users: {}\n", "routes"), (Loading.identities + Loading.users + "routes:\n  - {}\n", "routes[0].upstream"),
            (Loading.whole + "listeners:\n  - {}\n", "listeners[0].address"),
            (Loading.whole + "store: {path: sessions}\n", "store"),
            (Loading.identities + "users:\n  alice: {}\n" + Loading.routes, "users.alice.identity"),
            (Loading.whole + "listeners: [{address: \"127.0.0.1:1\", tls: {}}]\n", "listeners[0].tls"),
            (Loading.whole + "admin: {address: \"127.0.0.1:1\"}\n", "admin"),
        ] {
            let diagnostics = try Loading.diagnostics(text, environment: ["LANYARD_LOG_LEVEL": "debug"])
            let errors = diagnostics.filter { !$0.hasPrefix("warning") }
            for line in errors {
                #expect(
                    line.firstMatch(of: /^lanyard\.yaml:[1-9][0-9]*:[1-9][0-9]*:[ ]/) != nil, "\(key): \(diagnostics)")
            }
        }
    }

    @Test("a device or code login without its endpoint")
    func endpoints() throws {
        let token = "endpoints: {token: \"https://h/t\""
        for (keys, login, isWarned) in [
            ("\(token)}", "device: {}", true), ("issuer: \"https://h\", \(token)}", "device: {}", true),
            ("issuer: \"https://h\"", "device: {}", false),
            ("\(token), device_authorization: \"https://h/d\"}", "device: {}", false),
            ("\(token)}", "authorization_code: {}", true),
            ("\(token), authorization: \"https://h/a\"}", "authorization_code: {}", false),
            ("\(token), authorization: \"https://h/a\"}", "device: {}", true),
            ("issuer: \"https://h\", \(token)}", "authorization_code: {}", true),
            ("issuer: \"https://h\"", "authorization_code: {}", false),
            ("issuer: \"https://h\", endpoints: {revocation: \"https://h/r\"}", "device: {}", false),
        ] {
            let diagnostics = try Loading.diagnostics(
                Self.text("oauth2: {client_id: c, \(keys)}", login), files: Self.files)
            #expect(diagnostics.count == (isWarned ? 1 : 0), "\(keys) \(login): \(diagnostics)")
            if isWarned {
                #expect(
                    diagnostics[0].hasPrefix("warning: lanyard.yaml:5:")
                        && diagnostics[0].contains("there is no endpoint for it, and no metadata that name one"),
                    "\(diagnostics)")
            }
        }
    }

    @Test("openid without an issuer, and a public client with client credentials")
    func unproven() throws {
        let server = "endpoints: {token: \"https://h/t\"}, client_id: c, scopes: [openid]"
        let openid = try Loading.diagnostics(
            Self.text("oauth2: {\(server)}", "password: {username: u, password_file: a}"), files: Self.files)
        #expect(openid.count == 1 && openid[0].hasPrefix("warning: lanyard.yaml:3:"), "\(openid)")
        #expect(openid.first?.contains("without issuer the ID token may be that of any server") == true)
        for (more, isWarned) in [
            ("", true), (", client_authentication: none", true), (", client_secret_file: secret", false),
            (", client_key: {file: secret}", false), (", client_assertion_file: secret", false),
        ] {
            let found = try Loading.diagnostics(
                Self.text("oauth2: {issuer: \"https://h\", client_id: c\(more)}", "client_credentials: {}"),
                files: Self.files)
            #expect(found.count == (isWarned ? 1 : 0), "\(more): \(found)")
            if isWarned {
                #expect(found[0].hasPrefix("warning: ") && found[0].contains("corp is a public client"), "\(found)")
            }
        }
    }

    @Test("two users with one one-use token file")
    func sharedFile() throws {
        let other = { (login: String) in "  other: {identity: corp, login: {\(login)}}" }
        for (identity, first, second, isWarned) in [
            (Self.oauth, "refresh_token: {token_file: a}", "refresh_token: {token_file: a}", true),
            (Self.oauth, "refresh_token: {token_file: a}", "refresh_token: {token_file: ./a}", true),
            (Self.oauth, "refresh_token: {token_file: a}", "refresh_token: {token_file: b}", false),
            (
                Self.oauth, "password: {username: u, password_file: a}", "password: {username: v, password_file: a}",
                false
            ),
            // Such a token works as often as it is used.
            (
                Self.oauth.replacing("}", with: ", rotation: none}"), "refresh_token: {token_file: a}",
                "refresh_token: {token_file: a}", false
            ),
            (
                Self.oauth.replacing("}", with: ", rotation: {grace: 30s}}"), "refresh_token: {token_file: a}",
                "refresh_token: {token_file: a}", true
            ),
            (Self.app, "google: {auth_code_file: a}", "google: {auth_code_file: a}", true),
            (Self.app, "google: {id_token_file: a}", "google: {id_token_file: a}", false),
        ] {
            let found = try Loading.diagnostics(Self.text(identity, first, more: other(second)), files: Self.files)
            #expect(found.count == (isWarned ? 1 : 0), "\(first) \(second): \(found)")
            if isWarned {
                #expect(
                    found[0].hasPrefix("warning: lanyard.yaml:6:")
                        && found[0].contains("users.other.login: robot has the same file"))
            }
        }
    }

    @Test("a file has several names: a link to it, or to its folder, and a second name")
    func links() throws {
        let folder = try TemporaryFolder()
        let token = try folder.write("token", "secret-of-thirty-two-bytes-or-more")
        try folder.write("same-text", "secret-of-thirty-two-bytes-or-more")
        #expect(symlink("token", folder.file("link")) == 0 && link(token, folder.file("second")) == 0)
        #expect(symlink(".", folder.file("here")) == 0)
        for (name, isWarned) in [
            ("link", true), ("second", true), ("here/token", true), ("here/here/link", true), ("same-text", false),
            ("missing", false),
        ] {
            let login = { (path: String) in "refresh_token: {token_file: \"\(path)\"}" }
            let other = "  other: {identity: corp, login: {\(login(folder.file(name)))}}"
            let found = try Loading.diagnostics(Self.text(Self.oauth, login(token), more: other), files: Self.files)
                .filter { $0.contains("has the same file") }
            #expect(found.count == (isWarned ? 1 : 0), "\(name): \(found)")
        }
    }
}
