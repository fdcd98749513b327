/// Logging in and linking.
extension ServiceState {
    /// A login or a link that has succeeded.
    struct LoggedIn {
        let response: JSONValue
        let userID: String
    }

    /// What a credential stands for.
    enum Claimant {
        case anonymous
        /// An email/password account, by its email.
        case email(String)
        /// An API key, by its id.
        case key(String)
        case external(Provider, ExternalUser)
    }

    /// `POST …/auth/providers/<provider>/login`.
    func login(_ app: Int, _ provider: String, _ body: JSONValue, _ call: Int?) throws(ServiceError) -> LoggedIn {
        let provider = try enabledProvider(provider, app)
        let claimant = try claimant(provider, body, app)
        return try startSession(of: claimant, provider, app, deviceID: Self.deviceID(body["options"]?["device"]), call)
    }

    /// A session for a credential that has been verified. Its user is created if it does not exist yet.
    func startSession(
        of claimant: Claimant, _ provider: Provider, _ app: Int, deviceID: String, _ call: Int?
    ) throws(ServiceError) -> LoggedIn {
        let (userID, identity) = try user(of: claimant, app)
        guard let user = apps[app].accounts.users[userID], !user.isDisabled else { throw .disabled }
        let life = user.isAnonymous ? options.anonymousRefreshTokenSeconds : options.refreshTokenSeconds
        sessionCount += 1
        let session = EmulatorSession(
            number: sessionCount, id: Identifiers.new(), appID: apps[app].settings.appID, userID: userID,
            account: name(of: userID) ?? userID, kind: provider.rawValue, deviceID: deviceID, startedAt: now,
            refreshExpiresAt: now + life, identity: identity)
        sessions[session.id] = session
        updateStatistics(session) { $0.logins[provider.rawValue, default: 0] += 1 }
        updateJournal(call) {
            $0.account = session.account
            $0.sessionID = session.id
            $0.refreshTokenSerial = 1
            $0.effect = .login
        }
        return LoggedIn(
            response: .members([
                "access_token": .string(accessToken(of: session, cause: "login")),
                "refresh_token": .string(refreshToken(of: session)), "user_id": .string(userID),
                "device_id": .string(session.deviceID),
            ]), userID: userID)
    }

    /// `POST …/auth/providers/<provider>/login?link=true`. The response has no refresh token: the session stays.
    func link(
        _ app: Int, _ provider: String, _ body: JSONValue, _ authorization: String?, _ call: Int?
    ) throws(ServiceError) -> LoggedIn {
        let token = try access(authorization, app)
        let provider = try enabledProvider(provider, app)
        let claimant: Claimant
        do throws(ServiceError) {
            claimant = try self.claimant(provider, body, app)
        } catch {
            var error = error
            // As the service does for the tokens of Facebook, so for those of the other OAuth providers.
            if provider.isOAuth, error.code == "AuthError" { error.code = "InvalidSession" }
            throw linkFailure(error)
        }
        return try link(claimant, to: token, app, call)
    }

    /// Adds the identity of a verified credential to a user.
    func link(
        _ claimant: Claimant, to token: IssuedToken, _ app: Int, _ call: Int?
    ) throws(ServiceError) -> LoggedIn {
        guard apps[app].accounts.users[token.userID] != nil, let session = anySession(token.sessionID) else {
            throw .refreshUnknown
        }
        do throws(ServiceError) {
            try add(claimant, to: token.userID, app)
        } catch {
            throw linkFailure(error)
        }
        updateJournal(call) {
            $0.account = name(of: token.userID) ?? token.userID
            $0.sessionID = session.id
            $0.effect = .linked
        }
        return LoggedIn(
            response: .members([
                "access_token": .string(accessToken(of: session, cause: "link")), "user_id": .string(token.userID),
                "device_id": .string(session.deviceID),
            ]), userID: token.userID)
    }

    /// realm-web repeats a refused link for ever if its code is `InvalidSession` or its text `unauthorized`.
    private func linkFailure(_ error: ServiceError) -> ServiceError {
        guard options.webLinkFailures else { return error }
        var error = error
        if error.code == "InvalidSession" { error.code = "AuthError" }
        if error.text == "unauthorized" { error.text = error.verboseText ?? "credentials refused" }
        return error
    }

