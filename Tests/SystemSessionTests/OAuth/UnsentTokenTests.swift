import Glibc
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// The built Lanyard, killed while it connects to a server whose refresh tokens work once. The server is a fake: it counts.
@Suite struct UnsentTokenTests {
    /// What the server has been asked for.
    private final class Calls: Sendable {
        private let state = Guarded((logins: 0, sent: [String]()))
        var logins: Int { state.withLock { $0.logins } }
        /// The refresh tokens that were sent.
        var sent: [String] { state.withLock { $0.sent } }

        func addLogin() { state.withLock { $0.logins += 1 } }
        func add(_ token: String) { state.withLock { $0.sent.append(token) } }
    }

    private static func server(_ calls: Calls) throws -> RawServer {
        try RawServer { request in
            let form = request.message.bodyText
            let json = [("Content-Type", "application/json")]
            let present = "r\(calls.sent.count)"
            if form.contains("grant_type=password") {
                calls.addLogin()
            } else {
                let field = form.split(separator: "&").first { $0.hasPrefix("refresh_token=") } ?? ""
                calls.add(String(field.dropFirst("refresh_token=".count)))
                guard calls.sent.last == present else {
                    return .response(400, "Bad Request", fields: json, body: #"{"error":"invalid_grant"}"#)
                }
            }
            let rest = #""token_type":"Bearer","expires_in":3600,"refresh_token":"r\#(calls.sent.count)""#
            return .response(fields: json, body: #"{"access_token":"a",\#(rest)}"#)
        }
    }

    @Test(
        "SIGKILL while a connection is being made: nothing was sent, so the refresh token is used after the start"
    )
    func killed() async throws {
        let calls = Calls()
        let (server, upstream, folder) = (try Self.server(calls), try RawServer(), try TemporaryFolder())
        try folder.write("key", String(repeating: "k", count: 32))
        try folder.write("password", "p")
        let authority = TestAuthority()
        let relay = try TLSRelay(.server(authority.issue("IP:127.0.0.1")), before: server.endpoint)
        let gate = try FaultGate(before: relay.endpoint, mode: .pass)
        let yaml = """
            identities:
              corp:
                oauth2:
                  endpoints: {token: "https://\(gate.endpoint)/token"}
                  client_id: lanyard
                  rotation: one_use
                tls: {ca_file: \(try folder.write("ca.pem", authority.pem))}
            users:
              alice: {identity: corp, login: {password: {username: alice, password_file: \(folder.file("password"))}}}
            routes: [{upstream: "http://\(upstream.endpoint)"}]
            store: {path: \(folder.file("sessions")), key_file: \(folder.file("key"))}

            """
        let admin = AdminClient(endpoint: .unix(folder.file("admin.sock")))
        func start() async throws -> LanyardProcess {
            let address = "{address: \"unix:\(folder.file("admin.sock"))\"}"
            let lanyard = try await LanyardProcess.start(yaml, admin: address)
            try await lanyard.untilReady()
            return lanyard
        }
        for round in 1...3 {
            let lanyard = try await start()
            let before = gate.connectionCount
            // It takes the connection, and never answers the handshake.
            try gate.set(.silence)
            async let refresh = try? admin.ask("POST", "/v1/users/alice/refresh")
            try await eventually("the connection of round \(round)") { gate.connectionCount > before }
            lanyard.process.signal(SIGKILL)
            try await lanyard.process.waitForExit()
            _ = await refresh
            try gate.set(.pass)
        }
        let lanyard = try await start()
        try await admin.call("POST", "/v1/users/alice/refresh")
        #expect(calls.logins == 1)
        #expect(calls.sent == ["r0"])
        try await lanyard.process.terminate()
    }
}
