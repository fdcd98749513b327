import FlyingFox

/// The App Services client API, `/api/client/v2.0/…`.
struct ClientAPI {
    let state: ServiceState

    private static let apps = "/api/client/v2.0/app/"

    /// - Returns: the response, and the user id for a login.
    func response(_ request: HTTPRequest, _ route: Route, _ call: Int?) async -> (EmulatorResponse, userID: String?) {
        do throws(ServiceError) {
            let body = try await RequestBody.json(request)
            // Browsers send a preflight request before a call.
            if request.method == .OPTIONS { return (Self.success(204, nil, request), nil) }
            try await requireApp(request.path)
            return try await perform(request, route, body, call)
        } catch {
            return (Self.failure(error, request), nil)
        }
    }

    private func perform(
        _ request: HTTPRequest, _ route: Route, _ body: JSONValue, _ call: Int?
    ) async throws(ServiceError) -> (EmulatorResponse, userID: String?) {
        let authorization = request.headers[.authorization]
        switch route {
        case .location: return (Self.success(200, Self.location(request), request), nil)
        case .register:
            try await state.register(body)
            return (Self.success(201, .object([:]), request), nil)
        case .login:
            let login = try await state.login(Self.provider(request.path), body, call)
            return (Self.success(200, login.response, request), login.userID)
        case .refresh: return (Self.success(201, try await state.refresh(authorization, call), request), nil)
        case .logout:
            try await state.logout(authorization, call)
            return (Self.success(204, nil, request), nil)
        case .profile:
            let token = try await state.access(authorization)
            return (Self.success(200, try await state.profile(token.userID), request), nil)
        case .protected, .other: throw .noSuchRoute
        }
    }

    /// Checks the app id of paths that have one. The paths of session and profile have none.
    private func requireApp(_ path: String) async throws(ServiceError) {
        guard path.hasPrefix(Self.apps) else { return }
        let id = String(path.dropFirst(Self.apps.count).prefix { $0 != "/" })
        guard await id == state.options.appID else { throw .unknownApp(id) }
    }

    private static func provider(_ path: String) -> String {
        path.split(separator: "/").dropLast().last.map(String.init) ?? ""
    }

    /// Origins as the client sees the service, so that a client behind a proxy gets a reachable one.
    private static func location(_ request: HTTPRequest) -> JSONValue {
        let origin = origin(request)
        return .object([
            "deployment_model": "LOCAL", "location": "US-VA", "hostname": .string(origin),
            "ws_hostname": .string("ws" + origin.dropFirst(4)),
        ])
    }

    private static func origin(_ request: HTTPRequest) -> String {
        let scheme = request.headers[HTTPHeader("X-Forwarded-Proto")] == "https" ? "https" : "http"
        let host = request.headers[HTTPHeader("X-Forwarded-Host")] ?? request.headers[.host] ?? "localhost"
        return scheme + "://" + host
    }

    private static func success(_ status: Int, _ body: JSONValue?, _ request: HTTPRequest) -> EmulatorResponse {
        let fields = common(Identifiers.new())
        return body.map { .json(status, $0, fields: fields) } ?? EmulatorResponse(status, fields: fields)
    }

    /// An error in the service's format. The request id is in a header field and in the link.
    static func failure(_ error: ServiceError, _ request: HTTPRequest) -> EmulatorResponse {
        let id = Identifiers.new()
        let group = Identifiers.derived(from: "group"), app = Identifiers.derived(from: "app")
        var body: [String: JSONValue] = [
            "error": .string(error.text),
            "link": .string("\(origin(request))/groups/\(group)/apps/\(app)/logs?co_id=\(id)"),
        ]
        body["error_code"] = error.code.map { .string($0) }
        return .json(error.status, .object(body), fields: common(id))
    }

    private static func common(_ requestID: String) -> [(name: String, value: String)] {
        [
            ("x-appservices-request-id", requestID), ("Access-Control-Allow-Origin", "*"),
            ("Access-Control-Allow-Headers", "Authorization, Content-Type, Accept"),
            ("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE, OPTIONS"),
        ]
    }
}
