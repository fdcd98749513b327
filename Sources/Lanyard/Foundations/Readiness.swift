import CLanyard.Linux

/// What an `EventLoop` watches for and tells.
package struct IOReadiness: OptionSet, Sendable {
    package let rawValue: UInt32
    package init(rawValue: UInt32) { self.rawValue = rawValue }

    /// Bytes, a connection or an end to read.
    package static let read = IOReadiness(rawValue: EPOLLIN.rawValue)
    /// Room to write, or the outcome of a connect.
    package static let write = IOReadiness(rawValue: EPOLLOUT.rawValue)
    /// The other side has shut down its writing half, or all.
    package static let readHangUp = IOReadiness(rawValue: EPOLLRDHUP.rawValue)
    /// Both directions are over. Always told.
    package static let hangUp = IOReadiness(rawValue: EPOLLHUP.rawValue)
    /// A pending error (`SO_ERROR`). Always told.
    package static let error = IOReadiness(rawValue: EPOLLERR.rawValue)
    /// Told once per change, not while it lasts.
    package static let edge = IOReadiness(rawValue: lanyard_EPOLLET)
    /// Of several loops on one descriptor, wake one (best effort; not changeable afterwards).
    package static let exclusive = IOReadiness(rawValue: lanyard_EPOLLEXCLUSIVE)
}
