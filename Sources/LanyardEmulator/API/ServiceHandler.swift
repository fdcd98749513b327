import FlyingFox
import Foundation

/// Handles every request: counts it, makes its response or its planned fault, and delays it as planned.
struct ServiceHandler: HTTPHandler {
    let state: ServiceState

    func handleRequest(_ request: HTTPRequest) async throws -> HTTPResponse {
        if request.path == "/emulator" || request.path.hasPrefix("/emulator/") {
            return await send(ControlAPI(state: state).response(request), to: request)
        }
        if let endpoint = OAuthEndpoint(path: request.path), await state.oauth != nil {
            let call = await OAuthAPI.Call(endpoint, request)
            return try await serve(request, call.route, call.clientID) { plan in await reply(request, call, plan) }
        }
        guard let call = ClientCall(request) else {
            _ = try await RequestBody.digest(request)
            return await send(ClientAPI(state: state).failure(.noSuchRoute, request), to: request)
        }
        return try await serve(request, call.route, call.appID) { plan in try await reply(request, call, plan) }
    }

    /// Counts a call, and makes its response as planned.
    private func serve(
        _ request: HTTPRequest, _ route: Route, _ appID: String?,
        _ reply: (ServiceState.Plan) async throws -> ClientAPI.Reply
    ) async throws -> HTTPResponse {
        let plan = await state.begin(route, (request.method.rawValue, request.path, appID))
        if plan.delay.before > 0 { try? await Task.sleep(for: .seconds(plan.delay.before)) }
        let (response, user) = try await reply(plan)
        let authorization = ClientAPI.streamToken(request)
        let caller = if let user { user } else { await state.subject(authorization) as String? }
        var seconds = plan.delay.after
        if case .late(let more) = plan.effect { seconds += more }
        if seconds > 0 { try? await Task.sleep(for: .seconds(seconds)) }
        guard case .lost(let loss) = plan.effect else {
            await state.end(route, plan.call, status: response.status, user: caller, .sent)
            return await send(response, to: request)
        }
        await state.end(route, plan.call, status: response.status, user: caller, .lost)
        return await loss.httpResponse(instead: response, to: request.method, date: state.date)
    }

    private func send(_ response: EmulatorResponse, to request: HTTPRequest) async -> HTTPResponse {
        response.httpResponse(to: request.method, date: await state.date)
    }

    /// A call of the OAuth side, whose body has been read.
    private func reply(
        _ request: HTTPRequest, _ call: OAuthAPI.Call, _ plan: ServiceState.Plan
    ) async -> ClientAPI.Reply {
        let api = OAuthAPI(state: state, request: request)
        switch plan.effect {
        case .instead(let response): return (response, nil)
        case .refused(let error, let retryAfter):
            return (api.failure(OAuthError(error), call.endpoint, retryAfter: retryAfter), nil)
        case .lost, .late, nil: return await api.reply(to: call, plan.call)
        }
    }

    private func reply(
        _ request: HTTPRequest, _ call: ClientCall, _ plan: ServiceState.Plan
    ) async throws -> ClientAPI.Reply {
        let api = ClientAPI(state: state)
        switch plan.effect {
        case .instead(let response):
            _ = try await RequestBody.digest(request)
            return (response, nil)
        case .refused(let error, let retryAfter):
            _ = try await RequestBody.digest(request)
            return (await api.failure(error, request, retryAfter: retryAfter), nil)
        case .lost, .late, nil: break
        }
        if call.route == .protected { return try await ProtectedResource(state: state).response(request) }
        return await api.response(request, call, plan.call)
    }
}
