/// The authorization code grant with PKCE (RFC 6749 §4.1, RFC 7636).
extension ServiceState {
    /// How a request at the authorization endpoint fails. A type of its own, because the two cases reach the browser in two ways.
    enum AuthorizationError: Error {
        /// The browser must not be sent anywhere (RFC 6749 §4.1.2.1).
        case shown(OAuthError)
        /// The client learns it.
        case redirected(OAuthError, to: String, state: String?)
    }

    /// Seconds for which a login page can be used.
    private static let pageSeconds = 600.0

    /// A request at the authorization endpoint.
    ///
    /// - Returns: the id of its login page.
    func beginAuthorization(_ form: OAuthForm) throws(AuthorizationError) -> (id: String, AuthorizationRequest) {
        let client: OAuthSettings.Client, redirect: String
        do throws(OAuthError) {
            let id = try form.required("client_id")
            guard let known = oauth?.settings.clients.first(where: { $0.id == id }) else {
                throw .invalidRequest("client \(id) is unknown")
            }
            client = known
            redirect = try form.required("redirect_uri")
            guard RedirectURI.isAllowed(redirect, client.redirectURIs) else {
                throw .invalidRequest(
                    "redirect_uri \(redirect) is neither an http URI of 127.0.0.1, [::1] or localhost nor one of client \(id)"
                )
            }
        } catch {
            throw .shown(error)
        }
        do throws(OAuthError) {
            let request = try authorizationRequest(form, client, redirect)
            let id = TokenIssuer.encode(Identifiers.random(32))
            oauth?.records.pages[id] = request
            return (id, request)
        } catch {
            throw .redirected(error, to: redirect, state: form["state"])
        }
    }

    private func authorizationRequest(
        _ form: OAuthForm, _ client: OAuthSettings.Client, _ redirect: String
    ) throws(OAuthError) -> AuthorizationRequest {
        let type = try form.required("response_type")
        guard type == "code" else { throw .unsupportedResponseType(type) }
        guard client.grants.contains(.authorizationCode) else {
            throw .unauthorizedClient("client \(client.id) may not use authorization_code")
        }
        // OpenID Connect Core 1.0 §3.1.2.6.
        for name in ["request", "request_uri"] where form[name] != nil {
            throw OAuthError(400, name + "_not_supported", "this stand-in has no \(name)")
        }
        if let mode = form["response_mode"], mode != "query" {
            throw .invalidRequest("this stand-in has no response_mode \(mode); it has query")
        }
        let prompts = form["prompt"]?.split(separator: " ") ?? []
        guard !prompts.contains("none") else {
            throw OAuthError(400, "login_required", "this stand-in keeps no login of a browser: prompt cannot be none")
        }
        guard let challenge = try Self.challenge(form, isRequired: true) else { throw .missing("code_challenge") }
        return AuthorizationRequest(
            clientID: client.id, redirectURI: redirect, state: form["state"], scopes: try scopes(form, client),
            audience: try audience(form), challenge: challenge, nonce: form["nonce"], loginHint: form["login_hint"],
            expiresAt: now + Self.pageSeconds)
    }

    /// The request of a login page that is still open.
    func authorizationPage(_ id: String) -> AuthorizationRequest? {
        oauth?.records.pages[id].flatMap { now < $0.expiresAt ? $0 : nil }
    }

    /// Closes a login page. Of two calls at once one gets the request.
    ///
    /// - Parameter userID: nil: the user denies the login.
    /// - Returns: the code; nil without a user. The whole is nil if the page is closed.
    func decidePage(_ id: String, _ userID: String?) -> (request: AuthorizationRequest, code: String?)? {
        guard let request = authorizationPage(id) else { return nil }
        oauth?.records.pages[id] = nil
        guard let userID else { return (request, nil) }
        let code = TokenIssuer.encode(Identifiers.random(32))
        oauth?.records.codes[code] = AuthorizationCode(
            request: request, userID: userID, issuedAt: now, expiresAt: now + options.authorizationCodeSeconds)
        return (request, code)
    }

    /// RFC 6749 §4.1.3.
    func codeLogin(
        _ form: OAuthForm, _ client: OAuthSettings.Client, _ issuer: String, _ call: Int?
    ) throws(OAuthError) -> OAuthReply {
        let text = try form.required("code")
        guard var code = oauth?.records.codes[text], code.request.clientID == client.id else {
            throw .invalidGrant("the code is unknown, or belongs to another client")
        }
        updateJournal(call) { $0.account = name(of: code.userID) }
        if let used = code.sessionID {
            endSession(ofRepeatedCode: used, call)
            throw .invalidGrant("the code has been used: the session that it began has ended")
        }
        guard now < code.expiresAt else { throw .invalidGrant("the code has expired") }
        guard form["redirect_uri"] == code.request.redirectURI else {
            throw .invalidGrant("redirect_uri is not that of the authorization request")
        }
        try Self.verify(form, code.request.challenge)
        guard user(code.userID)?.isDisabled == false else { throw .invalidGrant("the user is disabled") }
        var login = OAuthLogin(
            userID: code.userID, grant: .authorizationCode, client: client, scopes: code.request.scopes,
            audience: code.request.audience, authenticatedAt: code.issuedAt)
        login.nonce = code.request.nonce
        let session = beginOAuthSession(login, issuer, call)
        code.sessionID = session.sessionID
        oauth?.records.codes[text] = code
        return OAuthReply(body: session.body, subject: code.userID)
    }

    /// Ends the session of a code that comes again, with its tokens (RFC 6749 §4.1.2).
    private func endSession(ofRepeatedCode id: String, _ call: Int?) {
        updateJournal(call) { $0.sessionID = id }
        guard let session = sessions[id] else { return }
        endFamily(session, call)
        endTokens { $0.sessionID == id }
    }
}
