import FlyingFox

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