    private func add(_ claimant: Claimant, to userID: String, _ app: Int) throws(ServiceError) {
        switch claimant {
        case .anonymous: throw .anonymousLink
        case .email(let email):
            guard let account = emailAccount(email, app) else { throw .wrongPassword }
            if account.userID == userID { return }
            guard account.userID == nil else { throw .identityInUse }
            guard user(userID)?.identity(of: .emailPassword) == nil else { throw .secondEmail }
            updateEmailAccount(email, app) { $0.userID = userID }
            attach(Self.identity(of: account), ["email": .string(account.email)], to: userID)
        case .key(let id):
            let key = apps[app].accounts.key(withID: id).map { apps[app].accounts.keys[$0] }
            guard let key, owner(of: key, app) == userID else { throw .identityInUse }
        case .external(let provider, let external):
            let ownerKey = AppAccounts.ownerKey(provider, external.id)
            if let owner = apps[app].accounts.owners[ownerKey] {
                guard owner == userID else { throw .identityInUse }
                return
            }
            apps[app].accounts.owners[ownerKey] = userID
            attach(Identity(id: external.id, provider: provider, data: external.data), external.data, to: userID)
        }
    }

    private func attach(_ identity: Identity, _ data: JSONObject, to userID: String) {
        updateUser(userID) {
            $0.identities.append(identity)
            $0.data = $0.data.merging(data)
        }
    }

    func enabledProvider(_ name: String, _ app: Int) throws(ServiceError) -> Provider {
        guard let provider = Provider(rawValue: name), apps[app].settings.providers.enabled.contains(provider) else {
            throw .unsupportedProvider(name)
        }
        return provider
    }

    /// The user of a credential, and the identity that logs in.
    private func user(of claimant: Claimant, _ app: Int) throws(ServiceError) -> (id: String, Identity) {
        switch claimant {
        case .anonymous:
            let identity = Identity(id: Identity.newID(), provider: .anonymous)
            return (newUser(identity, data: [:], app), identity)
        case .email(let email):
            guard let id = emailUser(email, app), let identity = user(id)?.identity(of: .emailPassword) else {
                throw .wrongPassword
            }
            return (id, identity)
        case .key(let id): return try user(ofKey: id, app)
        case .external(let provider, let external):
            let identity = Identity(id: external.id, provider: provider, data: external.data)
            let ownerKey = AppAccounts.ownerKey(provider, external.id)
            guard let owner = apps[app].accounts.owners[ownerKey] else {
                let id = newUser(identity, data: external.data, app)
                apps[app].accounts.owners[ownerKey] = id
                return (id, identity)
            }
            // The provider may describe the user in another way than last time.
            updateUser(owner) { user in
                user.data = user.data.merging(external.data)
                for index in user.identities.indices
                where user.identities[index].provider == provider && user.identities[index].id == external.id {
                    user.identities[index].data = external.data
                }
            }
            return (owner, identity)
        }
    }

    private func newUser(_ identity: Identity, data: JSONObject, type: String = "normal", _ app: Int) -> String {
        let user = User(id: Identifiers.new(), identities: [identity], data: data, type: type, createdAt: now)
        apps[app].accounts.users[user.id] = user
        return user.id
    }

    /// The owner of a user key, or the server user that belongs to a server key.
    private func user(ofKey id: String, _ app: Int) throws(ServiceError) -> (id: String, Identity) {
        guard let index = apps[app].accounts.key(withID: id) else { throw .refusedKey }
        let key = apps[app].accounts.keys[index]
        let identity = Identity(id: key.id, provider: .apiKey)
        if let userID = key.userID { return (userID, identity) }
        let userID: String
        if let email = key.email {
            guard let owner = emailUser(email, app) else { throw .refusedKey }
            userID = owner
        } else {
            userID = newUser(identity, data: ["name": .string(key.name)], type: "server", app)
        }
        apps[app].accounts.keys[index].userID = userID
        return (userID, identity)
    }

    /// A device id if the client describes its device: the one that it sends, or a new one. Otherwise zeros.
    static func deviceID(_ device: JSONValue?) -> String {
        guard let device else { return Identifiers.noDevice }
        let known = device["deviceId"]?.string ?? device["deviceId"]?["$oid"]?.string ?? ""
        return Identifiers.isID(known) && known != Identifiers.noDevice ? known : Identifiers.new()
    }
}
