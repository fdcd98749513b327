import FlyingFox

/// The number of calls by route and user, since the start or the last reset.
struct CallCounts: Sendable {
    private struct Calls: Sendable {
        var count = 0
        var byStatus: [Int: Int] = [:]
        var inFlight = 0
        var inFlightMax = 0
    }

    private var routes: [Route: Calls] = [:]
    private var users: [String: [Route: Int]] = [:]
    /// Uses of each access token at `/protected`, by its id.
    private var tokens: [String: Int] = [:]
    private var refusals: [String: Int] = [:]

    mutating func begin(_ route: Route) {
        var calls = routes[route] ?? Calls()
        calls.count += 1
        calls.inFlight += 1
        calls.inFlightMax = max(calls.inFlightMax, calls.inFlight)
        routes[route] = calls
    }

    mutating func end(_ route: Route, status: Int, user: String?) {
        routes[route, default: Calls()].byStatus[status, default: 0] += 1
        routes[route]?.inFlight -= 1
        if let user { users[user, default: [:]][route, default: 0] += 1 }
    }

    mutating func used(token: String) { tokens[token, default: 0] += 1 }
    mutating func refused(_ reason: String) { refusals[reason, default: 0] += 1 }

    /// Clears everything except calls in progress.
    mutating func reset() {
        let under = routes.mapValues { Calls(inFlight: $0.inFlight, inFlightMax: $0.inFlight) }
        self = CallCounts()
        routes = under
    }

    /// - Parameter name: returns an email or another readable name for a user id.
    func json(name: (String) -> String?) -> JSONValue {
        let routes = Route.allCases.map { route -> (String, JSONValue) in
            let calls = self.routes[route] ?? Calls()
            let byStatus = calls.byStatus.map { (String($0.key), JSONValue.int($0.value)) }
            return (
                route.rawValue,
                .object([
                    "calls": .int(calls.count), "by_status": .object(Dictionary(uniqueKeysWithValues: byStatus)),
                    "in_flight": .int(calls.inFlight), "in_flight_max": .int(calls.inFlightMax),
                ])
            )
        }
        let users = self.users.map { id, calls -> (String, JSONValue) in
            var members = Dictionary(uniqueKeysWithValues: calls.map { ($0.key.rawValue, JSONValue.int($0.value)) })
            members["name"] = name(id).map { .string($0) } ?? .null
            return (id, .object(members))
        }
        return .object([
            "routes": .object(Dictionary(uniqueKeysWithValues: routes)),
            "users": .object(Dictionary(uniqueKeysWithValues: users)),
            "protected": .object([
                "distinct_tokens": .int(tokens.count), "tokens": .object(tokens.mapValues { .int($0) }),
                "refused": .object(refusals.mapValues { .int($0) }),
            ]),
        ])
    }
}
