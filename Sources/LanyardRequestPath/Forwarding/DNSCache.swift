import LanyardFoundations

/// The addresses of one upstream name, with the decisions when to look them up again and which ones to use until then
/// (architecture.md 2.6).
///
/// Addresses are used for `refresh`. Those in use are looked up again before that time has passed, so that no request
/// waits for a name server. Older addresses are not used before a new lookup has ended or is late. A lookup that fails
/// leaves the old addresses in use.
package struct DNSCache: Equatable, Sendable {
    package enum Action: Equatable, Sendable {
        /// Connect to these. `startsLookup`: start a lookup as well.
        case use([SocketAddress], startsLookup: Bool)
        /// Wait for a lookup. `startsLookup`: start it; else one is in progress.
        case wait(startsLookup: Bool)
    }

    /// The delay after a failed lookup: this, or a quarter of `refresh` if that is shorter.
    private static let retryDelayMax = Duration.seconds(5)

    private let refresh: Duration
    package private(set) var addresses: [SocketAddress] = []
    /// When the lookup of the present addresses was started.
    private var lookedUpAt = Instant.past
    /// No lookup starts before this instant: one has failed or is late.
    private var retryAt = Instant.past
    private var isLookingUp = false

    /// - Parameter refresh: `upstream_dns.refresh`.
    package init(refresh: Duration) { self.refresh = refresh }

    /// When the addresses should be looked up again.
    package var refreshAt: Instant { max(lookedUpAt + refresh * 3 / 4, retryAt) }

    /// Addresses are needed for a new connection.
    package mutating func requireAddresses(at now: Instant) -> Action {
        guard !addresses.isEmpty else { return .wait(startsLookup: startLookup(at: now)) }
        let isFresh = lookedUpAt + refresh > now
        if isFresh || retryAt > now { return .use(addresses, startsLookup: now >= refreshAt && startLookup(at: now)) }
        return .wait(startsLookup: startLookup(at: now))
    }

    /// Connections to the name are open. True: start a lookup now.
    package mutating func beginRefreshIfDue(at now: Instant) -> Bool { now >= refreshAt && startLookup(at: now) }

    /// The lookup is late. Returns the old addresses, which are used for a while without waiting.
    package mutating func handleLookupTimeout(at now: Instant) -> [SocketAddress] {
        if !addresses.isEmpty { retryAt = now + retryDelay }
        return addresses
    }

    /// The lookup that was started at `startedAt` has succeeded.
    ///
    /// - Returns: whether the set of addresses has changed; their order does not matter.
    package mutating func handleLookup(_ found: [SocketAddress], startedAt: Instant) -> Bool {
        isLookingUp = false
        (lookedUpAt, retryAt) = (startedAt, .past)
        let isSame = found.count == addresses.count && found.allSatisfy(addresses.contains)
        addresses = found
        return !isSame
    }

    /// The lookup has failed. A name without addresses is looked up again at the next need.
    package mutating func handleLookupFailure(at now: Instant) {
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
