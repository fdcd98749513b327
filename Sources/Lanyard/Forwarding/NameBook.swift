/// What is known of an upstream's name, as decisions: when to ask again, and which answer serves meanwhile (architecture.md 2.6).
///
/// An answer serves for `refresh`. One that is in use is asked anew before that time is over, so that no request waits for a name server; one
/// that is older is waited for. A question that fails leaves the old answer in use.
package struct NameBook: Equatable, Sendable {
    package enum Step: Equatable, Sendable {
        /// Dial these; with `asks`, a new question goes out beside it.
        case use([SocketAddress], asks: Bool)
        /// Wait for an answer; without `asks`, of a question that is under way.
        case wait(asks: Bool)
    }

    /// A question that failed is not repeated for so long, or for a quarter of `refresh` if that is shorter.
    private static let pauseMost = Duration.seconds(5)

    private let refresh: Duration
    package private(set) var addresses: [SocketAddress] = []
    /// When the present answer was asked for.
    private var answeredAt = Instant.past
    /// No question before this: one has failed, or is late.
    private var pausedUntil = Instant.past
    private var isAsking = false

    /// - Parameter refresh: `upstream_dns.refresh`.
    package init(refresh: Duration) { self.refresh = refresh }

    /// When the answer in use should be asked anew.
    package var askAt: Instant { max(answeredAt + refresh * 3 / 4, pausedUntil) }

    /// Somebody wants to dial.
    package mutating func wanted(at now: Instant) -> Step {
        guard !addresses.isEmpty else { return .wait(asks: ask(at: now)) }
        let isFresh = answeredAt + refresh > now
        if isFresh || pausedUntil > now { return .use(addresses, asks: now >= askAt && ask(at: now)) }
        return .wait(asks: ask(at: now))
    }

    /// Connections to the name are open: true if a question is to go out now.
    package mutating func inUse(at now: Instant) -> Bool { now >= askAt && ask(at: now) }

    /// An answer that is awaited is late: the old one serves, if there is one, and for a while nobody waits.
    package mutating func late(at now: Instant) -> [SocketAddress] {
        if !addresses.isEmpty { pausedUntil = now + pause }
        return addresses
    }

    /// The question that was asked at `askedAt` is answered.
    ///
    /// - Returns: whether the set of addresses has changed; their order says nothing.
    package mutating func answered(_ found: [SocketAddress], askedAt: Instant) -> Bool {
        isAsking = false
        (answeredAt, pausedUntil) = (askedAt, .past)
        let isSame = found.count == addresses.count && found.allSatisfy(addresses.contains)
        addresses = found
        return !isSame
    }

    /// The question has failed. A name that never had an answer is asked again by whoever wants it next.
    package mutating func failed(at now: Instant) {
        isAsking = false
        if !addresses.isEmpty { pausedUntil = now + pause }
    }

    private var pause: Duration { min(refresh / 4, Self.pauseMost) }

    private mutating func ask(at now: Instant) -> Bool {
        guard !isAsking else { return false }
        isAsking = true
        return true
    }
}
