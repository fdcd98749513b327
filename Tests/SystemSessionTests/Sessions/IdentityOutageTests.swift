import TestSupport
import Testing

@testable import SystemTestSupport

/// "The identity service was down for longer than a token lives."
@Suite struct IdentityOutageTests {
    enum Outage: String, CaseIterable, Sendable {
        case refused, silent, killed
    }

    @Test(
        "requests pass while the token is valid, then 503 with Retry-After, and all is well again by itself",
        arguments: Outage.allCases)
    func outage(_ outage: Outage) async throws {
        let lifetime = 120.0
        let clock = try TestClock()
        let emulator = try await EmulatorProcess.start(tokens: "120s", under: clock)
        let gate = try FaultGate(before: emulator.endpoint)
        clock.watch(gate.threads)
        let witness = try TokenWitness(under: clock)
        let lanyard = try await LanyardProcess.start(
            emulator, identity: gate.endpoint, upstream: witness.server.endpoint, under: clock)
        try await lanyard.untilReady()
        #expect(try await lanyard.get("/").status == 200)
        clock.stop()
        var issued = try await emulator.issued()
        switch outage {
        case .refused: try gate.set(.refuse)
        case .silent: try gate.set(.silence)
        case .killed: emulator.process.signal(9)
        }
        // A connection that is kept open would continue.
        gate.cut()
        let lastEnd = issued.compactMap { $0["expires_at"].double }.max() ?? 0

        var firstRefusal = try await get(lanyard, clock)
        try await clock.pass(until: "a request is refused", atMost: .seconds(150), grain: .seconds(1)) {
            firstRefusal = try await get(lanyard, clock)
            return firstRefusal.status != 200
        }
        let now = clock.now
        #expect(now > lastEnd - lifetime / 10 - 1, "refused \(lastEnd - now) s before the token's end")
        #expect(firstRefusal.status == 503)
        #expect(try firstRefusal.json["type"].string == "urn:lanyard:problem:identity-unreachable")
        #expect(firstRefusal["Retry-After"].flatMap { Int($0) } ?? 0 >= 1)
        let readiness = try await lanyard.readiness()
        #expect(readiness.status == 503)
        #expect(readiness.bodyText.contains("identity_unreachable"))
        let session = try readiness.json["checks"].array.first { $0["name"].string == "session:alice" }
        #expect(session?["ok"].bool == false)

        // Longer than a whole token: nothing expired goes upstream in the meantime.
        let seen = witness.server.connectionCount
        try await clock.pass(.seconds(lifetime))
        #expect(try await get(lanyard, clock).status == 503)
        #expect(witness.server.connectionCount == seen)

        var second: EmulatorProcess?
        if outage == .killed {
            clock.run()
            second = try await EmulatorProcess.start(tokens: "120s", under: clock, port: emulator.endpoint.port)
            clock.stop()
        } else {
            try gate.set(.pass)
            gate.cut()
        }
        try await clock.pass(until: "the service is back", atMost: .seconds(600), grain: .seconds(1)) {
            try await lanyard.readiness().status == 200
        }
        #expect(try await get(lanyard, clock).status == 200)
        if let second { issued += try await second.issued() } else { issued = try await emulator.issued() }
        #expect(witness.expiredUses(issued: issued) == [])
        #expect(witness.withoutToken == 0)
        clock.run()
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    /// A request, and as much time as its response takes: a request may wait for a refresh.
    private func get(_ lanyard: LanyardProcess, _ clock: TestClock) async throws -> RawMessage {
        let client = try await Wire.connect(to: lanyard.data)
        try await client.send("GET / HTTP/1.1\r\nHost: \(lanyard.data)\r\n\r\n")
        try await clock.pass(until: "the response", atMost: .seconds(60), grain: .seconds(1)) { client.hasInput }
        return try await client.response()
    }
}
