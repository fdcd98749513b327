import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// The built Lanyard at django-oauth-toolkit, which takes a spent refresh token for some time more, gives the same successor, and says an
/// empty 403 to the former access token.
@Suite(.enabled(if: PythonServer.isThere("django"), "needs deploy/peer-servers django"))
struct GraceTokenServerTests {
    private static func start(
        _ server: PythonServer, _ relay: TokenRelay, _ folder: TemporaryFolder
    ) async throws -> (LanyardProcess, AdminClient) {
        let socket = folder.file("admin.sock")
        let yaml = """
            identities:
              corp:
                oauth2:
                  endpoints: {token: "http://\(relay.endpoint)/o/token/"}
                  client_id: app
                  scopes: [api]
                  rotation: {grace: 1h}
            users:
              alice: {identity: corp, login: {password: {username: alice, password_file: \(folder.file("password"))}}}
            routes:
              - {name: echo, match: {path: /echo}, upstream: "\(server.base)/api/echo", reauthenticate_on: [403]}
            store: {path: \(folder.file("sessions")), key_file: \(folder.file("key"))}

            """
        let lanyard = try await LanyardProcess.start(yaml, admin: "{address: \"unix:\(socket)\"}")
        return (lanyard, AdminClient(endpoint: .unix(socket)))
    }

    @Test(
        "an empty 403 to a token that has ended early: a refresh with a spent token, the request is served; so after a restart"
    )
    func recovery() async throws {
        let server = try await PythonServer.start("django", ["--grace", "3600"])
        let relay = try TokenRelay(before: server.endpoint)
        let folder = try TemporaryFolder()
        try folder.write("key", String(repeating: "k", count: 32))
        try folder.write("password", "wonder-land-1")
        let (first, admin) = try await Self.start(server, relay, folder)
        try await first.untilReady()
        // Forced refreshes have a cooldown (refresh.md 5), so the second one is a command's.
        for (round, isForced) in [true, false].enumerated() {
            #expect(try await first.get("/echo").bodyText == #"{"sub": "alice"}"#)
            // Another program uses the session's refresh token. The server ends Lanyard's access token with it.
            let held = try #require(relay.calls.last).newRefreshToken
            let other = try await RawClient.ask(
                server.endpoint, "POST", "/o/token/", fields: [("Content-Type", "application/x-www-form-urlencoded")],
                body: "grant_type=refresh_token&client_id=app&refresh_token=\(held)")
            #expect(other.status == 200, "\(other.bodyText)")
            if !isForced { try await admin.call("POST", "/v1/users/alice/refresh") }
            #expect(try await first.get("/echo").bodyText == #"{"sub": "alice"}"#)
            #expect(relay.calls.count == round + 2)
            let call = try #require(relay.calls.last)
            #expect(call.refreshToken == held && call.status == 200)
            #expect(try call.newRefreshToken == other.json["refresh_token"].string)
            let metrics = try await RawClient.ask(first.health, "GET", "/metrics").bodyText
            #expect(metrics.contains("lanyard_upstream_unauthorized_total{route=\"echo\"} 1\n"))
        }
        first.process.signal(SIGKILL)
        try await first.process.waitForExit()
        let (second, again) = try await Self.start(server, relay, folder)
        try await second.untilReady()
        #expect(try await second.get("/echo").bodyText == #"{"sub": "alice"}"#)
        try await again.call("POST", "/v1/users/alice/refresh")
        #expect(try await second.get("/echo").bodyText == #"{"sub": "alice"}"#)
        #expect(relay.calls.map(\.grant) == ["password"] + Array(repeating: "refresh_token", count: 3))
        #expect(try await again.call("GET", "/v1/users/alice")["action"].string == "nobody")
        try await second.process.terminate()
        try await server.stop()
    }
}
