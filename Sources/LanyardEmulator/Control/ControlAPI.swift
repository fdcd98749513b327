import FlyingFox

/// `/emulator/…`: the controls for tests and developers. Their calls are not counted, delayed or failed.
struct ControlAPI {
    let state: ServiceState

    /// A control call that cannot be made. A type of its own, because its response has a text alone.
    struct ControlError: Error {
        let text: String
        var status = 400
    }

    /// One control call.
    struct Call {
        /// Method and path below `/emulator`, such as `GET /users`.
        let name: String
        let body: JSONValue
        let query: [HTTPRequest.QueryItem]
    }

    func response(_ request: HTTPRequest) async -> EmulatorResponse {
        do throws(ControlError) {
            let body: JSONValue
            do throws(ServiceError) { body = try await RequestBody.json(request) } catch {
                throw ControlError(text: "the body is not a JSON object")
            }
            let name = request.method.rawValue + " " + request.path.dropFirst("/emulator".count)
            let response = try await response(Call(name: name, body: body, query: request.query))
            if request.method != .GET { await state.noteChange() }
            return response
        } catch {
            return .json(error.status, .members(["error": .string(error.text)]))
        }
    }

    private func response(_ call: Call) async throws(ControlError) -> EmulatorResponse {
        if let response = try await history(call) { return response }
        if let response = try await sessions(call) { return response }
        if let response = try await users(call) { return response }
        if let response = try await apps(call) { return response }
        if let response = try await faults(call) { return response }
        if let response = try await oauth(call) { return response }
        if let response = try await snapshot(call) { return response }
        throw ControlError(text: "no such control call: \(call.name)", status: 404)
    }

    /// What the service has seen and done.
    private func history(_ call: Call) async throws(ControlError) -> EmulatorResponse? {
        switch call.name {
        case "GET /counts": return .json(200, await state.countsJSON())
        case "DELETE /counts":
            await state.resetCounts()
            return EmulatorResponse(204)
        case "GET /ledger": return .json(200, await state.statistics.json)
        case "GET /journal", "GET /calls":
            let number = try after(call)
            return .json(200, .array(await state.journal.after(number).map(\.json)))
        case "GET /functions":
            let number = try after(call), appID = try await appID(call)
            return .json(200, await state.functionRuns.after(number, appID: appID))
        case "GET /tokens": return .json(200, await state.issuedTokens())
        case "GET /mails":
            let number = try after(call), appID = try await appID(call)
            return .json(200, await state.mails(after: number, email: call.query["email"], appID: appID))
        case "DELETE /mails":
            await state.hideMails()
            return EmulatorResponse(204)
        case "GET /settings": return .json(200, await state.settings())
        case "PUT /settings":
            if let wrong = await state.change(call.body.object ?? JSONObject()) {
                throw ControlError(text: "no such setting, or of the wrong kind: \(wrong)")
            }
            return .json(200, await state.settings())
        default: return nil
        }
    }

    private func sessions(_ call: Call) async throws(ControlError) -> EmulatorResponse? {
        switch call.name {
        case "GET /sessions":
            let appID = try await appID(call)
            let now = await state.now
            let sessions = await state.sessionList().filter { appID == nil || $0.appID == appID }
            return .json(200, .array(sessions.map { $0.json(at: now) }))
        case "POST /tokens/expire":
            let user = try await optionalUser(call)
            return .json(200, .members(["expired": .int(await state.expireAccessTokens(of: user))]))
        case "POST /sessions/revoke":
            let user = try await optionalUser(call)
            return .json(200, .members(["revoked": .int(await state.revokeSessions(of: user))]))
        default: return nil
        }
    }

    private func snapshot(_ call: Call) async throws(ControlError) -> EmulatorResponse? {
        switch call.name {
        case "POST /reset":
            await state.reset()
            return EmulatorResponse(204)
        case "GET /snapshot":
            return EmulatorResponse(
                200, fields: [("Content-Type", "application/json")],
                body: String(decoding: await state.snapshot(), as: UTF8.self))
        case "PUT /snapshot":
            do {
                try await state.restore(Array(call.body.text.utf8))
            } catch {
                throw ControlError(text: "no snapshot of this version: \(error)")
            }
            return EmulatorResponse(204)
        case "POST /snapshot":
            guard await state.options.snapshotPath != nil else {
                throw ControlError(text: "the emulator runs without --snapshot", status: 409)
            }
            do {
                try await state.writeSnapshot()
            } catch {
                throw ControlError(text: "\(error)", status: 500)
            }
            return EmulatorResponse(204)
        default: return nil
        }
    }

    // MARK: Members of bodies and queries

    /// The app that the call names; nil: none.
    func app(_ call: Call) async throws(ControlError) -> Int? {
        guard let id = call.body["app"]?.string ?? call.query["app"] else { return nil }
        guard let app = await state.index(ofApp: id) else {
            throw ControlError(text: "no such app: \(id)", status: 404)
        }
        return app
    }

    /// The id of an app, or of a client of the OAuth side.
    private func appID(_ call: Call) async throws(ControlError) -> String? {
        if let id = call.body["app"]?.string ?? call.query["app"],
            await state.oauth?.settings.clients.contains(where: { $0.id == id }) == true
        {
            return id
        }
        guard let app = try await app(call) else { return nil }
        return await state.apps[app].settings.appID
    }

    func text(_ name: String, _ call: Call) throws(ControlError) -> String {
        guard let text = call.body[name]?.string else { throw ControlError(text: "\(name) is required") }
        return text
    }

    /// The user id for `user` in the body.
    func user(_ call: Call) async throws(ControlError) -> String {
        guard let user = try await optionalUser(call) else { throw ControlError(text: "user is required") }
        return user
    }

    /// The same, or nil if the body has no `user`.
    func optionalUser(_ call: Call) async throws(ControlError) -> String? {
        guard let name = call.body["user"]?.string else { return nil }
        if let id = await state.userID(named: name, try await app(call)) { return id }
        // The tokens of a client belong to the client itself.
        guard await state.oauth?.settings.clients.contains(where: { $0.id == name }) == true else {
            throw ControlError(text: "no such user: \(name)", status: 404)
        }
        return name
    }

    private func after(_ call: Call) throws(ControlError) -> Int {
        guard let number = Int(call.query["after"] ?? "0") else { throw ControlError(text: "after is a number") }
        return number
    }
}
