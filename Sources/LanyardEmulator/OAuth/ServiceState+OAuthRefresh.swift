/// Refreshes, revocations and introspection of the OAuth side.
extension ServiceState {
    /// RFC 6749 §6.
    func oauthRefresh(
        _ form: OAuthForm, _ client: OAuthSettings.Client, _ issuer: String, _ call: Int?
    ) throws(OAuthError) -> OAuthReply {
        let text = try form.required("refresh_token")
        guard let sent = readOAuthRefreshToken(text) else { throw .unknownToken }
        var (session, grant) = try oauthSession(sent, client, call)
        let outcome = refreshOutcome(session, sent.serial)
        switch outcome {
        case .unchanged, .rotates, .repeats: break
        case .tooLate:
            updateStatistics(session) { $0.repeatsAfterGrace += 1 }
            updateJournal(call) { $0.effect = .repeatedAfterGrace }
            throw .invalidGrant("the refresh token has been used, and a later one is in force")
        case .endsFamily:
            endFamily(session, call)
            throw .invalidGrant("the refresh token has been used before: the session has ended")
        }
        // A refused request does not use the token up.
        let scopes = try narrowed(form, grant), audience = try narrowedAudience(form, grant)
        var effect = EmulatorCall.Effect.refreshed
        var refreshToken: String?
        switch outcome {
        case .rotates:
            let token = oauthRefreshToken(of: session.id, serial: sent.serial + 1)
            session.family.rotate(to: token, at: now)
            (refreshToken, effect) = (token, .rotated)
        case .repeats:
            updateStatistics(session) { $0.repeatsWithinGrace += 1 }
            (refreshToken, effect) = (session.family.token, .repeatedWithinGrace)
        case .unchanged, .tooLate, .endsFamily: break
        }
        session.refreshes += 1
        sessions[session.id] = session
        updateStatistics(session) { $0.refreshes += 1 }
        updateJournal(call) { $0.effect = effect }
        var tokens = OAuthTokens(
            subject: session.userID, client: client, scopes: scopes, audience: audience, cause: "refresh")
        tokens.session = session
        tokens.refreshToken = refreshToken
        return OAuthReply(body: oauthTokens(tokens, issuer), subject: session.userID)
    }

    /// The live session of a refresh token of this client.
    private func oauthSession(
        _ sent: (sessionID: String, serial: Int), _ client: OAuthSettings.Client, _ call: Int?
    ) throws(OAuthError) -> (EmulatorSession, OAuthAuthorization) {
        updateJournal(call) {
            $0.sessionID = sent.sessionID
            $0.refreshTokenSerial = sent.serial
        }
        guard let session = anySession(sent.sessionID), let grant = session.oauth else { throw .unknownToken }
        updateJournal(call) { $0.account = session.account }
        guard grant.clientID == client.id else {
            throw .invalidGrant("the refresh token belongs to another client")
        }
        if session.isLive(at: now) { return (session, grant) }
        updateStatistics(session) { $0.callsOfDeadSessions += 1 }
        updateJournal(call) { $0.effect = .sessionDead }
        throw session.end == nil ? .invalidGrant("the refresh token has expired") : .unknownToken
    }

    /// The scopes of a refresh: at most those of its login (RFC 6749 §6). The session keeps its own.
    private func narrowed(_ form: OAuthForm, _ grant: OAuthAuthorization) throws(OAuthError) -> [String] {
        guard let text = form["scope"] else { return grant.scopes }
        guard let scopes = OAuthScope.read(text), scopes.allSatisfy(grant.scopes.contains) else {
            throw .invalidScope("a refresh has at most the scopes of its login: \(grant.scopes.joined(separator: " "))")
        }
        return scopes
    }

    /// The audience of a refresh: of a login that has named some, at most those (RFC 8707 §2.2).
    private func narrowedAudience(_ form: OAuthForm, _ grant: OAuthAuthorization) throws(OAuthError) -> [String] {
        let audience = try audience(form)
        if audience.isEmpty { return grant.audience }
        guard grant.audience.isEmpty || audience.allSatisfy(grant.audience.contains) else {
            throw .invalidTarget(
                "a refresh has at most the resources of its login: \(grant.audience.joined(separator: " "))")
        }
        return audience
    }

