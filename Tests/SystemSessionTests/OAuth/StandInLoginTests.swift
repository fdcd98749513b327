import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// The built Lanyard with every login that `lanyard-emulator --oauth` serves, and with each of its faults.
struct StandInLoginTests {
    /// The emulator with its default client and user, and Lanyard with users of it.
    private struct Bench {
        let emulator: ServerProcess
        let endpoint: RawEndpoint
        let lanyard: LanyardProcess
        let admin: AdminClient
        let folder: TemporaryFolder

        /// - Parameter users: login by user name, in YAML; `SECRET`, `PASSWORD` and `TOKEN` stand for paths of files.
        static func start(_ users: [(name: String, login: String)], _ flags: [String] = []) async throws -> Bench {
            let folder = try TemporaryFolder()
            let emulator = try ServerProcess("lanyard-emulator", ["--listen", "127.0.0.1:0", "--oauth"] + flags)
            let listening = try await emulator.event("listening")
            let endpoint = try RawEndpoint(listening["address"].string ?? "")
            #expect(listening["issuer"].string == "http://\(endpoint)/oauth")
            let paths = [
                "SECRET": try folder.write("secret", "demo-secret"),
                "PASSWORD": try folder.write("password", "correct-horse"),
                "TOKEN": try folder.write("token", try await token(endpoint, "access_token")),
                "REFRESH": try folder.write("refresh", try await token(endpoint, "refresh_token")),
            ]
            let lines = users.map { user in
                let login = paths.reduce(user.login) { $0.replacing($1.key, with: $1.value) }
                return "  \(user.name): {identity: corp, login: {\(login)}}\n"
            }
            let routes = users.map { user in
                "  - {name: \(user.name), match: {path: /\(user.name)}, user: \(user.name), "
                    + "upstream: \"http://\(endpoint)/protected\"}\n"
            }
            let socket = folder.file("admin.sock")
            let lanyard = try await LanyardProcess.start(
                """
                identities:
                  corp:
                    oauth2:
                      issuer: "http://\(endpoint)/oauth"
                      client_id: demo
                      client_secret_file: \(paths["SECRET"]!)
                      scopes: [openid, api]
                users:
                \(lines.joined())
                routes:
                \(routes.joined())
                store: {memory: true}

                """, admin: "{address: \"unix:\(socket)\"}")
            return Bench(
                emulator: emulator, endpoint: endpoint, lanyard: lanyard, admin: AdminClient(endpoint: .unix(socket)),
                folder: folder)
        }

        /// A token of alice, as another program of the same client gets it.
        private static func token(_ endpoint: RawEndpoint, _ name: String) async throws -> String {
            let response = try await RawClient.ask(
                endpoint, "POST", "/oauth/token", fields: [("Content-Type", "application/x-www-form-urlencoded")],
                body: "grant_type=password&client_id=demo&scope=openid%20api&username=alice%40example.com"
                    + "&password=correct-horse")
            return try #require(response.json[name].string, "\(response.bodyText)")
        }

        @discardableResult
        func control(_ method: String, _ path: String, _ body: String? = nil) async throws -> JSON {
            let response = try await RawClient.ask(endpoint, method, "/emulator" + path, body: body)
            guard (200..<300).contains(response.status) else {
                throw TestFailure("\(method) \(path): \(response.bodyText)")
            }
            return response.body.isEmpty ? .null : try response.json
        }

        /// The emulator's calls of a route.
        func calls(_ route: String) async throws -> [JSON] {
            try await control("GET", "/calls").array.filter { $0["route"].string == route }
        }

        /// What the protected resource says of a user's token.
        func echo(_ user: String) async throws -> JSON {
            let response = try await lanyard.get("/" + user)
            guard response.status == 200 else { throw TestFailure("\(user): \(response.status) \(response.bodyText)") }
            return try response.json
        }

        func stop() async throws {
            try await lanyard.process.terminate()
            try await emulator.terminate()
        }
    }

