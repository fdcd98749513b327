import FlyingFox

/// An answer that takes the place of the real one: the call has no effect at all. Transport faults are not made here but by a
/// relay before the emulator.
struct PlannedFault: Sendable {
    /// What the names in `/emulator/faults` stand for.
    enum Kind: String, CaseIterable, Sendable {
        case status, gone, html, malformed, unavailable
        case serverError = "server_error"
        case emptyUnauthorized = "empty_unauthorized"
        case unknownApp = "unknown_app"
        case tooManyRequests = "too_many_requests"
    }

    /// nil: every route of the API, `protected` not among them.
    let route: Route?
    let kind: Kind
    let answer: Answer
    /// Calls that are still to be failed; nil: until it is cleared.
    var remaining: Int?

    func meets(_ route: Route) -> Bool { self.route.map { $0 == route } ?? (route != .protected) }

    /// Reads `{"route", "fault", "times"?, "status"?, "body"?, "content_type"?, "retry_after"?}`.
    ///
    /// - Returns: nil when a name is unknown or a number is no number.
    init?(_ value: JSONValue, appID: String) {
        guard let name = value["route"]?.string, let kind = value["fault"]?.string.flatMap(Kind.init(rawValue:)) else {
            return nil
        }
        if name == "*" {
            route = nil
        } else {
            guard let known = Route(rawValue: name) else { return nil }
            route = known
        }
        if let times = value["times"] {
            guard let count = times.int, count > 0 else { return nil }
            remaining = count
        } else {
            remaining = nil
        }
        self.kind = kind
        answer = Self.answer(kind, value, appID)
    }

    private static func answer(_ kind: Kind, _ value: JSONValue, _ appID: String) -> Answer {
        let retryAfter = [("Retry-After", String(value["retry_after"]?.int ?? 1))]
        switch kind {
        case .status:
            let type = value["content_type"]?.string ?? "application/json"
            let after = value["retry_after"] == nil ? [] : retryAfter
            return Answer(
                value["status"]?.int ?? 500, fields: after + [("Content-Type", type)], body: value["body"]?.string ?? ""
            )
        case .serverError:
            return .json(500, .object(["error": "internal server error", "error_code": "InternalServerError"]))
        case .unavailable: return .json(503, .object(["error": "service unavailable"]), fields: retryAfter)
        case .tooManyRequests: return .json(429, .object(["error": "too many requests"]), fields: retryAfter)
        case .html:
            return Answer(
                200, fields: [("Content-Type", "text/html")],
                body: "<!DOCTYPE html><title>Sign in</title><p>Welcome to the hotel.")
        case .malformed:
            return Answer(200, fields: [("Content-Type", "application/json")], body: #"{"access_token": "#)
        case .emptyUnauthorized: return Answer(401)
        case .gone: return .json(410, .object(["error": "Atlas App Services and Device Sync have reached EOL"]))
        case .unknownApp: return .json(404, .object(["error": .string(ServiceError.unknownApp(appID).text)]))
        }
    }
}
