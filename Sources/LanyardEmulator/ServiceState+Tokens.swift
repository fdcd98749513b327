import FlyingFox

extension ServiceState {
    /// `POST …/auth/session`: a new access token; the refresh token stays.
    func refresh(_ authorization: String?) throws(ServiceError) -> JSONValue {
        let session = try session(authorization)
        return .object(["access_token": .string(accessToken(of: session, cause: "refresh"))])
    }

    /// `DELETE …/auth/session`.
    func logout(_ authorization: String?) throws(ServiceError) {
        let session = try session(authorization)
        sessions[session.id] = nil
        if options.logoutEndsAccessTokens { endTokens { $0.sessionID == session.id } }
    }

    /// Demands a usable access token.
    func access(_ authorization: String?) throws(ServiceError) -> IssuedToken {
        let claims = try claims(authorization, badSignature: .accessBadSignature)
        guard claims["typ"]?.string == "access" else { throw .refreshWhereAccess }
        let token = token(of: claims)
        if token.revoked { throw .accessRevoked }
        if now >= token.expiresAt { throw .accessExpired }
        return token
    }

    /// The user id in a token of ours, whatever its kind and state: for the counts.
    func subject(_ authorization: String?) -> String? {
        (try? claims(authorization, badSignature: .accessBadSignature))?["sub"]?.string
    }

    func used(_ token: IssuedToken) {
        issued[token.id]?.uses += 1
        counts.used(token: token.id)
    }

    /// Demands a refresh token with its session alive.
    private func session(_ authorization: String?) throws(ServiceError) -> Session {
        let claims = try claims(authorization, badSignature: .refreshBadSignature)
        guard claims["typ"]?.string == "refresh" else { throw .accessWhereRefresh }
        guard let id = claims["baas_id"]?.string, let session = sessions[id], users[session.userID]?.disabled == false
        else {
            throw .refreshUnknown
        }
        guard now < session.refreshExpiresAt else { throw .refreshExpired }
        return session
    }

    private func claims(_ authorization: String?, badSignature: ServiceError) throws(ServiceError) -> JSONValue {
        guard let authorization else { throw .unauthenticated }
        let parts = authorization.split(separator: " ", omittingEmptySubsequences: true)
        guard parts.count == 2, parts[0].lowercased() == "bearer" else { throw .emptyBearer }
        do throws(TokenMint.Flaw) {
            return try mint.claims(of: String(parts[1]))
        } catch {
            throw error == .unparsable ? .unparsableToken : badSignature
        }
    }

    /// The record of a token; one that is no longer remembered is what its claims say.
    private func token(of claims: JSONValue) -> IssuedToken {
        let id = claims["jti"]?.string ?? ""
        return issued[id]
            ?? IssuedToken(
                id: id, userID: claims["sub"]?.string ?? "", sessionID: claims["iss"]?.string ?? "", cause: "unknown",
                issuedAt: claims["iat"]?.double ?? 0, expiresAt: claims["exp"]?.double ?? 0)
    }

    /// A new access token. It dies exactly one lifetime after this instant; `iat` and `exp` show both ends in whole seconds.
    func accessToken(of session: Session, cause: String) -> String {
        let start = now
        let token = IssuedToken(
            id: Identifiers.new(), userID: session.userID, sessionID: session.id, cause: cause, issuedAt: start,
            expiresAt: start + options.accessTokenSeconds)
        issued[token.id] = token
        issueOrder.append(token.id)
        if issueOrder.count > Self.issuedTokensMax { issued[issueOrder.removeFirst()] = nil }
        return mint.sign(
            .object(
                common(session, "access", from: start, to: token.expiresAt)
                    .merging(["iss": .string(session.id), "jti": .string(token.id)]) { $1 }))
    }

    func refreshToken(of session: Session) -> String {
        let identity: JSONValue = .object([
            "id": session.identity["id"] ?? .null, "provider_type": session.identity["provider_type"] ?? .null,
            "provider_id": session.identity["provider_id"] ?? .null,
        ])
        return mint.sign(
            .object(
                common(session, "refresh", from: now, to: session.refreshExpiresAt)
                    .merging([
                        "baas_id": .string(session.id), "stitch_id": .string(session.id), "baas_identity": identity,
                        "stitch_ident": identity, "baas_data": .null, "stitch_data": .null,
                    ]) { $1 }))
    }

    private func common(_ session: Session, _ kind: String, from start: Double, to end: Double) -> [String: JSONValue] {
        [
            "typ": .string(kind), "sub": .string(session.userID), "iat": .number(start.rounded(.down)),
            "exp": .number(end.rounded(.down)), "baas_device_id": .string(session.deviceID),
            "stitch_devId": .string(session.deviceID), "baas_domain_id": .string(domainID),
            "stitch_domainId": .string(domainID),
        ]
    }
}
