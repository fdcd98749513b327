/// Sessions and the tokens of this service.
extension ServiceState {
    /// `POST …/auth/session`: a new access token, and with rotation a new refresh token.
    func refresh(_ authorization: String?, _ call: Int?) throws(ServiceError) -> JSONValue {
        var (session, serial) = try session(authorization, call)
        var rotated: JSONValue?
        var effect = EmulatorCall.Effect.refreshed
        switch refreshOutcome(session, serial) {
        case .unchanged: break
        case .rotates:
            let token = refreshToken(of: session, serial: serial + 1)
            session.family.rotate(to: token, at: now)
            rotated = .string(token)
            effect = .rotated
        case .repeats:
            updateStatistics(session) { $0.repeatsWithinGrace += 1 }
            rotated = session.family.token.map { .string($0) }
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
        return .members([
            "access_token": .string(accessToken(of: session, cause: "refresh")), "refresh_token": rotated,
        ])
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

    func refreshOutcome(_ session: EmulatorSession, _ serial: Int) -> RefreshFamily.Outcome {
        session.family.outcome(serial, options.rotation, at: now, graceSeconds: options.rotationGraceSeconds)
    }

    func endFamily(_ session: EmulatorSession, _ call: Int?) {
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

    /// Requires a usable access token, of a user of `app` if one is given.
    func access(_ authorization: String?, _ app: Int? = nil) throws(ServiceError) -> IssuedToken {
        let claims = try claims(authorization, ifUnparsable: .accessUnparsable, ifForeign: .accessBadSignature)
        guard claims["typ"]?.string == "access" else { throw .refreshWhereAccess }
        let token = token(of: claims)
        if token.isRevoked { throw .accessRevoked }
        if now >= token.expiresAt { throw .accessExpired }
        if let app, claims["baas_domain_id"]?.string != apps[app].settings.domainID { throw .otherApp }
        deleteIfOutlived(token.userID)
        return token
    }

    /// Requires a refresh token that a session call would accept, for calls that change nothing in the session.
    func refreshSession(_ authorization: String?) throws(ServiceError) -> EmulatorSession {
        let (session, serial) = try session(authorization, nil)
        switch refreshOutcome(session, serial) {
        case .unchanged, .rotates, .repeats: return session
        case .tooLate, .endsFamily: throw .refreshUnknown
        }
    }

    /// The user id in a token of this service, of any kind and state, for the counts.
    func subject(_ authorization: String?) -> String? {
        let claims = try? claims(authorization, ifUnparsable: .accessUnparsable, ifForeign: .accessBadSignature)
        return claims?["sub"]?.string
    }

    /// The domain id of the app that a token of this service belongs to; nil: there is no such token.
    func domain(_ authorization: String?) -> String? {
        let claims = try? claims(authorization, ifUnparsable: .accessUnparsable, ifForeign: .accessBadSignature)
        return claims?["baas_domain_id"]?.string
    }

    func recordUse(of token: IssuedToken) {
        issued[token.id]?.uses += 1
        counts.recordUse(ofToken: token.id)
    }

    /// A session in any state; nil: it is no longer kept.
    func anySession(_ id: String) -> EmulatorSession? { sessions[id] ?? endedSessions.last { $0.id == id } }

    func isLive(_ sessionID: String) -> Bool { sessions[sessionID]?.isLive(at: now) == true }

    /// Requires a refresh token of a live session. The caller checks which of the session's tokens it is.
    private func session(
        _ authorization: String?, _ call: Int?
    ) throws(ServiceError) -> (session: EmulatorSession, serial: Int) {
        let claims = try claims(authorization, ifUnparsable: .refreshUnparsable, ifForeign: .refreshBadSignature)
        guard claims["typ"]?.string == "refresh" else { throw .accessWhereRefresh }
        let id = claims["baas_id"]?.string ?? "", serial = claims["serial"]?.int ?? 1
        updateJournal(call) {
            $0.sessionID = id
            $0.refreshTokenSerial = serial
        }
        if let owner = claims["sub"]?.string { deleteIfOutlived(owner) }
        // A session of the OAuth side has other refresh tokens.
        guard let session = anySession(id), session.oauth == nil else { throw .refreshUnknown }
        updateJournal(call) {
            $0.account = session.account
            $0.appID = session.appID
        }
        if session.isLive(at: now) { return (session, serial) }
        updateStatistics(session) { $0.callsOfDeadSessions += 1 }
        updateJournal(call) { $0.effect = .sessionDead }
        throw session.end == nil ? .refreshExpired : .refreshUnknown
    }

    /// The service deletes anonymous accounts 90 days after their creation.
    private func deleteIfOutlived(_ userID: String) {
        guard let user = user(userID), user.isAnonymous, now >= user.createdAt + User.anonymousSecondsMax else {
            return
        }
        deleteUser(userID)
    }

    private func claims(
        _ authorization: String?, ifUnparsable unparsable: ServiceError, ifForeign foreign: ServiceError
    ) throws(ServiceError) -> JSONValue {
        guard let authorization else { throw .unauthenticated }
        let parts = authorization.split(separator: " ", omittingEmptySubsequences: true)
        guard parts.count == 2, parts[0].lowercased() == "bearer" else { throw .emptyBearer }
        do throws(TokenIssuer.ReadError) {
            return try tokenIssuer.claims(of: String(parts[1]))
        } catch {
            throw error == .unparsable ? unparsable : foreign
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
        keep(token)
        var claims = common(session, "access", from: start, to: token.expiresAt)
        claims["iss"] = .string(session.id)
        claims["jti"] = .string(token.id)
        if let data = user(session.userID)?.customData, !data.isEmpty {
            claims["user_data"] = ExtendedJSON.canonical(.object(data))
        }
        return tokenIssuer.sign(.object(claims))
    }

    /// Adds an issued token to those that are kept.
    func keep(_ token: IssuedToken) {
        issued[token.id] = token
        issueOrder.append(token.id)
        if issueOrder.count > Self.issuedTokensMax { issued[issueOrder.removeFirst()] = nil }
    }

    /// - Parameter serial: 1 is the login's token, which has only the real service's claims.
    func refreshToken(of session: EmulatorSession, serial: Int = 1) -> String {
        // The login's token begins with its session: its life is then exactly the configured one.
        let start = serial == 1 ? session.startedAt : now
        var claims = common(session, "refresh", from: start, to: session.refreshExpiresAt)
        let identity = session.identity.json(appID: session.appID, inToken: true)
        for name in ["baas_id", "stitch_id"] { claims[name] = .string(session.id) }
        for name in ["baas_identity", "stitch_ident"] { claims[name] = identity }
        for name in ["baas_data", "stitch_data"] { claims[name] = .null }
        if serial > 1 { claims["serial"] = .int(serial) }
        return tokenIssuer.sign(.object(claims))
    }

    private func common(
        _ session: EmulatorSession, _ kind: String, from start: Double, to end: Double
    ) -> JSONObject {
        let domain = Identifiers.derived(from: "domain " + session.appID)
        return [
            "typ": .string(kind), "sub": .string(session.userID), "iat": .double(start.rounded(.down)),
            "exp": .double(end.rounded(.down)), "baas_device_id": .string(session.deviceID),
            "stitch_devId": .string(session.deviceID), "baas_domain_id": .string(domain),
            "stitch_domainId": .string(domain),
        ]
    }
}
