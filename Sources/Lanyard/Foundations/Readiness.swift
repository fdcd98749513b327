import CLanyard.Linux

/// What an `EventLoop` watches for and reports.
package struct IOReadiness: OptionSet, Sendable {
    package let rawValue: UInt32
    package init(rawValue: UInt32) { self.rawValue = rawValue }

    /// Bytes, a connection or an end to read.
    package static let read = IOReadiness(rawValue: EPOLLIN.rawValue)
    /// Room to write, or the outcome of a connect.
    package static let write = IOReadiness(rawValue: EPOLLOUT.rawValue)
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
