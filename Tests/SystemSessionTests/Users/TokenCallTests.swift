import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// "A program of mine needs the token itself." The built Lanyard and its command, before a fake server whose tokens name their audience.
@Suite struct TokenCallTests {
    private static let refreshToken = "refresh-canary-0123456789"

    private struct Bench {
        let server: RawServer
        let folder: TemporaryFolder
        let lanyard: LanyardProcess
        let admin: RawEndpoint

        /// - Parameters:
        ///   - more: further keys of `admin`.
        ///   - seconds: the life of access tokens.
        init(_ more: String = ", expose_tokens: true", seconds: Int = 3600) async throws {
            folder = try TemporaryFolder()
            server = try RawServer { request in
                guard request.message.target == "/token" else { return .response(404, "Not Found", body: "") }
                let fields = request.message.bodyText.split(separator: "&").map(String.init)
                let audience = fields.first { $0.hasPrefix("audience=") }?.dropFirst("audience=".count) ?? "plain"
                return .response(
                    fields: [("Content-Type", "application/json")],
                    body:
                        #"{"access_token":"access-canary-\#(audience)","token_type":"Bearer","expires_in":\#(seconds),"#
                        + #""refresh_token":"\#(TokenCallTests.refreshToken)"}"#)
            }
            try folder.write("password", "p")
            let socket = folder.file("admin.sock")
            admin = .unix(socket)
            lanyard = try await LanyardProcess.start(
                """
                identities:
                  corp: {oauth2: {endpoints: {token: "http://\(server.endpoint)/token"}, client_id: lanyard}}
                users:
                  alice: {identity: corp, login: {password: {username: a, password_file: \(folder.file("password"))}}}
                  bob: {identity: corp}
                active_user: alice
                routes:
                  - {name: orders, match: {path: /orders}, upstream: "http://127.0.0.1:9", user: alice,
                     token: {audience: orders}}
                  - {name: mail, match: {path: /mail}, upstream: "http://127.0.0.1:9", user: alice}
                """, admin: "{address: \"unix:\(socket)\"\(more)}")
            try await lanyard.untilReady()
        }

        func ask(_ path: String) async throws -> RawMessage {
            try await RawClient.ask(admin, "GET", "/v1/users/\(path)")
        }

        func command(_ arguments: String...) async throws -> CommandRun {
            try await CommandRun(["token"] + arguments + ["--admin", "unix:\(folder.file("admin.sock"))"])
        }

        /// No token is in the log.
        func end() async throws {
            try await lanyard.process.terminate()
            #expect(!lanyard.process.log.contains("canary"))
        }
    }

    @Test("off by default: 403, no token, and the command says which key allows it")
    func off() async throws {
        let bench = try await Bench("")
        let response = try await bench.ask("alice/token?audience=orders")
        #expect(response.status == 403 && !response.bodyText.contains("canary"))
        #expect(UsersBench.problem(response) == "token-not-exposed")
        let run = try await bench.command("alice")
        #expect(run.exit == .code(1) && run.output.isEmpty)
        #expect(run.errors.joined().contains("admin.expose_tokens"), "\(run.errors)")
        #expect(!bench.lanyard.process.lines.contains { $0.event == "token.issued" })
        try await bench.end()
    }

    @Test("each access token by what its route asks for, with its rest; the refresh token in no response")
    func given() async throws {
        let bench = try await Bench()
        var texts: [String] = []
        let own = try await bench.ask("alice/token")
        let orders = try await bench.ask("alice/token?audience=orders")
        for (response, token) in [(own, "access-canary-plain"), (orders, "access-canary-orders")] {
            #expect(response.status == 200 && response["Cache-Control"] == "no-store", "\(response.bodyText)")
            let json = try response.json
            #expect(json["access_token"].string == token && json["user"].string == "alice")
            #expect(json["token_type"].string == "Bearer" && json["generation"].int ?? 0 > 0)
            #expect(3500...3595 ~= json["expires_in"].int ?? 0)
            texts.append(response.bodyText)
        }
        #expect(try own.json["tokens"][0]["access_token"].string == "access-canary-orders")
        let unknown = try await bench.ask("alice/token?audience=stock")
        #expect(unknown.status == 404 && UsersBench.problem(unknown) == "no-such-token")
        #expect(unknown.bodyText.contains("audience orders"))
        #expect(try await bench.ask("zoe/token").status == 404)
        #expect(try await bench.ask("alice/token?token=orders").status == 422)
        let out = try await bench.ask("bob/token")
        #expect(out.status == 503 && UsersBench.problem(out) == "login-required")
        for run in [
            try await bench.command("alice", "--audience", "orders", "--json"), try await bench.command("--header"),
            try await bench.command("active", "--exec-credential"),
        ] {
            #expect(run.exit == .code(0) && run.output.contains("access-canary"), "\(run.errors)")
            texts.append(run.output)
        }
        #expect(texts.allSatisfy { !$0.contains(Self.refreshToken) })
        let lines = bench.lanyard.process.lines.filter { $0.event == "token.issued" }.map(\.json)
        #expect(lines.allSatisfy { $0["caller"].string == "admin" && $0["user"].string == "alice" })
        #expect(lines.contains { $0["audience"].string == "orders" && $0["expires_in"].int ?? 0 > 3500 })
        try await bench.end()
    }

    @Test("a token that is about to end is not given out: the call waits for the next one")
    func shortLives() async throws {
        let bench = try await Bench(seconds: 8)
        try await eventually("the third token") {
            let response = try await bench.ask("alice/token")
            let json = try response.json
            #expect(response.status == 200, "\(response.bodyText)")
            let left = try #require(Timestamp.readDateTime(json["expires_at"].string ?? "")) - .now
            #expect(left > .seconds(1.5), "\(response.bodyText)")
            return json["generation"].int ?? 0 >= 5
        }
        try await bench.end()
    }
}
