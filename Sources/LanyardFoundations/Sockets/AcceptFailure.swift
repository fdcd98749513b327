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

/// Counts the failures of one listener in a row, and judges each. Belongs to its listener, which checks the queue.
package struct AcceptFailureCounter {
    /// More failures than connections can be queued are not caused by clients.
    private let clientsGoneMax: Int
    private var clientsGone = 0

    /// - Parameter backlog: how many connections the listener's queue holds.
    package init(backlog: CInt) { clientsGoneMax = Int(backlog) }

    /// A connection has been accepted.
    package mutating func reset() { clientsGone = 0 }

    /// - Parameter code: the `errno` value.
    /// - Returns: `clientGone` at most `backlog` times in a row, then `lasting`.
    package mutating func judge(_ code: CInt) -> AcceptFailure {
        let failure = AcceptFailure(code)
        switch failure {
        case .queueEmpty: clientsGone = 0
        case .clientGone where clientsGone >= clientsGoneMax: return .lasting
        case .clientGone: clientsGone += 1
        case .noDescriptor, .lasting: break
        }
        return failure
    }
}
