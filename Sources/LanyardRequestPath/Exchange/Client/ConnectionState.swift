import LanyardFoundations
import LanyardSettings

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
    case admission(ShardRoute?)
    /// A request is forwarded.
    case exchange(ActiveExchange)
    /// A request is refused, and the rest of its body tells the form of the response (http-connections.md 19.5). What is known of the
    /// request is in the state before.
    indirect case refusing(Problem, before: ConnectionState)
    /// After a 101: raw bytes in both directions until the end.
    case tunnel(ActiveExchange, TunnelRelay)
    /// The last response is queued for the client; then the connection ends.
    case flushing
    /// Writing is shut down; further input is discarded (http-connections.md 9.8).
    case lingering
    case closed
}

/// A request that is forwarded. Its values stay the same until its end.
///
/// Small, as it is handed on with every step: the head, which is large, stays in `RequestInput`.
struct ActiveExchange {
    let shardRoute: ShardRoute
    /// The user whose token the request gets.
    let user: UserIndex

    @inline(__always) var route: Route { shardRoute.route }
    @inline(__always) var pool: UpstreamPool { shardRoute.pool }
    @inline(__always) var timeouts: UpstreamSettings.Timeouts { shardRoute.timeouts }
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
        case .admission, .exchange, .refusing, .tunnel, .flushing, .lingering, .closed: false
        }
    }

    /// A reset by the client ends the connection at once.
    var endsOnReset: Bool {
        switch self {
        case .exchange, .refusing, .flushing, .lingering: true
        case .handshake, .waiting, .head, .admission, .tunnel, .closed: false
        }
    }

    /// How the connection of a client ends that would not be admitted any more.
    enum AdmissionEnd {
        case atOnce
        /// Behind the response to the request in progress.
        case behindExchange
        /// Behind the bytes that are queued for the client: they belong to a response that counts as sent.
        case behindQueue
        case tunnel
        /// It was never admitted, or is about to end.
        case none
    }

    /// - Parameters:
    ///   - isSecured: a TLS handshake has begun.
    ///   - isFlushed: nothing is queued for the client.
    func admissionEnd(isSecured: Bool, isFlushed: Bool) -> AdmissionEnd {
        switch self {
        case .handshake: isSecured ? .atOnce : .none
        case .waiting: isFlushed ? .atOnce : .behindQueue
        case .head: .atOnce
        case .admission, .exchange, .refusing: .behindExchange
        case .tunnel: .tunnel
        case .flushing: .behindQueue
        case .lingering, .closed: .none
        }
    }

    /// The request that is forwarded; nil: there is none.
    var forwarding: ActiveExchange? { if case .exchange(let active) = self { active } else { nil } }

    /// The request that is forwarded, or has become a tunnel; nil: there is none.
    var active: ActiveExchange? {
        switch self {
        case .exchange(let active), .tunnel(let active, _): active
        case .handshake, .waiting, .head, .admission, .refusing, .flushing, .lingering, .closed: nil
        }
    }

    /// The user whose token the current request gets; nil: none was found.
    var user: UserIndex? {
        switch self {
        case .exchange(let active), .tunnel(let active, _): active.user
        case .refusing(_, let former): former.user
        case .handshake, .waiting, .head, .admission, .flushing, .lingering, .closed: nil
        }
    }

    /// `RequestInput.head` is the current request's.
    var isHeadRead: Bool {
        switch self {
        case .admission, .exchange, .refusing, .tunnel: true
        case .handshake, .waiting, .head, .flushing, .lingering, .closed: false
        }
    }

    /// The route that the current request counts for; nil: none was found.
    var shardRoute: ShardRoute? {
        switch self {
        case .admission(let route): route
        case .exchange(let active), .tunnel(let active, _): active.shardRoute
        case .refusing(_, let former): former.shardRoute
        case .handshake, .waiting, .head, .flushing, .lingering, .closed: nil
        }
    }
}
