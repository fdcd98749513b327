/// Statistics of the service's sessions since the start or the last reset of the counts, by account.
///
/// The name of an account is its email, its key's name or its user id.
public struct EmulatorStatistics: Equatable, Sendable {
    /// The statistics of one account, or the sum of all.
    public struct Account: Equatable, Sendable {
        /// Logins that created a session, by the provider's name in the protocol (`anon-user`, `local-userpass`, `api-key`). A login counts
        /// even if its response was lost.
        public var logins: [String: Int] = [:]
        /// Session calls that returned an access token, including repeats.
        public var refreshes = 0
        /// Session calls with an old refresh token that returned the same successor again.
        public var repeatsWithinGrace = 0
        /// Session calls with an old refresh token that were refused with 401.
        public var repeatsAfterGrace = 0
        /// Logouts with an old refresh token.
        public var repeatsAtLogout = 0
        /// Sessions that ended because an old refresh token was repeated (`one_use`).
        public var familyKills = 0
        /// Session calls and logouts with the refresh token of a session that had ended or expired.
        public var callsOfDeadSessions = 0
        /// Logouts that ended a session.
        public var revocations = 0

        /// Logins of all kinds.
        public var loginCount: Int { logins.values.reduce(0, +) }
        /// Calls with an old refresh token of a session that rotates.
        public var repeats: Int { repeatsWithinGrace + repeatsAfterGrace + repeatsAtLogout + familyKills }
    }

    /// By the account's name.
    public internal(set) var accounts: [String: Account] = [:]

    /// All accounts together.
    public var total: Account {
        accounts.values.reduce(into: Account()) { sum, account in
            sum.logins.merge(account.logins) { $0 + $1 }
            sum.refreshes += account.refreshes
            sum.repeatsWithinGrace += account.repeatsWithinGrace
            sum.repeatsAfterGrace += account.repeatsAfterGrace
            sum.repeatsAtLogout += account.repeatsAtLogout
            sum.familyKills += account.familyKills
            sum.callsOfDeadSessions += account.callsOfDeadSessions
            sum.revocations += account.revocations
        }
    }
}

/// The public records as JSON for `/emulator/…`.
extension EmulatorStatistics {
    var json: JSONValue {
        let accounts = accounts.sorted { $0.key < $1.key }.map { ($0.key, Optional($0.value.json)) }
        return .members(["total": total.json, "accounts": .object(JSONObject(accounts))])
    }
}

extension EmulatorStatistics.Account {
    var json: JSONValue {
        .members([
            "logins": .object(JSONObject(logins.sorted { $0.key < $1.key }.map { ($0.key, .int($0.value)) })),
            "refreshes": .int(refreshes), "repeats_within_grace": .int(repeatsWithinGrace),
            "repeats_after_grace": .int(repeatsAfterGrace), "repeats_at_logout": .int(repeatsAtLogout),
            "family_kills": .int(familyKills), "calls_of_dead_sessions": .int(callsOfDeadSessions),
            "revocations": .int(revocations),
        ])
    }
}

extension EmulatorSession {
    func json(at now: Double) -> JSONValue {
        .members([
            "number": .int(number), "id": .string(id), "app": .string(appID), "user_id": .string(userID),
            "account": .string(account), "kind": .string(kind), "device_id": .string(deviceID),
            "started_at": .double(startedAt), "refresh_expires_at": .double(refreshExpiresAt),
            "refreshes": .int(refreshes), "refresh_token_serial": .int(refreshTokenSerial),
            "live": .boolean(isLive(at: now)), "ended_at": .orNull(endedAt),
            "end": .orNull(end?.rawValue),
        ])
    }
}

extension EmulatorCall {
    var json: JSONValue {
        .members([
            "number": .int(number), "route": .string(route), "method": .string(method), "path": .string(path),
            "app": .orNull(appID), "arrived_at": .double(arrivedAt),
            "account": .orNull(account), "session_id": .orNull(sessionID),
            "refresh_token_serial": .orNull(refreshTokenSerial), "effect": .string(effect.rawValue),
            "answered_at": .orNull(answeredAt), "status": .orNull(status),
            "answer": .orNull(delivery?.rawValue),
        ])
    }
}
