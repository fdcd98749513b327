import Foundation
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
        let lifetime = 6.0
        let emulator = try await EmulatorProcess.start(tokens: "6s")
        let gate = try FaultGate(before: emulator.endpoint)
        let witness = try TokenWitness()
        let lanyard = try await LanyardProcess.start(
            emulator, identity: gate.endpoint, upstream: witness.server.endpoint)
        try await lanyard.untilReady()
        #expect(try await lanyard.get("/").status == 200)
        var issued = try await emulator.issued()
        switch outage {
        case .refused: try gate.set(.refuse)
        case .silent: try gate.set(.silence)
        case .killed: emulator.process.signal(9)
        }
        // A connection that is kept open would go on.
        gate.cut()
        let lastEnd = issued.compactMap { $0["expires_at"].double }.max() ?? 0

        let firstRefusal = try await untilRefused(lanyard)
        let now = Date().timeIntervalSince1970
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
        try await Task.sleep(for: .seconds(lifetime))
        #expect(try await lanyard.get("/").status == 503)
        #expect(witness.server.connectionCount == seen)

        var second: EmulatorProcess?
        if outage == .killed {
            second = try await EmulatorProcess.start(tokens: "6s", port: emulator.endpoint.port)
        } else {
            try gate.set(.pass)
            gate.cut()
        }
        try await lanyard.untilReady()
        #expect(try await lanyard.get("/").status == 200)
        if let second { issued += try await second.issued() } else { issued = try await emulator.issued() }
        #expect(witness.expiredUses(issued: issued) == [])
        #expect(witness.withoutToken == 0)
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    /// Asks every 50 ms; what is not 200 ends it.
    private func untilRefused(_ lanyard: LanyardProcess) async throws -> RawMessage {
        var response = try await lanyard.get("/")
        let end = ContinuousClock.now + .seconds(30)
        while response.status == 200 {
            guard ContinuousClock.now < end else { throw TestFailure("served without an identity service for 30 s") }
            try await Task.sleep(for: .milliseconds(50))
            response = try await lanyard.get("/")
        }
        return response
    }
}
