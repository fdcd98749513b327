import Glibc
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// The built Lanyard whose OAuth server is down when it starts, its metadata included.
@Suite struct OAuthOutageTests {
    /// The shapes of an OpenID provider; a fake, because its port must be free for a while.
    private static func server(at endpoint: RawEndpoint = .tcp(0)) throws -> RawServer {
        try RawServer(at: endpoint) { request in
            let json = [("Content-Type", "application/json")]
            switch request.message.target {
            case "/.well-known/openid-configuration":
                let issuer = "http://\(request.message["Host"] ?? "")"
                return .response(fields: json, body: #"{"issuer":"\#(issuer)","token_endpoint":"\#(issuer)/token"}"#)
            case "/token":
                let grant = #"{"access_token":"cached","token_type":"Bearer","expires_in":3600,"refresh_token":"r"}"#
                return .response(fields: json, body: grant)
            default: return .response(404, "Not Found", body: "")
            }
        }
    }

    private static func start(
        _ issuer: RawEndpoint, _ upstream: RawServer, _ folder: TemporaryFolder
    ) async throws -> LanyardProcess {
        try await LanyardProcess.start(
            """
            identities: {corp: {oauth2: {issuer: "http://\(issuer)", client_id: lanyard}}}
            users:
              alice: {identity: corp, login: {password: {username: alice, password_file: \(folder.file("password"))}}}
              robot: {identity: corp, login: {client_credentials: {}}}
            routes:
              - {name: alice, match: {path: /alice}, upstream: "http://\(upstream.endpoint)", user: alice}
              - {name: robot, match: {path: /robot}, upstream: "http://\(upstream.endpoint)", user: robot}
            store: {path: \(folder.file("sessions")), key_file: \(folder.file("key"))}

            """)
    }

    private static func folder() throws -> TemporaryFolder {
        let folder = try TemporaryFolder()
        try folder.write("key", String(repeating: "k", count: 32))
        try folder.write("password", "p")
        return folder
    }

    @Test("after a restart with the server down, stored access tokens serve, of a session and of a client")
    func stored() async throws {
        let (server, upstream, folder) = (try Self.server(), try RawServer(), try Self.folder())
        let first = try await Self.start(server.endpoint, upstream, folder)
        try await first.untilReady()
        first.process.signal(SIGKILL)
        try await first.process.waitForExit()
        server.stop()
        let second = try await Self.start(server.endpoint, upstream, folder)
        try await second.untilReady()
        for path in ["/alice", "/robot"] { #expect(try await second.get(path).status == 200) }
        #expect(upstream.requests.map { $0["Authorization"] } == ["Bearer cached", "Bearer cached"])
        #expect(!second.process.lines.contains { $0.event == "session.login.started" })
        try await second.process.terminate()
    }

    @Test("after a restart without discovery, a refused token is renewed at the endpoint that the store has kept")
    func storedMetadata() async throws {
        let state = Guarded((isDiscoveryDown: false, tokens: 0))
        let server = try RawServer { request in
            let json = [("Content-Type", "application/json")]
            let issuer = "http://\(request.message["Host"] ?? "")"
            switch (request.message.target, state.withLock(\.isDiscoveryDown)) {
            case ("/.well-known/openid-configuration", false):
                return .response(fields: json, body: #"{"issuer":"\#(issuer)","token_endpoint":"\#(issuer)/token"}"#)
            case ("/token", _):
                let number = state.withLock { state in
                    state.tokens += 1
                    return state.tokens
                }
                let rest = #""token_type":"Bearer","expires_in":3600,"refresh_token":"r""#
                return .response(fields: json, body: #"{"access_token":"t\#(number)",\#(rest)}"#)
            default: return .response(503, "Service Unavailable", body: "")
            }
        }
        // It takes the tokens of the second process alone.
        let upstream = try RawServer { request in
            let isFormer = ["Bearer t1", "Bearer t2"].contains(request.message["Authorization"] ?? "")
            return isFormer && state.withLock(\.isDiscoveryDown)
                ? .response(401, "Unauthorized", body: "") : .response(body: "")
        }
        let folder = try Self.folder()
        let first = try await Self.start(server.endpoint, upstream, folder)
        try await first.untilReady()
        try await first.process.terminate()
        state.withLock { $0.isDiscoveryDown = true }
        let second = try await Self.start(server.endpoint, upstream, folder)
        try await second.untilReady()
        for path in ["/alice", "/robot"] { #expect(try await second.get(path).status == 200) }
        #expect(server.requests.map(\.target).filter { $0 != "/token" } == ["/.well-known/openid-configuration"])
        #expect(state.withLock(\.tokens) == 4)
        try await second.process.terminate()
    }

    @Test("metadata that cannot be asked for at the first start is no failure: the users are served when it comes")
    func discovery() async throws {
        // Whose port is free then.
        let former = try Self.server()
        former.stop()
        let (upstream, folder) = (try RawServer(), try Self.folder())
        let lanyard = try await Self.start(former.endpoint, upstream, folder)
        try await lanyard.process.event("session.login.failed") { $0["user"].string == "robot" }
        #expect(try await lanyard.readiness().status == 503)
        #expect(try await lanyard.get("/robot").status == 503)
        let server = try Self.server(at: former.endpoint)
        try await lanyard.untilReady()
        for path in ["/alice", "/robot"] { #expect(try await lanyard.get(path).status == 200) }
        try await lanyard.process.terminate()
        server.stop()
    }
}
