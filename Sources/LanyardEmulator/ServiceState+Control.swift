import FlyingFox

/// What `/emulator/…` does.
extension ServiceState {
    /// Ends the refresh tokens of a user, or of all. Access tokens go on, unless the settings end them too.
    ///
    /// - Returns: sessions ended.
    func revokeSessions(of userID: String?) -> Int {
        let ended = sessions.values.filter { userID == nil || $0.userID == userID }
        for session in ended { sessions[session.id] = nil }
        if options.revokeEndsAccessTokens { endTokens { userID == nil || $0.userID == userID } }
        return ended.count
    }

    /// Makes every access token that was given out an expired one.
    func expireAccessTokens(of userID: String?) -> Int {
        let at = now
        var count = 0
        for id in issueOrder {
            guard let token = issued[id], userID == nil || token.userID == userID, token.expiresAt > at else {
                continue
            }
            issued[id]?.expiresAt = at
            count += 1
        }
        return count
    }

    /// Makes access tokens revoked ones.
    func endTokens(where matches: (IssuedToken) -> Bool) {
        for id in issueOrder { if let token = issued[id], matches(token) { issued[id]?.revoked = true } }
    }

    /// Disabling ends a user's sessions; a new login is refused until it is enabled again.
    func setDisabled(_ disabled: Bool, _ userID: String) {
        users[userID]?.disabled = disabled
        if disabled { _ = revokeSessions(of: userID) }
    }

    func setPassword(_ password: String, email: String) { emails[email]?.password = password }

    /// - Returns: the key's text, made here unless given.
    func addKey(name: String, key: String?, email: String?) -> String {
        let text = key ?? Identifiers.key()
        keys[text] = Key(name: name, email: email)
        return text
    }

    func setKeyDisabled(_ disabled: Bool, name: String) -> Bool {
        guard let entry = keys.first(where: { $0.value.name == name }) else { return false }
        keys[entry.key]?.disabled = disabled
        return true
    }

    func settings() -> JSONValue {
        .object([
            "access_token_seconds": .number(options.accessTokenSeconds),
            "refresh_token_seconds": .number(options.refreshTokenSeconds),
            "revoke_ends_access_tokens": .boolean(options.revokeEndsAccessTokens),
            "logout_ends_access_tokens": .boolean(options.logoutEndsAccessTokens),
        ])
    }

    /// Takes over the settings that are given.
    ///
    /// - Returns: the name of a setting that is unknown or of the wrong kind; then nothing was changed.
    func change(_ settings: [String: JSONValue]) -> String? {
        var new = options
        for (name, value) in settings {
            switch (name, value) {
            case ("access_token_seconds", .number(let seconds)) where seconds > 0: new.accessTokenSeconds = seconds
            case ("refresh_token_seconds", .number(let seconds)) where seconds > 0: new.refreshTokenSeconds = seconds
            case ("revoke_ends_access_tokens", .boolean(let value)): new.revokeEndsAccessTokens = value
            case ("logout_ends_access_tokens", .boolean(let value)): new.logoutEndsAccessTokens = value
            default: return name
            }
        }
        options = new
        return nil
    }

    func plan(_ fault: PlannedFault) { faults.append(fault) }
    func clearFaults(_ route: Route?) { faults.removeAll { route == nil || $0.route == route } }

    func plannedFaults() -> JSONValue {
        .array(
            faults.map { fault in
                .object([
                    "route": .string(fault.route?.rawValue ?? "*"), "fault": .string(fault.kind.rawValue),
                    "status": .int(fault.answer.status), "remaining": fault.remaining.map { .int($0) } ?? .null,
                ])
            })
    }

    func setDelay(_ seconds: Double, _ route: Route) { delays[route] = seconds > 0 ? seconds : nil }
    func clearDelays() { delays = [:] }

    func plannedDelays() -> JSONValue {
        .object(Dictionary(uniqueKeysWithValues: delays.map { ($0.key.rawValue, .number($0.value * 1000)) }))
    }

    func usersJSON() -> JSONValue {
        .array(
            users.values.sorted { $0.id < $1.id }.map { user in
                .object([
                    "user_id": .string(user.id), "name": name(of: user.id).map { .string($0) } ?? .null,
                    "type": .string(user.type), "disabled": .boolean(user.disabled),
                    "sessions": .int(sessions.values.count { $0.userID == user.id }),
                ])
            })
    }

    /// Access tokens in the order of their issue: ids and times, never a token.
    func issuedTokens() -> JSONValue {
        .array(
            issueOrder.compactMap { issued[$0] }.map { token in
                .object([
                    "id": .string(token.id), "user_id": .string(token.userID), "session_id": .string(token.sessionID),
                    "cause": .string(token.cause), "issued_at": .number(token.issuedAt),
                    "expires_at": .number(token.expiresAt), "uses": .int(token.uses),
                    "revoked": .boolean(token.revoked),
                ])
            })
    }
}
