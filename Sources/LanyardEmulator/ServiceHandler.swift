import FlyingFox
import Foundation

/// Every request comes through here: it is counted, failed or answered, and held back as planned.
struct ServiceHandler: HTTPHandler {
    let state: ServiceState

    func handleRequest(_ request: HTTPRequest) async throws -> HTTPResponse {
        if request.path == "/emulator" || request.path.hasPrefix("/emulator/") {
            return await send(ControlAPI(state: state).answer(request), to: request)
        }
        guard let route = Route(request.method, request.path) else {
            _ = try await RequestBody.digest(request)
            return await send(ClientAPI.failure(.noSuchRoute, request), to: request)
        }
        let plan = await state.begin(route)
        if plan.delay.before > 0 { try? await Task.sleep(for: .seconds(plan.delay.before)) }
        let (answer, user) = try await answer(request, route, plan)
        let authorization = request.headers[.authorization]
        let caller = if let user { user } else { await state.subject(authorization) as String? }
        var seconds = plan.delay.after
        if case .late(let more) = plan.effect { seconds += more }
        if seconds > 0 { try? await Task.sleep(for: .seconds(seconds)) }
        guard case .lost(let loss) = plan.effect else {
            await state.end(route, plan.call, status: answer.status, user: caller, .sent)
            return await send(answer, to: request)
        }
        await state.end(route, plan.call, status: answer.status, user: caller, .lost)
        return await loss.response(instead: answer, to: request.method, date: state.date)
    }

    private func send(_ answer: Answer, to request: HTTPRequest) async -> HTTPResponse {
        answer.response(to: request.method, date: await state.date)
    }

    private func answer(_ request: HTTPRequest, _ route: Route, _ plan: ServiceState.Plan) async throws -> (
        Answer, userID: String?
    ) {
        if case .instead(let answer) = plan.effect {
            _ = try await RequestBody.digest(request)
            return (answer, nil)
        }
        if route == .protected { return try await ProtectedResource(state: state).answer(request) }
        return await ClientAPI(state: state).answer(request, route, plan.call)
    }
}
