/// One login of one account on one device, as the service knows it. Times are seconds since 1970 by the service's clock.
public struct EmulatorSession: Codable, Sendable {
    /// Why a session has ended.
    public enum End: String, Codable, Sendable {
        case logout, revoked, disabled
        case accountDeleted = "account_deleted"
        /// An old refresh token was repeated (`one_use`), or an authorization code.
        case familyKilled = "family_killed"
    }

    /// Grows by one with each login, from 1.
    public let number: Int
    /// The session id of its tokens.
    public let id: String
    /// The client app id of its app; of a session of the OAuth side the client id.
    public let appID: String
    /// The account's user id.
    public let userID: String
    /// Its email, its key's name, or its user id.
    public let account: String
    /// The provider's name in the protocol; of a session of the OAuth side the grant, such as `device_code`.
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
    /// The identity that logged in.
    let identity: Identity
    var family = RefreshFamily()
    /// What its login has granted at the OAuth side; nil: it is of App Services.
    var oauth: OAuthAuthorization?

    /// The serial number of the current refresh token; 1 is the login's.
    public var refreshTokenSerial: Int { family.serial }

    /// Neither ended nor expired.
    public func isLive(at now: Double) -> Bool { end == nil && now < refreshExpiresAt }
}

/// All refresh tokens of one session. It knows the current one and decides what a repeat of an older one means.
struct RefreshFamily: Codable, Sendable {
    enum Outcome: Equatable {
        /// The current token. Without rotation it stays; with rotation the next one replaces it.
        case unchanged, rotates
        /// The previous token within the grace time: the same successor is returned again.
        case repeats
        /// An old token after the grace time.
        case tooLate
        /// An old token under `one_use`: it ends the session.
        case endsFamily
    }

    /// The serial number of the current token; 1 is the login's.
    private(set) var serial = 1
    /// The current token as issued; nil while it is the login's.
    private(set) var token: String?
    /// When the current token replaced the previous one, in seconds since 1970.
    private var rotatedAt = 0.0

    func outcome(_ presented: Int, _ rotation: RefreshRotation, at now: Double, graceSeconds: Double) -> Outcome {
        switch rotation {
        case .none: .unchanged
        case _ where presented == serial: .rotates
        // An even older token means that the successor has been used, so it had arrived.
        case .grace: presented == serial - 1 && now - rotatedAt < graceSeconds ? .repeats : .tooLate
        case .oneUse: .endsFamily
        }
    }

    /// Makes `token` the current one.
    mutating func rotate(to token: String, at now: Double) {
        serial += 1
        self.token = token
        rotatedAt = now
    }
}

/// Whether a session call returns a new refresh token, and what a repeat of an old one means.
public enum RefreshRotation: String, CaseIterable, Sendable {
    /// A session's refresh token never changes, as in the real service.
    case none
    /// Each session call returns a new one. A repeat of the previous one within the grace time returns the same successor again.
    /// After the grace time, or once the successor has been used, a repeat is refused.
    case grace
    /// Each session call returns a new one. A repeat of an old one ends the whole session.
    case oneUse = "one_use"
}
