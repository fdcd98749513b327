import LanyardFoundations
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
        return verdicts(users, settings).last
    }

    /// The exit statuses, after each user of the list has come into its state, in its order.
    private static func verdicts(_ users: [User], _ settings: LoginSettings) -> [Int32] {
        let statuses = Statuses()
        var start = StartupCheck(settings) { statuses.add($0) }
        for place in users.indices { start.expect(UserIndex(place)) }
        for (place, user) in users.enumerated() { record(user, at: place, in: &start) }
        return statuses.all
    }

    private final class Statuses: Sendable {
        private let box = Guarded<[Int32]>([])
        var all: [Int32] { box.withLock { $0 } }
        func add(_ status: Int32) { box.withLock { $0.append(status) } }
    }

    private static func record(_ user: User, at place: Int, in start: inout StartupCheck) {
        start.record(UserIndex(place), user.state, user.reason, hasBeenReady: user.hasBeenReady)
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
        #expect(Self.verdicts([Self.ready, Self.refused], settings).isEmpty)
        let statuses = Statuses()
        var start = StartupCheck(settings) { statuses.add($0) }
        start.expect(UserIndex(0))
        for _ in 0..<2 { Self.record(Self.refused, at: 0, in: &start) }
        #expect(statuses.all == [77] && start.hasEnded)
    }

    @Test("a user that is not expected or is removed does not count; a new try of a credential opens the start")
    func others() {
        var settings = LoginSettings()
        settings.exitOnRefusal = true
        let statuses = Statuses()
        var start = StartupCheck(settings) { statuses.add($0) }
        for place in 0..<3 { start.expect(UserIndex(place)) }
        Self.record(Self.refused, at: 7, in: &start)
        Self.record(Self.refused, at: 0, in: &start)
        Self.record(Self.trying, at: 0, in: &start)
        start.forget(UserIndex(2))
        Self.record(Self.refused, at: 1, in: &start)
        #expect(statuses.all.isEmpty)
        Self.record(Self.refused, at: 0, in: &start)
        #expect(statuses.all == [77])
    }
}
