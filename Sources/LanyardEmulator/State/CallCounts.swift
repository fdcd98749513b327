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

    mutating func recordUse(ofToken token: String) { tokens[token, default: 0] += 1 }
    mutating func countRefusal(_ reason: String) { refusals[reason, default: 0] += 1 }

    /// Clears everything except calls in progress.
    mutating func reset() {
        let under = routes.mapValues { Calls(inFlight: $0.inFlight, inFlightMax: $0.inFlight) }
        self = CallCounts()
        routes = under
    }

    /// - Parameter name: returns an email or another readable name for a user id.
    func json(name: (String) -> String?) -> JSONValue {
        let routes = Route.allCases.map { route -> (String, JSONValue?) in
            let calls = self.routes[route] ?? Calls()
            let byStatus = calls.byStatus.sorted { $0.key < $1.key }.map {
                (String($0.key), Optional(JSONValue.int($0.value)))
            }
            return (
                route.rawValue,
                .members([
                    "calls": .int(calls.count), "by_status": .object(JSONObject(byStatus)),
                    "in_flight": .int(calls.inFlight), "in_flight_max": .int(calls.inFlightMax),
                ])
            )
        }
        let users = self.users.map { id, calls -> (String, JSONValue?) in
            var members: JSONObject = ["name": .orNull(name(id))]
            for (route, count) in calls { members[route.rawValue] = .int(count) }
            return (id, .object(members))
        }
        return .members([
            "routes": .object(JSONObject(routes)), "users": .object(JSONObject(users)),
            "protected": .members([
                "distinct_tokens": .int(tokens.count), "tokens": Self.json(tokens), "refused": Self.json(refusals),
            ]),
        ])
    }

    private static func json(_ counts: [String: Int]) -> JSONValue {
        .object(JSONObject(counts.sorted { $0.key < $1.key }.map { ($0.key, .int($0.value)) }))
    }
}
