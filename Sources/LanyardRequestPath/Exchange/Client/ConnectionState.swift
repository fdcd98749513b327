import LanyardFoundations

/// What a client's connection is doing. What is known of its request belongs to the state in which it is known.
enum ConnectionState {
    /// The TLS handshake is not complete.
    case handshake
    /// No byte of a request has arrived.
    case waiting
    /// Part of a head has arrived.
    case head
    /// A head was read. Before any further event the request is forwarded or refused, or Lanyard responds to it.
    ///
    /// The request counts for the route; nil: none was found.
    case admission(Route?)
    /// A request is forwarded.
    case exchange(ActiveExchange)
    /// After a 101: raw bytes in both directions until the end.
    case tunnel(ActiveExchange, TunnelRelay)
    /// The last response is queued for the client; then the connection ends.
    case flushing
    /// Writing is shut down; further input is discarded (http-rules.md 9.8).
    case lingering
    case closed
}

/// A request that is forwarded. Its values stay the same until its end.
///
/// Small, as it is handed on with every step: the head, which is large, stays in `RequestInput`.
struct ActiveExchange {
    let route: Route
    /// The user whose token the request gets.
    let user: UserIndex
}

extension ConnectionState {
    var isHandshake: Bool { if case .handshake = self { true } else { false } }
    var isWaiting: Bool { if case .waiting = self { true } else { false } }
    var isExchange: Bool { if case .exchange = self { true } else { false } }
    var isClosed: Bool { if case .closed = self { true } else { false } }

    /// No request is being processed, and one may come.
    var isWaitingForRequest: Bool {
        switch self {
        case .handshake, .waiting, .head: true
        case .admission, .exchange, .tunnel, .flushing, .lingering, .closed: false
        }
    }

    /// A reset by the client ends the connection at once.
    var endsOnReset: Bool {
        switch self {
        case .exchange, .flushing, .lingering: true
        case .handshake, .waiting, .head, .admission, .tunnel, .closed: false
        }
    }

    /// The request that is forwarded, or has become a tunnel; nil: there is none.
    var active: ActiveExchange? {
        switch self {
        case .exchange(let active), .tunnel(let active, _): active
        case .handshake, .waiting, .head, .admission, .flushing, .lingering, .closed: nil
        }
    }

    /// `RequestInput.head` is the current request's.
    var isHeadRead: Bool {
        switch self {
        case .admission, .exchange, .tunnel: true
        case .handshake, .waiting, .head, .flushing, .lingering, .closed: false
        }
    }

    /// The route that the current request counts for; nil: none was found.
    var route: Route? {
        switch self {
        case .admission(let route): route
        case .exchange(let active), .tunnel(let active, _): active.route
        case .handshake, .waiting, .head, .flushing, .lingering, .closed: nil
        }
    }
}
