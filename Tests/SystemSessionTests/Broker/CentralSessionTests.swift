import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// Two programs: one holds the session and hands out its tokens at a unix socket, the other one forwards with them (fleet.md 2).
@Suite struct CentralSessionTests {
    /// The two, and what they stand between.
    private struct Bench {
        let emulator: EmulatorProcess
        let folder: TemporaryFolder
        let witness: TokenWitness

        var socket: String { folder.file("broker.sock") }

        init(tokens: String, under clock: TestClock? = nil) async throws {
            emulator = try await EmulatorProcess.start(tokens: tokens, under: clock)
            folder = try TemporaryFolder()
            witness = try TokenWitness(under: clock)
        }

        /// - Parameter uids: who may have alice's tokens.
        func central(uids: [uid_t] = [getuid()], under clock: TestClock? = nil) async throws -> LanyardProcess {
            let base = "http://\(emulator.endpoint)"
            return try await LanyardProcess.start(
                """
                brokers:
                  - address: "unix:\(socket)"
                    callers: [{uids: \(uids), users: [alice]}]
                identities:
                  demo: {app_services: {app_id: \(EmulatorProcess.app), base_url: "\(base)"}}
                users:
                  alice:
                    identity: demo
                    login: {email_password: {email: \(EmulatorProcess.email), password_file: \(emulator.passwordFile)}}
                store: {path: \(folder.file("central.store")), key_file: \(try key())}
                routes:
                  - {name: all, upstream: "\(base)"}
                """, under: clock)
        }

        func sidecar(upstream: String? = nil, under clock: TestClock? = nil) async throws -> LanyardProcess {
            try await LanyardProcess.start(
                """
                identities:
                  central: {lanyard: {address: "unix:\(socket)"}}
                users:
                  svc: {identity: central, login: {broker: {user: alice}}}
                routes:
                  - {name: all, upstream: "\(upstream ?? "http://\(witness.server.endpoint)")"}
                """, under: clock)
        }

        private func key() throws -> String {
            try folder.write("store.key", String(repeating: "0123456789abcdef", count: 4) + "\n")
        }
    }

