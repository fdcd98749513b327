/// The device grant (RFC 8628).
extension ServiceState {
    /// The device authorization endpoint.
    func beginDeviceLogin(
        _ form: OAuthForm, _ authorization: String?, _ issuer: String
    ) throws(OAuthError) -> OAuthReply {
        let client = try client(form, authorization)
        try client.require(.deviceCode)
        let challenge = try Self.challenge(form, isRequired: false)
        let login = DeviceLogin(
            deviceCode: TokenIssuer.encode(Identifiers.random(32)), userCode: newUserCode(),
            clientID: client.settings.id, scopes: try scopes(form, client.settings), audience: try audience(form),
            challenge: challenge, expiresAt: now + options.deviceCodeSeconds,
            intervalSeconds: options.deviceIntervalSeconds)
        oauth?.records.devices[login.deviceCode] = login
        let page = issuer + "/device"
        let body = JSONValue.members([
            "device_code": .string(login.deviceCode), "user_code": .string(login.userCode),
            "verification_uri": .string(page),
            "verification_uri_complete": .string(page + "?user_code=" + login.userCode),
            "expires_in": .double(options.deviceCodeSeconds.rounded(.down)),
            "interval": .double(login.intervalSeconds.rounded(.up)),
        ])
        return OAuthReply(body: body, subject: client.settings.id)
    }

    /// One that no login which still waits has.
    private func newUserCode() -> String {
        while true {
            let code = DeviceLogin.newUserCode()
            if waitingDevice(code) == nil { return code }
        }
    }

    /// A poll of the token endpoint.
    func deviceLogin(
        _ form: OAuthForm, _ client: OAuthSettings.Client, _ issuer: String, _ call: Int?
    ) throws(OAuthError) -> OAuthReply {
        let code = try form.required("device_code")
        guard var login = oauth?.records.devices[code], login.clientID == client.id else {
            throw .invalidGrant("the device code is unknown, or belongs to another client")
        }
        let isTooSoon = login.polledAt.map { now - $0 < 0.9 * login.intervalSeconds } ?? false
        login.polledAt = now
        login.polls += 1
        defer { oauth?.records.devices[code] = login }
        switch login.phase {
        case .used: throw .invalidGrant("the device code has been used")
        case _ where now >= login.expiresAt: throw .expired
        case .denied: throw .denied
        case .waiting:
            guard isTooSoon else { throw .pending }
            login.intervalSeconds += 5
            throw .slowDown(login.intervalSeconds)
        case .approved:
            try Self.verify(form, login.challenge)
            guard let userID = login.userID, user(userID)?.isDisabled == false else { throw .denied }
            login.phase = .used
            let session = beginOAuthSession(
                OAuthLogin(
                    userID: userID, grant: .deviceCode, client: client, scopes: login.scopes,
                    audience: login.audience, authenticatedAt: login.approvedAt ?? now), issuer, call)
            return OAuthReply(body: session.body, subject: userID)
        }
    }

    /// The login with a user code that waits for its user, whatever the case and the hyphen of the code.
    func waitingDevice(_ userCode: String) -> DeviceLogin? {
        let letters = DeviceLogin.letters(of: userCode)
        return waitingDevices().last { DeviceLogin.letters(of: $0.userCode) == letters }
    }

    /// Those that wait for their user, the oldest first.
    func waitingDevices() -> [DeviceLogin] {
        (oauth?.records.devices.all ?? []).map(\.record).filter { $0.phase == .waiting && now < $0.expiresAt }
    }

    /// - Parameter userID: nil: the user denies it.
    func decide(_ login: DeviceLogin, _ userID: String?) {
        var login = login
        login.phase = userID == nil ? .denied : .approved
        login.userID = userID
        login.approvedAt = now
        oauth?.records.devices[login.deviceCode] = login
    }

    // MARK: PKCE (RFC 7636)

    /// The challenge of a request: S256 alone.
    static func challenge(_ form: OAuthForm, isRequired: Bool) throws(OAuthError) -> String? {
        let method = form["code_challenge_method"]
        guard let challenge = form["code_challenge"] else {
            if isRequired || method != nil { throw .missing("code_challenge with the method S256 (RFC 7636)") }
            return nil
        }
        guard method == "S256" else {
            throw .invalidRequest("code_challenge_method \(method ?? "plain") is not done here; it is S256")
        }
        guard challenge.utf8.count == 43, TokenIssuer.decode(challenge[...])?.count == 32 else {
            throw .invalidRequest("code_challenge is no SHA-256 in base64url")
        }
        return challenge
    }

    static func verify(_ form: OAuthForm, _ challenge: String?) throws(OAuthError) {
        guard let challenge else { return }
        guard let verifier = form["code_verifier"] else { throw .invalidGrant("code_verifier is missing") }
        guard (43...128).contains(verifier.utf8.count),
            TokenIssuer.encode(Identifiers.sha256(Array(verifier.utf8))) == challenge
        else { throw .invalidGrant("code_verifier is wrong") }
    }
}
