import FlyingFox

/// One login of one account on one device, as the service knows it. Times are seconds since 1970 by the service's clock.
public struct EmulatorSession: Sendable {
    /// Why a session has ended.
    public enum End: String, Sendable {
        case logout, revoked, disabled
        case accountDeleted = "account_deleted"
        /// An old refresh token was repeated (`one_use`).
        case familyKilled = "family_killed"
    }

    /// Grows by one with each login, from 1.
    public let number: Int
    /// The session id of its tokens.
    public let id: String
    /// The account's user id.
    public let userID: String
    /// Its email, its key's name, or its user id.
    public let account: String
    /// The provider's name in the protocol.
    public let kind: String
    /// 24 zeros for a client that does not describe its device.
    public let deviceID: String
    /// When the login created it.
    public let startedAt: Double
    /// When its refresh tokens expire.
    public let refreshExpiresAt: Double
    /// Session calls that returned an access token.
    public internal(set) var refreshes = 0
    /// When it ended before its expiry; nil: it did not.
    public internal(set) var endedAt: Double?
    /// Why it ended before its expiry.
    public internal(set) var end: End?
    let identity: JSONValue
    var family = RefreshFamily()

    /// The serial number of the current refresh token; 1 is the login's.
    public var refreshTokenSerial: Int { family.serial }

    /// Neither ended nor expired.
    public func isLive(at now: Double) -> Bool { end == nil && now < refreshExpiresAt }
}
