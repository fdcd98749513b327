import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardRequestPath
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// One session between a shard's token cache and a service of any behaviour, in virtual time; checks what must never
/// happen.
final class SessionSimulation: @unchecked Sendable {
    /// The service's behaviour in one call.
    struct Outcome {
        var latency: Double
        /// nil: the service grants the request.
        var verdict: IdentityError.Verdict?
    }

    struct Counts {
        var served = 0
        var waited = 0
        var refused: [SessionReason: Int] = [:]
        var timedOut = 0
        var calls = 0
        var mostCallsInAnHour = 0

        var failed: Int { timedOut + refused.values.reduce(0, +) }
    }

    let driver: SessionDriver
    let lifetime: Double
    private(set) var counts = Counts()
    /// Seconds between requests, on average.
    var requestInterval = 1.0
    /// Decides the behaviour of a call.
    var service: (SessionCall, inout SeededGenerator) -> Outcome = { _, _ in Outcome(latency: 0.05) }
    private lazy var observer = CacheObserver(self)
    private lazy var tokenCache = TokenCache(source: observer)
    private var numbers: SeededGenerator
    private var response: (at: Instant, event: Session.Event)?
    private var nextRequest: Instant
    private var parked: [Instant] = []
    private var isWoken = false
    private var asked = 0
    private var askedAt = (instant: Instant.past, times: 0)
    private var trueExpiries: [UInt64: Instant] = [:]
    private var grants: UInt64 = 0
    private var callTimes: [Instant] = []

    init(lifetime: Double, hasCredential: Bool = true, seed: UInt64) {
        self.lifetime = lifetime
        driver = SessionDriver(hasCredential: hasCredential, chance: nil, seed: seed)
        numbers = SeededGenerator(seed &+ 77)
        nextRequest = driver.now
        driver.onAction = { [unowned self] in perform($0) }
    }

    /// Runs for so many seconds. Gives the thread back now and then: emulators in this process live on the same pool.
    func run(_ seconds: Double) async {
        let end = driver.now + .seconds(seconds)
        var turns = 0
        while true {
            let timeout = parked.first.map { $0 + driver.context.settings.waitMax } ?? .never
            let next = [driver.due, response?.at ?? .never, nextRequest, timeout].min()!
            guard next <= end else { break }
            turns += 1
            if turns.isMultiple(of: 500) { await Task.yield() }
            if next > driver.now { driver.pass((next - driver.now).inSeconds) }
            // Rounding of seconds must not leave the clock short of a deadline.
            if next > driver.now { driver.now = next }
            if let response, response.at <= driver.now {
                self.response = nil
                driver.handle(response.event)
            } else if driver.due <= driver.now {
                driver.handle(.due)
                guard driver.due > driver.now else {
                    Issue.record("a deadline that has been handled stays due: the service would spin")
                    return
                }
            } else if nextRequest <= driver.now {
                nextRequest = driver.now + .seconds(requestInterval * 2 * numbers.chance() + 1e-6)
                request(since: driver.now)
            } else {
                parked.removeFirst()
                counts.timedOut += tokenCache.unexpiredToken(UserIndex(0), at: driver.now) == nil ? 1 : 0
            }
            settle()
        }
        driver.pass((end - driver.now).inSeconds)
    }

    /// Exchanges events between shard and session until neither has any.
    private func settle() {
        while asked > 0 || isWoken {
            if asked > 0 {
                asked -= 1
                driver.handle(.tokenNeeded)
            } else {
                isWoken = false
                let waiting = parked
                parked = []
                for since in waiting { request(since: since) }
            }
        }
    }

    private func request(since: Instant) {
        switch tokenCache.decide(UserIndex(0), at: driver.now) {
        case .use(let token):
            counts.served += 1
            if let expiry = trueExpiries[token.generation] {
                #expect(driver.now < expiry, "an expired token was handed out")
            } else {
                Issue.record("a token that the service did not grant")
            }
        case .park:
            if parked.isEmpty { tokenCache.park(observer, for: UserIndex(0)) }
            if since == driver.now { counts.waited += 1 }
            parked.append(since)
        case .refuse:
            counts.refused[driver.reason, default: 0] += 1
        case .replaced: Issue.record("there was no reload")
        }
    }

    private func perform(_ action: Session.Action) {
        switch action {
        case .login(let call), .refresh(_, let call): begin(call)
        case .publish(let news):
            if case .token(let token) = news {
                #expect(driver.now < token.usableUntil, "an expired token was published")
            }
            tokenCache.receive(news, for: UserIndex(0), heard: .none)
        case .revoke, .logEvent: break
        }
    }

    private func begin(_ call: SessionCall) {
        #expect(response == nil, "two calls in flight")
        counts.calls += 1
        callTimes.append(driver.now)
        callTimes.removeAll { driver.now - $0 > .seconds(3600) }
        counts.mostCallsInAnHour = max(counts.mostCallsInAnHour, callTimes.count)
        let outcome = service(call, &numbers)
        let at = driver.now + .seconds(outcome.latency)
        if let verdict = outcome.verdict {
            response = (at, .failed(IdentityError(verdict, message: "planned"), call))
        } else {
            // The service grants at some moment between request and response; the token's true life begins there.
            grants += 1
            trueExpiries[driver.context.generation.next.number] =
                driver.now + .seconds(outcome.latency * numbers.chance() + lifetime)
            let refresh = call.kind == .login ? "refresh" : nil
            response = (
                at, .granted(SessionDriver.grant(.seconds(lifetime), refresh: refresh, account: "a"), call)
            )
        }
    }

    // MARK: The shard's side

    /// The observer of the cache. It does not hold the simulation, which holds the cache.
    private final class CacheObserver: TokenSource, TokenCache.Waiter, @unchecked Sendable {
        private unowned let simulation: SessionSimulation

        init(_ simulation: SessionSimulation) { self.simulation = simulation }

        func tokenNeeded(by user: UserIndex) { simulation.tokenNeeded() }
        func tokenRefused(by user: UserIndex, generation: UInt64, number: RefusalNumber) {
            Issue.record("no upstream refuses here")
        }
        func handleTokenCacheChange() { simulation.isWoken = true }
    }

    private func tokenNeeded() {
        asked += 1
        askedAt = askedAt.instant == driver.now ? (driver.now, askedAt.times + 1) : (driver.now, 1)
        #expect(askedAt.times < 10, "shard and session keep each other busy")
        if askedAt.times > 1000 { asked = 0 }
    }
}
