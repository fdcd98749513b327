/// What `/emulator/…` shows of the service.
extension ServiceState {
    func plannedFaults() -> JSONValue {
        .array(
            faults.map { fault -> JSONValue in
                .members([
                    "route": .string(fault.route?.rawValue ?? "*"), "fault": .string(fault.kind.rawValue),
                    "status": .orNull(fault.status), "remaining": .orNull(fault.remaining),
                ])
            })
    }

    func plannedDelays() -> JSONValue {
        let delays = delays.map { route, delay -> (String, JSONValue?) in
            let milliseconds = JSONValue.members([
                "before_milliseconds": .double(delay.before * 1000), "milliseconds": .double(delay.after * 1000),
            ])
            return (route.rawValue, milliseconds)
        }
        return .object(JSONObject(delays))
    }

    func rateLimitsJSON() -> JSONValue {
        .array(
            Route.allCases.compactMap { route in
                rateLimits[route].map { limit -> JSONValue in
                    .members([
                        "route": .string(route.rawValue), "calls": .int(limit.calls),
                        "seconds": .double(limit.seconds),
                    ])
                }
            })
    }

    /// Sessions in the order of their logins, including ended ones.
    func sessionList() -> [EmulatorSession] {
        (endedSessions + sessions.values).sorted { $0.number < $1.number }
    }

    /// The users of an app or of all, and accounts that are no users yet.
    func usersJSON(_ app: Int?) -> JSONValue {
        var list: [JSONValue] = []
        let counts = sessions.values.reduce(into: [String: Int]()) { $0[$1.userID, default: 0] += 1 }
        for app in app.map({ [$0] }) ?? Array(apps.indices) {
            let appID = apps[app].settings.appID, accounts = apps[app].accounts
            let emails = Dictionary(
                accounts.emails.values.compactMap { account in account.userID.map { ($0, account) } },
                uniquingKeysWith: { first, _ in first })
            list += accounts.users.values.sorted { $0.id < $1.id }.map { user -> JSONValue in
                let email = emails[user.id]
                return .members([
                    "user_id": .string(user.id), "app": .string(appID), "name": .orNull(name(of: user.id)),
                    "email": .orNull(email?.email), "type": .string(user.type),
                    "status": email?.isConfirmed == false ? "pending" : "confirmed",
                    "disabled": .boolean(user.isDisabled), "sessions": .int(counts[user.id] ?? 0),
                    "identities": .array(user.identities.map { $0.json(appID: appID) }),
                    "data": .object(user.profileData), "custom_data": .object(user.customData),
                ])
            }
            let others = accounts.emails.values.filter { $0.userID == nil }.sorted { $0.email < $1.email }
            list += others.map { account -> JSONValue in
                .members([
                    "user_id": .null, "app": .string(appID), "name": .string(account.email),
                    "email": .string(account.email), "type": "normal",
                    "status": account.isConfirmed ? "confirmed" : "pending",
                    "disabled": .boolean(account.isDisabled), "sessions": 0, "identities": .array([]),
                    "data": .object(["email": .string(account.email)]), "custom_data": .object(account.customData),
                ])
            }
        }
        return .array(list)
    }

    /// Ids and times of access tokens in the order of their issue. The tokens are not included.
    func issuedTokens() -> JSONValue {
        .array(
            issueOrder.compactMap { issued[$0] }.map { token -> JSONValue in
                .members([
                    "id": .string(token.id), "user_id": .string(token.userID),
                    "session_id": token.sessionID.isEmpty ? .null : .string(token.sessionID),
                    "cause": .string(token.cause), "issued_at": .double(token.issuedAt),
                    "expires_at": .double(token.expiresAt), "uses": .int(token.uses),
                    "revoked": .boolean(token.isRevoked), "client_id": token.oauth.map { .string($0.clientID) },
                    "scope": token.oauth.map { .string($0.scopes.joined(separator: " ")) },
                    "audience": token.oauth.map { .array($0.audience.map { .string($0) }) },
                ])
            })
    }

    func mails(after number: Int, email: String?, appID: String?) -> JSONValue {
        let mails = mailbox.mails.filter { mail in
            !mail.isHidden && mail.number > number && (email == nil || mail.email == email)
                && (appID == nil || mail.appID == appID)
        }
        return .array(mails.map(\.json))
    }

    func appsJSON() -> JSONValue {
        .array(
            apps.map { app -> JSONValue in
                let providers = Provider.allCases.map { provider -> (String, JSONValue?) in
                    (provider.rawValue, Self.json(of: provider, app.settings.providers))
                }
                let users = app.accounts.users.count + app.accounts.emails.values.count { $0.userID == nil }
                return .members([
                    "app_id": .string(app.settings.appID), "name": .string(app.settings.name),
                    "domain_id": .string(app.settings.domainID), "providers": .object(JSONObject(providers)),
                    "functions": .array(app.settings.functions.keys.sorted().map { .string($0) }),
                    "users": .int(users),
                ])
            })
    }

    private static func json(of provider: Provider, _ settings: ProviderSettings) -> JSONValue {
        var members: JSONObject = ["enabled": .boolean(settings.enabled.contains(provider))]
        guard provider == .emailPassword else { return .object(members) }
        switch settings.emailPassword.confirmation {
        case .automatic: members["confirmation"] = "automatic"
        case .email: members["confirmation"] = "email"
        case .function: members["confirmation"] = "function"
        }
        members["reset"] = settings.emailPassword.reset == .email ? "email" : "function"
        members["emails_case_sensitive"] = .boolean(settings.emailPassword.isCaseSensitive)
        return .object(members)
    }
}
