/// The latest calls in the order of their arrival.
struct CallJournal: Sendable {
    /// Calls that are kept. Calls of the protected resource are not recorded.
    static let callsMax = 20_000

    private var calls: [EmulatorCall] = []
    /// The number of the next call.
    private var next = 1

    /// - Returns: its number.
    mutating func begin(_ route: Route, _ name: (method: String, path: String, appID: String?), at now: Double) -> Int {
        defer { next += 1 }
        calls.append(
            EmulatorCall(
                number: next, route: route.rawValue, method: name.method, path: name.path, arrivedAt: now,
                appID: name.appID))
        // Removed in large steps, because each removal moves the rest.
        if calls.count > 2 * Self.callsMax { calls.removeFirst(calls.count - Self.callsMax) }
        return next
    }

    /// Changes the record of a call. Nothing happens if the call is no longer kept.
    mutating func edit(_ number: Int, _ change: (inout EmulatorCall) -> Void) {
        guard let first = calls.first?.number, number >= first, number - first < calls.count else { return }
        change(&calls[number - first])
    }

    /// The calls after the one with this number.
    func after(_ number: Int) -> [EmulatorCall] { Array(calls.suffix(Self.callsMax).drop { $0.number <= number }) }
}

/// One call in the service's journal. Times are seconds since 1970 by the machine's clock, independent of the service's clock.
public struct EmulatorCall: Sendable {
    /// The effect of a call on the service.
    public enum Effect: String, Sendable {
        /// None: the call was refused, it never changes anything, or a planned response replaced it.
        case none
        case login, refreshed, rotated
        case repeatedWithinGrace = "repeated_within_grace"
        case repeatedAfterGrace = "repeated_after_grace"
        case familyKilled = "family_killed"
        case loggedOut = "logged_out"
        /// An access token was revoked.
        case tokenRevoked = "token_revoked"
        /// Another identity belongs to the account now.
        case linked
        /// The account has deleted itself.
        case accountDeleted = "account_deleted"
        /// The session of its token has ended.
        case sessionDead = "session_dead"
    }

    /// Whether its response was sent.
    public enum Delivery: String, Sendable {
        /// It was handed to the connection.
        case sent
        /// A planned fault kept it or a part of it from the client.
        case lost
    }

    /// Grows by one with each call, from 1.
    public let number: Int
    /// The route's name in the controls, such as `login`, `refresh` or `logout`.
    public let route: String
    /// The method.
    public let method: String
    /// The path, without the query, which may have a token.
    public let path: String
    /// When it arrived.
    public let arrivedAt: Double
    /// The client app id that its path or its refresh token names, or the client id; nil: it names none.
    public internal(set) var appID: String?
    /// The account's name; nil: the call named no known account.
    public internal(set) var account: String?
    /// The session that it created or that its token belongs to.
    public internal(set) var sessionID: String?
    /// The serial number of its refresh token; 1 is the login's.
    public internal(set) var refreshTokenSerial: Int?
    /// Its effect on the service.
    public internal(set) var effect = Effect.none
    /// When its response was ready to be sent.
    public internal(set) var answeredAt: Double?
    /// The status of the response; nil until there is one.
    public internal(set) var status: Int?
    /// Whether the response was sent; nil until there is one.
    public internal(set) var delivery: Delivery?
}
