import TestSupport
import Testing

/// "Fifty clients at once, and the identity service is asked once per token."
@Suite struct SingleFlightTests {
    @Test(
        "one refresh per window under load, however slow the response", .timeLimit(.minutes(2)), arguments: [0, 3000])
    func short(delay: Int) async throws {
        try await RefreshLoad(
            delayMilliseconds: delay, tokenSeconds: delay == 0 ? 5 : 10, loadSeconds: 13, pause: .milliseconds(5)
        ).run()
    }
}

/// The same in full: closed loop without a pause, for a minute.
@Suite(.serialized) struct LongSingleFlightTests {
    @Test("one refresh per window for a minute of closed-loop load", .timeLimit(.minutes(4)), arguments: [0, 50, 3000])
    func minute(delay: Int) async throws {
        try await RefreshLoad(delayMilliseconds: delay, tokenSeconds: 10, loadSeconds: 60, pause: .zero).run()
    }
}

/// Fifty clients in closed loop through Lanyard, with short tokens and slow refreshes.
struct RefreshLoad {
    let delayMilliseconds: Int
    let tokenSeconds: Int
    let loadSeconds: Int
    let pause: Duration

    func run() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "\(tokenSeconds)s")
        let witness = try TokenWitness()
        let lanyard = try await LanyardProcess.start(emulator, upstream: witness.server.endpoint)
        try await lanyard.untilReady()
        try await emulator.control("POST", "/delays", #"{"route":"refresh","milliseconds":\#(delayMilliseconds)}"#)
        let loop = ClosedLoop(clients: 50, lanyard.data, "/", pause: pause)
        try await Task.sleep(for: .seconds(loadSeconds))
        let tally = try await loop.stop()
        // No refresh falls between the two readings.
        #expect(try await lanyard.process.terminate() == .code(143))
        let counts = try await emulator.control("GET", "/counts")
        let issued = try await emulator.issued()
        #expect(tally.failed == 0, "\(tally.failures.first ?? "")\n\(lanyard.process.log(of: "session."))")
        #expect(tally.requests > (Sanitizer.isOn ? 10 : 50) * loadSeconds)
        #expect(witness.withoutToken == 0)
        #expect(witness.expiredUses(issued: issued) == [])
        RefreshWindows(tokenSeconds: tokenSeconds, loadSeconds: loadSeconds).expectOneCallEach(counts["routes"], issued)
    }
}