    private static let exchange =
        "token_exchange: {subject_token_file: TOKEN, subject_token_type: access_token}"
    private static let password = "password: {username: alice@example.com, password_file: PASSWORD}"

    @Test(
        "client credentials, a password, a refresh token and an exchange: tokens, refreshes, and a logout that revokes")
    func machines() async throws {
        let bench = try await Bench.start([
            ("robot", "client_credentials: {}"), ("alice", Self.password),
            ("kept", "refresh_token: {token_file: REFRESH}"),
            ("swap", Self.exchange),
        ])
        try await bench.lanyard.untilReady()
        let client = try await bench.echo("robot")
        #expect(client["client_id"].string == "demo" && client["user_id"].string == "demo")
        #expect(client["scope"].string == "openid api")
        let account = try await bench.echo("alice")["user_id"].string
        #expect(try await bench.echo("kept")["user_id"].string == account)
        #expect(try await bench.echo("swap")["user_id"].string == account)
        for user in ["robot", "alice", "kept", "swap"] {
            try await bench.admin.call("POST", "/v1/users/\(user)/refresh")
        }
        #expect(try await bench.calls("oauth_refresh").map { $0["effect"].string }.allSatisfy { $0 == "refreshed" })
        #expect(try await bench.calls("oauth_login").count >= 6, "those without a refresh token log in again")
        for user in ["robot", "alice", "kept", "swap"] {
            let logout = try await bench.admin.call("POST", "/v1/users/\(user)/logout")
            #expect(logout["revoked"].bool == true, "\(user): \(logout)")
        }
        let revoked = try await bench.calls("oauth_revoke").map { $0["effect"].string }
        #expect(revoked.count(where: { $0 == "logged_out" }) == 2, "\(revoked)")
        #expect(revoked.count(where: { $0 == "token_revoked" }) >= 2, "\(revoked)")
        try await bench.stop()
    }

