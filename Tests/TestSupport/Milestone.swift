import Synchronization
import Testing

/// Something that happens once; another thread asks for it, or waits for it.
package final class Milestone: Sendable {
    private let box = Atomic<Bool>(false)

    package init() {}

    /// Whether it has happened.
    package var isSet: Bool { box.load(ordering: .acquiring) }

    package func set() { box.store(true, ordering: .releasing) }

    /// Blocks the thread until it has happened. The limit is far beyond what a test lasts. When it is over, the run has a
    /// failure that names `what`, and the thread goes on.
    package func wait(for what: String, within limit: Duration = .seconds(60)) {
        do { try blockUntil(what, within: limit) { isSet } } catch { Issue.record(error) }
    }
}
