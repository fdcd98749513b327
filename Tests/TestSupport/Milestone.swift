import Synchronization
import Testing

/// Something that happens once; another thread asks for it, or waits for it.
package final class Milestone: Sendable {
    private let box = Atomic<Bool>(false)

    package init() {}

    /// Whether it has happened.
    package var isSet: Bool { box.load(ordering: .acquiring) }

    package func set() { box.store(true, ordering: .releasing) }

    /// Blocks the thread until it has happened. When the patience is exhausted, the run has a failure that names `what`, and the thread
    /// continues.
    package func wait(for what: String) {
        do { try blockUntil(what) { isSet } } catch { Issue.record(error) }
    }
}
