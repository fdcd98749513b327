import Synchronization
import TestSupport
import Testing

/// Something that has happened; looked at, or waited for, by another thread.
final class Milestone: Sendable {
    private let box = Atomic<Bool>(false)

    /// Whether it has.
    var isSet: Bool { box.load(ordering: .acquiring) }

    func set() { box.store(true, ordering: .releasing) }

    /// Blocks the thread until it has. The limit is far beyond what a test lasts. When it is over, the run has a
    /// failure that names `what`, and the thread goes on.
    func wait(for what: String, within limit: Duration = .seconds(60)) {
        do { try blockUntil(what, within: limit) { isSet } } catch { Issue.record(error) }
    }
}
