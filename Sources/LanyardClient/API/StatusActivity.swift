import LanyardFoundations

/// What `/v1/status` says of the process beside its users and conditions (docs/use/admin.md). An older Lanyard says nothing of it.
package struct StatusActivity: Equatable, Sendable {
    /// Of which there is a limited number.
    package struct Usage: Equatable, Sendable {
        package let count: Int
        package let max: Int
    }

    /// One element of `/readyz`.
    package struct Check: Equatable, Sendable {
        package let name: String
        package let isPassing: Bool
        package let reason: String
    }

    /// A failure in the past.
    package struct PastError: Equatable, Sendable {
        package let at: WallTime
        package let text: String

        init?(_ json: JSONValue?) {
            guard let at = json?["at"]?.time, let text = json?["error"]?.string else { return nil }
            self.at = at
            // A sentence of its own there, a part of one here.
            self.text = text.hasSuffix(".") ? String(text.dropLast()) : text
        }
    }

    /// Requests of the last `seconds`.
    package struct Recent: Equatable, Sendable {
        package let seconds: Int
        package let requestCount: Int
        package let serverErrorCount: Int
        package let refusedCount: Int
        package let tokenRefusedCount: Int
        /// Of the server errors those of Lanyard, because there was no token.
        package let tokenMissingCount: Int

        init(_ json: JSONValue?) {
            seconds = json?["seconds"]?.integer ?? 0
            requestCount = json?["requests"]?.integer ?? 0
            serverErrorCount = json?["server_errors"]?.integer ?? 0
            refusedCount = json?["refused"]?.integer ?? 0
            tokenRefusedCount = json?["token_refused"]?.integer ?? 0
            tokenMissingCount = json?["token_missing"]?.integer ?? 0
        }
    }

    /// One route.
    package struct Route: Equatable, Sendable {
        package let name: String
        package let upstream: String
        /// nil: the active one.
        package let user: String?
        package let recent: Recent
        package let lastResponseAt: WallTime?
        package let lastUpstreamError: PastError?
        package let lastOverload: PastError?
        /// The latest request that got no token.
        package let lastTokenMissing: PastError?
        package let isBreakerOpen: Bool
        package let breakerOpenedAt: WallTime?
        package let inFlightCount: Int
        package let waitingCount: Int

        init?(_ json: JSONValue) {
            guard let name = json["route"]?.string else { return nil }
            self.name = name
            upstream = json["upstream"]?.string ?? "-"
            user = json["user"]?.string
            recent = Recent(json["recent"])
            lastResponseAt = json["last_response_at"]?.time
            lastUpstreamError = PastError(json["last_upstream_error"])
            lastOverload = PastError(json["last_overload"])
            lastTokenMissing = PastError(json["last_token_missing"])
            isBreakerOpen = json["breaker_open"]?.bool == true
            breakerOpenedAt = json["breaker_opened_at"]?.time
            inFlightCount = json["in_flight"]?.integer ?? 0
            waitingCount = json["waiting"]?.integer ?? 0
        }
    }

    /// An identity service.
    package struct Identity: Equatable, Sendable {
        package let name: String
        package let url: String?
        /// nil: it was not called yet.
        package let isReachable: Bool?
        package let lastSuccessAt: WallTime?
        package let lastError: PastError?

        init?(_ json: JSONValue) {
            guard let name = json["identity"]?.string else { return nil }
            self.name = name
            url = json["url"]?.string
            isReachable = json["reachable"]?.bool
            lastSuccessAt = json["last_success_at"]?.time
            lastError = PastError(json["last_error"])
        }
    }

    /// Connections of HTTP/2 with clients, or with upstreams.
    package struct HTTP2Side: Equatable, Sendable {
        /// How often something has happened.
        package struct Count: Equatable, Sendable {
            package let reason: String
            package let number: Int
        }

        package let connectionCount: Int
        package let openStreamCount: Int
        /// So far.
        package let streamCount: Int
        /// Streams that ended early, by reason.
        package let resets: [Count]
        /// Connections that have ended because the other side has passed a limit, by its name.
        package let limitsPassed: [Count]
        /// Connections to upstreams that have ended by an error, by reason.
        package let ends: [Count]
        /// Routes whose upstream has asked for HTTP/1.1.
        package let downgradedRoutes: [String]

        /// nil: the Lanyard does not say it, or HTTP/2 was not used.
        init?(_ json: JSONValue?) {
            connectionCount = json?["connections"]?.integer ?? 0
            openStreamCount = json?["open_streams"]?.integer ?? 0
            streamCount = json?["streams"]?.integer ?? 0
            resets = Self.counts(json?["resets"])
            limitsPassed = Self.counts(json?["limits_passed"])
            ends = Self.counts(json?["ends"])
            downgradedRoutes = (json?["downgraded"]?.elements ?? []).compactMap(\.string)
            guard connectionCount > 0 || streamCount > 0 || !limitsPassed.isEmpty || !ends.isEmpty else { return nil }
        }

        private static func counts(_ json: JSONValue?) -> [Count] {
            guard case .object(let members)? = json else { return [] }
            return members.compactMap { member in
                member.value.integer.map { Count(reason: member.name, number: $0) }
            }
        }
    }

    /// HTTP/2 on both sides; nil: it was not used there.
    package struct HTTP2: Equatable, Sendable {
        package let clients: HTTP2Side?
        package let upstreams: HTTP2Side?
    }

    /// A store, or that there is none.
    package struct Store: Equatable, Sendable {
        /// `stored`, `memory_only` or `store_failing`.
        package let state: String
        /// nil: there is no store.
        package let path: String?
    }

    /// nil: the Lanyard does not say it.
    package let isReady: Bool?
    package let checks: [Check]
    package let parked: Usage?
    package let clientConnections: Usage?
    package let withoutRoute: Recent
    package let lastOverloadWithoutRoute: PastError?
    package let routes: [Route]
    package let http2: HTTP2
    package let identities: [Identity]
    /// nil: the Lanyard does not say it.
    package let store: Store?
    /// How far the identity service's clock is ahead, in seconds.
    package let clockSkew: Double?
    package let descriptors: Usage?
    package let descriptorShortageAt: WallTime?
    package let reloadedAt: WallTime?

    init(_ json: JSONValue) {
        isReady = json["readiness"]?["status"]?.string.map { $0 == "ready" }
        checks = (json["readiness"]?["checks"]?.elements ?? []).compactMap { check in
            guard let name = check["name"]?.string, let isPassing = check["ok"]?.bool else { return nil }
            return Check(name: name, isPassing: isPassing, reason: check["reason"]?.string ?? "-")
        }
        let requests = json["requests"]
        parked = Self.usage(requests, "parked", "parked_max")
        clientConnections = Self.usage(requests, "client_connections", "client_connections_max")
        withoutRoute = Recent(requests?["without_route"]?["recent"])
        lastOverloadWithoutRoute = PastError(requests?["without_route"]?["last_overload"])
        routes = (json["routes"]?.elements ?? []).compactMap(Route.init)
        http2 = HTTP2(
            clients: HTTP2Side(json["http2"]?["clients"]), upstreams: HTTP2Side(json["http2"]?["upstreams"]))
        identities = (json["identities"]?.elements ?? []).compactMap(Identity.init)
        store = json["store"].flatMap { store in
            store["state"]?.string.map { Store(state: $0, path: store["path"]?.string) }
        }
        clockSkew = json["clock"]?["skew_seconds"]?.decimal
        descriptors = Self.usage(json["descriptors"], "open", "open_max")
        descriptorShortageAt = json["descriptors"]?["last_shortage_at"]?.time
        reloadedAt = json["last_reload_at"]?.time
    }

    private static func usage(_ json: JSONValue?, _ count: String, _ max: String) -> Usage? {
        guard let count = json?[count]?.integer, let max = json?[max]?.integer else { return nil }
        return Usage(count: count, max: max)
    }
}
