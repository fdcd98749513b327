import Synchronization

/// Tells whether a queue still gets round to its work: who watches posts `beat` to it from time to time, and looks at the age.
package final class Heartbeat: Sendable {
    private let nanoseconds: Atomic<Int64>

    package init(at now: Instant = .now) { nanoseconds = Atomic(now.nanoseconds) }

    /// On the queue that is watched.
    package func beat(at now: Instant = .now) { nanoseconds.store(now.nanoseconds, ordering: .relaxed) }

    /// Since the last beat. From anywhere.
    package func age(at now: Instant) -> Duration {
        now - Instant(nanoseconds: nanoseconds.load(ordering: .relaxed))
    }
}
