import FlyingFox

/// The operations of `/emulator/…`.
extension ServiceState {
    /// Ends the sessions of a user, or of all. Access tokens stay valid unless the settings revoke them, too.
    ///
    /// - Returns: the number of ended sessions.
    func revokeSessions(of userID: String?) -> Int {
        let ended = endSessions(of: userID, .revoked)
        if options.revokeEndsAccessTokens { endTokens { userID == nil || $0.userID == userID } }
        return ended
    }

    private func endSessions(of userID: String?, _ cause: EmulatorSession.End) -> Int {
        let ended = sessions.values.filter { userID == nil || $0.userID == userID }
        for session in ended { end(session.id, cause) }
        return ended.count
    }

    /// Expires every issued access token.
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

    /// Revokes access tokens.
    func endTokens(where matches: (IssuedToken) -> Bool) {
        for id in issueOrder { if let token = issued[id], matches(token) { issued[id]?.revoked = true } }
    }

    /// Disabling ends a user's sessions. A new login is refused until the user is enabled again.
    func setDisabled(_ disabled: Bool, _ userID: String) {
        users[userID]?.disabled = disabled
        guard disabled else { return }
        _ = endSessions(of: userID, .disabled)
        if options.revokeEndsAccessTokens { endTokens { $0.userID == userID } }
    }

    /// Deletes the account and its keys. Its email may be registered again.
    func deleteUser(_ userID: String) {
        _ = endSessions(of: userID, .accountDeleted)
        if options.revokeEndsAccessTokens { endTokens { $0.userID == userID } }
        let email = emails.first { $0.value.userID == userID }?.key
        if let email { emails[email] = nil }
        keys = keys.filter { $0.value.userID != userID && ($0.value.email == nil || $0.value.email != email) }
        users[userID] = nil
    }

    func setPassword(_ password: String, email: String) { emails[email]?.password = password }

    /// - Returns: the key's text; created if none is given.
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
            "rotation": .string(options.rotation.rawValue),
            "rotation_grace_seconds": .number(options.rotationGraceSeconds),
            "clock_offset_seconds": .number(options.clockOffsetSeconds),
        ])
    }

    /// Changes the given settings.
    ///
    /// - Returns: the name of a setting that is unknown or has a wrong type. Nothing is changed then.
    func change(_ settings: [String: JSONValue]) -> String? {
        var new = options
        for (name, value) in settings {
            switch (name, value) {
            case ("access_token_seconds", .number(let seconds)) where seconds > 0: new.accessTokenSeconds = seconds
            case ("refresh_token_seconds", .number(let seconds)) where seconds > 0: new.refreshTokenSeconds = seconds
            case ("revoke_ends_access_tokens", .boolean(let value)): new.revokeEndsAccessTokens = value
            case ("logout_ends_access_tokens", .boolean(let value)): new.logoutEndsAccessTokens = value
            case ("rotation", .string(let text)):
                guard let rotation = RefreshRotation(rawValue: text) else { return name }
                new.rotation = rotation
            case ("rotation_grace_seconds", .number(let seconds)) where seconds >= 0:
                new.rotationGraceSeconds = seconds
            case ("clock_offset_seconds", .number(let seconds)): new.clockOffsetSeconds = seconds
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
                    "status": fault.status.map { .int($0) } ?? .null,
                    "remaining": fault.remaining.map { .int($0) } ?? .null,
                ])
            })
    }

    /// - Parameter beforeEffect: the effect of the call is delayed, not only its response.
    func setDelay(_ seconds: Double, _ route: Route, beforeEffect: Bool) {
        if beforeEffect {
            delays[route, default: Delay()].before = seconds
        } else {
            delays[route, default: Delay()].after = seconds
        }
    }

    func clearDelays() { delays = [:] }

    func plannedDelays() -> JSONValue {
        .object(
            Dictionary(
                uniqueKeysWithValues: delays.map { route, delay in
                    (
                        route.rawValue,
                        .object([
                            "before_milliseconds": .number(delay.before * 1000),
                            "milliseconds": .number(delay.after * 1000),
                        ])
                    )
                }))
    }

    /// Sessions in the order of their logins, including ended ones.
    func sessionList() -> [EmulatorSession] {
        (endedSessions + sessions.values).sorted { $0.number < $1.number }
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

    /// Ids and times of access tokens in the order of their issue. The tokens are not included.
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
