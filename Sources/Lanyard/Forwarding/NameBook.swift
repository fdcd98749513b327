/// What is known of an upstream's name, as decisions: when to ask again, and which answer serves meanwhile (architecture.md 2.6).
///
/// An answer serves for `refresh`. One that is in use is asked anew before that time is over, so that no request waits for a name server; one
/// that is older is waited for. A question that fails leaves the old answer in use.
package struct DNSCache: Equatable, Sendable {
    package enum Action: Equatable, Sendable {
        /// Dial these; with `asks`, a new question goes out beside it.
        case use([SocketAddress], startsLookup: Bool)
        /// Wait for an answer; without `asks`, of a question that is under way.
        case wait(startsLookup: Bool)
    }

    /// A question that failed is not repeated for so long, or for a quarter of `refresh` if that is shorter.
    private static let retryDelayMax = Duration.seconds(5)

    private let refresh: Duration
    package private(set) var addresses: [SocketAddress] = []
    /// When the present answer was asked for.
    private var lookedUpAt = Instant.past
    /// No question before this: one has failed, or is late.
    private var retryAt = Instant.past
    private var isLookingUp = false

    /// - Parameter refresh: `upstream_dns.refresh`.
    package init(refresh: Duration) { self.refresh = refresh }

    /// When the answer in use should be asked anew.
    package var refreshAt: Instant { max(lookedUpAt + refresh * 3 / 4, retryAt) }

    /// Somebody wants to dial.
    package mutating func addressesNeeded(at now: Instant) -> Action {
        guard !addresses.isEmpty else { return .wait(startsLookup: startLookup(at: now)) }
        let isFresh = lookedUpAt + refresh > now
        if isFresh || retryAt > now { return .use(addresses, startsLookup: now >= refreshAt && startLookup(at: now)) }
        return .wait(startsLookup: startLookup(at: now))
    }

    /// Connections to the name are open: true if a question is to go out now.
    package mutating func beginRefreshIfDue(at now: Instant) -> Bool { now >= refreshAt && startLookup(at: now) }

    /// An answer that is awaited is late: the old one serves, if there is one, and for a while nobody waits.
    package mutating func lookupTimedOut(at now: Instant) -> [SocketAddress] {
        if !addresses.isEmpty { retryAt = now + retryDelay }
        return addresses
    }

    /// The question that was asked at `askedAt` is answered.
    ///
    /// - Returns: whether the set of addresses has changed; their order says nothing.
    package mutating func lookupSucceeded(_ found: [SocketAddress], startedAt: Instant) -> Bool {
        isLookingUp = false
        (lookedUpAt, retryAt) = (startedAt, .past)
        let isSame = found.count == addresses.count && found.allSatisfy(addresses.contains)
        addresses = found
        return !isSame
    }

    /// The question has failed. A name that never had an answer is asked again by whoever wants it next.
    package mutating func lookupFailed(at now: Instant) {
        isLookingUp = false
        if !addresses.isEmpty { retryAt = now + retryDelay }
    }

    private var retryDelay: Duration { min(refresh / 4, Self.retryDelayMax) }

    private mutating func startLookup(at now: Instant) -> Bool {
        guard !isLookingUp else { return false }
        isLookingUp = true
        return true
    }
}
