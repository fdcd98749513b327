import LanyardFoundations
import Synchronization

/// Shows whether a queue still makes progress. An observer posts `beat` to the queue from time to time and reads the age.
package final class Heartbeat: Sendable {
    private let nanoseconds: Atomic<Int64>

    package init(at now: Instant = .now) { nanoseconds = Atomic(now.nanoseconds) }

    /// On the observed queue.
    package func beat(at now: Instant = .now) { nanoseconds.store(now.nanoseconds, ordering: .relaxed) }

    /// Since the last beat. From anywhere.
    package func age(at now: Instant) -> Duration {
        now - Instant(nanoseconds: nanoseconds.load(ordering: .relaxed))
    }
}