    @Test("one-use refresh tokens rotate, and a session ends when one of them comes again; the password logs in anew")
    func oneUse() async throws {
        let bench = try await Bench.start([("alice", Self.password)], ["--rotation", "one_use"])
        try await bench.lanyard.untilReady()
        for _ in 0..<3 { try await bench.admin.call("POST", "/v1/users/alice/refresh") }
        #expect(
            try await bench.calls("oauth_refresh").map { $0["effect"].string } == ["rotated", "rotated", "rotated"])
        try await bench.control("POST", "/sessions/revoke", "{}")
        _ = try await bench.admin.ask("POST", "/v1/users/alice/refresh")
        try await eventually("a new session serves") {
            let isValid = try await bench.admin.call("GET", "/v1/users/alice")["session"].string == "valid"
            let logins = try await bench.calls("oauth_login").count { $0["effect"].string == "login" }
            // Two are of the bench.
            return isValid && logins == 4
        }
        #expect(try await bench.lanyard.get("/alice").status == 200)
        try await bench.stop()
    }

    @Test("a device login that a control call approves, by the command")
    func device() async throws {
        let bench = try await Bench.start([("phone", "device: {}")], ["--device-interval", "1s"])
        #expect(try await bench.lanyard.get("/phone").status == 503)
        let command = try ServerProcess(
            "lanyard", ["login", "phone", "--admin", "unix:\(bench.folder.file("admin.sock"))"])
        var code: String?
        try await eventually("the command shows a code; it said:\n\(command.log)") {
            code = command.log.firstMatch(of: /\ \ ([A-Z]{4}-[A-Z]{4})\n/).map { String($0.1) }
            return code != nil
        }
        #expect(command.log.contains("http://\(bench.endpoint)/oauth/device"), "\(command.log)")
        try await bench.control("POST", "/oauth/approve", #"{"user_code":"\#(code ?? "")"}"#)
        #expect(try await command.waitForExit() == .code(0), "\(command.log)")
        #expect(try await bench.echo("phone")["scope"].string == "openid api")
        try await bench.admin.call("POST", "/v1/users/phone/refresh")
        #expect(try await bench.calls("oauth_refresh").map { $0["effect"].string } == ["refreshed"])
        let logout = try await bench.admin.call("POST", "/v1/users/phone/logout")
        #expect(logout["revoked"].bool == true, "\(logout)")
        #expect(try await bench.control("GET", "/sessions").array.last?["end"].string == "logout")
        try await bench.stop()
    }

    @Test("an authorization code: the browser logs in at the page, and comes back to the command")
    func code() async throws {
        let bench = try await Bench.start([("web", "authorization_code: {}")])
        let command = try ServerProcess(
            "lanyard", ["login", "web", "--no-browser", "--admin", "unix:\(bench.folder.file("admin.sock"))"])
        var begin: String?
        try await eventually("the command shows an address; it said:\n\(command.log)") {
            begin = command.log.firstMatch(of: /\ \ (http:\/\/127\.0\.0\.1:\d+\/begin\/[0-9a-f]{64})\n/).map {
                String($0.1)
            }
            return begin != nil
        }
        // A browser: the command's cookie, the page, the form, and the way back.
        let first = try await Self.open(try #require(begin))
        let cookie = [("Cookie", String(first["set-cookie"]?.split(separator: ";").first ?? ""))]
        let page = try await Self.open(try #require(first["location"]))
        let id = try #require(page.bodyText.firstMatch(of: /name="id" value="([^"]+)"/)?.1, "\(page.bodyText)")
        let done = try await RawClient.ask(
            bench.endpoint, "POST", "/oauth/authorize", fields: [("Content-Type", "application/x-www-form-urlencoded")],
            body: "id=\(id)&username=alice%40example.com&password=correct-horse&action=approve")
        let back = try await Self.open(try #require(done["location"], "\(done.bodyText)"), cookie)
        #expect(
            back.status == 200 && back.bodyText.contains("The login continues in the terminal."), "\(back.bodyText)")
        #expect(try await command.waitForExit() == .code(0), "\(command.log)")
        let user = try await bench.admin.call("GET", "/v1/users/web")["user_id"].string
        #expect(try await bench.echo("web")["user_id"].string == user && user != nil, "the sub of the ID token")
        try await bench.admin.call("POST", "/v1/users/web/refresh")
        try await bench.stop()
    }

    private static func open(_ uri: String, _ fields: [(String, String)] = []) async throws -> RawMessage {
        guard let parts = URLComponents(string: uri), let port = parts.port.flatMap(UInt16.init(exactly:)) else {
            throw TestFailure("no address: \(uri)")
        }
        let target = parts.percentEncodedPath + (parts.percentEncodedQuery.map { "?" + $0 } ?? "")
        return try await RawClient.ask(.tcp(port), "GET", target, fields: fields)
    }

    @Test(
        "each fault of the controls, once: the session stays, or begins again, and the user is served",
        arguments: [
            "status", "server_error", "unavailable", "too_many_requests", "html", "malformed", "empty_unauthorized",
            "maintenance", "gone", "unknown_app", "answer_closed", "answer_cut", "answer_silent", "answer_late",
        ])
    func faults(fault: String) async throws {
        let bench = try await Bench.start([("alice", Self.password)], ["--rotation", "grace"])
        try await bench.lanyard.untilReady()
        try await bench.control(
            "POST", "/faults", #"{"route":"oauth_refresh","fault":"\#(fault)","times":1,"milliseconds":100}"#)
        _ = try await bench.admin.ask("POST", "/v1/users/alice/refresh")
        #expect(try await bench.lanyard.get("/alice").status == 200, "the former token serves")
        try await eventually("a later call has succeeded") {
            _ = try await bench.admin.ask("POST", "/v1/users/alice/refresh")
            // The first one has met the fault.
            let effects = try await bench.calls("oauth_refresh").dropFirst().map { $0["effect"].string }
            return effects.contains("rotated") || effects.contains("repeated_within_grace")
        }
        #expect(try await bench.lanyard.get("/alice").status == 200)
        #expect(try await bench.calls("oauth_login").count <= 3, "two of the bench, one of alice: no new login")
        try await bench.stop()
    }
}
