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
            delayMilliseconds: delay, tokenSeconds: 10, windows: LongSize.of(8, least: 1)
        ).run()
    }

    @Test("two users whom two processes refresh at once both keep their newest token")
    func users() async throws {
        // One-use tokens: a lost rotation would end the session at the next refresh.
        let refreshes = LongSize.of(20, least: 4)
        let emulator = try await EmulatorProcess.start(
            tokens: EmulatorProcess.life(seconds: 4), arguments: ["--rotation", "one_use"])
        let device = try await Device.make(emulator, rotation: "one_use")
        let one = try await device.start("one"), two = try await device.start("two")
        try await one.untilReady()
        try await two.untilReady()
        let loops = [one, two].flatMap { running in
            ["/as/alice", "/as/bob"].map { ClosedLoop(clients: 2, running.data, $0, pause: .milliseconds(10)) }
        }
        func ledger(_ user: Device.User) async throws -> JSON {
            try await emulator.control("GET", "/ledger")["accounts"][user.email]
        }
        let tallies = try await loops.run(untilEach: "refresh of both users", times: refreshes, requests: 100) {
            min(
                try await ledger(Device.alice)["refreshes"].int ?? 0, try await ledger(Device.bob)["refreshes"].int ?? 0
            )
        }
        for tally in tallies {
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
        for user in [Device.alice, Device.bob] {
            let sum = try await ledger(user)
            #expect(sum["logins"]["local-userpass"].int == 1 && sum["family_kills"].int == 0, "\(user.name): \(sum)")
        }
    }
}

/// Clients in closed loop through two processes that share a store.
struct SharedLoad {
    let delayMilliseconds: Int
    let tokenSeconds: Int
    /// How often the token is renewed under the load. A minute of 10-second tokens has room for 8 windows.
    let windows: Int

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
        let clients = 20
        // The upstream has got each new token.
        let tallies = try await running.map { ClosedLoop(clients: clients, $0.data, "/") }.run(
            untilEach: "refresh", times: windows, requests: 2 * clients * tokenSeconds
        ) { witness.sightings.count }
        for (tally, lanyard) in zip(tallies, running) {
            #expect(tally.failed == 0, "\(tally.failures.first ?? "")\n\(lanyard.process.log(of: "session."))")
            #expect(tally.requests > clients * windows)
        }
        // No refresh falls between the two readings.
        for lanyard in running { #expect(try await lanyard.process.terminate() == .code(143)) }
        let counts = try await emulator.control("GET", "/counts")["routes"]
        let issued = try await emulator.issued()
        #expect(witness.withoutToken == 0)
        #expect(witness.expiredUses(issued: issued) == [])
        #expect(counts["refresh"]["by_status"].object.keys.allSatisfy { $0 == "201" }, "\(counts["refresh"])")
        RefreshWindows(tokenSeconds: tokenSeconds).expectOneCallEach(counts, issued)
    }
}
