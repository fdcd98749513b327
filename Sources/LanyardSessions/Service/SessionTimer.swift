import LanyardFoundations

/// One deadline on the sessions' loop with a callback. Belongs to that loop's queue.
package final class SessionTimer: Watcher, @unchecked Sendable {
    private let loop: EventLoop
    /// Does nothing once the timer was dropped: kept until then, because it refers to the owner.
    private var onFire: () -> Void
    private var deadline: Deadline?

    init(on loop: EventLoop, onFire: @escaping () -> Void) {
        self.loop = loop
        self.onFire = onFire
        super.init()
        deadline = Deadline(of: self)
    }

    /// Sets or moves the deadline; `.never` clears it.
    func set(at instant: Instant) {
        loop.assertIsCurrent()
        if let deadline { loop.set(deadline, at: instant) }
    }

    /// Ends the timer and releases the callback. Call it before the last reference goes.
    func drop() {
        loop.assertIsCurrent()
        if let deadline { loop.drop(deadline) }
        deadline = nil
        onFire = {}
    }

    override package func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        onFire()
    }
}
