import LanyardFoundations

/// Numbers of one route since the start, or their growth in a time.
package struct RouteCounts: Equatable, Sendable {
    package var requests = 0
    /// Responses with 5xx, of the upstream and of Lanyard.
    package var serverErrors = 0
    /// Responses of Lanyard's own with another status.
    package var refusals = 0
    /// Responses of the upstream that mean "token refused".
    package var unauthorized = 0
    /// Of the server errors those of Lanyard, because there was no token.
    package var withoutToken = 0

    package init(
        requests: Int = 0, serverErrors: Int = 0, refusals: Int = 0, unauthorized: Int = 0, withoutToken: Int = 0
    ) {
        self.withoutToken = withoutToken
        self.requests = requests
        self.serverErrors = serverErrors
        self.refusals = refusals
        self.unauthorized = unauthorized
    }

    package static func + (left: Self, right: Self) -> Self {
        Self(
            requests: left.requests + right.requests, serverErrors: left.serverErrors + right.serverErrors,
            refusals: left.refusals + right.refusals, unauthorized: left.unauthorized + right.unauthorized,
            withoutToken: left.withoutToken + right.withoutToken)
    }

    /// The growth since `earlier`. A counter that a reload has replaced begins at 0 again.
    package func growth(since earlier: Self) -> Self {
        guard requests >= earlier.requests else { return self }
        return Self(
            requests: requests - earlier.requests, serverErrors: max(serverErrors - earlier.serverErrors, 0),
            refusals: max(refusals - earlier.refusals, 0), unauthorized: max(unauthorized - earlier.unauthorized, 0),
            withoutToken: max(withoutToken - earlier.withoutToken, 0))
    }
}

/// Why a request of a route has failed.
package struct RouteFailure: Equatable, Sendable {
    package var at: Instant
    /// With addresses: for the operator.
    package var message: String
}

/// The latest failures of one route's requests on one shard. Written on the shard's queue, read from any thread.
///
/// Only for requests that get a problem response. Of one kind a failure is noted each 100 ms at most, so that the lock is no cost of a
/// flood.
final class RouteFailures: Sendable {
    private static let interval = Duration.milliseconds(100)

    struct Latest: Equatable, Sendable {
        /// No connection, no response in time, or none that can be trusted.
        var upstream: RouteFailure?
        /// A limit was reached.
        var overload: RouteFailure?
        /// There was no token.
        var token: RouteFailure?
    }

    private let state = Guarded(Latest())

    var latest: Latest { state.withLock { $0 } }

    /// What has failed.
    enum Kind { case upstream, overload, token }

    /// - Parameter message: with addresses: for the operator.
    func record(_ kind: Kind, _ message: String, at now: Instant) {
        let place: WritableKeyPath<Latest, RouteFailure?> & Sendable =
            switch kind {
            case .upstream: \.upstream
            case .overload: \.overload
            case .token: \.token
            }
        state.withLock { latest in
            if let known = latest[keyPath: place], now < known.at + Self.interval { return }
            latest[keyPath: place] = RouteFailure(at: now, message: message)
        }
    }
}

/// One route for the status.
package struct RouteReport: Sendable {
    /// nil: the requests that no route took.
    package var name: String?
    /// Host and port, or the path of a unix socket.
    package var upstream = ""
    /// The pinned user; nil: the active one.
    package var user: String?
    /// Since the start.
    package var counts = RouteCounts()
    /// The end of the upstream's latest response; nil: there was none.
    package var latestResponseAt: Instant?
    package var upstreamFailure: RouteFailure?
    package var overload: RouteFailure?
    package var missingToken: RouteFailure?
    /// nil: the breaker has not been open.
    package var breakerOpenedAt: Instant?
    package var isBreakerOpen = false
    /// Requests that have an upstream connection, tunnels included.
    package var inFlight = 0
    /// Requests that wait for an upstream connection.
    package var waiting = 0

    /// - Parameter name: nil: the requests that no route took.
    package init(name: String? = nil) { self.name = name }
}
