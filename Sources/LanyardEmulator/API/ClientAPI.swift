import FlyingFox

/// The App Services client API, `/api/client/v2.0/…`.
struct ClientAPI {
    let state: ServiceState

    /// A response, and the user whose call it was if the call knows.
    typealias Reply = (EmulatorResponse, userID: String?)

    /// - Parameter number: the call's in the journal.
    func response(_ request: HTTPRequest, _ call: ClientCall, _ number: Int?) async -> Reply {
        let origin = request.headers[HTTPHeader("Origin")]
        let patterns = await state.allowedOrigins(call.appID, request.headers[.authorization])
        do throws(ServiceError) {
            let body = try await RequestBody.json(request)
            if let origin, !patterns.isEmpty, !patterns.contains(where: { $0.matches(origin) }) {
                var response = await failure(.originForbidden, request)
                // Without this field the page may not read the response.
                response.fields.removeAll { $0.name == Self.allowedOrigin }
                return (response, nil)
            }
            // Browsers send a preflight request before a call.
            if request.method == .OPTIONS {
                return (Self.naming(origin, patterns, in: Self.success(204, nil, request)), nil)
            }
            var reply = try await perform(request, call, body, number)
            reply.0 = Self.naming(origin, patterns, in: reply.0)
            return reply
        } catch {
            return (Self.naming(origin, patterns, in: await failure(error, request)), nil)
        }
    }

    private static let allowedOrigin = "Access-Control-Allow-Origin"

    /// The response for a page of `origin`, if the app allows certain origins only.
    private static func naming(
        _ origin: String?, _ patterns: [OriginPattern], in response: EmulatorResponse
    ) -> EmulatorResponse {
        guard let origin, !patterns.isEmpty else { return response }
        var response = response
        response.fields.removeAll { $0.name == allowedOrigin }
        response.fields += [(allowedOrigin, origin), ("Vary", "Origin")]
        return response
    }

    private func perform(
        _ request: HTTPRequest, _ call: ClientCall, _ body: JSONValue, _ number: Int?
    ) async throws(ServiceError) -> Reply {
        let authorization = request.headers[.authorization]
        guard let id = call.appID else { return try await performForToken(request, call, body, number, authorization) }
        let app = try await state.app(id)
        switch call.operation {
        case .location: return (Self.success(200, Self.location(request), request), nil)
        case .login(let provider):
            let login = try await state.login(app, provider, body, number)
            return (Self.success(200, login.response, request), login.userID)
        case .link(let provider):
            let login = try await state.link(app, provider, body, authorization, number)
            return (Self.success(200, login.response, request), login.userID)
        case .browserLogin(let provider):
            return try await BrowserLogin(state: state, app: app, appID: id, provider: provider)
                .response(request, number)
        case .register:
            try await state.register(app, body)
            return (Self.success(201, .object([:]), request), nil)
        case .confirm: try await state.confirm(app, body)
        case .sendConfirmation: try await state.sendConfirmation(app, body)
        case .callConfirmation: try await state.callConfirmation(app, body)
        case .reset: try await state.reset(app, body)
        case .sendReset: try await state.sendReset(app, body)
        case .callReset: try await state.callReset(app, body)
        case .callFunction: return try await callFunction(request, body, app)
        case .watch: return try await watch(request, app)
        case .registerPush(let service):
            guard let token = body["registrationToken"]?.string else { throw .missing("registrationToken") }
            let user = try await state.registerPush(app, service, authorization, token: token)
            return (Self.success(204, nil, request), user)
        case .deregisterPush(let service):
            let user = try await state.registerPush(app, service, authorization, token: nil)
            return (Self.success(204, nil, request), user)
        case .notEmulated(let what): throw .notEmulated(what)
        default: throw .noSuchRoute
        }
        // Confirmations and resets.
        return (Self.success(200, .object([:]), request), nil)
    }

    /// Calls whose path has no app.
    private func performForToken(
        _ request: HTTPRequest, _ call: ClientCall, _ body: JSONValue, _ number: Int?, _ authorization: String?
    ) async throws(ServiceError) -> Reply {
        if await state.options.isGone { throw .gone }
        var status = 200, value: JSONValue?
        switch call.operation {
        case .refresh: (status, value) = (201, try await state.refresh(authorization, number))
        case .logout:
            try await state.logout(authorization, number)
            status = 204
        case .profile:
            let token = try await state.access(authorization)
            value = try await state.profile(token.userID)
        case .deleteAccount:
            let user = try await state.deleteAccount(authorization, number)
            return (Self.success(204, nil, request), user)
        case .createKey: (status, value) = (201, try await state.createKey(authorization, body))
        case .listKeys: value = try await state.listKeys(authorization)
        case .key(let id): value = try await state.key(id, authorization)
        case .deleteKey(let id):
            try await state.deleteKey(id, authorization)
            status = 204
        case .setKeyDisabled(let isDisabled, let id):
            try await state.setKeyDisabled(isDisabled, id, authorization)
            status = 204
        case .notEmulated(let what): throw .notEmulated(what)
        default: throw .noSuchRoute
        }
        return (Self.success(status, value, request), nil)
    }

