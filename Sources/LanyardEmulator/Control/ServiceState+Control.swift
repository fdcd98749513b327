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

    func endSessions(of userID: String?, _ cause: EmulatorSession.End) -> Int {
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
        for id in issueOrder { if let token = issued[id], matches(token) { issued[id]?.isRevoked = true } }
    }

    /// Disabling ends a user's sessions. A new login is refused until the user is enabled again.
    func setDisabled(_ disabled: Bool, _ userID: String) {
        updateUser(userID) { $0.isDisabled = disabled }
        guard disabled else { return }
        _ = endSessions(of: userID, .disabled)
        if options.revokeEndsAccessTokens { endTokens { $0.userID == userID } }
    }

    func setPassword(_ password: String, email: String, _ app: Int?) {
        for app in app.map({ [$0] }) ?? Array(apps.indices) where emailAccount(email, app) != nil {
            updateEmailAccount(email, app) { $0.password = password }
            return
        }
    }

    /// - Returns: whether there is such an account.
    func confirmAccount(_ email: String, _ app: Int?) -> Bool {
        for app in app.map({ [$0] }) ?? Array(apps.indices) where emailAccount(email, app) != nil {
            updateEmailAccount(email, app) { $0.isConfirmed = true }
            return true
        }
        return false
    }

    func setCustomData(_ data: JSONObject, _ userID: String) { updateUser(userID) { $0.customData = data } }

    /// - Parameter email: the owner's; nil makes a server key.
    /// - Returns: the key's text; created if none is given.
    func addKey(name: String, key: String?, email: String?, _ app: Int) -> String {
        let text = key ?? Identifiers.key()
        apps[app].accounts.keys.removeAll { $0.key == text }
        apps[app].accounts.keys.append(
            APIKey(id: Identifiers.new(), name: name, key: text, email: email, isServerKey: email == nil))
        return text
    }

    func setKeyDisabled(_ isDisabled: Bool, name: String, _ app: Int?) -> Bool {
        for app in app.map({ [$0] }) ?? Array(apps.indices) {
            guard let key = apps[app].accounts.keys.firstIndex(where: { $0.name == name }) else { continue }
            apps[app].accounts.keys[key].isDisabled = isDisabled
            return true
        }
        return false
    }

    func setEnabled(_ isEnabled: Bool, _ provider: Provider, _ app: Int) {
        if isEnabled {
            apps[app].settings.providers.enabled.insert(provider)
        } else {
            apps[app].settings.providers.enabled.remove(provider)
        }
    }

    func hideMails() { mailbox.hideAll() }

    func noteChange() { changeCount += 1 }

    func setRateLimit(_ limit: RateLimit, _ route: Route) { rateLimits[route] = limit }

    /// - Parameter route: nil clears all.
    func clearRateLimits(_ route: Route?) { rateLimits = route == nil ? [:] : rateLimits.filter { $0.key != route } }

    func settings() -> JSONValue {
        .members([
            "access_token_seconds": .double(options.accessTokenSeconds),
            "refresh_token_seconds": .double(options.refreshTokenSeconds),
            "anonymous_refresh_token_seconds": .double(options.anonymousRefreshTokenSeconds),
            "mail_token_seconds": .double(options.mailTokenSeconds),
            "revoke_ends_access_tokens": .boolean(options.revokeEndsAccessTokens),
            "logout_ends_access_tokens": .boolean(options.logoutEndsAccessTokens),
            "rotation": .string(options.rotation.rawValue),
            "rotation_grace_seconds": .double(options.rotationGraceSeconds),
            "clock_offset_seconds": .double(options.clockOffsetSeconds),
            "verbose_texts": .boolean(options.verboseTexts), "gone": .boolean(options.isGone),
            "web_link_failures": .boolean(options.webLinkFailures),
            "device_code_seconds": .double(options.deviceCodeSeconds),
            "device_interval_seconds": .double(options.deviceIntervalSeconds),
            "authorization_code_seconds": .double(options.authorizationCodeSeconds),
        ])
    }

    /// Changes the given settings.
    ///
    /// - Returns: the name of a setting that is unknown or has a wrong type. Nothing is changed then.
    func change(_ settings: JSONObject) -> String? {
        var new = options
        for (name, value) in settings.members {
            let isKnown =
                switch value {
                case .boolean(let flag): Self.change(&new, name, to: flag)
                case .number: value.double.map { Self.change(&new, name, to: $0) } ?? false
                case .string(let text): Self.change(&new, name, to: text)
                case .null, .array, .object: false
                }
            if !isKnown { return name }
        }
        options = new
        return nil
    }

    private static func change(_ options: inout EmulatorOptions, _ name: String, to flag: Bool) -> Bool {
        switch name {
        case "revoke_ends_access_tokens": options.revokeEndsAccessTokens = flag
        case "logout_ends_access_tokens": options.logoutEndsAccessTokens = flag
        case "verbose_texts": options.verboseTexts = flag
        case "gone": options.isGone = flag
        case "web_link_failures": options.webLinkFailures = flag
        default: return false
        }
        return true
    }

    private static func change(_ options: inout EmulatorOptions, _ name: String, to seconds: Double) -> Bool {
        guard seconds.isFinite else { return false }
        switch name {
        case "access_token_seconds" where seconds > 0: options.accessTokenSeconds = seconds
        case "refresh_token_seconds" where seconds > 0: options.refreshTokenSeconds = seconds
        case "anonymous_refresh_token_seconds" where seconds > 0: options.anonymousRefreshTokenSeconds = seconds
        case "mail_token_seconds" where seconds > 0: options.mailTokenSeconds = seconds
        case "rotation_grace_seconds" where seconds >= 0: options.rotationGraceSeconds = seconds
        case "clock_offset_seconds": options.clockOffsetSeconds = seconds
        case "device_code_seconds" where seconds > 0: options.deviceCodeSeconds = seconds
        case "device_interval_seconds" where seconds >= 0: options.deviceIntervalSeconds = seconds
        case "authorization_code_seconds" where seconds > 0: options.authorizationCodeSeconds = seconds
        default: return false
        }
        return true
    }

    private static func change(_ options: inout EmulatorOptions, _ name: String, to text: String) -> Bool {
        guard name == "rotation", let rotation = RefreshRotation(rawValue: text) else { return false }
        options.rotation = rotation
        return true
    }

    func plan(_ fault: PlannedFault) { faults.append(fault) }
    func clearFaults(_ route: Route?) { faults.removeAll { route == nil || $0.route == route } }

    /// - Parameter beforeEffect: the effect of the call is delayed, not only its response.
    func setDelay(_ seconds: Double, _ route: Route, beforeEffect: Bool) {
        if beforeEffect {
            delays[route, default: Delay()].before = seconds
        } else {
            delays[route, default: Delay()].after = seconds
        }
    }

    func clearDelays() { delays = [:] }
}
