import Dispatch
import Synchronization
import Testing

/// Something that happens once; another thread asks for it, or waits for it.
package final class Milestone: Sendable {
    private let box = Atomic<Bool>(false)
    /// Entered until it has happened.
    private let pending = DispatchGroup()

    package init() { pending.enter() }

    /// No task waits any more. A group must not end while it is entered.
    deinit { if !isSet { pending.leave() } }

    /// Whether it has happened.
    package var isSet: Bool { box.load(ordering: .acquiring) }

    package func set() {
        if !box.exchange(true, ordering: .acquiringAndReleasing) { pending.leave() }
    }

    /// Blocks the thread until it has happened, without a wake-up that a clock would take for work. When the patience is exhausted, the
    /// thread continues. In a test's own thread that is a failure which names `what`. A peer's thread belongs to no test: its test has a
    /// failure of its own.
    package func wait(for what: String) {
        let patience = Patience()
        while pending.wait(timeout: .now() + .seconds(1)) == .timedOut {
            guard patience.isExhausted else { continue }
            if Test.current != nil { Issue.record(patience.failure(what)) }
            return
        }
    }
}
