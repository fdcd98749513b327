import TestSupport
import Testing

@testable import SystemTestSupport

/// "Two Lanyards on one store are one session."
@Suite(.serialized) struct LongSharedStoreTests {
    @Test(
        "two processes on one store make one refresh call per window, however slow the response, and none is refused",
        arguments: [0, 50, 3000])
    func load(delay: Int) async throws {
        try await SharedLoad(
            delayMilliseconds: delay, tokenSeconds: 10, loadSeconds: LongSize.of(60, least: 13)
        ).run()
    }

    @Test("two users whom two processes refresh at once both keep their newest token")
    func users() async throws {
        // One-use tokens: a lost rotation would end the session at the next refresh.
        let seconds = LongSize.of(60, least: 12)
        let emulator = try await EmulatorProcess.start(
            tokens: EmulatorProcess.life(seconds: 4), arguments: ["--rotation", "one_use"])
        let device = try await Device.make(emulator, rotation: "one_use")
        let one = try await device.start("one"), two = try await device.start("two")
        try await one.untilReady()
        try await two.untilReady()
        let loops = [one, two].flatMap { running in
            ["/as/alice", "/as/bob"].map { ClosedLoop(clients: 2, running.data, $0, pause: .milliseconds(10)) }
        }
        try await Task.sleep(for: .seconds(seconds))
        for loop in loops {
            let tally = try await loop.stop()
            #expect(tally.failed == 0, "\(tally.failures.first ?? "")\n\(one.process.log)\n\(two.process.log)")
        }
        for running in [one, two] { #expect(try await running.process.terminate() == .code(143)) }
        let again = try await device.start("one")
        for user in [Device.alice, Device.bob] {
            try await eventually("\(user.name) is served again") {
                try await again.account(at: "/as/\(user.name)") != nil
            }
            try await again.admin.call("POST", "/v1/users/\(user.name)/refresh")
        }
        let statistics = try await emulator.control("GET", "/ledger")
        for user in [Device.alice, Device.bob] {
            let sum = statistics["accounts"][user.email]
            #expect(sum["logins"]["local-userpass"].int == 1 && sum["family_kills"].int == 0, "\(user.name): \(sum)")
            #expect(sum["refreshes"].int ?? 0 >= seconds / 4, "\(user.name): \(sum)")
        }
    }
}

/// Clients in closed loop through two processes that share a store.
struct SharedLoad {
    let delayMilliseconds: Int
    let tokenSeconds: Int
    let loadSeconds: Int

    func run() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "\(tokenSeconds)s")
        let witness = try TokenWitness()
        let device = try await Device.make(emulator, users: [Device.alice])
        let one = try device.launch("one", upstream: witness.server.endpoint)
        let two = try device.launch("two", upstream: witness.server.endpoint)
        let running = [
            try await DeviceProcess(one, AdminClient(endpoint: .unix(device.socketPath("one")))),
            try await DeviceProcess(two, AdminClient(endpoint: .unix(device.socketPath("two")))),
        ]
        for lanyard in running { try await lanyard.untilReady() }
        try await emulator.control("POST", "/delays", #"{"route":"refresh","milliseconds":\#(delayMilliseconds)}"#)
        let loops = running.map { ClosedLoop(clients: 20, $0.data, "/") }
        try await Task.sleep(for: .seconds(loadSeconds))
        for (loop, lanyard) in zip(loops, running) {
            let tally = try await loop.stop()
            #expect(tally.failed == 0, "\(tally.failures.first ?? "")\n\(lanyard.process.log(of: "session."))")
            #expect(tally.requests > 20 * loadSeconds)
        }
        // No refresh falls between the two readings.
        for lanyard in running { #expect(try await lanyard.process.terminate() == .code(143)) }
        let counts = try await emulator.control("GET", "/counts")["routes"]
        let issued = try await emulator.issued()
        #expect(witness.withoutToken == 0)
        #expect(witness.expiredUses(issued: issued) == [])
        #expect(counts["refresh"]["by_status"].object.keys.allSatisfy { $0 == "201" }, "\(counts["refresh"])")
        RefreshWindows(tokenSeconds: tokenSeconds, loadSeconds: loadSeconds).expectOneCallEach(counts, issued)
    }
}
