/// Users and keys.
extension ControlAPI {
    func users(_ call: Call) async throws(ControlError) -> EmulatorResponse? {
        switch call.name {
        case "GET /users": return .json(200, await state.usersJSON(try await app(call)))
        case "POST /users": return try await addUser(call)
        case "POST /users/disable", "POST /users/enable":
            await state.setDisabled(call.name.hasSuffix("disable"), try await user(call))
        case "POST /users/delete": await state.deleteUser(try await user(call))
        case "POST /users/password":
            let email = try text("user", call), password = try text("password", call)
            await state.setPassword(password, email: email, try await app(call))
        case "POST /users/confirm":
            let name = try text("user", call)
            guard await state.confirmAccount(name, try await app(call)) else {
                throw ControlError(text: "no such user: \(name)", status: 404)
            }
        case "PUT /users/custom-data":
            guard let data = call.body["custom_data"]?.object else {
                throw ControlError(text: "custom_data is an object")
            }
            await state.setCustomData(data, try await user(call))
        case "POST /api-keys":
            let name = try text("name", call)
            let key = await state.addKey(
                name: name, key: call.body["key"]?.string, email: call.body["user"]?.string, try await app(call) ?? 0)
            return .json(201, .members(["name": .string(name), "key": .string(key)]))
        case "POST /api-keys/disable", "POST /api-keys/enable":
            let name = call.body["name"]?.string ?? ""
            let isDisabled = call.name.hasSuffix("disable")
            guard await state.setKeyDisabled(isDisabled, name: name, try await app(call)) else {
                throw ControlError(text: "no such key", status: 404)
            }
        default: return nil
        }
        return EmulatorResponse(204)
    }

    private func addUser(_ call: Call) async throws(ControlError) -> EmulatorResponse {
        let app = try await app(call) ?? 0
        do throws(ServiceError) {
            try await state.addAccount(app, call.body)
        } catch {
            throw ControlError(text: error.text, status: error.status)
        }
        let isConfirmed = call.body["confirmed"]?.bool ?? true
        let email = call.body["email"]?.string ?? ""
        let id = isConfirmed ? await state.userID(named: email, app) : nil
        return .json(201, .members(["user_id": .orNull(id)]))
    }
}
