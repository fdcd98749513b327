import Synchronization

/// A number that all shards share and that may not grow beyond a limit: connections, parked requests.
///
/// What counts holds a `Permit`. Its operations are sequentially consistent. A waiter that is counted and then finds no
/// room is seen by code that makes room afterwards and then checks for waiters (the upstream pools).
package final class SharedLimit: Sendable {
    private let taken = Atomic<Int>(0)
    private let countMax: Atomic<Int>

    package init(_ countMax: Int) { self.countMax = Atomic(countMax) }

    /// Sets another limit. What is taken beyond a lower one stays taken.
    package func setMax(_ countMax: Int) { self.countMax.store(countMax, ordering: .relaxed) }

    /// Takes one if there is room. It fails only while others hold all: a failed attempt takes nothing, not even briefly.
    package func acquire() -> Permit? {
        let countMax = countMax.load(ordering: .relaxed)
        var seen = taken.load(ordering: .sequentiallyConsistent)
        while seen < countMax {
            let (isTaken, actual) = taken.weakCompareExchange(
                expected: seen, desired: seen + 1, ordering: .sequentiallyConsistent)
            if isTaken { return Permit(of: self) }
            seen = actual
        }
        return nil
    }

    /// Only a permit gives back, when it goes.
    fileprivate func release() { taken.subtract(1, ordering: .sequentiallyConsistent) }

    /// More are taken than a limit that was lowered admits: giving back one makes no room.
    package var isExceeded: Bool { count > countMax.load(ordering: .relaxed) }

    /// How many may be taken.
    package var limit: Int { countMax.load(ordering: .relaxed) }

    /// How many are taken now.
    package var count: Int { taken.load(ordering: .sequentiallyConsistent) }
}

/// One of a `SharedLimit`. What it admits holds it: a connection, a request that waits. It is given back when the permit
/// goes, so it cannot be given back twice or never.
///
/// A struct with a reference to its limit, which costs no memory of its own.
package struct Permit: ~Copyable, Sendable {
    private let limit: SharedLimit

    /// One is taken already.
    fileprivate init(of limit: SharedLimit) { self.limit = limit }

    deinit { limit.release() }
}
