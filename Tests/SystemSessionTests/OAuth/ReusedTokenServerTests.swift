import Foundation
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// The built Lanyard at nanoidp, which ends a session when one of its used refresh tokens comes again.
@Suite(.enabled(if: PythonServer.isThere("nanoidp"), "needs deploy/peer-servers nanoidp"))
struct ReusedTokenServerTests {
    /// A program that is not Lanyard, with the same client and a copy of a refresh token.
    private static func otherProgram(_ server: PythonServer, _ form: String) async throws -> RawMessage {
        let secret = Data("lanyard:s3cret".utf8).base64EncodedString()
        let fields = [("Authorization", "Basic \(secret)"), ("Content-Type", "application/x-www-form-urlencoded")]
        return try await RawClient.ask(server.endpoint, "POST", "/token", fields: fields, body: form)
    }

    private static func start(
        _ identity: String, _ users: String, _ routes: String, _ folder: TemporaryFolder
    ) async throws -> (LanyardProcess, AdminClient) {
        try folder.write("password", "wonderland")
        let secret = try folder.write("secret", "s3cret")
        let yaml = """
            identities: {corp: {oauth2: {client_id: lanyard, client_secret_file: \(secret), scopes: [openid], \(identity)}}}
            users:
            \(users)
            routes:
            \(routes)
            store: {memory: true}

            """
        let socket = folder.file("admin.sock")
        let lanyard = try await LanyardProcess.start(yaml, admin: "{address: \"unix:\(socket)\"}")
        return (lanyard, AdminClient(endpoint: .unix(socket)))
    }

    @Test(
        "another program uses a spent refresh token: a credential logs in again; else status and problem say who must act"
    )
    func reuse() async throws {
        let server = try await PythonServer.start("nanoidp")
        let relay = try TokenRelay(before: server.endpoint)
        let folder = try TemporaryFolder()
        let routes = ["alice", "bob", "carol"].map {
            "  - {name: \($0), match: {path: /\($0)}, upstream: \"\(server.base)/userinfo\", user: \($0)}"
        }
        let (lanyard, admin) = try await Self.start(
            "endpoints: {token: \"http://\(relay.endpoint)/token\"}",
            """
              alice: {identity: corp, login: {refresh_token: {token_file: \(server.folder.file("refresh_token"))}}}
              bob: {identity: corp, login: {password: {username: bob, password_file: \(folder.file("password"))}}}
              carol: {identity: corp}
            """, routes.joined(separator: "\n"), folder)
        let login = #"{"credential": {"password": {"username": "carol", "password": "wonderland"}}, "activate": false}"#
        try await admin.call("POST", "/v1/users/carol/login", login)
        try await lanyard.untilReady()
        for user in ["alice", "bob", "carol"] {
            try await admin.call("POST", "/v1/users/\(user)/refresh")
            let spent = try #require(relay.calls.last).refreshToken
            let repeated = try await Self.otherProgram(server, "grant_type=refresh_token&refresh_token=\(spent)")
            #expect(repeated.status == 400 && repeated.bodyText.contains("invalid_grant"), "\(repeated.bodyText)")
            // The access token is still good.
            #expect(try await lanyard.get("/\(user)").bodyText.contains("\(user)@example.com"))
            _ = try await admin.ask("POST", "/v1/users/\(user)/refresh")
            _ = try await lanyard.process.event("session.dead") { $0["user"].string == user }
        }
        for (user, session, problem, action) in [
            ("alice", "refused", "credential-refused", "operator"), ("bob", "valid", nil, "nobody"),
            ("carol", "login_required", "login-required", "user"),
        ] {
            let response = try await lanyard.get("/\(user)")
            #expect(response.status == (problem == nil ? 200 : 503))
            #expect(response.bodyText.contains(problem ?? "\(user)@example.com"), "\(response.bodyText)")
            if problem != nil { #expect(try response.json["action"].string == action, "\(response.bodyText)") }
            let status = try await admin.call("GET", "/v1/users/\(user)")
            #expect(status["session"].string == session && status["action"].string == action, "\(status)")
        }
        let events = lanyard.process.lines.filter { $0.event == "session.login.required" }
        #expect(Set(events.map { $0.json["user"].string }) == ["carol"])

        let form = "grant_type=password&username=alice&password=wonderland&scope=openid"
        let token = try await Self.otherProgram(server, form).json["refresh_token"].string
        try server.folder.write("refresh_token", try #require(token))
        try await admin.call("POST", "/v1/users/carol/login", login)
        try await lanyard.untilReady()
        for user in ["alice", "carol"] {
            #expect(try await lanyard.get("/\(user)").bodyText.contains("\(user)@example.com"))
        }
        #expect(relay.calls.map(\.status).filter { $0 != 200 } == [400, 400, 400], "\(relay.calls)")
        try await lanyard.process.terminate()
        try await server.stop()
    }

    @Test("one session for two resources (RFC 8707): a token for both, and one for each by a refresh")
    func resources() async throws {
        let server = try await PythonServer.start("nanoidp")
        let folder = try TemporaryFolder()
        let upstream = try RawServer { request in
            let token = request.message["Authorization"].map { String($0.dropFirst("Bearer ".count)) }
            let audience = try VariantBench.claims(token)["aud"]
            let names = (audience as? [String]) ?? [audience as? String ?? "none"]
            return .response(200, "OK", body: names.sorted().joined(separator: " "))
        }
        let (orders, stock) = ("https://orders.example", "https://stock.example")
        let (lanyard, admin) = try await Self.start(
            "issuer: \"\(server.base)\", params: {resource: [\"\(orders)\", \"\(stock)\"]}",
            "  bob: {identity: corp, login: {password: {username: bob, password_file: \(folder.file("password"))}}}",
            """
              - {name: orders, match: {path: /orders}, upstream: "http://\(upstream.endpoint)", user: bob, token: {resource: ["\(orders)"]}}
              - {name: stock, match: {path: /stock}, upstream: "http://\(upstream.endpoint)", user: bob, token: {resource: ["\(stock)"]}}
              - {name: both, upstream: "http://\(upstream.endpoint)", user: bob}
            """, folder)
        try await lanyard.untilReady()
        for _ in 0..<2 {
            #expect(try await lanyard.get("/orders").bodyText == orders)
            #expect(try await lanyard.get("/stock").bodyText == stock)
            #expect(try await lanyard.get("/both").bodyText == "\(orders) \(stock)")
            try await admin.call("POST", "/v1/users/bob/refresh")
        }
        let events = lanyard.process.lines.compactMap(\.event)
        #expect(events.count(where: { $0 == "session.login.started" }) == 1 && !events.contains("session.dead"))
        try await lanyard.process.terminate()
        try await server.stop()
    }
}
