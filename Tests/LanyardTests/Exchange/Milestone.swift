import Glibc
import Synchronization

/// Something that has happened; looked at by another thread.
final class Milestone: Sendable {
    private let box = Atomic<Bool>(false)

    /// Whether it has; looking costs a millisecond, so that a loop of looks does not burn a core.
    var isSet: Bool {
        usleep(1_000)
        return box.load(ordering: .acquiring)
    }

    func set() { box.store(true, ordering: .releasing) }
}
