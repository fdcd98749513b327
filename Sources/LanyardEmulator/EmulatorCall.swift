/// One call in the service's journal. Times are seconds since 1970 by the real clock, whatever the service's own says.
public struct EmulatorCall: Sendable {
    /// What a call did to the service.
    public enum Effect: String, Sendable {
        /// Nothing: it was refused, it changed nothing by its nature, or a planned answer took its place.
        case none
        case login, refreshed, rotated
        case repeatedWithinGrace = "repeated_within_grace"
        case repeatedAfterGrace = "repeated_after_grace"
        case familyKilled = "family_killed"
        case loggedOut = "logged_out"
        /// The session that its token belongs to is over.
        case sessionDead = "session_dead"
    }

    /// What became of its answer.
    public enum Delivery: String, Sendable {
        /// It was given to the connection.
        case sent
        /// A planned fault kept it, or part of it, from the client.
        case lost
    }

    /// Grows by one with each call, from 1.
    public let number: Int
    /// `login`, `refresh`, `logout` and so on, as the controls name routes.
    public let route: String
    /// When it arrived.
    public let arrivedAt: Double
    /// The account's name; nil: the call named none that is known.
    public internal(set) var account: String?
    /// The session that it made or that its token belongs to.
    public internal(set) var sessionID: String?
    /// The serial number of the refresh token that it brought: 1 is the login's.
    public internal(set) var refreshTokenSerial: Int?
    /// What it did to the service.
    public internal(set) var effect = Effect.none
    /// When its answer was ready to go out.
    public internal(set) var answeredAt: Double?
    /// nil until it is answered.
    public internal(set) var status: Int?
    /// nil until then.
    public internal(set) var delivery: Delivery?
}
