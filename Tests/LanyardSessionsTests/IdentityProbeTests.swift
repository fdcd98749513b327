import LanyardSessionInterface
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessions
@testable import LanyardSettings

@Suite("refresh.md 4: one call a second asks whether an identity service is back")
struct IdentityProbeTests {
    private static let policy = ClockPolicy(RefreshSettings())

    private static func context(_ seconds: Double, _ chance: Double, _ name: UInt64 = 7) -> EventContext {
        EventContext(
            instant: Instant(nanoseconds: 1) + .seconds(seconds), wall: WallTime(seconds: 1), chance: chance, name: name
        )
    }

    private static func error(_ retryAfter: Duration? = nil) -> IdentityError {
        IdentityError(.transient(retryAfter: retryAfter), message: "planned")
    }

    @Test(
        "a probe follows the latest attempt of any session after 0.75 to 1.25 s", arguments: [(0, 0.75), (0.999, 1.25)])
    func interval(_ chance: Double, _ seconds: Double) {
        var probe = IdentityProbe()
        probe.isArmed = true
        probe.recordFailure(Self.error(), by: Self.policy, at: Self.context(10, chance))
        #expect(probe.next(of: 3, inFlight: 0, by: Self.policy, at: Self.context(10.7, chance)) == nil)
        #expect(probe.next(of: 3, inFlight: 0, by: Self.policy, at: Self.context(10 + seconds, chance)) == 1)
        #expect(probe.next(of: 3, inFlight: 0, by: Self.policy, at: Self.context(10 + seconds, chance)) == nil)
        #expect(abs((probe.nextAt - Self.context(10 + 2 * seconds, 0).instant).inSeconds) < 0.01)
    }

    @Test("the service's Retry-After holds for all sessions, for 30 s at most")
    func retryAfter() {
        var probe = IdentityProbe()
        probe.recordFailure(Self.error(.seconds(20)), by: Self.policy, at: Self.context(0, 0))
        #expect(probe.nextAt == Self.context(20, 0).instant)
        probe.recordFailure(Self.error(.seconds(3600)), by: Self.policy, at: Self.context(1, 0))
        #expect(probe.nextAt == Self.context(31, 0).instant)
        probe.recordFailure(Self.error(), by: Self.policy, at: Self.context(2, 0))
        #expect(probe.nextAt == Self.context(31, 0).instant)
        var lost = IdentityError(.unknownOutcome, message: "planned")
        lost.retryAfter = .seconds(25)
        probe.recordFailure(lost, by: Self.policy, at: Self.context(20, 0))
        #expect(probe.nextAt == Self.context(45, 0).instant)
    }

    @Test("with four attempts in progress, or without a request, no session asks")
    func none() {
        var probe = IdentityProbe()
        probe.isArmed = true
        #expect(probe.next(of: 2, inFlight: 4, by: Self.policy, at: Self.context(1, 0)) == nil)
        #expect(probe.isArmed && probe.nextAt > Self.context(1, 0).instant)
        #expect(probe.next(of: 0, inFlight: 0, by: Self.policy, at: Self.context(9, 0)) == nil)
        #expect(!probe.isArmed)
    }

    @Test(
        "a response that only an operator can mend is not asked for each second",
        arguments: [
            (503, nil, true), (nil, nil, true), (404, .noEndpoint, false), (302, .noEndpoint, false), (410, nil, false),
        ]
            as [(Int?, IdentityCause?, Bool)])
    func operatorsOnly(_ status: Int?, _ cause: IdentityCause?, _ mayProbe: Bool) {
        var error = IdentityError(.transient(retryAfter: nil), status: status, message: "planned")
        error.cause = cause
        let call = SessionCall(
            number: 1, kind: .login, cause: .start, startedAt: .past, startedAtWall: WallTime(seconds: 1))
        let context = Self.context(10, 0.5)
        let rest = RetryState(calling: call).failed(error, holding: nil, by: Self.policy, at: context)
        #expect(rest.mayProbe(at: context.instant + .seconds(60)) == mayProbe)
    }

    @Test("released sessions follow 20 ms apart")
    func spread() {
        let delays = (0..<100).map { IdentityProbe.releaseDelay($0, by: Self.policy, at: Self.context(0, 0.5)) }
        #expect(delays.first == .milliseconds(10) && delays.last == .milliseconds(1990))
    }
}
