import LanyardFoundations

/// A number that several threads change.
package final class Tally: Sendable {
    private let box: Guarded<Int>

    package init(_ value: Int = 0) { box = Guarded(value) }

    package var value: Int { box.withLock { $0 } }
    package func add(_ amount: Int = 1) { box.withLock { $0 += amount } }
    /// Sets the number to the larger of itself and `value`.
    package func raise(to value: Int) { box.withLock { $0 = max($0, value) } }
}
