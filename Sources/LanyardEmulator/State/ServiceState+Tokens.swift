import FlyingFox

extension ServiceState {
    /// `POST …/auth/session`: a new access token, and with rotation a new refresh token.
    func refresh(_ authorization: String?, _ call: Int?) throws(ServiceError) -> JSONValue {
        var (session, serial) = try session(authorization, call)
        var response: [String: JSONValue] = [:]
        var effect = EmulatorCall.Effect.refreshed
        switch refreshOutcome(session, serial) {
        case .unchanged: break
        case .rotates:
            let token = refreshToken(of: session, serial: serial + 1)
            session.family.rotate(to: token, at: now)
            response["refresh_token"] = .string(token)
            effect = .rotated
        case .repeats:
            updateStatistics(session) { $0.repeatsWithinGrace += 1 }
            response["refresh_token"] = session.family.token.map { .string($0) }
            effect = .repeatedWithinGrace
        case .tooLate:
            updateStatistics(session) { $0.repeatsAfterGrace += 1 }
            updateJournal(call) { $0.effect = .repeatedAfterGrace }
            throw .refreshUnknown
        case .endsFamily:
            endFamily(session, call)
            throw .refreshUnknown
        }
        session.refreshes += 1
        sessions[session.id] = session
        updateStatistics(session) { $0.refreshes += 1 }
        updateJournal(call) { $0.effect = effect }
        response["access_token"] = .string(accessToken(of: session, cause: "refresh"))
        return .object(response)
    }

    /// `DELETE …/auth/session`.
    func logout(_ authorization: String?, _ call: Int?) throws(ServiceError) {
        let (session, serial) = try session(authorization, call)
        switch refreshOutcome(session, serial) {
        case .unchanged, .rotates: break
        case .repeats: updateStatistics(session) { $0.repeatsAtLogout += 1 }
        case .tooLate:
            updateStatistics(session) { $0.repeatsAtLogout += 1 }
            updateJournal(call) { $0.effect = .repeatedAfterGrace }
            throw .refreshUnknown
        case .endsFamily:
            updateStatistics(session) { $0.repeatsAtLogout += 1 }
            endFamily(session, call)
            throw .refreshUnknown
        }
        end(session.id, .logout)
        updateStatistics(session) { $0.revocations += 1 }
        updateJournal(call) { $0.effect = .loggedOut }
        if options.logoutEndsAccessTokens { endTokens { $0.sessionID == session.id } }
    }

    private func refreshOutcome(_ session: EmulatorSession, _ serial: Int) -> RefreshFamily.Outcome {
        session.family.outcome(serial, options.rotation, at: now, graceSeconds: options.rotationGraceSeconds)
    }

    private func endFamily(_ session: EmulatorSession, _ call: Int?) {
        end(session.id, .familyKilled)
        updateStatistics(session) { $0.familyKills += 1 }
        updateJournal(call) { $0.effect = .familyKilled }
    }

    /// Ends a session before its expiry.
    func end(_ sessionID: String, _ cause: EmulatorSession.End) {
        guard var session = sessions.removeValue(forKey: sessionID) else { return }
        session.end = cause
        session.endedAt = now
        endedSessions.append(session)
        // Removed in large steps, because each removal moves the rest.
        let most = Self.endedSessionsMax
        if endedSessions.count > 2 * most { endedSessions.removeFirst(endedSessions.count - most) }
    }

    func updateStatistics(_ session: EmulatorSession, _ change: (inout EmulatorStatistics.Account) -> Void) {
        change(&statistics.accounts[session.account, default: EmulatorStatistics.Account()])
    }

    /// Requires a usable access token.
    func access(_ authorization: String?) throws(ServiceError) -> IssuedToken {
        let claims = try claims(authorization, badSignature: .accessBadSignature)
        guard claims["typ"]?.string == "access" else { throw .refreshWhereAccess }
        let token = token(of: claims)
        if token.revoked { throw .accessRevoked }
        if now >= token.expiresAt { throw .accessExpired }
        return token
    }

    /// The user id in a token of this service, of any kind and state, for the counts.
    func subject(_ authorization: String?) -> String? {
        (try? claims(authorization, badSignature: .accessBadSignature))?["sub"]?.string
    }

