import LanyardFoundations

/// What an exchange is doing. What is known of its request belongs to the state in which it is known.
enum ExchangeState {
    /// There is no request. Next: `admission`. A request whose head cannot be read is refused in this state.
    case none
    /// A head was read. Before any further event the request is forwarded or refused, or Lanyard responds to it. Next: `forwarding`,
    /// `refusing` or `none`.
    ///
    /// The request counts for the route, which the exchange is served by; nil: none was found.
    case admission(Unmanaged<ShardRoute>?)
    /// The request is forwarded. Next: `tunnel`, `refusing` or `none`.
    case forwarding(ActiveExchange)
    /// A request is refused, and the rest of its body tells the form of the response (http-connections.md 19.5). What is known of the
    /// request is in the state before. Next: that one, and with the response `none`.
    indirect case refusing(Problem, before: ExchangeState)
    /// The client asks a broker for a token: its body or the token is awaited. Next: `refusing` or `none`.
    case granting(GrantExchange)
    /// After a 101: raw bytes in both directions until the end. Next: `none`.
    case tunnel(ActiveExchange, TunnelRelay<ClientExchange>)
}

extension ExchangeState {
    /// `RequestInput.head` is the request's.
    @inline(__always) var isHeadRead: Bool {
        switch self {
        case .none: false
        case .admission, .forwarding, .refusing, .granting, .tunnel: true
        }
    }

    @inline(__always) var isForwarding: Bool {
        switch self {
        case .forwarding: true
        case .none, .admission, .refusing, .granting, .tunnel: false
        }
    }

    @inline(__always) var isTunnel: Bool {
        switch self {
        case .tunnel: true
        case .none, .admission, .forwarding, .refusing, .granting: false
        }
    }

    /// A reset by the client ends the exchange at once.
    @inline(__always) var endsOnReset: Bool {
        switch self {
        case .forwarding, .refusing, .granting: true
        case .none, .admission, .tunnel: false
        }
    }

    /// The request that is forwarded; nil: there is none.
    @inline(__always) var active: ActiveExchange? {
        switch self {
        case .forwarding(let active): active
        case .none, .admission, .refusing, .granting, .tunnel: nil
        }
    }

    /// The user whose token the request gets; nil: none was found.
    var user: UserIndex? {
        switch self {
        case .forwarding(let active), .tunnel(let active, _): active.user
        case .refusing(_, let former): former.user
        case .granting(let exchange): exchange.grant?.user
        case .none, .admission: nil
        }
    }

    /// The route that the request counts for; nil: none was found. Not counted: its exchange holds what it is served by.
    var route: Unmanaged<ShardRoute>? {
        switch self {
        case .none, .granting: nil
        case .admission(let route): route
        case .forwarding(let active), .tunnel(let active, _): active.reference
        case .refusing(_, let former): former.route
        }
    }

    var shardRoute: ShardRoute? { route?.takeUnretainedValue() }
}

/// The result of sending bytes to the upstream.
enum UpstreamSend {
    case sent
    /// The upstream has taken no byte of the request's head, which may be sent on another connection.
    case untouched
    /// The connection is broken. What the upstream has sent before is read first (http-connections.md 9.7).
    case failed
}

/// Whether the exchange continues on the connection that it had.
enum ExchangeProgress {
    case continues
    /// It has ended, begins again, waits with a held response, or has become a tunnel. The bytes that were being read are
    /// not its any more.
    case ended
}

/// What an exchange's request began with.
struct ServedBy {
    let routes: ShardRoutes
    /// Of the client's listener.
    let rules: ListenerRules

    /// - Parameter listener: its index.
    init(_ routes: ShardRoutes, listener: Int) {
        self.routes = routes
        rules = routes.configuration.rules[listener]
    }

    /// Rules and routes without counting them: what an exchange is served by stays the same while `work` lasts.
    @inline(__always)
    func withRules<Result>(_ work: (ListenerRules, RouteTable) -> Result) -> Result {
        Unmanaged.passUnretained(rules)._withUnsafeGuaranteedRef { rules in
            Unmanaged.passUnretained(routes)._withUnsafeGuaranteedRef {
                Unmanaged.passUnretained($0.configuration)._withUnsafeGuaranteedRef {
                    Unmanaged.passUnretained($0.routes)._withUnsafeGuaranteedRef { work(rules, $0) }
                }
            }
        }
    }
}
