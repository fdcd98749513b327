import Synchronization

/// A switch that is thrown once, from any thread.
final class Flag: Sendable {
    private let state = Atomic<Bool>(false)

    var isRaised: Bool { state.load(ordering: .relaxed) }

    func raise() { state.store(true, ordering: .relaxed) }
}