    private func callFunction(
        _ request: HTTPRequest, _ body: JSONValue, _ app: Int
    ) async throws(ServiceError) -> Reply {
        let (outcome, token) = try await state.call(body, request.headers[.authorization], app)
        switch outcome {
        case .value(let value): return (Self.success(200, ExtendedJSON.canonical(value), request), token.userID)
        case .wait(let milliseconds):
            try? await Task.sleep(for: .milliseconds(milliseconds))
            return (Self.success(200, .null, request), token.userID)
        // Outside a stream its messages are a list.
        case .events(let events, _):
            return (Self.success(200, ExtendedJSON.canonical(.array(events)), request), token.userID)
        }
    }

    /// A function call as a stream of events. core sends the access token in the query, realm-web in a field.
    private func watch(_ request: HTTPRequest, _ app: Int) async throws(ServiceError) -> Reply {
        guard let encoded = request.query["baas_request"] ?? request.query["stitch_request"] else {
            throw .missing("baas_request")
        }
        let authorization = Self.streamToken(request)
        var stream = EventStream(state: state)
        do throws(ServiceError) {
            let (outcome, token) = try await state.watch(encoded, authorization, app)
            stream.sessionID = token.sessionID
            switch outcome {
            case .value(let value): stream.messages = [EventStream.message(value)]
            case .wait(let milliseconds):
                (stream.messages, stream.holdSeconds) = ([EventStream.message(.null)], Double(milliseconds) / 1000)
            case .events(let events, let seconds):
                (stream.messages, stream.holdSeconds) = (events.map(EventStream.message), seconds)
            }
            return (Self.stream(stream, request), token.userID)
        } catch {
            // A call that has begun fails inside its stream.
            guard error.isOfFunction else { throw error }
            stream.messages = [EventStream.error(error)]
            return (Self.stream(stream, request), nil)
        }
    }

    /// The `Authorization` that a call has, or that its query stands for.
    static func streamToken(_ request: HTTPRequest) -> String? {
        let inQuery = request.query["baas_at"] ?? request.query["stitch_at"]
        return inQuery.map { "Bearer " + $0 } ?? request.headers[.authorization]
    }

    // MARK: Responses

    /// Origins as the client sees the service, so that a client behind a proxy gets a reachable one.
    private static func location(_ request: HTTPRequest) -> JSONValue {
        let origin = origin(request)
        return .members([
            "deployment_model": "LOCAL", "location": "US-VA", "hostname": .string(origin),
            "ws_hostname": .string("ws" + origin.dropFirst(4)),
        ])
    }

    private static func origin(_ request: HTTPRequest) -> String {
        let scheme = request.headers[HTTPHeader("X-Forwarded-Proto")] == "https" ? "https" : "http"
        let host = request.headers[HTTPHeader("X-Forwarded-Host")] ?? request.headers[.host] ?? "localhost"
        return scheme + "://" + host
    }

    static func success(_ status: Int, _ body: JSONValue?, _ request: HTTPRequest) -> EmulatorResponse {
        let fields = common(Identifiers.new(), request)
        return body.map { .json(status, $0, fields: fields) } ?? EmulatorResponse(status, fields: fields)
    }

    private static func stream(_ stream: EventStream, _ request: HTTPRequest) -> EmulatorResponse {
        let fields = common(Identifiers.new(), request)
        var response = EmulatorResponse(
            200, fields: fields + [("Content-Type", "text/event-stream"), ("Cache-Control", "no-cache")])
        response.stream = stream
        return response
    }

    /// An error in the service's format. The request id is in a header field and in the link.
    func failure(_ error: ServiceError, _ request: HTTPRequest, retryAfter: Int? = nil) async -> EmulatorResponse {
        let isVerbose = await state.options.verboseTexts
        let id = Identifiers.new()
        let group = Identifiers.derived(from: "group"), app = Identifiers.derived(from: "app")
        let link = "\(Self.origin(request))/groups/\(group)/apps/\(app)/logs?co_id=\(id)"
        let text = isVerbose ? error.verboseText ?? error.text : error.text
        let after: [(name: String, value: String)] = retryAfter.map { [("Retry-After", String($0))] } ?? []
        return .json(
            error.status,
            .members(["error": .string(text), "error_code": error.code.map { .string($0) }, "link": .string(link)]),
            fields: Self.common(id, request) + after)
    }

    /// The fields of every response. Browsers of any origin can read it, unless the app allows certain origins only (`naming`).
    private static func common(_ requestID: String, _ request: HTTPRequest) -> [(name: String, value: String)] {
        let asked = request.headers[HTTPHeader("Access-Control-Request-Headers")]
        return [
            ("x-appservices-request-id", requestID), (allowedOrigin, "*"),
            ("Access-Control-Allow-Headers", asked ?? "Authorization, Content-Type, Accept"),
            ("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE, OPTIONS"),
            ("Access-Control-Expose-Headers", "x-appservices-request-id, x-baas-location"),
            ("Access-Control-Max-Age", "600"),
        ]
    }
}