    /// RFC 7009. An unknown token is no error.
    ///
    /// - Returns: the user or client of the token.
    func oauthRevoke(_ form: OAuthForm, _ authorization: String?, _ call: Int?) throws(OAuthError) -> String? {
        let client = try client(form, authorization).settings
        updateJournal(call) { $0.appID = client.id }
        let text = try form.required("token")
        guard let sent = readOAuthRefreshToken(text) else {
            guard let token = try? oauthToken(text) else { return nil }
            guard token.oauth?.clientID == client.id else {
                throw .invalidGrant("the token belongs to another client")
            }
            if issued[token.id] == nil { keep(token) }
            issued[token.id]?.isRevoked = true
            updateJournal(call) { $0.effect = .tokenRevoked }
            return token.userID
        }
        guard let session = anySession(sent.sessionID), session.oauth != nil else { return nil }
        guard session.isLive(at: now) || session.oauth?.clientID != client.id else {
            _ = try? oauthSession(sent, client, call)
            return session.userID
        }
        _ = try oauthSession(sent, client, call)
        switch refreshOutcome(session, sent.serial) {
        case .unchanged, .rotates: break
        case .repeats: updateStatistics(session) { $0.repeatsAtLogout += 1 }
        case .tooLate:
            updateStatistics(session) { $0.repeatsAtLogout += 1 }
            updateJournal(call) { $0.effect = .repeatedAfterGrace }
            return session.userID
        case .endsFamily:
            updateStatistics(session) { $0.repeatsAtLogout += 1 }
            endFamily(session, call)
            return session.userID
        }
        end(session.id, .logout)
        updateStatistics(session) { $0.revocations += 1 }
        updateJournal(call) { $0.effect = .loggedOut }
        if options.logoutEndsAccessTokens { endTokens { $0.sessionID == session.id } }
        return session.userID
    }

    /// RFC 7662. A token that cannot be used is inactive, whatever the reason.
    func oauthIntrospect(
        _ form: OAuthForm, _ authorization: String?, _ issuer: String
    ) throws(OAuthError) -> OAuthReply {
        let client = try client(form, authorization)
        guard client.isAuthenticated else {
            throw .invalidClient("introspection needs a client with a secret (RFC 7662 section 2.1)")
        }
        let text = try form.required("token")
        if let sent = readOAuthRefreshToken(text), let session = anySession(sent.sessionID), let grant = session.oauth,
            session.isLive(at: now)
        {
            switch refreshOutcome(session, sent.serial) {
            case .unchanged, .rotates, .repeats:
                let body = JSONValue.members([
                    "active": true, "iss": .string(issuer), "sub": .string(session.userID),
                    "client_id": .string(grant.clientID), "username": .string(session.account),
                    "scope": .string(grant.scopes.joined(separator: " ")),
                    "exp": .double(session.refreshExpiresAt.rounded(.down)),
                ])
                return OAuthReply(body: body, subject: session.userID)
            case .tooLate, .endsFamily: break
            }
        }
        guard let token = try? oauthAccess(text: text), let details = token.oauth else {
            return OAuthReply(body: .members(["active": false]), subject: nil)
        }
        let body = JSONValue.members([
            "active": true, "iss": .string(issuer), "sub": .string(token.userID),
            "client_id": .string(details.clientID), "username": name(of: token.userID).map { .string($0) },
            "scope": .string(details.scopes.joined(separator: " ")), "aud": Self.json(ofAudience: details.audience),
            "token_type": "Bearer", "iat": .double(token.issuedAt.rounded(.down)),
            "exp": .double(token.expiresAt.rounded(.down)), "jti": .string(token.id),
        ])
        return OAuthReply(body: body, subject: token.userID)
    }
}
