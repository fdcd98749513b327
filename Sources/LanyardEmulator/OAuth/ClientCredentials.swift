import COpenSSL

/// How a client shows who it is: HTTP Basic, or fields of the form (RFC 6749 §2.3.1), or its id alone.
struct ClientCredentials {
    let id: String
    /// nil: the client has not sent one.
    let secret: String?

    init(id: String, secret: String?) { (self.id, self.secret) = (id, secret) }

    /// - Throws: `invalid_client`, or `invalid_request` for two kinds at once.
    init(_ form: OAuthForm, _ authorization: String?) throws(OAuthError) {
        if form["client_assertion"] != nil || form["client_assertion_type"] != nil {
            throw .invalidClient(
                "this stand-in has no client_assertion; it has client_secret_basic, client_secret_post and none")
        }
        guard let basic = try Self.basic(authorization) else {
            guard let id = form["client_id"] else { throw .invalidClient("client_id is missing") }
            self.init(id: id, secret: form["client_secret"])
            return
        }
        guard form["client_secret"] == nil else {
            throw .invalidRequest("the client has shown who it is in two ways (RFC 6749 section 2.3)")
        }
        guard form["client_id"] ?? basic.id == basic.id else {
            throw .invalidRequest("client_id of the form is another one than that of Basic")
        }
        self = basic
    }

    /// The credentials of a field `Authorization`; nil: there is no such field.
    static func basic(_ authorization: String?) throws(OAuthError) -> ClientCredentials? {
        guard let authorization else { return nil }
        let parts = authorization.split(separator: " ", omittingEmptySubsequences: true)
        guard parts.count == 2, parts[0].lowercased() == "basic", let bytes = TokenIssuer.decode(parts[1]),
            let text = String(validating: bytes, as: UTF8.self), let colon = text.firstIndex(of: ":"),
            let id = OAuthForm.decode(text[..<colon]), let secret = OAuthForm.decode(text[text.index(after: colon)...])
        else { throw .invalidClient("Authorization is not Basic with an id and a secret in the encoding of forms") }
        return ClientCredentials(id: id, secret: secret.isEmpty ? nil : secret)
    }
}

extension ServiceState {
    /// A client that a call was taken from.
    struct KnownClient {
        let settings: OAuthSettings.Client
        /// Whether it has shown its secret.
        let isAuthenticated: Bool

        func require(_ grant: OAuthGrant) throws(OAuthError) {
            guard settings.grants.contains(grant) else {
                throw .unauthorizedClient("client \(settings.id) may not use \(grant.rawValue)")
            }
        }
    }

    /// - Throws: `invalid_client`.
    func client(_ form: OAuthForm, _ authorization: String?) throws(OAuthError) -> KnownClient {
        let shown = try ClientCredentials(form, authorization)
        guard let settings = oauth?.settings.clients.first(where: { $0.id == shown.id }) else {
            throw .invalidClient("client \(shown.id) is unknown")
        }
        switch (settings.secret, shown.secret) {
        case (nil, nil): return KnownClient(settings: settings, isAuthenticated: false)
        case (nil, _?): throw .invalidClient("client \(settings.id) is public and has no secret")
        case (_?, nil):
            guard !settings.requiresSecret else {
                throw .invalidClient("client \(settings.id) has not sent its secret")
            }
            return KnownClient(settings: settings, isAuthenticated: false)
        case (let own?, let sent?):
            let own = Array(own.utf8), sent = Array(sent.utf8)
            guard own.count == sent.count, CRYPTO_memcmp(own, sent, own.count) == 0 else {
                throw .invalidClient("the secret of client \(settings.id) is wrong")
            }
            return KnownClient(settings: settings, isAuthenticated: true)
        }
    }

    /// The scopes that a call asks for.
    ///
    /// - Throws: `invalid_scope`.
    func scopes(_ form: OAuthForm, _ client: OAuthSettings.Client) throws(OAuthError) -> [String] {
        guard let text = form["scope"] else { return [] }
        guard let scopes = OAuthScope.read(text) else {
            throw .invalidScope("scope has characters that no scope has (RFC 6749 section 3.3)")
        }
        if let known = client.scopes ?? oauth?.settings.scopes,
            let unknown = scopes.first(where: { !known.contains($0) })
        {
            throw .invalidScope("client \(client.id) has no scope \(unknown); it has \(known.joined(separator: " "))")
        }
        return scopes
    }

    /// The resources and audiences that a call asks for.
    ///
    /// - Throws: `invalid_target` (RFC 8707 §2).
    func audience(_ form: OAuthForm) throws(OAuthError) -> [String] {
        let resources = form.all("resource")
        for resource in resources {
            guard RedirectURI.isURI(resource) else {
                throw .invalidTarget("resource \(resource) is no absolute URI without a fragment")
            }
            if let known = oauth?.settings.resources, !known.contains(resource) {
                throw .invalidTarget("there is no resource \(resource); there are \(known.joined(separator: " "))")
            }
        }
        return resources + form.all("audience")
    }
}
