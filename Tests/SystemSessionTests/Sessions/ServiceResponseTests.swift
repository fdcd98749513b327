import TestSupport
import Testing

@testable import SystemTestSupport

/// "The service said something strange": what its responses to a refresh do, and what an operator sees of it.
@Suite struct ServiceResponseTests {
    struct BadResponse: Sendable, CustomTestStringConvertible {
        let name: String
        let fault: String
        /// Of the response to the operator who asked for the refresh.
        var status = 503
        let words: String
        var reason = "refresh_failing"
        /// Seconds until the next call, at least.
        var pause = 0.0

        var testDescription: String { name }

        static let all = [
            BadResponse(name: "a page of a captive portal", fault: #""html""#, words: "cannot be used"),
            BadResponse(name: "a success that breaks off", fault: #""malformed""#, words: "cannot be used"),
            BadResponse(name: "500", fault: #""server_error""#, words: "responded with 500"),
            BadResponse(
                name: "503 with Retry-After", fault: #""unavailable","retry_after":3"#, words: "responded with 503",
                pause: 3),
            BadResponse(
                name: "429 with Retry-After", fault: #""too_many_requests","retry_after":3"#,
                words: "responded with 429",
                pause: 3),
            BadResponse(
                name: "410", fault: #""gone""#, status: 410, words: "it has ended; check base_url",
                reason: "identity_gone", pause: 280),
        ]
    }

    private static func start(
        rotation: String = "none", tokens: String = "30m"
    ) async throws -> (emulator: EmulatorProcess, running: DeviceProcess, clock: TestClock) {
        let clock = try TestClock()
        let emulator = try await EmulatorProcess.start(
            tokens: tokens, under: clock, arguments: ["--rotation", rotation])
        let device = try await Device.make(emulator, users: [Device.alice], rotation: rotation, under: clock)
        let running = try await device.start()
        try await running.untilReady()
        return (emulator, running, clock)
    }

    @Test(
        "a response that is none leaves the session as it is, is told, and ends by itself",
        arguments: BadResponse.all)
    func bad(_ bad: BadResponse) async throws {
        let (emulator, running, clock) = try await Self.start()
        let generation = try await running.admin.status()["alice"]?.generation ?? 0
        try await emulator.control("POST", "/faults", #"{"route":"refresh","fault":\#(bad.fault)}"#)
        let response = try await running.admin.ask("POST", "/v1/users/alice/refresh")
        #expect(response.status == bad.status, "\(response.bodyText)")
        let line = try await running.process.event("session.refresh.failed")
        #expect(line["error"].string?.contains(bad.words) == true && line["next_at"].string != nil, "\(line)")

        let user = try await running.admin.call("GET", "/v1/users/alice")
        #expect(user["session"].string == "stale")
        #expect(user["last_error"].string?.contains(bad.words) == true)
        let ready = try await RawClient.ask(running.health, "GET", "/readyz/alice")
        let reason = try ready.json["checks"][0]["reason"].string
        #expect(ready.status == 200 && reason == bad.reason)
        #expect(try await running.metric("lanyard_session_state", ["user": "alice", "state": "stale"]) == 1)
        #expect(try await running.account(at: "/") == user["user_id"].string)

        if bad.pause > 60 {
            let next = try #require(Timestamps.seconds(line["next_at"])) - clock.now
            #expect(bad.pause - 5...320 ~= next, "\(next)")
            try await emulator.control("DELETE", "/faults")
            try await running.admin.call("POST", "/v1/users/alice/refresh")
        } else {
            try await clock.pass(until: "it was tried again", atMost: .seconds(60), grain: .milliseconds(500)) {
                try await emulator.calls("refresh") >= 2
            }
            try await emulator.control("DELETE", "/faults")
        }
        try await clock.pass(until: "a new token", atMost: .seconds(60), grain: .milliseconds(500)) {
            try await running.admin.status()["alice"].map { $0.session == "valid" && $0.generation > generation }
                ?? false
        }
        #expect(try await running.admin.status()["alice"]?.lastError == nil)
        #expect(try await emulator.calls("login") == 1)
        let times = try await emulator.control("GET", "/journal").array.filter { $0["route"].string == "refresh" }
            .compactMap { $0["arrived_at"].double }
        if 1...60 ~= bad.pause {
            for (one, next) in zip(times, times.dropFirst()) { #expect(next - one >= bad.pause - 0.1) }
        }
        #expect(try await running.process.terminate() == .code(143))
    }

    @Test(
        "a refresh whose response is lost is repeated once after 2 s, or, where a repetition would end the session, never",
        arguments: ["none", "grace", "one_use"])
    func unknownOutcome(_ rotation: String) async throws {
        let (emulator, running, clock) = try await Self.start(rotation: rotation)
        let account = try await running.account(at: "/")
        try await emulator.control("POST", "/faults", #"{"route":"refresh","fault":"answer_closed","times":1}"#)
        let response = try await running.admin.ask("POST", "/v1/users/alice/refresh")
        // Where nothing is repeated the login follows at once, and its token is the response.
        #expect(response.status == (rotation == "one_use" ? 200 : 503), "\(response.bodyText)")
        if rotation != "one_use" {
            #expect(UsersBench.problem(response) == "identity-unreachable")
            let line = try await running.process.event("session.refresh.failed")
            #expect(line["error"].string?.contains("no response of the identity service to the refresh") == true)
        }
        try await clock.pass(until: "a new token", atMost: .seconds(60), grain: .milliseconds(500)) {
            #expect(try await running.account(at: "/") == account)
            return try await running.admin.status()["alice"].map { $0.session == "valid" && $0.generation == 2 }
                ?? false
        }
        let total = try await emulator.control("GET", "/ledger")["total"]
        #expect(total["family_kills"].int == 0 && total["calls_of_dead_sessions"].int == 0, "\(total)")
        let calls = try await emulator.control("GET", "/journal").array.filter { $0["route"].string == "refresh" }
        if rotation == "one_use" {
            let line = try await running.process.event("session.refresh.outcome_unknown")
            #expect(line["reason"].string == "outcome_unknown")
            #expect(calls.count == 1 && total["logins"]["local-userpass"].int == 2, "\(total)")
        } else {
            #expect(calls.count == 2 && total["logins"]["local-userpass"].int == 1, "\(total)")
            let times = calls.compactMap { $0["arrived_at"].double }
            #expect(times.count == 2 && times[1] - times[0] >= 1.9, "\(times)")
            #expect(total["repeats_within_grace"].int == (rotation == "grace" ? 1 : 0), "\(total)")
        }
        #expect(try await running.process.terminate() == .code(143))
    }

    @Test("a service whose clock is off is still served, and shown", arguments: [120, -120])
    func skewed(_ offset: Int) async throws {
        let clock = try TestClock()
        let emulator = try await EmulatorProcess.start(tokens: "30m", under: clock)
        try await emulator.control("PUT", "/settings", #"{"clock_offset_seconds":\#(offset)}"#)
        let device = try await Device.make(emulator, users: [Device.alice], under: clock)
        let running = try await device.start()
        try await running.untilReady()
        try await running.process.event("session.clock.skewed")
        let check = try await running.check("clock")
        #expect(check["ok"].bool == false && check["reason"].string == "clock_off")
        let skew = try await running.metric("lanyard_clock_skew_seconds") ?? 0
        #expect(115...125 ~= abs(skew), "\(skew)")
        try await clock.pass(until: "two refreshes, and no request refused", grain: .seconds(60)) {
            #expect(try await running.account(at: "/") != nil)
            return try await emulator.calls("refresh") >= 2
        }
        #expect(try await emulator.calls("login") == 1)
        #expect(try await RawClient.ask(running.health, "GET", "/readyz").status == 200)
        #expect(try await running.process.terminate() == .code(143))
    }
}
