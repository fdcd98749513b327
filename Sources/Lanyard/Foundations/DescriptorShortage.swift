import Synchronization

/// What the listeners know of a process that has run out of descriptors (http-requirements 20.4).
///
/// Health keeps a few descriptors back and gives one up for a moment to accept a probe: an acceptor of the request path that tries again in that
/// moment would take it for good. So whoever accepts while descriptors are short does it one after the other. Without a shortage this costs a
/// relaxed load for each new connection.
package final class DescriptorShortage: Sendable {
    private let isShort = Atomic<Bool>(false)
    private let turn = Guarded(())

    /// The process's own: its table of descriptors is one.
    package static let shared = DescriptorShortage()

    /// An attempt of the request path to accept.
    package func accept(_ attempt: () -> CInt) -> CInt {
        guard isShort.load(ordering: .relaxed) else { return attempt() }
        let raw = turn.withLock { _ in attempt() }
        if raw >= 0 { isShort.store(false, ordering: .relaxed) }
        return raw
    }

    /// An accept failed for want of descriptors.
    package func found() { isShort.store(true, ordering: .relaxed) }

    /// Gives a kept descriptor up, or takes one back, with no acceptor in between.
    package func exchange(_ work: () -> Void) { turn.withLock { _ in work() } }
}
