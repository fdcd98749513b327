import Foundation
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// The built Lanyard with one user and one route.
private enum GrantBench {
    static func start(
        _ identity: String, _ login: String, _ upstream: String, under clock: TestClock? = nil
    ) async throws -> (LanyardProcess, AdminClient, TemporaryFolder) {
        let folder = try TemporaryFolder()
        let socket = folder.file("admin.sock")
        let yaml = """
            identities: {corp: \(identity)}
            users: {robot: {identity: corp, login: \(login)}}
            routes: [{upstream: "\(upstream)"}]
            store: {memory: true}

            """
        let lanyard = try await LanyardProcess.start(
            yaml, admin: "{address: \"unix:\(socket)\", expose_tokens: true}", under: clock)
        return (lanyard, AdminClient(endpoint: .unix(socket)), folder)
    }
}

/// The built Lanyard with an assertion that it signs for a user.
struct GrantServerTests {
    @Test(
        "canaille takes an assertion that Lanyard signs, and responds with the user's profile",
        .enabled(if: PythonServer.isThere("canaille"), "needs deploy/peer-servers canaille"))
    func jwtBearer() async throws {
        let server = try await PythonServer.start("canaille")
        let key =
            "file: \(server.folder.file("assertion.pem")), algorithm: RS256, subject: alice, audience: token_endpoint"
        let secret = try server.folder.write("secret", "s3cret")
        let (lanyard, _, folder) = try await GrantBench.start(
            "{oauth2: {issuer: \"\(server.base)\", client_id: lanyard, client_secret_file: \(secret), scopes: [openid, profile]}}",
            "{jwt_bearer: {key: {\(key)}}}", server.base + "/oauth/userinfo")
        try await lanyard.untilReady()
        let response = try await RawClient.ask(lanyard.data, "GET", "/")
        #expect(response.status == 200 && response.bodyText.contains("Liddell"), "\(response.bodyText)")
        try await lanyard.process.terminate()
        withExtendedLifetime(folder) {}
        try await server.stop()
    }
}

/// The built Lanyard with token exchange, whose server takes seconds to start.
struct LongGrantServerTests {
    @Test(
        "authgent-server exchanges a token for another audience, with who acts",
        .enabled(if: PythonServer.isThere("authgent"), "needs deploy/peer-servers authgent"))
    func exchange() async throws {
        let server = try await PythonServer.start("authgent")
        let tokens = ["subject", "actor"].map { "\($0)_token_file: \(server.folder.file($0))" }.joined(separator: ", ")
        let (lanyard, admin, folder) = try await GrantBench.start(
            """
            {oauth2: {issuer: "\(server.base)", client_id: \(try server.text("client_id")), client_authentication: post,
            client_secret_file: \(server.folder.file("client_secret")), scopes: [api], params: {audience: "https://api.example/"}}}
            """, "{token_exchange: {\(tokens), subject_token_type: access_token}}", server.base + "/health")
        try await lanyard.untilReady()
        let token = try await admin.call("GET", "/v1/users/robot/token")["access_token"].string
        let claims = try Self.claims(token)
        #expect(claims["aud"] as? String == "https://api.example/" && claims["act"] != nil, "\(claims)")
        try await lanyard.process.terminate()
        withExtendedLifetime(folder) {}
        try await server.stop()
    }

    private static func claims(_ token: String?) throws -> [String: Any] {
        let part = try #require(token).split(separator: ".")[1].replacing("-", with: "+").replacing("_", with: "/")
        let data = try #require(Data(base64Encoded: part + String(repeating: "=", count: (4 - part.count % 4) % 4)))
        return try #require(JSONSerialization.jsonObject(with: data) as? [String: Any])
    }
}

/// The built Lanyard with a GitHub App.
struct GitHubAppProgramTests {
    @Test(
        "a fake of GitHub whose limit on requests ends after the year 2262: Lanyard lives, and logs in at a later call")
    func endlessLimit() async throws {
        let calls = Guarded(0)
        let server = try RawServer { _ in
            let count = calls.withLock { count in
                count += 1
                return count
            }
            let type = ("Content-Type", "application/json")
            guard count == 1 else {
                return .response(
                    201, "Created", fields: [type],
                    body: #"{"token":"ghs_t","expires_at":"9999-12-31T23:59:59Z"}"#
                ).closing
            }
            let limit = [("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "9223372037")]
            return .response(403, "Forbidden", fields: [type] + limit, body: #"{"message":"rate limit"}"#).closing
        }
        let keys = try TemporaryFolder()
        _ = try await ServerProcess("/usr/bin/openssl", ["genrsa", "-out", keys.file("key"), "2048"]).waitForExit()
        let clock = try TestClock()
        let (lanyard, _, folder) = try await GrantBench.start(
            """
            {github_app: {app_id: "1", installation_id: "2", key_file: \(keys.file("key")), base_url: "http://\(server.endpoint)"}}
            """, "{github_app: {}}", "http://\(server.endpoint)", under: clock)
        try await eventually("the limit was met") { calls.withLock { $0 } == 1 }
        clock.stop()
        try await clock.pass(until: "a second call") { calls.withLock { $0 } == 2 }
        clock.run()
        try await lanyard.untilReady()
        try await lanyard.process.terminate()
        withExtendedLifetime(folder) {}
    }

    @Test("a fake of GitHub: an upstream that refuses the token gets a request with a new one")
    func gitHub() async throws {
        let tokens = Guarded(0)
        let server = try RawServer { _ in
            let count = tokens.withLock { count in
                count += 1
                return count
            }
            return .response(
                201, "Created", fields: [("Content-Type", "application/json")],
                body: #"{"token":"ghs_t\#(count)","expires_at":"2099-01-01T00:00:00Z"}"#
            ).closing
        }
        let upstream = try RawServer { request in
            request.message.values("Authorization") == ["Bearer ghs_t2"]
                ? .response(200, "OK", body: "done") : .response(401, "Unauthorized", body: "")
        }
        let keys = try TemporaryFolder()
        _ = try await ServerProcess("/usr/bin/openssl", ["genrsa", "-out", keys.file("key"), "2048"]).waitForExit()
        let (lanyard, _, folder) = try await GrantBench.start(
            """
            {github_app: {app_id: "1", installation_id: "2", key_file: \(keys.file("key")), base_url: "http://\(server.endpoint)"}}
            """, "{github_app: {}}", "http://\(upstream.endpoint)")
        try await lanyard.untilReady()
        let response = try await RawClient.ask(lanyard.data, "GET", "/")
        #expect(response.status == 200 && response.bodyText == "done")
        #expect(tokens.withLock { $0 } == 2)
        try await lanyard.process.terminate()
        withExtendedLifetime(folder) {}
    }
}
