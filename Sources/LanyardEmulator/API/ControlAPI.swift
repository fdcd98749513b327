import FlyingFox

/// `/emulator/…`: the controls for tests and developers. Their calls are not counted, delayed or failed.
struct ControlAPI {
    let state: ServiceState

    func response(_ request: HTTPRequest) async -> EmulatorResponse {
        let body: JSONValue
        do throws(ServiceError) { body = try await RequestBody.json(request) } catch {
            return Self.wrong("the body is not a JSON object")
        }
        let call = request.method.rawValue + " " + request.path.dropFirst("/emulator".count)
        switch call {
        case "GET /counts": return .json(200, await state.countsJSON())
        case "DELETE /counts":
            await state.resetCounts()
            return EmulatorResponse(204)
        case "GET /ledger": return .json(200, await state.statistics.json)
        case "GET /sessions":
            let now = await state.now
            return .json(200, .array(await state.sessionList().map { $0.json(at: now) }))
        case "GET /journal":
            let after = request.query.first { $0.name == "after" }?.value
            guard let number = Int(after ?? "0") else { return Self.wrong("after is a call's number") }
            return .json(200, .array(await state.journal.after(number).map(\.json)))
        case "GET /tokens": return .json(200, await state.issuedTokens())
        case "POST /tokens/expire":
            return await withUser(body) {
                .json(200, .object(["expired": .int(await state.expireAccessTokens(of: $0))]))
            }
        case "POST /sessions/revoke":
            return await withUser(body) { .json(200, .object(["revoked": .int(await state.revokeSessions(of: $0))])) }
        case "GET /settings": return .json(200, await state.settings())
        case "PUT /settings": return await settings(body)
        default:
            if let response = await users(call, body) { return response }
            if let response = await faults(call, body) { return response }
            return Self.wrong("no such control call: \(call)", 404)
        }
    }

    private func users(_ call: String, _ body: JSONValue) async -> EmulatorResponse? {
        switch call {
        case "GET /users": return .json(200, await state.usersJSON())
        case "POST /users":
            do throws(ServiceError) { try await state.register(body) } catch {
                return Self.wrong(error.text, error.status)
            }
            let id = await state.userID(named: body["email"]?.string ?? "")
            return .json(201, .object(["user_id": id.map { .string($0) } ?? .null]))
        case "POST /users/disable", "POST /users/enable":
            return await withUser(body, required: true) { user in
                if let user { await state.setDisabled(call.hasSuffix("disable"), user) }
                return EmulatorResponse(204)
            }
        case "POST /users/delete":
            return await withUser(body, required: true) { user in
                if let user { await state.deleteUser(user) }
                return EmulatorResponse(204)
            }
        case "POST /users/password":
            guard let email = body["user"]?.string, let password = body["password"]?.string else {
                return Self.wrong("user and password are required")
            }
            await state.setPassword(password, email: email)
            return EmulatorResponse(204)
        case "POST /api-keys":
            guard let name = body["name"]?.string else { return Self.wrong("name is required") }
            let key = await state.addKey(name: name, key: body["key"]?.string, email: body["user"]?.string)
            return .json(201, .object(["name": .string(name), "key": .string(key)]))
        case "POST /api-keys/disable", "POST /api-keys/enable":
            let known = await state.setKeyDisabled(call.hasSuffix("disable"), name: body["name"]?.string ?? "")
            return known ? EmulatorResponse(204) : Self.wrong("no such key", 404)
        default: return nil
        }
    }

    private func faults(_ call: String, _ body: JSONValue) async -> EmulatorResponse? {
        switch call {
        case "GET /faults": return .json(200, await state.plannedFaults())
        case "POST /faults":
            guard let fault = await PlannedFault(body, appID: state.options.appID) else {
                return Self.wrong(
                    "route is * or one of \(Self.routeNames); fault is one of "
                        + PlannedFault.Kind.allCases.map(\.rawValue).joined(separator: ", ")
                        + "; times is a whole number from 1")
            }
            await state.plan(fault)
            return EmulatorResponse(204)
        case "DELETE /faults":
            await state.clearFaults(body["route"]?.string.flatMap(Route.init(rawValue:)))
            return EmulatorResponse(204)
        case "GET /delays": return .json(200, await state.plannedDelays())
        case "POST /delays":
            guard let route = body["route"]?.string.flatMap(Route.init(rawValue:)),
                let time = body["milliseconds"]?.double
            else {
                return Self.wrong(
                    "route is one of \(Self.routeNames); milliseconds is a number; before is true or false")
            }
            await state.setDelay(time / 1000, route, beforeEffect: body["before"]?.bool ?? false)
            return EmulatorResponse(204)
        case "DELETE /delays":
            await state.clearDelays()
            return EmulatorResponse(204)
        default: return nil
        }
    }

    private func settings(_ body: JSONValue) async -> EmulatorResponse {
        guard case .object(let settings) = body else { return Self.wrong("an object is expected") }
        if let wrong = await state.change(settings) {
            return Self.wrong("no such setting, or of the wrong kind: \(wrong)")
        }
        return .json(200, await state.settings())
    }

    /// Calls `act` with the user id for `user` in the body; with nil if the body has no `user` and none is required.
    private func withUser(_ body: JSONValue, required: Bool = false, _ act: (String?) async -> EmulatorResponse) async
        -> EmulatorResponse
    {
        guard let name = body["user"]?.string else {
            return required ? Self.wrong("user is required") : await act(nil)
        }
        guard let id = await state.userID(named: name) else { return Self.wrong("no such user: \(name)", 404) }
        return await act(id)
    }

    private static let routeNames = Route.allCases.map(\.rawValue).joined(separator: ", ")

    private static func wrong(_ text: String, _ status: Int = 400) -> EmulatorResponse {
        .json(status, .object(["error": .string(text)]))
    }
}
