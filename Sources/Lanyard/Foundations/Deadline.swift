/// One deadline of a watcher. Set it as often as you like: moving it later costs one store.
///
/// It belongs to its loop's queue. The owner clears it for good with `EventLoop.drop(_:)` before it goes.
package final class Deadline {
    /// Whom it tells; set once.
    package unowned var owner: Watcher?
    /// When it is due; `.never` when unset.
    package internal(set) var instant = Instant.never
    /// Where the heap has it: at or before `instant`, since later moves are not carried out at once.
    var key = Instant.never
    /// Its place in the heap, or -1.
    var place = -1

    package init(of owner: Watcher) { self.owner = owner }

    /// One that is a stored constant of its owner, who names itself as `owner` at the end of its init: what moves with every request should
    /// not be lazy.
    package init() {}
}
