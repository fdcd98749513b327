import CLinux

/// An object that an `EventLoop` informs of readiness and deadlines: the base class of connections, listeners and transfers.
///
/// A watcher belongs to its loop's queue, checks that, and is used only there. That makes it safe to send.
///
/// `open`, with what its functions name `public`: a `package` class has no subclasses in other modules.
open class Watcher: @unchecked Sendable {
    /// For subclasses.
    public init() {}

    /// A descriptor watched for this watcher is ready. On the loop's queue.
    open func ready(_ readiness: IOReadiness, on watch: EventLoop.Watch) {}

    /// One of this watcher's deadlines has passed and is unset. On the loop's queue.
    open func due(_ deadline: Deadline) {}

    /// Continues the work that it deferred by `EventLoop.resumeLater`. On the loop's queue.
    open func resume() {}
}

/// What an `EventLoop` watches for and reports.
public struct IOReadiness: OptionSet, Sendable {
    /// epoll's event bits.
    public let rawValue: UInt32
    /// Any of epoll's event bits.
    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// Bytes, a connection or an end to read.
    package static let read = IOReadiness(rawValue: EPOLLIN.rawValue)
    /// Room to write, or the outcome of a connect.
    package static let write = IOReadiness(rawValue: EPOLLOUT.rawValue)
    /// Urgent data of TCP. A read stops before them, although more may lie behind.
    package static let urgent = IOReadiness(rawValue: EPOLLPRI.rawValue)
    /// The other side has shut down its writing half, or all.
    package static let readHangUp = IOReadiness(rawValue: EPOLLRDHUP.rawValue)
    /// Both directions have ended. Always reported.
    package static let hangUp = IOReadiness(rawValue: EPOLLHUP.rawValue)
    /// A pending error (`SO_ERROR`). Always reported.
    package static let error = IOReadiness(rawValue: EPOLLERR.rawValue)
    /// Reported once for each change, not for as long as it lasts.
    package static let edge = IOReadiness(rawValue: lanyard_EPOLLET)
    /// If several loops watch one descriptor, one of them wakes (best effort; cannot be changed afterwards).
    package static let exclusive = IOReadiness(rawValue: lanyard_EPOLLEXCLUSIVE)
}
