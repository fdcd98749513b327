import FlyingFox
import Foundation

/// Every request comes through here: it is counted, failed or answered, and held back as planned.
struct ServiceHandler: HTTPHandler {
    let state: ServiceState

    func handleRequest(_ request: HTTPRequest) async throws -> HTTPResponse {
        if request.path == "/emulator" || request.path.hasPrefix("/emulator/") {
            return await ControlAPI(state: state).answer(request).response(to: request.method)
        }
        guard let route = Route(request.method, request.path) else {
            _ = try await RequestBody.digest(request)
            return ClientAPI.failure(.noSuchRoute, request).response(to: request.method)
        }
        let plan = await state.begin(route)
        let (answer, user) = try await answer(request, route, plan.fault)
        let authorization = request.headers[.authorization]
        let caller = if let user { user } else { await state.subject(authorization) as String? }
        if plan.delaySeconds > 0 { try? await Task.sleep(for: .seconds(plan.delaySeconds)) }
        await state.end(route, status: answer.status, user: caller)
        return answer.response(to: request.method)
    }

    private func answer(_ request: HTTPRequest, _ route: Route, _ fault: Answer?) async throws -> (
        Answer, userID: String?
    ) {
        if let fault {
            _ = try await RequestBody.digest(request)
            return (fault, nil)
        }
        if route == .protected { return try await ProtectedResource(state: state).answer(request) }
        return await ClientAPI(state: state).answer(request, route)
    }
}