    @Test("requests carry the token that the other Lanyard holds; its restart costs none")
    func restart() async throws {
        let bench = try await Bench(tokens: "30m")
        let first = try await bench.central()
        try await first.untilReady()
        let sidecar = try await bench.sidecar()
        try await sidecar.untilReady()
        #expect(try await sidecar.get("/one").status == 200)
        let issued = try await bench.emulator.issued()
        #expect(bench.witness.withoutToken == 0 && bench.witness.expiredUses(issued: issued) == [])
        // The sidecar has asked the identity service for nothing.
        #expect(try await bench.emulator.calls("login") == 1)
        first.process.signal(SIGKILL)
        for path in ["/two", "/three"] { #expect(try await sidecar.get(path).status == 200) }
        let second = try await bench.central()
        try await second.untilReady()
        #expect(try await sidecar.get("/four").status == 200)
        #expect(try await sidecar.process.terminate() == .code(143))
        #expect(try await second.process.terminate() == .code(143))
    }

    @Test("a token that an upstream refuses is replaced by the other Lanyard, and the request is sent once more")
    func refusedToken() async throws {
        let bench = try await Bench(tokens: "30m")
        let central = try await bench.central()
        try await central.untilReady()
        let sidecar = try await bench.sidecar(upstream: "http://\(bench.emulator.endpoint)")
        try await sidecar.untilReady()
        #expect(try await sidecar.get("/protected/a").status == 200)
        try await bench.emulator.control("POST", "/tokens/expire", #"{"user":"\#(EmulatorProcess.email)"}"#)
        #expect(try await sidecar.get("/protected/b").status == 200)
        #expect(try await bench.emulator.calls("refresh") == 1)
        #expect(try await sidecar.process.terminate() == .code(143))
        #expect(try await central.process.terminate() == .code(143))
    }

    @Test("without the other Lanyard requests pass to the token's end, and then get identity-unreachable")
    func gone() async throws {
        let clock = try TestClock()
        let bench = try await Bench(tokens: "120s", under: clock)
        let central = try await bench.central(under: clock)
        try await central.untilReady()
        let sidecar = try await bench.sidecar(under: clock)
        try await sidecar.untilReady()
        #expect(try await sidecar.get("/").status == 200)
        central.process.signal(SIGKILL)
        clock.stop()
        var refusal = try await get(sidecar, clock)
        #expect(refusal.status == 200)
        try await clock.pass(until: "a request is refused", atMost: .seconds(150), grain: .seconds(1)) {
            refusal = try await get(sidecar, clock)
            return refusal.status != 200
        }
        #expect(refusal.status == 503)
        #expect(try refusal.json["type"].string == "urn:lanyard:problem:identity-unreachable")
        #expect(refusal["Retry-After"].flatMap { Int($0) } ?? 0 >= 1)
        #expect(try refusal.json["user"].string == "svc")
        clock.run()
        #expect(try await sidecar.process.terminate() == .code(143))
    }

    @Test("a caller whom the other Lanyard denies the token gets credential-refused, which names the operator")
    func denied() async throws {
        let bench = try await Bench(tokens: "30m")
        let central = try await bench.central(uids: [getuid() + 1])
        try await central.untilReady()
        let sidecar = try await bench.sidecar()
        try await eventually("the denial is known") {
            try await sidecar.readiness().bodyText.contains("credential_refused")
        }
        let refusal = try await sidecar.get("/")
        #expect(refusal.status == 503)
        #expect(try refusal.json["type"].string == "urn:lanyard:problem:credential-refused")
        #expect(try refusal.json["action"].string == "operator")
        #expect(try refusal.json["detail"].string?.contains("callers") == true)
        #expect(bench.witness.server.connectionCount == 0)
        #expect(try await sidecar.process.terminate() == .code(143))
        #expect(try await central.process.terminate() == .code(143))
    }

    @Test("a user without a session there is login-required here, and is served once it has one")
    func loginThere() async throws {
        let bench = try await Bench(tokens: "30m")
        let admin = "{address: \"unix:\(bench.folder.file("admin.sock"))\"}"
        let central = try await LanyardProcess.start(
            """
            brokers:
              - {address: "unix:\(bench.socket)", callers: [{uids: [\(getuid())], users: [alice]}]}
            identities:
              demo: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(bench.emulator.endpoint)"}}
            users: {alice: {identity: demo}}
            routes: [{name: all, upstream: "http://\(bench.emulator.endpoint)"}]
            """, admin: admin)
        let sidecar = try await bench.sidecar()
        try await eventually("the sidecar knows") {
            try await sidecar.readiness().bodyText.contains("login_required")
        }
        let refusal = try await sidecar.get("/")
        #expect(try refusal.json["type"].string == "urn:lanyard:problem:login-required")
        #expect(try refusal.json["detail"].string?.contains("alice") == true)
        #expect(refusal["Retry-After"] == nil)
        let body = #"{"credential":{"anonymous":{}}}"#
        let reply = try await RawClient.ask(
            .unix(bench.folder.file("admin.sock")), "POST", "/v1/users/alice/login",
            fields: [("Content-Type", "application/json")], body: body)
        #expect(reply.status == 200, "\(reply.bodyText)")
        try await eventually("a request is served") { try await sidecar.get("/").status == 200 }
        #expect(try await sidecar.process.terminate() == .code(143))
        #expect(try await central.process.terminate() == .code(143))
    }

    /// A request, and as much time as its response takes.
    private func get(_ lanyard: LanyardProcess, _ clock: TestClock) async throws -> RawMessage {
        let client = try await Wire.connect(to: lanyard.data)
        try await client.send("GET / HTTP/1.1\r\nHost: \(lanyard.data)\r\n\r\n")
        try await clock.pass(until: "the response", atMost: .seconds(60), grain: .seconds(1)) { client.hasInput }
        return try await client.response()
    }
}
