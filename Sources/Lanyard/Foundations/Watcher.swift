/// An object that an `EventLoop` informs of readiness and deadlines: the base class of connections, listeners and transfers.
///
/// A watcher belongs to its loop's queue and is used only there. That makes it safe to send.
package class Watcher: @unchecked Sendable {
    init() {}

    /// A descriptor watched for this watcher is ready. On the loop's queue.
    package func ready(_ readiness: IOReadiness, on watch: EventLoop.Watch) {}

    /// One of this watcher's deadlines has passed and is unset. On the loop's queue.
    package func due(_ deadline: Deadline) {}

    /// Continues the work that it deferred by `EventLoop.resumeLater`. On the loop's queue.
    package func resume() {}
}
