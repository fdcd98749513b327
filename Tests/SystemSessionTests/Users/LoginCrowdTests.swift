import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// Many users of one identity service, each with a session of its own in the store.
@Suite struct LoginCrowdTests {
    /// `LANYARD_TEST_CROWD` asks for more: 10,000 take some minutes.
    private static let users = getenv("LANYARD_TEST_CROWD").flatMap { Int(String(cString: $0)) } ?? 80
    /// In seconds. A token outlives the outage.
    private static let lifetime = 2400
    private static let outage = 600

    /// The service, a gate before it, and Lanyard with a route for each user.
    private struct Crowd {
        let clock: TestClock
        let folder: TemporaryFolder
        let emulator: EmulatorProcess
        let gate: FaultGate
        let witness: TokenWitness
        let lanyard: LanyardProcess

        static func start() async throws -> Crowd {
            let (clock, folder) = (try TestClock(), try TemporaryFolder())
            let password = try folder.write("password", "correct-horse")
            let names = (0..<LoginCrowdTests.users).map { "u\($0)" }
            let seed = "users:\n" + names.map { "  - {email: \($0)@example.com, password: correct-horse}\n" }.joined()
            let emulator = try await EmulatorProcess.start(
                tokens: "\(LoginCrowdTests.lifetime)s", under: clock,
                arguments: ["--seed", try folder.write("seed.yaml", seed)])
            let gate = try FaultGate(before: emulator.endpoint)
            clock.watch(gate.threads)
            let witness = try TokenWitness(under: clock)
            let upstream = "http://\(witness.server.endpoint)"
            let users = names.map {
                let login = "{email_password: {email: \($0)@example.com, password_file: \(password)}}"
                return "  \($0): {identity: demo, login: \(login)}\n"
            }
            _ = try folder.write("key", "0123456789abcdef0123456789abcdef")
            let lanyard = try await LanyardProcess.start(
                """
                store: {path: \(folder.file("sessions")), key_file: \(folder.file("key"))}
                identities:
                  demo: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(gate.endpoint)"}}
                users:
                \(users.joined())
                routes:
                \(names.map { "  - {name: \($0), match: {path: /\($0)/}, user: \($0), upstream: \"\(upstream)\"}\n" }.joined())
                """, under: clock)
            return Crowd(
                clock: clock, folder: folder, emulator: emulator, gate: gate, witness: witness, lanyard: lanyard)
        }

        func calls(_ route: String) async throws -> (count: Int, inFlightMax: Int) {
            let counts = try await emulator.control("GET", "/counts")["routes"][route]
            return (counts["calls"].int ?? 0, counts["in_flight_max"].int ?? 0)
        }

        /// Requests of ten users, others each time.
        func ask(_ turn: Int) async throws {
            for place in 0..<10 {
                let user = (turn * 7919 + place * 613) % LoginCrowdTests.users
                let response = try await lanyard.get("/u\(user)/")
                try #require(response.status == 200, "user \(user): \(response.bodyText)")
            }
        }
    }

    @Test("all log in, few at once; three refreshes and an outage of ten minutes later no request was refused")
    func crowd() async throws {
        let crowd = try await Crowd.start()
        let (clock, users) = (crowd.clock, Self.users)
        var before = -1
        while before < users {
            try await eventually("more than \(before) are logged in") { try await crowd.calls("login").count > before }
            before = try await crowd.calls("login").count
        }
        try await crowd.lanyard.untilReady()
        clock.stop()
        let logins = try await crowd.calls("login")
        #expect(logins.count == users && logins.inFlightMax <= 5, "\(logins)")
        try await crowd.ask(0)

        var turn = 0
        try await clock.pass(
            until: "each has three refreshes", atMost: .seconds(4 * Self.lifetime), grain: .seconds(20)
        ) {
            turn += 1
            if turn.isMultiple(of: 5) { try await crowd.ask(turn) }
            return try await crowd.calls("refresh").count >= 3 * users
        }
        #expect(try await crowd.calls("refresh").inFlightMax <= 8)

        try crowd.gate.set(.refuse)
        crowd.gate.cut()
        let end = clock.now + Double(Self.outage)
        try await clock.pass(until: "the outage is over", atMost: .seconds(2 * Self.outage), grain: .seconds(20)) {
            turn += 1
            if turn.isMultiple(of: 5) { try await crowd.ask(turn) }
            return clock.now >= end
        }
        try await crowd.emulator.control("DELETE", "/counts")
        try crowd.gate.set(.pass)
        try await clock.pass(.seconds(Self.lifetime), grain: .seconds(20)) {
            turn += 1
            if turn.isMultiple(of: 5) { try await crowd.ask(turn) }
        }
        let refreshes = try await crowd.calls("refresh")
        #expect(refreshes.count >= users && refreshes.inFlightMax <= 8, "\(refreshes)")
        #expect(try await crowd.calls("login").count == 0, "no session was lost")
        #expect(crowd.witness.expiredUses(issued: try await crowd.emulator.issued()) == [])
        clock.run()
        #expect(try await crowd.lanyard.process.terminate() == .code(143))
    }
}
