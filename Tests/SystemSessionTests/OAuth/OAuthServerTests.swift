import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// The built Lanyard with users of a real OAuth 2.0 server.
@Suite(.enabled(if: GlewlwydServer.isThere, "needs deploy/peer-servers glewlwyd"))
struct OAuthServerTests {
    private static func start(
        _ server: GlewlwydServer, _ folder: TemporaryFolder, secret: String = "s3cret"
    ) async throws -> (LanyardProcess, AdminClient) {
        let socket = folder.file("admin.sock")
        let yaml = """
            identities:
              corp:
                oauth2:
                  issuer: "\(server.issuer)"
                  client_id: lanyard
                  client_secret_file: \(try folder.write("secret", secret))
                  scopes: [api]
            users:
              alice: {identity: corp, login: {password: {username: alice, password_file: \(try folder.write("p", "wonderland"))}}}
              robot: {identity: corp, login: {client_credentials: {}}}
            routes:
              - {name: alice, match: {path: /alice}, upstream: "\(server.resource)", user: alice}
              - {name: robot, match: {path: /robot}, upstream: "http://\(server.endpoint)/api/oidc/jwks", user: robot}
            store: {path: \(folder.file("sessions")), key_file: \(folder.file("key"))}

            """
        let lanyard = try await LanyardProcess.start(yaml, admin: "{address: \"unix:\(socket)\"}")
        return (lanyard, AdminClient(endpoint: .unix(socket)))
    }

    private static func folder() throws -> TemporaryFolder {
        let folder = try TemporaryFolder()
        try folder.write("key", String(repeating: "k", count: 32))
        return folder
    }

    private static func status(_ lanyard: LanyardProcess, _ path: String) async throws -> Int {
        try await RawClient.ask(lanyard.data, "GET", path).status
    }

    @Test(
        "check --online --login gets a token for a client and throws it away; a wrong secret is named before the start")
    func check() async throws {
        let server = try await GlewlwydServer.start(lifetime: 3600)
        let folder = try Self.folder()
        for (secret, isRight) in [("s3cret", true), ("wrong", false)] {
            let path = try folder.write(
                "lanyard.yaml",
                """
                identities:
                  corp:
                    oauth2:
                      {issuer: "\(server.issuer)", client_id: lanyard, scopes: [api],
                       client_secret_file: \(try folder.write("secret", secret))}
                users: {robot: {identity: corp, login: {client_credentials: {}}}}
                routes: [{upstream: "http://\(server.endpoint)", user: robot}]

                """)
            let plain = try await CommandRun(["check", "--online", "--config", path])
            #expect(plain.exit == .code(0) && !plain.output.contains("login of"), "\(plain.output)")
            let login = try await CommandRun(["check", "--online", "--login", "--config", path])
            #expect(login.exit == .code(isRight ? 0 : 69), "\(login.output) \(login.errors)")
            // Of 3,600 s, less what the call has taken.
            let line = isRight ? "ok login of robot at corp: a token for 3" : "FAILED login of robot at corp: "
            #expect(login.output.contains(line), "\(login.output)")
        }
    }

    @Test(
        "a password and a client log in; one-use refresh tokens rotate; after SIGKILL both sessions continue without a login"
    )
    func sessions() async throws {
        let server = try await GlewlwydServer.start(lifetime: 3600)
        let folder = try Self.folder()
        let (first, admin) = try await Self.start(server, folder)
        try await first.untilReady()
        for path in ["/alice", "/robot"] { #expect(try await Self.status(first, path) == 200) }
        for _ in 0..<3 {
            try await admin.call("POST", "/v1/users/alice/refresh")
            try await admin.call("POST", "/v1/users/robot/refresh")
        }
        #expect(try await Self.status(first, "/alice") == 200)
        first.process.signal(SIGKILL)
        try await first.process.waitForExit()
        let (second, again) = try await Self.start(server, folder)
        try await second.untilReady()
        #expect(try await Self.status(second, "/alice") == 200)
        try await again.call("POST", "/v1/users/alice/refresh")
        let events = second.process.lines.compactMap(\.event)
        #expect(events.count(where: { $0 == "session.restored" }) == 2 && !events.contains("session.login.started"))
        #expect(try await again.call("GET", "/v1/users/alice")["generation"].int == 5)
        try await second.process.terminate()
        try await server.stop()
    }

    @Test("a client's logout revokes its access token at the server, and a user's its refresh token")
    func logout() async throws {
        let server = try await GlewlwydServer.start(lifetime: 3600)
        let folder = try Self.folder()
        let (lanyard, admin) = try await Self.start(server, folder)
        try await lanyard.untilReady()
        for user in ["robot", "alice"] {
            let logout = try await admin.call("POST", "/v1/users/\(user)/logout")
            #expect(logout["revoked"].bool == true, "\(user): \(logout)")
            _ = try await lanyard.process.event("session.revoke.succeeded") { $0["user"].string == user }
        }
        try await lanyard.process.terminate()
        try await server.stop()
    }

    @Test("a wrong client secret is named, and retried when its file changes")
    func secretChanges() async throws {
        let server = try await GlewlwydServer.start(lifetime: 3600)
        let folder = try Self.folder()
        let (lanyard, _) = try await Self.start(server, folder, secret: "wrong")
        let failed = try await lanyard.process.event("session.login.failed") { $0["user"].string == "robot" }
        #expect(failed["status"].int == 403)
        #expect(failed["error"].string?.contains("check the credential, client_id and client_authentication") == true)
        try folder.write("secret", "s3cret")
        try await lanyard.untilReady()
        #expect(try await Self.status(lanyard, "/robot") == 200)
        try await lanyard.process.terminate()
        try await server.stop()
    }
}
