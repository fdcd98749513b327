import FleetSimulation
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions

/// The edges are listed once, for the simulation that must take each of them. Here each event is sent in each state.
@Suite("Session: edges")
struct SessionEdgeTests {
    private static let verdicts: [IdentityError.Verdict] = [
        .transient(retryAfter: nil), .transient(retryAfter: .seconds(60)), .unknownOutcome, .sessionDead,
        .credentialRefused, .credentialDoubted, .credentialUnavailable, .credentialDelayed, .unknownApp,
        .accountInUse, .gone,
    ]

    private static func tokens(_ lifetime: Duration, refresh: String?, at driver: SessionDriver) -> SessionTokens {
        SessionTokens(
            SessionDriver.grant(lifetime, refresh: refresh), generation: 9, accountID: "a", account: .none,
            startedAt: driver.now, startedAtWall: driver.wall, keeping: (nil, nil), skew: .zero,
            settings: driver.context.settings)
    }

    private static func events(for driver: SessionDriver) -> [Session.Event] {
        let eventContext = EventContext(instant: driver.now, wall: driver.wall, chance: 0.5)
        var context = driver.context
        let asked = context.begin(.login, .asked, at: eventContext)
        let error = IdentityError(.transient(retryAfter: nil), message: "planned")
        let grants = [Duration.seconds(1800), .zero].map { SessionDriver.grant($0, refresh: "new", account: "a") }
        var events: [Session.Event] = [
            .logIn, .due, .ended(reason: "elsewhere"), .tokenNeeded, .logOut, .refreshNow(.asked),
            .credentialChanged, .clockJumped, .tokenRefused(driver.tokens?.generation ?? 0), .limited(error),
            .limited(IdentityError(.transient(retryAfter: .seconds(40)), message: "planned")),
        ]
        events += grants.map { .loggedIn($0, asked) }
        if let call = driver.call {
            events += grants.map { .granted($0, call) }
            events += verdicts.map { .failed(IdentityError($0, message: "planned"), call) }
            events.append(.abandoned(error, call))
        }
        for lifetime in [Duration.seconds(1800), .zero] {
            for refresh in ["new", nil] {
                for isTrusted in [true, false] {
                    let how = Session.Restoration(isTrusted: isTrusted, isUrgent: false, spread: 0, isAdopted: true)
                    events.append(.restored(tokens(lifetime, refresh: refresh, at: driver), how))
                }
            }
        }
        return events
    }

    /// Before the event: what else may have happened in the same state.
    private static let preparations: [(String, @Sendable (SessionDriver) throws -> Void)] = [
        ("at once", { _ in }),
        ("two hours later", { $0.pass(7200) }),
        ("with an attempt in progress", { attempt(of: $0) }),
        ("with the login after a dead refresh token", { try login(of: $0) }),
        (
            "and a changed credential",
            { driver in
                try login(of: driver)
                driver.context.noteChangedCredential()
            }
        ),
        (
            "with a Retry-After of the service",
            { driver in
                let error = IdentityError(.transient(retryAfter: .seconds(60)), message: "planned")
                driver.context.recordRetryAfter(
                    RetryState(waitingUntil: driver.now + .seconds(60), because: error), error)
            }
        ),
    ]

    private static func attempt(of driver: SessionDriver) {
        if driver.call == nil, driver.due < .never { driver.toDue() }
    }

    private static func login(of driver: SessionDriver) throws {
        attempt(of: driver)
        if driver.call?.kind == .refresh, driver.context.hasCredential { try driver.fail(.sessionDead) }
    }

    @Test("no event takes an edge that is not listed", arguments: SessionState.allCases, [true, false])
    func closed(_ state: SessionState, _ hasCredential: Bool) throws {
        var seen: Set<FleetReport.Edge> = []
        for (name, prepare) in Self.preparations {
            var place = 0
            while true {
                let driver = try SessionTransitionTests.driver(in: state, hasCredential: hasCredential)
                try prepare(driver)
                let events = Self.events(for: driver)
                guard driver.state == state, place < events.count else { break }
                driver.handle(events[place])
                let edge = FleetReport.Edge.possible.first { $0.from == state && $0.to == driver.state }
                #expect(
                    edge != nil || driver.state == state, "\(state) -> \(driver.state) by \(events[place]) \(name)")
                if let edge { seen.insert(edge) }
                place += 1
            }
        }
        // Without a credential there is no such state, nor a login to be refused.
        #expect(seen.count >= 3 || state == .loggingIn && !hasCredential)
        if hasCredential, [.refreshing, .stale, .unreachable].contains(state) {
            #expect(seen.contains { $0.to == .loggingIn }, "no credential was mended during a login")
            #expect(seen.contains { $0.to == .refused })
        }
    }

    @Test(
        "nine edges are not listed: to stale without a call and a token, and between states that a credential separates"
    )
    func missing() {
        let all = SessionState.allCases.flatMap { from in SessionState.allCases.map { (from, $0) } }
        let missing = all.filter { from, to in
            from != to && !FleetReport.Edge.possible.contains { $0.from == from && $0.to == to }
        }
        let toStale: [SessionState] = [.loggedOut, .loggingIn, .valid, .unreachable, .loginRequired, .refused]
        let apart: [(SessionState, SessionState)] = [
            (.loggingIn, .loginRequired), (.loginRequired, .loggingIn), (.loginRequired, .refused),
        ]
        #expect(missing.count == 9)
        #expect(
            missing.allSatisfy { edge in toStale.contains(edge.0) && edge.1 == .stale || apart.contains { $0 == edge } }
        )
    }
}
