import FlyingFox

extension ServiceState {
    /// `POST …/auth/providers/<provider>/login`.
    func login(
        _ provider: String, _ body: JSONValue, _ call: Int?
    ) throws(ServiceError) -> (response: JSONValue, userID: String) {
        let userID: String
        switch provider {
        case "anon-user": userID = anonymousUser()
        case "local-userpass": userID = try passwordUser(body)
        case "api-key": userID = try keyUser(body)
        default: throw .unsupportedProvider(provider)
        }
        guard let user = users[userID], !user.disabled else { throw .disabled }
        sessionCount += 1
        let session = EmulatorSession(
            number: sessionCount, id: Identifiers.new(), userID: userID, account: name(of: userID) ?? userID,
            kind: provider,
            deviceID: deviceID(body), startedAt: now, refreshExpiresAt: now + options.refreshTokenSeconds,
            identity: user.identities.first ?? .null)
        sessions[session.id] = session
        updateStatistics(session) { $0.logins[provider, default: 0] += 1 }
        updateJournal(call) {
            $0.account = session.account
            $0.sessionID = session.id
            $0.refreshTokenSerial = 1
            $0.effect = .login
        }
        let response: [String: JSONValue] = [
            "access_token": .string(accessToken(of: session, cause: "login")),
            "refresh_token": .string(refreshToken(of: session)),
            "user_id": .string(userID), "device_id": .string(session.deviceID),
        ]
        return (.object(response), userID)
    }

    /// `POST …/local-userpass/register`, confirmed at once.
    func register(_ body: JSONValue) throws(ServiceError) {
        guard let email = body["email"]?.string else { throw .missing("email") }
        guard let password = body["password"]?.string else { throw .missing("password") }
        guard !email.isEmpty else { throw .emailInvalid }
        guard (6...128).contains(password.count) else { throw .passwordLength }
        guard emails[email] == nil else { throw .nameInUse }
        emails[email] = EmailAccount(password: password)
    }

    /// `GET …/auth/profile`.
    func profile(_ userID: String) throws(ServiceError) -> JSONValue {
        guard let user = users[userID] else { throw .refreshUnknown }
        return .object([
            "user_id": .string(userID), "domain_id": .string(domainID), "identities": .array(user.identities),
            "data": .object(user.data), "type": .string(user.type),
        ])
    }

    private func anonymousUser() -> String {
        let id = Identifiers.new()
        let identity = identity(Identifiers.new() + "-" + Identifiers.letters(), "anon-user")
        users[id] = User(id: id, identities: [identity], data: [:])
        return id
    }

    private func passwordUser(_ body: JSONValue) throws(ServiceError) -> String {
        guard let email = body["username"]?.string else { throw .missing("username") }
        guard let password = body["password"]?.string else { throw .missing("password") }
        guard let account = emails[email], account.password == password else { throw .wrongPassword }
        return emailUser(email)
    }

    private func keyUser(_ body: JSONValue) throws(ServiceError) -> String {
        guard let text = body["key"]?.string else { throw .missing("key") }
        guard let key = keys[text], !key.disabled else { throw .refusedCredential }
        if let id = key.userID { return id }
        let id: String
        if let email = key.email {
            guard emails[email] != nil else { throw .refusedCredential }
            id = emailUser(email)
        } else {
            id = Identifiers.new()
            users[id] = User(
                id: id, identities: [identity(key.id, "api-key")], data: ["name": .string(key.name)], type: "server")
        }
        keys[text]?.userID = id
        return id
    }

    /// A device id if the client describes its device: the one that it sends, or a new one. Otherwise zeros.
    private func deviceID(_ body: JSONValue) -> String {
        guard let device = body["options"]?["device"] else { return Identifiers.noDevice }
        let known = device["deviceId"]?.string ?? device["deviceId"]?["$oid"]?.string ?? ""
        return Identifiers.isID(known) && known != Identifiers.noDevice ? known : Identifiers.new()
    }
}
