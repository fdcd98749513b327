/// Something that an `EventLoop` tells about readiness and deadlines: the base of connections, listeners, transfers.
///
/// A watcher belongs to its loop's queue: it is touched nowhere else, which is what makes it safe to send.
package class Watcher: @unchecked Sendable {
    init() {}

    /// A descriptor watched for this watcher is ready. On the loop's queue.
    package func ready(_ readiness: IOReadiness, on watch: EventLoop.Watch) {}

    /// One of this watcher's deadlines has passed; it is unset now. On the loop's queue.
    package func due(_ deadline: Deadline) {}

    /// Goes on with what it put off by `EventLoop.later`. On the loop's queue.
    package func resume() {}
}