    func used(_ token: IssuedToken) {
        issued[token.id]?.uses += 1
        counts.used(token: token.id)
    }

    /// Requires a refresh token of a live session. The caller checks which of the session's tokens it is.
    private func session(
        _ authorization: String?, _ call: Int?
    ) throws(ServiceError) -> (session: EmulatorSession, serial: Int) {
        let claims = try claims(authorization, badSignature: .refreshBadSignature)
        guard claims["typ"]?.string == "refresh" else { throw .accessWhereRefresh }
        let id = claims["baas_id"]?.string ?? "", serial = claims["serial"]?.int ?? 1
        updateJournal(call) {
            $0.sessionID = id
            $0.refreshTokenSerial = serial
        }
        guard let session = sessions[id] ?? endedSessions.last(where: { $0.id == id }) else { throw .refreshUnknown }
        updateJournal(call) { $0.account = session.account }
        if session.isLive(at: now) { return (session, serial) }
        updateStatistics(session) { $0.callsOfDeadSessions += 1 }
        updateJournal(call) { $0.effect = .sessionDead }
        throw session.end == nil ? .refreshExpired : .refreshUnknown
    }

    private func claims(_ authorization: String?, badSignature: ServiceError) throws(ServiceError) -> JSONValue {
        guard let authorization else { throw .unauthenticated }
        let parts = authorization.split(separator: " ", omittingEmptySubsequences: true)
        guard parts.count == 2, parts[0].lowercased() == "bearer" else { throw .emptyBearer }
        do throws(TokenIssuer.ReadError) {
            return try tokenIssuer.claims(of: String(parts[1]))
        } catch {
            throw error == .unparsable ? .unparsableToken : badSignature
        }
    }

    /// The record of a token. A token that is no longer kept gets a record from its claims.
    private func token(of claims: JSONValue) -> IssuedToken {
        let id = claims["jti"]?.string ?? ""
        return issued[id]
            ?? IssuedToken(
                id: id, userID: claims["sub"]?.string ?? "", sessionID: claims["iss"]?.string ?? "", cause: "unknown",
                issuedAt: claims["iat"]?.double ?? 0, expiresAt: claims["exp"]?.double ?? 0)
    }

    /// A new access token. It expires exactly one lifetime after now. `iat` and `exp` are rounded down to whole seconds.
    func accessToken(of session: EmulatorSession, cause: String) -> String {
        let start = now
        let token = IssuedToken(
            id: Identifiers.new(), userID: session.userID, sessionID: session.id, cause: cause, issuedAt: start,
            expiresAt: start + options.accessTokenSeconds)
        issued[token.id] = token
        issueOrder.append(token.id)
        if issueOrder.count > Self.issuedTokensMax { issued[issueOrder.removeFirst()] = nil }
        return tokenIssuer.sign(
            .object(
                common(session, "access", from: start, to: token.expiresAt)
                    .merging(["iss": .string(session.id), "jti": .string(token.id)]) { $1 }))
    }

    /// - Parameter serial: 1 is the login's token, which has only the real service's claims.
    func refreshToken(of session: EmulatorSession, serial: Int = 1) -> String {
        let identity: JSONValue = .object([
            "id": session.identity["id"] ?? .null, "provider_type": session.identity["provider_type"] ?? .null,
            "provider_id": session.identity["provider_id"] ?? .null,
        ])
        var claims = common(session, "refresh", from: now, to: session.refreshExpiresAt)
            .merging([
                "baas_id": .string(session.id), "stitch_id": .string(session.id), "baas_identity": identity,
                "stitch_ident": identity, "baas_data": .null, "stitch_data": .null,
            ]) { $1 }
        if serial > 1 { claims["serial"] = .int(serial) }
        return tokenIssuer.sign(.object(claims))
    }

    private func common(_ session: EmulatorSession, _ kind: String, from start: Double, to end: Double) -> [String:
        JSONValue]
    {
        [
            "typ": .string(kind), "sub": .string(session.userID), "iat": .number(start.rounded(.down)),
            "exp": .number(end.rounded(.down)), "baas_device_id": .string(session.deviceID),
            "stitch_devId": .string(session.deviceID), "baas_domain_id": .string(domainID),
            "stitch_domainId": .string(domainID),
        ]
    }
}
