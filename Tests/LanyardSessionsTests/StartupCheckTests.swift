import Testing

@testable import LanyardSessions
@testable import LanyardSettings

@Suite("Startup check: starts that fail")
struct StartupCheckTests {
    private typealias User = (state: SessionState, reason: SessionReason, hasBeenReady: Bool)

    private static let refused: User = (.refused, .credentialRefused, false)
    private static let trying: User = (.loggingIn, .loggingIn, false)
    private static let down: User = (.loggingIn, .identityUnreachable, false)
    private static let out: User = (.loggedOut, .loggedOut, false)
    private static let ready: User = (.valid, .tokenValid, true)
    private static let cached: User = (.unreachable, .identityUnreachable, false)

    private static func verdict(_ users: [User], refusal: Bool = true, unreachable: Bool = true) -> Int32? {
        var settings = LoginSettings()
        settings.exitOnRefusal = refusal
        settings.exitOnUnreachable = unreachable
        var start = StartupCheck(settings)
        return start.verdict(users)
    }

    @Test(
        "77 once every credential is refused, 75 once no first login is possible, nothing as long as one may still succeed"
    )
    func verdicts() {
        #expect(Self.verdict([Self.refused, Self.refused]) == 77)
        #expect(Self.verdict([Self.refused, Self.down]) == 75)
        #expect(Self.verdict([Self.down]) == 75)
        #expect(Self.verdict([Self.refused, Self.out]) == 77)
        for users in [
            [], [Self.out], [Self.refused, Self.trying], [Self.down, Self.trying], [Self.down, Self.ready],
        ] {
            #expect(Self.verdict(users) == nil)
        }
        // A stored session is no first login.
        #expect(Self.verdict([Self.cached]) == nil)
    }

    @Test("each exit has its own key")
    func keys() {
        #expect(Self.verdict([Self.refused], refusal: false) == nil)
        #expect(Self.verdict([Self.down], unreachable: false) == nil)
        #expect(Self.verdict([Self.refused, Self.down], unreachable: false) == nil)
    }

    @Test("after the first token the start has ended, and the verdict is given once")
    func once() {
        var settings = LoginSettings()
        settings.exitOnRefusal = true
        var start = StartupCheck(settings)
        #expect(start.verdict([Self.ready]) == nil && start.hasEnded)
        #expect(start.verdict([Self.refused]) == nil)
        var other = StartupCheck(settings)
        #expect(other.verdict([Self.refused]) == 77)
        #expect(other.verdict([Self.refused]) == nil)
    }
}
