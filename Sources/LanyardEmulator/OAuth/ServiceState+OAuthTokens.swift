import COpenSSL

/// Access, refresh and ID tokens of the OAuth side.
extension ServiceState {
    /// What one response of the token endpoint brings.
    struct OAuthTokens {
        /// The user id, or the client's id.
        let subject: String
        let client: OAuthSettings.Client
        let scopes: [String]
        /// As the call has asked for; empty: the client's, else the issuer.
        let audience: [String]
        /// As in `IssuedToken`.
        let cause: String
        /// nil: the login makes none.
        var session: EmulatorSession?
        var refreshToken: String?
        var nonce: String?
        /// The claim `act` of a token exchange (RFC 8693 §4.1).
        var actor: JSONValue?
    }

    /// The members of a response (RFC 6749 §5.1).
    func oauthTokens(_ tokens: OAuthTokens, _ issuer: String) -> JSONValue {
        let access = oauthAccessToken(tokens, issuer)
        var id: JSONValue?
        if tokens.scopes.contains("openid"), let session = tokens.session {
            id = .string(idToken(tokens, session, issuer, accessToken: access))
        }
        let scope = tokens.scopes.isEmpty ? nil : JSONValue.string(tokens.scopes.joined(separator: " "))
        return .members([
            "access_token": .string(access), "token_type": "Bearer",
            "expires_in": .double(options.accessTokenSeconds.rounded(.down)),
            "refresh_token": tokens.refreshToken.map { .string($0) }, "scope": scope, "id_token": id,
        ])
    }

    /// RFC 9068. It expires exactly one lifetime after now. `iat` and `exp` are rounded down to whole seconds.
    private func oauthAccessToken(_ tokens: OAuthTokens, _ issuer: String) -> String {
        guard let oauth else { return "" }
        let start = now
        var audience = tokens.audience.isEmpty ? tokens.client.audience : tokens.audience
        if audience.isEmpty { audience = [issuer] }
        let token = IssuedToken(
            id: Identifiers.new() + "-" + oauth.records.instance, userID: tokens.subject,
            sessionID: tokens.session?.id ?? "", cause: tokens.cause, issuedAt: start,
            expiresAt: start + options.accessTokenSeconds,
            oauth: OAuthTokenDetails(clientID: tokens.client.id, scopes: tokens.scopes, audience: audience))
        keep(token)
        let scope = tokens.scopes.isEmpty ? nil : JSONValue.string(tokens.scopes.joined(separator: " "))
        return oauth.key.sign(
            .members([
                "iss": .string(issuer), "sub": .string(tokens.subject), "aud": Self.json(ofAudience: audience),
                "client_id": .string(tokens.client.id), "scope": scope,
                "iat": .double(start.rounded(.down)), "exp": .double(token.expiresAt.rounded(.down)),
                "jti": .string(token.id), "act": tokens.actor,
            ]), type: "at+jwt")
    }

    /// OpenID Connect Core 1.0 §2.
    private func idToken(
        _ tokens: OAuthTokens, _ session: EmulatorSession, _ issuer: String, accessToken: String
    ) -> String {
        guard let oauth else { return "" }
        let half = Identifiers.sha256(Array(accessToken.utf8)).prefix(16)
        var claims = userClaims(of: tokens.subject, tokens.scopes)
        claims["iss"] = .string(issuer)
        claims["aud"] = .string(tokens.client.id)
        claims["iat"] = .double(now.rounded(.down))
        claims["exp"] = .double((now + options.accessTokenSeconds).rounded(.down))
        claims["auth_time"] = .double((session.oauth?.authenticatedAt ?? session.startedAt).rounded(.down))
        claims["nonce"] = tokens.nonce.map { .string($0) }
        claims["at_hash"] = .string(TokenIssuer.encode(Array(half)))
        claims["sid"] = .string(session.id)
        return oauth.key.sign(.object(claims), type: "JWT")
    }

    static func json(ofAudience audience: [String]) -> JSONValue {
        audience.count == 1 ? .string(audience[0]) : .array(audience.map { .string($0) })
    }

    // MARK: Access tokens that come

