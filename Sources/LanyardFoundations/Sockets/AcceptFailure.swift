import Glibc

/// What a failed `accept4` means for the listener.
package enum AcceptFailure {
    /// No connection waits.
    case queueEmpty
    /// The client disconnected while it was queued, or the network had an error for it (accept(2)). The next one can be accepted.
    case clientGone
    /// No descriptor is free. The connection stays in the queue.
    case noDescriptor
    /// No memory, or an error of the listening socket. The next call would return it too.
    case lasting

    /// - Parameter code: the `errno` value.
    package init(_ code: CInt) {
        switch code {
        case EAGAIN: self = .queueEmpty
        case EINTR, ECONNABORTED, EPERM, EPROTO, ENETDOWN, ENOPROTOOPT, EHOSTDOWN, ENONET, EHOSTUNREACH, EOPNOTSUPP,
            ENETUNREACH, ETIMEDOUT:
            self = .clientGone
        case EMFILE, ENFILE: self = .noDescriptor
        default: self = .lasting
        }
    }
}
