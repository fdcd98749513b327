import TestSupport
import Testing

@testable import SystemTestSupport

/// Hours and weeks of one session through the built program.
@Suite struct SessionLifeTests {
    private static let day = 86_400.0

    @Test("30 days asleep between refreshes: an outage and the end of the refresh token cost no request")
    func month() async throws {
        let life = try await SessionLife(tokenSeconds: 4 * 3600, refreshTokens: "20d")
        let (clock, emulator) = (life.clock, life.emulator)
        let end = clock.now + 30 * Self.day
        var renewal = try await life.renewal(after: 0, atMost: .seconds(1))
        let first = renewal
        var sleeps = 0
        while renewal.dueAt < end {
            life.expectSchedule(renewal, refreshTokenEnd: first.at + 20 * Self.day)
            // The machine is asleep up to a second before.
            let asleep = Duration.seconds(renewal.dueAt - clock.now - 1)
            try await clock.pass(asleep, grain: asleep)
            sleeps += 1
            try await life.request()
            let isOutage = sleeps == 100
            if isOutage {
                // It ends a few minutes before the token.
                try await emulator.control("POST", "/faults", #"{"route":"refresh","fault":"unavailable"}"#)
                try await clock.pass(.seconds(50 * 60), grain: .seconds(34))
                try await life.request()
                try await emulator.control("DELETE", "/faults")
            } else {
                // One step. The log's time is up to a millisecond early.
                try await clock.pass(.seconds(1.05), grain: .seconds(1.05))
            }
            let next = try await life.renewal(after: renewal.generation, atMost: .seconds(isOutage ? 61 : 1))
            #expect(isOutage || -0.002...0.1 ~= next.at - renewal.dueAt, "renewed \(next.at - renewal.dueAt) s late")
            renewal = next
            try await life.request()
        }
        #expect(try await life.expiredUses() == [])
        #expect(life.requestCount == 2 * sleeps + 1 && renewal.generation == first.generation + sleeps)
        let tokens = 30 * Self.day / life.tokenSeconds
        #expect(tokens / 0.75 - 2...tokens / 0.65 ~= Double(sleeps))
        // When the refresh token had ended, the password logged in again.
        #expect(try await emulator.calls("login") == 2)
        #expect(life.count(of: "session.login.succeeded") == 2)
        #expect(life.count(of: "session.refresh_token.expiring") == 3)
        // The wait between two attempts is at most a minute.
        #expect(life.count(of: "session.refresh.failed") >= 45)
        // Each sleep is noticed, and nothing else.
        #expect(life.count(of: "clock.jumped") == sleeps)
        #expect(life.count(of: "session.expired") == 0 && life.count(of: "request.refused") == 0)
        try await life.end()
    }

    /// `LongSessionLifeTests` passes a month. A step is a dozen changes of thread, and each waits for a CPU beside other tests.
    @Test("six hours awake, with tokens of half an hour: each refresh comes in time, and the clocks never jump")
    func awake() async throws {
        let life = try await SessionLife(tokenSeconds: 1800, login: "anonymous: {}")
        try await life.passAwake(Self.day / 4)
        try await life.expectOrdinary(over: Self.day / 4)
        #expect(try await life.emulator.calls("login") == 1)
        try await life.end()
    }
}

/// The same month awake.
@Suite struct LongSessionLifeTests {
    @Test("30 days awake, with tokens of half an hour: the end of the refresh token costs no request")
    func month() async throws {
        let days = LongSize.of(30, least: 3)
        let life = try await SessionLife(tokenSeconds: 1800, refreshTokens: "\(days * 2 / 3)d")
        try await life.passAwake(Double(days) * 86_400)
        try await life.expectOrdinary(over: Double(days) * 86_400, refreshTokenDays: days * 2 / 3)
        #expect(try await life.emulator.calls("login") == 2)
        // The announcement of seven days needs a longer life.
        #expect(life.count(of: "session.refresh_token.expiring") == (days * 2 / 3 > 7 ? 3 : 2))
        try await life.end()
    }
}

extension SessionLife {
    /// Lanyard compares its clocks every 30 s, and takes 5 s more for a sleep of the machine.
    private static let grain = 34.0

    /// Passes time in steps that Lanyard does not take for a sleep. A request every quarter of an hour.
    fileprivate func passAwake(_ seconds: Double) async throws {
        var next = clock.now
        try await clock.pass(.seconds(seconds), grain: .seconds(Self.grain)) { [self] in
            guard clock.now >= next else { return }
            next += 900
            try await request()
        }
    }

    /// The next refresh is due after 65 to 75 % of the token's life, or at the refresh token's end if that is sooner.
    fileprivate func expectSchedule(_ renewal: Renewal, refreshTokenEnd: Double?) {
        let share = (renewal.dueAt - renewal.at) / tokenSeconds
        let isAtEnd = refreshTokenEnd.map { abs(renewal.dueAt - $0) < 1.1 } ?? false
        #expect(0.649...0.751 ~= share || isAtEnd, "due after \(share) of the token's life")
    }

    /// The session serves at the end, and Lanyard stops in order.
    fileprivate func end() async throws {
        #expect(try await lanyard.readiness().status == 200)
        clock.run()
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    /// Each refresh came once and in time, no token was used after its end, and nothing was refused or looked like a sleep.
    fileprivate func expectOrdinary(over seconds: Double, refreshTokenDays: Int? = nil) async throws {
        let renewals = renewals
        let refreshTokenEnd = refreshTokenDays.map { renewals[0].at + Double($0) * 86_400 }
        for (former, latter) in zip(renewals, renewals.dropFirst()) {
            expectSchedule(former, refreshTokenEnd: refreshTokenEnd)
            #expect(-0.002...Self.grain + 1 ~= latter.at - former.dueAt, "renewed \(latter.at - former.dueAt) s late")
        }
        let refreshes = Double(renewals.count - 1)
        #expect(
            seconds / (0.75 * tokenSeconds + Self.grain + 1) - 1...seconds / (0.65 * tokenSeconds) ~= refreshes,
            "\(refreshes) refreshes")
        #expect(try await expiredUses() == [])
        #expect(Double(requestCount) >= seconds / (900 + Self.grain))
        let events = Set(lanyard.process.lines.compactMap(\.event))
        #expect(
            events.isDisjoint(with: ["clock.jumped", "session.refresh.failed", "session.expired", "request.refused"]),
            "\(events)")
    }
}
