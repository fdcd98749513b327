/// The controls of the OAuth side.
extension ControlAPI {
    func oauth(_ call: Call) async throws(ControlError) -> EmulatorResponse? {
        let names = call.name.split(separator: " ", maxSplits: 1)
        guard names.count == 2, names[1] == "/oauth" || names[1].hasPrefix("/oauth/") else { return nil }
        guard await state.oauth != nil else {
            throw ControlError(text: "the emulator runs without --oauth", status: 409)
        }
        switch call.name {
        case "GET /oauth/clients": return .json(200, await state.clientsJSON())
        case "POST /oauth/clients":
            let client: OAuthSettings.Client
            do throws(SeedReader.ReadError) {
                // JSON is YAML. A call may not name files.
                let node = try ConfigurationNode.read(Array(call.body.text.utf8))
                client = try OAuthReader.client(node, SeedFiles(folder: nil))
            } catch {
                throw ControlError(text: error.description)
            }
            let isNew = await state.put(client)
            return .json(isNew ? 201 : 200, .members(["client_id": .string(client.id)]))
        case "POST /oauth/clients/delete":
            let id = try text("client_id", call)
            guard await state.deleteClient(id) else {
                throw ControlError(text: "no such client: \(id)", status: 404)
            }
            return EmulatorResponse(204)
        case "GET /oauth/devices": return .json(200, await state.devicesJSON())
        case "POST /oauth/approve", "POST /oauth/deny":
            return try await decideDevice(call, isApproved: call.name.hasSuffix("approve"))
        default: return nil
        }
    }

    /// A device login that waits: the one with the code, else the newest. It is approved for the user, else for the first one.
    private func decideDevice(_ call: Call, isApproved: Bool) async throws(ControlError) -> EmulatorResponse {
        var userID: String?
        if isApproved {
            userID = if let user = try await optionalUser(call) { user } else { await state.firstOAuthUser() }
            guard let id = userID, await state.user(id) != nil else {
                throw ControlError(text: "there is no user: --user NAME:PASSWORD-FILE makes one", status: 404)
            }
        }
        let code = call.body["user_code"]?.string
        guard let login = await state.decideDevice(code, userID) else {
            throw ControlError(
                text: code.map { "no login waits with the code \($0)" } ?? "no device login waits", status: 404)
        }
        let name = if let userID { await state.name(of: userID) ?? userID } else { nil as String? }
        return .json(
            200,
            .members([
                "user_code": .string(login.userCode), "client_id": .string(login.clientID), "user": .orNull(name),
            ]))
    }
}

extension ServiceState {
    /// The user that approves what no user is named for: the first configured one, else the first by its name.
    func firstOAuthUser() -> String? {
        let name = apps[0].settings.users.first?.email ?? apps[0].accounts.emails.keys.min()
        return name.flatMap { emailUser($0, 0) }
    }

    /// Approves or denies a device login that waits.
    ///
    /// - Parameters:
    ///   - userCode: nil: the newest one.
    ///   - userID: nil: it is denied.
    /// - Returns: nil: none waits.
    func decideDevice(_ userCode: String?, _ userID: String?) -> DeviceLogin? {
        guard let login = userCode.map({ waitingDevice($0) }) ?? waitingDevices().last else { return nil }
        decide(login, userID)
        return login
    }

    /// Adds a client, or replaces the one with its id.
    ///
    /// - Returns: whether it is new.
    func put(_ client: OAuthSettings.Client) -> Bool {
        if let index = oauth?.settings.clients.firstIndex(where: { $0.id == client.id }) {
            oauth?.settings.clients[index] = client
            return false
        }
        oauth?.settings.clients.append(client)
        return true
    }

    /// - Returns: whether there was one.
    func deleteClient(_ id: String) -> Bool {
        guard let index = oauth?.settings.clients.firstIndex(where: { $0.id == id }) else { return false }
        oauth?.settings.clients.remove(at: index)
        return true
    }

    /// Without secrets.
    func clientsJSON() -> JSONValue {
        .array(
            (oauth?.settings.clients ?? []).map { client -> JSONValue in
                .members([
                    "client_id": .string(client.id), "has_secret": .boolean(client.secret != nil),
                    "requires_secret": .boolean(client.secret != nil && client.requiresSecret),
                    "grants": .array(
                        OAuthGrant.allCases.filter(client.grants.contains).map { .string($0.name) }),
                    "scopes": (client.scopes ?? oauth?.settings.scopes).map { .array($0.map { .string($0) }) }
                        ?? .null,
                    "redirect_uris": .array(client.redirectURIs.map { .string($0) }),
                ])
            })
    }

    /// Device logins, the oldest first, without their device codes.
    func devicesJSON() -> JSONValue {
        let at = now
        return .array(
            (oauth?.records.devices.all ?? []).map(\.record).map { login -> JSONValue in
                let isExpired = login.phase != .used && at >= login.expiresAt
                return .members([
                    "user_code": .string(login.userCode), "client_id": .string(login.clientID),
                    "scope": .string(login.scopes.joined(separator: " ")),
                    "state": .string(isExpired ? "expired" : login.phase.rawValue),
                    "user": .orNull(login.userID.flatMap { name(of: $0) }), "polls": .int(login.polls),
                    "interval": .double(login.intervalSeconds), "expires_at": .double(login.expiresAt),
                ])
            })
    }
}
