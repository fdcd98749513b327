/// The token endpoint (RFC 6749 §3.2).
extension ServiceState {
    /// A response, and the user or client whose call it was.
    struct OAuthReply {
        let body: JSONValue
        let subject: String?
    }

    /// One login at this side, found good.
    struct OAuthLogin {
        let userID: String
        let grant: OAuthGrant
        let client: OAuthSettings.Client
        let scopes: [String]
        let audience: [String]
        /// In seconds since 1970.
        let authenticatedAt: Double
        var nonce: String?
    }

    func oauthToken(
        _ form: OAuthForm, _ authorization: String?, _ issuer: String, _ call: Int?
    ) throws(OAuthError) -> OAuthReply {
        let client = try client(form, authorization)
        updateJournal(call) { $0.appID = client.settings.id }
        let name = try form.required("grant_type")
        guard let grant = OAuthGrant(rawValue: name) else { throw .unsupportedGrantType(name) }
        try client.require(grant)
        switch grant {
        case .clientCredentials: return try clientLogin(form, client, issuer, call)
        case .password: return try passwordLogin(form, client.settings, issuer, call)
        case .refreshToken: return try oauthRefresh(form, client.settings, issuer, call)
        case .authorizationCode: return try codeLogin(form, client.settings, issuer, call)
        case .deviceCode: return try deviceLogin(form, client.settings, issuer, call)
        case .tokenExchange: return try exchange(form, client.settings, issuer, call)
        }
    }

    /// RFC 6749 §4.4. It makes no session.
    private func clientLogin(
        _ form: OAuthForm, _ client: KnownClient, _ issuer: String, _ call: Int?
    ) throws(OAuthError) -> OAuthReply {
        let settings = client.settings
        guard client.isAuthenticated else {
            guard settings.secret == nil else { throw .invalidClient("client \(settings.id) has not sent its secret") }
            throw .unauthorizedClient("client \(settings.id) is public; client_credentials needs a secret")
        }
        let scopes = try scopes(form, settings), audience = try audience(form)
        let body = oauthTokens(
            OAuthTokens(
                subject: settings.id, client: settings, scopes: scopes, audience: audience, cause: "login"), issuer)
        recordLogin(of: settings.id, .clientCredentials, call)
        return OAuthReply(body: body, subject: settings.id)
    }

    /// RFC 6749 §4.3.
    private func passwordLogin(
        _ form: OAuthForm, _ client: OAuthSettings.Client, _ issuer: String, _ call: Int?
    ) throws(OAuthError) -> OAuthReply {
        let name = try form.required("username"), password = try form.required("password")
        updateJournal(call) { $0.account = name }
        let scopes = try scopes(form, client), audience = try audience(form)
        let login = OAuthLogin(
            userID: try verifiedUser(name, password), grant: .password, client: client, scopes: scopes,
            audience: audience, authenticatedAt: now)
        return OAuthReply(body: beginOAuthSession(login, issuer, call).body, subject: login.userID)
    }

    /// The user with a name and a password. The users are the email/password accounts of the first app.
    ///
    /// - Throws: `invalid_grant`.
    func verifiedUser(_ name: String, _ password: String) throws(OAuthError) -> String {
        guard let account = emailAccount(name, 0), account.password == password else {
            throw .invalidGrant("the user name or the password is wrong")
        }
        guard account.isConfirmed else { throw .invalidGrant("the account is not confirmed yet") }
        guard let id = emailUser(name, 0), user(id)?.isDisabled == false else {
            throw .invalidGrant("the user is disabled")
        }
        return id
    }

    /// Counts a login that has taken effect.
    func recordLogin(of account: String, _ grant: OAuthGrant, _ call: Int?) {
        statistics.accounts[account, default: EmulatorStatistics.Account()].logins[grant.name, default: 0] += 1
        updateJournal(call) {
            $0.account = account
            $0.effect = .login
        }
    }

    /// A session with its first tokens.
    func beginOAuthSession(
        _ login: OAuthLogin, _ issuer: String, _ call: Int?
    ) -> (body: JSONValue, sessionID: String) {
        sessionCount += 1
        let identity = user(login.userID)?.identity(of: .emailPassword)
        let session = EmulatorSession(
            number: sessionCount, id: Identifiers.new(), appID: login.client.id, userID: login.userID,
            account: name(of: login.userID) ?? login.userID, kind: login.grant.name, deviceID: Identifiers.noDevice,
            startedAt: now, refreshExpiresAt: now + options.refreshTokenSeconds,
            identity: identity ?? Identity(id: login.userID, provider: .emailPassword),
            oauth: OAuthAuthorization(
                clientID: login.client.id, scopes: login.scopes, audience: login.audience,
                authenticatedAt: login.authenticatedAt))
        sessions[session.id] = session
        recordLogin(of: session.account, login.grant, call)
        updateJournal(call) {
            $0.sessionID = session.id
            $0.refreshTokenSerial = 1
        }
        var tokens = OAuthTokens(
            subject: login.userID, client: login.client, scopes: login.scopes, audience: login.audience, cause: "login")
        tokens.session = session
        tokens.nonce = login.nonce
        if login.client.grants.contains(.refreshToken) {
            tokens.refreshToken = oauthRefreshToken(of: session.id, serial: 1)
        }
        return (oauthTokens(tokens, issuer), session.id)
    }
}
