/// Apps and their users.
extension ServiceState {
    static func makeApp(_ settings: AppSettings) -> AppState {
        var app = AppState(settings: settings)
        add(settings.users, settings.keys, to: &app)
        return app
    }

    /// Adds accounts and keys that do not exist yet.
    static func add(_ users: [Seed.User], _ keys: [Seed.Key], to app: inout AppState) {
        for user in users {
            let email = app.settings.providers.emailPassword.comparable(user.email)
            guard app.accounts.emails[email] == nil else { continue }
            app.accounts.emails[email] = EmailAccount(
                email: user.email, password: user.password, isConfirmed: user.isConfirmed, isDisabled: user.isDisabled,
                customData: user.customData)
        }
        for key in keys where !app.accounts.keys.contains(where: { $0.key == key.key }) {
            app.accounts.keys.append(
                APIKey(
                    id: Identifiers.new(), name: key.name, key: key.key, isDisabled: key.isDisabled, email: key.email,
                    isServerKey: key.email == nil))
        }
    }

    /// - Throws: `unknownApp`, or `gone` for an app that exists while the service has ended.
    func app(_ id: String) throws(ServiceError) -> Int {
        guard let app = index(ofApp: id) else { throw .unknownApp(id) }
        if options.isGone { throw .gone }
        return app
    }

    /// The origins of web pages that may make a call; empty: any.
    ///
    /// - Parameters:
    ///   - id: the app in the call's path; nil: the app of the call's token. A preflight request has none, and any app's origins will do.
    func allowedOrigins(_ id: String?, _ authorization: String?) -> [OriginPattern] {
        if let id { return index(ofApp: id).map { apps[$0].settings.allowedOrigins } ?? [] }
        if let domain = domain(authorization), let app = apps.first(where: { $0.settings.domainID == domain }) {
            return app.settings.allowedOrigins
        }
        let lists = apps.map(\.settings.allowedOrigins)
        return lists.contains(where: \.isEmpty) ? [] : lists.flatMap(\.self)
    }

    func index(ofApp id: String) -> Int? { apps.firstIndex { $0.settings.appID == id } }

    /// Creates an app, or replaces its configuration and adds to its accounts.
    ///
    /// - Returns: whether it is new.
    func put(_ settings: AppSettings) -> Bool {
        guard let app = index(ofApp: settings.appID) else {
            apps.append(Self.makeApp(settings))
            return true
        }
        apps[app].settings = settings
        Self.add(settings.users, settings.keys, to: &apps[app])
        return false
    }

    /// Everything but the settings is as at the start. Tokens of before are refused.
    func reset() {
        apps = options.apps.map(Self.makeApp)
        (sessions, endedSessions, sessionCount) = ([:], [], 0)
        (issued, issueOrder) = ([:], [])
        tokenIssuer = TokenIssuer()
        oauth = options.oauthSettings.map(OAuthState.init)
        mailbox = Mailbox()
        functionRuns = FunctionRunList()
        journal = CallJournal()
        (faults, delays, rateLimits) = ([], [:], [:])
        resetCounts()
        changeCount += 1
    }

    func index(ofUser id: String) -> Int? { apps.firstIndex { $0.accounts.users[id] != nil } }

    func user(_ id: String) -> User? { index(ofUser: id).flatMap { apps[$0].accounts.users[id] } }

    func updateUser(_ id: String, _ change: (inout User) -> Void) {
        guard let app = index(ofUser: id), var user = apps[app].accounts.users[id] else { return }
        change(&user)
        apps[app].accounts.users[id] = user
    }

    /// An email, or another readable name.
    func name(of userID: String) -> String? {
        guard let data = user(userID)?.data else { return nil }
        return data["email"]?.string ?? data["name"]?.string
    }

    func comparable(_ email: String, _ app: Int) -> String {
        apps[app].settings.providers.emailPassword.comparable(email)
    }

    func emailAccount(_ email: String, _ app: Int) -> EmailAccount? {
        apps[app].accounts.emails[comparable(email, app)]
    }

    func updateEmailAccount(_ email: String, _ app: Int, _ change: (inout EmailAccount) -> Void) {
        let key = comparable(email, app)
        guard var account = apps[app].accounts.emails[key] else { return }
        change(&account)
        apps[app].accounts.emails[key] = account
    }

    /// The user id for the name in a control call: an email or a user id. An account that never logged in becomes a user here.
    ///
    /// - Parameter app: nil: the first app that knows the name.
    func userID(named name: String, _ app: Int?) -> String? {
        for candidate in app.map({ [$0] }) ?? Array(apps.indices) {
            if apps[candidate].accounts.users[name] != nil { return name }
            if emailAccount(name, candidate) != nil { return emailUser(name, candidate) }
        }
        return nil
    }

    /// The user of an email account. It is created if it does not exist yet.
    func emailUser(_ email: String, _ app: Int) -> String? {
        guard let account = emailAccount(email, app) else { return nil }
        if let id = account.userID { return id }
        var user = User(
            id: Identifiers.new(), identities: [Self.identity(of: account)],
            data: ["email": .string(account.email)], createdAt: now)
        user.isDisabled = account.isDisabled
        user.customData = account.customData
        apps[app].accounts.users[user.id] = user
        updateEmailAccount(email, app) { $0.userID = user.id }
        return user.id
    }

    static func identity(of account: EmailAccount) -> Identity {
        Identity(id: Identity.newID(), provider: .emailPassword, data: ["email": .string(account.email)])
    }

    /// Deletes the account, its sessions and its keys. Its email may be registered again.
    func deleteUser(_ userID: String) {
        guard let app = index(ofUser: userID) else { return }
        _ = endSessions(of: userID, .accountDeleted)
        if options.revokeEndsAccessTokens { endTokens { $0.userID == userID } }
        let emails = apps[app].settings.providers.emailPassword
        let email = apps[app].accounts.emails.first { $0.value.userID == userID }?.key
        if let email { apps[app].accounts.emails[email] = nil }
        apps[app].accounts.keys.removeAll { key in
            key.userID == userID || email != nil && key.email.map(emails.comparable) == email
        }
        apps[app].accounts.owners = apps[app].accounts.owners.filter { $0.value != userID }
        apps[app].accounts.pushRegistrations.removeAll { $0.userID == userID }
        apps[app].accounts.users[userID] = nil
    }
}
