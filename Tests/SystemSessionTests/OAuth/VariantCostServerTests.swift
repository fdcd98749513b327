import Foundation
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// The built Lanyard at nanoidp, whose refresh tokens work once: a refused `resource` spends one, a narrower `scope` narrows the session.
@Suite(.enabled(if: PythonServer.isThere("nanoidp"), "needs deploy/peer-servers nanoidp"))
struct VariantCostServerTests {
    private struct Bench {
        let server: PythonServer
        let relay: TokenRelay
        let upstream: RawServer
        let folder: TemporaryFolder
        let token: String

        /// - Parameter token: of the route `/own`.
        init(token: String) async throws {
            server = try await PythonServer.start("nanoidp")
            relay = try TokenRelay(before: server.endpoint)
            (upstream, folder, self.token) = (try RawServer(), try TemporaryFolder(), token)
            try folder.write("secret", "s3cret")
            try folder.write("password", "wonderland")
            try folder.write("key", String(repeating: "k", count: 32))
        }

        var yaml: String {
            """
            identities:
              corp:
                oauth2:
                  {endpoints: {token: "http://\(relay.endpoint)/token", revocation: "\(server.base)/revoke"}, client_id: lanyard,
                   client_secret_file: \(folder.file("secret")), scopes: [openid, profile]}
            users:
              alice: {identity: corp, login: {password: {username: alice, password_file: \(folder.file("password"))}}}
            routes:
              - {name: plain, match: {path: /plain}, upstream: "http://\(upstream.endpoint)", user: alice}
              - {name: own, match: {path: /own}, upstream: "http://\(upstream.endpoint)", user: alice, token: {\(token)}}
            store: {path: \(folder.file("sessions")), key_file: \(folder.file("key"))}

            """
        }

        var admin: AdminClient { AdminClient(endpoint: .unix(folder.file("admin.sock"))) }

        func start() async throws -> LanyardProcess {
            try await LanyardProcess.start(
                yaml, admin: "{address: \"unix:\(folder.file("admin.sock"))\", expose_tokens: true}")
        }

        /// The scopes of the token that a request to `/plain` carries now.
        func plainScopes(_ lanyard: LanyardProcess) async throws -> Set<String> {
            #expect(try await lanyard.get("/plain").status == 200)
            let token = upstream.requests.last?["Authorization"].map { String($0.dropFirst("Bearer ".count)) }
            let scope = try VariantBench.claims(token)["scope"] as? String
            return Set((scope ?? "").split(separator: " ").map(String.init))
        }

        func count(_ lanyard: LanyardProcess, _ event: String) -> Int {
            lanyard.process.log(of: "session.").components(separatedBy: "\"\(event)\"").count - 1
        }

        func stop(_ lanyard: LanyardProcess) async throws {
            try await lanyard.process.terminate()
            try await server.stop()
        }
    }

    @Test("a refused resource costs one session; the login follows at once, and a restart does not send it again")
    func refusedResource() async throws {
        let bench = try await Bench(token: "resource: [\"https://orders.example\"]")
        let lanyard = try await bench.start()
        let refused = try await lanyard.process.event("session.variant.refused")
        #expect(refused["error"].string?.contains("invalid_target") == true)
        _ = try? await bench.admin.call("POST", "/v1/users/alice/refresh")
        let blocked = try await lanyard.process.event("session.variant.refused") {
            $0["error"].string?.contains("params.resource") == true
        }
        #expect(blocked["route"].string == "own")
        try await eventually("alice is logged in again") {
            try await bench.admin.call("GET", "/v1/users/alice")["session"].string == "valid"
        }
        for _ in 0..<2 { try await bench.admin.call("POST", "/v1/users/alice/refresh") }
        #expect(bench.count(lanyard, "session.dead") == 1)
        #expect(try await lanyard.get("/plain").status == 200)
        let response = try await lanyard.get("/own")
        #expect(response.status == 503 && response.bodyText.contains("params.resource"), "\(response.bodyText)")
        try await lanyard.process.terminate()
        let again = try await bench.start()
        let own = try await again.get("/own")
        #expect(own.status == 503 && own.bodyText.contains("params.resource"), "\(own.bodyText)")
        try await bench.admin.call("POST", "/v1/users/alice/refresh")
        #expect(bench.relay.calls.count { !$0.resource.isEmpty } == 1)
        try await bench.stop(again)
    }

    @Test("check --online --login says that the refused resource would end the session")
    func check() async throws {
        let bench = try await Bench(token: "resource: [\"https://orders.example\"]")
        let path = try bench.folder.write("check.yaml", bench.yaml)
        let run = try await CommandRun(["check", "--online", "--login", "--config", path])
        #expect(run.exit == .code(69), "\(run)")
        let line = run.output.split(separator: "\n").first { $0.contains("token of route own") } ?? ""
        #expect(
            line.hasPrefix("FAILED") && line.contains("invalid_target") && line.contains("params.resource"), "\(run)")
        try await bench.server.stop()
    }

    @Test(
        "fewer scopes for a route narrow the session: a login brings the plain token's back, and the route is refused alone"
    )
    func narrowedScopes() async throws {
        let bench = try await Bench(token: "scopes: [openid]")
        let lanyard = try await bench.start()
        try await lanyard.untilReady()
        #expect(try await bench.plainScopes(lanyard) == ["openid", "profile"])
        _ = try? await bench.admin.call("POST", "/v1/users/alice/refresh")
        let narrowed = try await lanyard.process.event("session.scopes.narrowed")
        #expect(narrowed["missing"].string == "profile" && narrowed["reason"].string == "variant")
        try await eventually("alice is logged in again") { bench.relay.calls.count { $0.grant == "password" } == 2 }
        #expect(try await bench.plainScopes(lanyard) == ["openid", "profile"])
        try await bench.admin.call("POST", "/v1/users/alice/refresh")
        #expect(try await bench.plainScopes(lanyard) == ["openid", "profile"])
        #expect(bench.relay.calls.count { $0.grant == "password" } == 2)
        let response = try await lanyard.get("/own")
        #expect(response.status == 503 && response.bodyText.contains("token.scopes"), "\(response.bodyText)")
        try await bench.stop(lanyard)
    }
}
