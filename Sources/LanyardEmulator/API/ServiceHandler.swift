import FlyingFox
import Foundation

/// Handles every request: counts it, makes its response or its planned fault, and delays it as planned.
struct ServiceHandler: HTTPHandler {
    let state: ServiceState

    func handleRequest(_ request: HTTPRequest) async throws -> HTTPResponse {
        if request.path == "/emulator" || request.path.hasPrefix("/emulator/") {
            return await send(ControlAPI(state: state).response(request), to: request)
        }
        guard let route = Route(request.method, request.path) else {
            _ = try await RequestBody.digest(request)
            return await send(ClientAPI.failure(.noSuchRoute, request), to: request)
        }
        let plan = await state.begin(route)
        if plan.delay.before > 0 { try? await Task.sleep(for: .seconds(plan.delay.before)) }
        let (response, user) = try await response(request, route, plan)
        let authorization = request.headers[.authorization]
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

    private func response(_ request: HTTPRequest, _ route: Route, _ plan: ServiceState.Plan) async throws -> (
        EmulatorResponse, userID: String?
    ) {
        if case .instead(let response) = plan.effect {
            _ = try await RequestBody.digest(request)
            return (response, nil)
        }
        if route == .protected { return try await ProtectedResource(state: state).response(request) }
        return await ClientAPI(state: state).response(request, route, plan.call)
    }
}

/// The routes with calls that are counted, delayed and failed. The raw value is the name in `/emulator/…`.
enum Route: String, CaseIterable, Sendable {
    case location, register, login, refresh, logout, profile, protected
    /// Every other path under `/api`.
    case other

    private static let session = "/api/client/v2.0/auth/session"

    /// The route of a request; nil for `/emulator/…` and for unknown paths.
    init?(_ method: HTTPMethod, _ path: String) {
        switch (method, path) {
        case (_, "/protected"): self = .protected
        case _ where path.hasPrefix("/protected/"): self = .protected
        case (.POST, Self.session): self = .refresh
        case (.DELETE, Self.session): self = .logout
        case (.GET, "/api/client/v2.0/auth/profile"): self = .profile
        case (.GET, _) where path.hasSuffix("/location"): self = .location
        case (.POST, _) where path.hasSuffix("/local-userpass/register"): self = .register
        case (.POST, _) where path.hasSuffix("/login"): self = .login
        case _ where path.hasPrefix("/api/"): self = .other
        default: return nil
        }
    }
}
