import Synchronization

/// A number that all shards share and that may not grow beyond a limit: connections, parked requests.
package final class SharedLimit: Sendable {
    private let taken = Atomic<Int>(0)
    package let most: Int

    package init(_ most: Int) { self.most = most }

    /// Takes one if there is room.
    package func take() -> Bool {
        guard taken.add(1, ordering: .relaxed).newValue <= most else {
            taken.subtract(1, ordering: .relaxed)
            return false
        }
        return true
    }

    /// Returns how many are still taken.
    @discardableResult
    package func giveBack() -> Int { taken.subtract(1, ordering: .acquiringAndReleasing).newValue }

    /// How many are taken now.
    package var count: Int { taken.load(ordering: .relaxed) }
}
