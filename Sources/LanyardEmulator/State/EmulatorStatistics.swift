import FlyingFox

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
        .object(["total": total.json, "accounts": .object(accounts.mapValues(\.json))])
    }
}

extension EmulatorStatistics.Account {
    var json: JSONValue {
        .object([
            "logins": .object(logins.mapValues { .int($0) }), "refreshes": .int(refreshes),
            "repeats_within_grace": .int(repeatsWithinGrace), "repeats_after_grace": .int(repeatsAfterGrace),
            "repeats_at_logout": .int(repeatsAtLogout), "family_kills": .int(familyKills),
            "calls_of_dead_sessions": .int(callsOfDeadSessions), "revocations": .int(revocations),
        ])
    }
}

extension EmulatorSession {
    func json(at now: Double) -> JSONValue {
        .object([
            "number": .int(number), "id": .string(id), "user_id": .string(userID), "account": .string(account),
            "kind": .string(kind),
            "device_id": .string(deviceID), "started_at": .number(startedAt),
            "refresh_expires_at": .number(refreshExpiresAt), "refreshes": .int(refreshes),
            "refresh_token_serial": .int(refreshTokenSerial), "live": .boolean(isLive(at: now)),
            "ended_at": endedAt.map { .number($0) } ?? .null, "end": end.map { .string($0.rawValue) } ?? .null,
        ])
    }
}

extension EmulatorCall {
    var json: JSONValue {
        .object([
            "number": .int(number), "route": .string(route), "arrived_at": .number(arrivedAt),
            "account": account.map { .string($0) } ?? .null, "session_id": sessionID.map { .string($0) } ?? .null,
            "refresh_token_serial": refreshTokenSerial.map { .int($0) } ?? .null, "effect": .string(effect.rawValue),
            "answered_at": answeredAt.map { .number($0) } ?? .null, "status": status.map { .int($0) } ?? .null,
            "answer": delivery.map { .string($0.rawValue) } ?? .null,
        ])
    }
}
