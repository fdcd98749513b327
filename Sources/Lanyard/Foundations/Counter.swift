import Synchronization

/// A number that one queue increments and any thread may read: plain loads and stores, no locked instruction.
///
/// Only its own queue calls `add`; a second writer would lose counts.
package final class Counter: Sendable {
    private let number = Atomic<Int>(0)

    package init() {}

    /// Counts on the counter's queue. Negative amounts make it a gauge.
    package func add(_ amount: Int = 1) {
        number.store(number.load(ordering: .relaxed) &+ amount, ordering: .relaxed)
    }

    /// The value, from anywhere.
    package var value: Int { number.load(ordering: .relaxed) }
}
