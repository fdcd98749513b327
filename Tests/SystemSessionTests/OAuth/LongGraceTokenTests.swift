import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// The built Lanyard at django-oauth-toolkit, which takes a spent refresh token for 30 s more and gives the same successor.
@Suite(.enabled(if: PythonServer.isThere("django"), "needs deploy/peer-servers django"))
struct LongGraceTokenTests {
    /// The load goes to `upstream`: the server's own resource says 403 to an access token from the moment in which it is renewed.
    private static func yaml(
        _ server: PythonServer, _ relay: TokenRelay, _ upstream: RawServer, _ folder: TemporaryFolder
    ) -> String {
        """
        identities:
          corp:
            oauth2:
              endpoints: {token: "http://\(relay.endpoint)/o/token/"}
              client_id: app
              scopes: [api]
              rotation: {grace: 30s}
        users:
          alice: {identity: corp, login: {password: {username: alice, password_file: \(folder.file("password"))}}}
        routes:
          - {name: load, match: {path: /load}, upstream: "http://\(upstream.endpoint)"}
          - {name: echo, upstream: "\(server.base)"}
        store: {path: \(folder.file("sessions")), key_file: \(folder.file("key"))}

        """
    }

    /// If the start has found a call without a stored response, the one repetition ends before the next kill.
    private static func start(_ yaml: String) async throws -> (LanyardProcess, hasRepeated: Bool) {
        let lanyard = try await LanyardProcess.start(yaml)
        try await lanyard.untilReady()
        let hasOpenCall = lanyard.process.lines.contains { $0.event == "store.intent.open" }
        if hasOpenCall { try await lanyard.process.event("session.refresh.succeeded") }
        return (lanyard, hasOpenCall)
    }

    @Test("SIGKILL under load: never a new login, also after kills between the call's sending and the token's storing")
    func kills() async throws {
        let server = try await PythonServer.start("django", ["--lifetime", "20", "--grace", "30"])
        // A second between the server's response and its arrival here, so that some kills fall into it.
        let relay = try TokenRelay(before: server.endpoint, delay: .seconds(1))
        let folder = try TemporaryFolder()
        try folder.write("key", String(repeating: "k", count: 32))
        try folder.write("password", "wonder-land-1")
        let upstream = try RawServer()
        let yaml = Self.yaml(server, relay, upstream, folder)
        var open = 0
        let rounds = LongSize.of(36, least: 8)
        var random = SeededGenerator(34)
        for round in 1...rounds {
            let (lanyard, hasRepeated) = try await Self.start(yaml)
            if hasRepeated { open += 1 }
            let loop = ClosedLoop(clients: 10, lanyard.data, "/load", pause: .milliseconds(200))
            let tallies =
                if round % 4 == 0 {
                    try await [loop].run(untilEach: "token call", times: 1, requests: 10) { relay.calls.count }
                } else {
                    try await [loop].run(requests: Int.random(in: 20...300, using: &random))
                }
            lanyard.process.signal(SIGKILL)
            #expect(
                tallies[0].failed == 0, "round \(round): \(tallies[0].failures.first ?? "")\n\(lanyard.process.log)")
            try await lanyard.process.waitForExit()
        }
        let (lanyard, hasRepeated) = try await Self.start(yaml)
        if hasRepeated { open += 1 }
        let counts = Dictionary(relay.calls.map { ($0.grant, 1) }, uniquingKeysWith: +)
        print("\(rounds) kills, \(open) of them between sent and stored: \(counts)")
        #expect(counts["password"] == 1 && relay.calls.allSatisfy { $0.status == 200 }, "\(relay.calls)")
        #expect(open > 0, "no kill fell between the sending of a call and its response")
        #expect(try await lanyard.get("/api/echo").bodyText == #"{"sub": "alice"}"#)
        try await lanyard.process.terminate()
        try await server.stop()
    }
}