    /// Requires a usable access token of either side.
    func anyAccess(_ authorization: String?) throws(ServiceError) -> IssuedToken {
        guard oauth != nil, let text = Self.bearer(authorization), isOAuthToken(text) else {
            return try access(authorization)
        }
        return try oauthAccess(text: text)
    }

    /// Requires a usable access token of the OAuth side.
    func oauthAccess(_ authorization: String?) throws(ServiceError) -> IssuedToken {
        guard authorization != nil else { throw .unauthenticated }
        guard let text = Self.bearer(authorization) else { throw .emptyBearer }
        return try oauthAccess(text: text)
    }

    func oauthAccess(text: String) throws(ServiceError) -> IssuedToken {
        let token = try oauthToken(text)
        if token.isRevoked { throw .accessRevoked }
        if now >= token.expiresAt { throw .accessExpired }
        return token
    }

    /// An access token that this side has issued, in any state. One that is no longer kept gets a record from its claims.
    func oauthToken(_ text: String) throws(ServiceError) -> IssuedToken {
        guard let oauth else { throw .accessBadSignature }
        let header: JSONValue, claims: JSONValue
        do throws(TokenIssuer.ReadError) {
            (header, claims) = try oauth.key.read(text)
        } catch {
            throw error == .unparsable ? .accessUnparsable : .accessBadSignature
        }
        guard header["typ"]?.string == "at+jwt" else { throw .refreshWhereAccess }
        guard let id = claims["jti"]?.string, id.hasSuffix("-" + oauth.records.instance) else {
            throw .accessBadSignature
        }
        let audience = claims["aud"]?.array?.compactMap(\.string) ?? claims["aud"]?.string.map { [$0] } ?? []
        return issued[id]
            ?? IssuedToken(
                id: id, userID: claims["sub"]?.string ?? "", sessionID: "", cause: "unknown",
                issuedAt: claims["iat"]?.double ?? 0, expiresAt: claims["exp"]?.double ?? 0,
                oauth: OAuthTokenDetails(
                    clientID: claims["client_id"]?.string ?? "",
                    scopes: OAuthScope.read(claims["scope"]?.string ?? "") ?? [], audience: audience))
    }

    /// Whether the header of a token names the algorithm of this side.
    private func isOAuthToken(_ text: String) -> Bool {
        guard let first = text.split(separator: ".").first, let bytes = TokenIssuer.decode(first),
            let header = try? JSONReader.read(bytes)
        else { return false }
        return header["alg"]?.string == oauth?.key.algorithm.rawValue
    }

    private static func bearer(_ authorization: String?) -> String? {
        guard let parts = authorization?.split(separator: " ", omittingEmptySubsequences: true), parts.count == 2,
            parts[0].lowercased() == "bearer"
        else { return nil }
        return String(parts[1])
    }

    // MARK: Refresh tokens

    /// Opaque, and the same for the same session and serial number. It has no dots, so that it is not taken for a JWT.
    func oauthRefreshToken(of sessionID: String, serial: Int) -> String {
        let name = "rt_\(sessionID)_\(serial)"
        var digest = [UInt8](repeating: 0, count: 32)
        let bytes = Array(name.utf8)
        HMAC(EVP_sha256(), tokenIssuer.key, CInt(tokenIssuer.key.count), bytes, bytes.count, &digest, nil)
        return name + "_" + TokenIssuer.encode(digest)
    }

    /// The session and the serial number of a refresh token that this service has issued.
    func readOAuthRefreshToken(_ text: String) -> (sessionID: String, serial: Int)? {
        let parts = text.split(separator: "_", maxSplits: 3, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 4, let serial = Int(parts[2]) else { return nil }
        let own = Array(oauthRefreshToken(of: parts[1], serial: serial).utf8), sent = Array(text.utf8)
        guard own.count == sent.count, CRYPTO_memcmp(own, sent, own.count) == 0 else { return nil }
        return (parts[1], serial)
    }
}

/// What an access token of the OAuth side is good for.
struct OAuthTokenDetails: Codable, Sendable {
    let clientID: String
    let scopes: [String]
    let audience: [String]
}
