/// One deadline of a watcher. It may be set any number of times: a move to a later time costs one store.
///
/// It belongs to its loop's queue. The owner removes it with `EventLoop.drop(_:)` before it is released.
package final class Deadline {
    /// The watcher that it informs; set once.
    package unowned var owner: Watcher?
    /// When it is due; `.never` when unset.
    package internal(set) var instant = Instant.never
    /// The heap's key: at or before `instant`, since moves to a later time do not change the heap at once.
    var key = Instant.never
    /// Its place in the heap, or -1.
    var place = -1

    package init(of owner: Watcher) { self.owner = owner }

    /// Makes one that is a stored constant of its owner. The owner sets `owner` at the end of its init. A deadline that moves with every
    /// request should not be lazy.
    package init() {}
}
