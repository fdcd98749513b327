/// Token exchange (RFC 8693).
extension ServiceState {
    private static let typePrefix = "urn:ietf:params:oauth:token-type:"
    private static let types = ["access_token", "id_token", "jwt"]

    /// Who a token of an exchange stands for.
    private struct Party {
        let subject: String
        var scopes: [String] = []
        /// The actors of before (RFC 8693 §4.1).
        var actor: JSONValue?
    }

    /// It makes no session and brings no refresh token.
    func exchange(
        _ form: OAuthForm, _ client: OAuthSettings.Client, _ issuer: String, _ call: Int?
    ) throws(OAuthError) -> OAuthReply {
        let party = try party("subject_token", form)
        let requested = form["requested_token_type"] ?? Self.typePrefix + "access_token"
        guard ["access_token", "jwt"].contains(where: { requested == Self.typePrefix + $0 }) else {
            throw .invalidRequest("this stand-in has no requested_token_type \(requested); it has access_token and jwt")
        }
        var actor = party.actor
        if form["actor_token"] != nil {
            actor = .members(["sub": .string(try self.party("actor_token", form).subject), "act": party.actor])
        } else if form["actor_token_type"] != nil {
            throw .invalidRequest("actor_token_type is there without actor_token (RFC 8693 section 2.1)")
        }
        let asked = try scopes(form, client), audience = try audience(form)
        var tokens = OAuthTokens(
            subject: party.subject, client: client, scopes: asked.isEmpty ? party.scopes : asked, audience: audience,
            cause: "exchange")
        tokens.actor = actor
        var body = oauthTokens(tokens, issuer).object ?? JSONObject()
        body["issued_token_type"] = .string(requested)
        recordLogin(of: name(of: party.subject) ?? party.subject, .tokenExchange, call)
        return OAuthReply(body: .object(body), subject: party.subject)
    }

    /// Reads a token and its type.
    ///
    /// - Throws: `invalid_request`, as RFC 8693 §2.2.2 has it for a token that is refused.
    private func party(_ name: String, _ form: OAuthForm) throws(OAuthError) -> Party {
        let text = try form.required(name), type = try form.required(name + "_type")
        guard let kind = Self.types.first(where: { type == Self.typePrefix + $0 }) else {
            throw .invalidRequest(
                "this stand-in has no \(name)_type \(type); it has \(Self.types.joined(separator: ", "))")
        }
        let party = try kind == "id_token" ? idParty(name, text) : accessParty(name, text)
        if let user = user(party.subject), user.isDisabled { throw .invalidRequest("\(name): the user is disabled") }
        return party
    }

    /// An access token of this service, or a token of an issuer that the configuration knows.
    private func accessParty(_ name: String, _ text: String) throws(OAuthError) -> Party {
        do throws(ServiceError) {
            let token = try oauthAccess(text: text)
            let claims = (try? oauth?.key.read(text))?.claims
            return Party(subject: token.userID, scopes: token.scopes, actor: claims?["act"])
        } catch {
            guard error == .accessBadSignature || error == .accessUnparsable || error == .refreshWhereAccess else {
                throw .invalidRequest("\(name): \(error.text)")
            }
            return try foreignParty(name, text)
        }
    }

    /// An ID token of this service, or a token of an issuer that the configuration knows.
    private func idParty(_ name: String, _ text: String) throws(OAuthError) -> Party {
        guard let (header, claims) = try? oauth?.key.read(text), header["typ"]?.string == "JWT",
            let subject = claims["sub"]?.string
        else { return try foreignParty(name, text) }
        guard let expiry = claims["exp"]?.double, now < expiry else {
            throw .invalidRequest("\(name): the ID token has expired")
        }
        return Party(subject: subject)
    }

    private func foreignParty(_ name: String, _ text: String) throws(OAuthError) -> Party {
        let keys = oauth?.settings.subjectKeys ?? []
        guard !keys.isEmpty else {
            throw .invalidRequest(
                "\(name) is no token of this service, and subject_jwks of the configuration has no key")
        }
        do throws(ForeignToken.RefusalError) {
            return Party(subject: try ForeignToken(text, verifiedBy: keys, at: now).subject())
        } catch {
            throw .invalidRequest("\(name): \(error.reason)")
        }
    }
}
