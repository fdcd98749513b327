import Synchronization

/// The number of an upstream's refusal that a token cache has reported to the session path. Each cache counts its own, from 1, whichever
/// users they are about.
///
/// The session path confirms the number in what it publishes (`HeardRefusals`). So the cache distinguishes the reply to its refusal from a
/// publication that has crossed it.
package struct RefusalNumber: Equatable, Sendable {
    private static let latestCache = Atomic<UInt64>(0)

    /// No two caches of the process have the same.
    fileprivate let cache: UInt64
    fileprivate let number: UInt64

    /// The number before the first refusal of another token cache. From any thread.
    package static func ofNewCache() -> RefusalNumber {
        RefusalNumber(cache: latestCache.add(1, ordering: .relaxed).newValue, number: 0)
    }

    /// The number of the same cache's next refusal.
    package var next: RefusalNumber { RefusalNumber(cache: cache, number: number + 1) }
}

/// The refusals that the session path has heard of: of each token cache, all up to a number.
///
/// A cache reports its refusals in order, and the session path hears of them in that order.
package struct HeardRefusals: Equatable, Sendable {
    /// No refusal has been heard of.
    package static let none = HeardRefusals()

    /// By `RefusalNumber.cache`.
    private var latest: [UInt64: UInt64] = [:]

    /// The session path has heard of this refusal.
    package mutating func record(_ refusal: RefusalNumber) {
        latest[refusal.cache] = max(latest[refusal.cache, default: 0], refusal.number)
    }

    /// Whether this refusal has been heard of.
    package func contains(_ refusal: RefusalNumber) -> Bool { refusal.number <= latest[refusal.cache, default: 0] }
}
