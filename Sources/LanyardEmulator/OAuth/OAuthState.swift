/// What the OAuth side holds beside the sessions and tokens, which both sides share.
struct OAuthState: Sendable {
    /// What a snapshot keeps of it.
    struct Records: Codable, Sendable {
        /// Marks the tokens of this state: those of before a reset are refused, also if the key has been configured.
        var instance = Identifiers.hex(Identifiers.random(4))
        /// By device code.
        var devices = RecentRecords<DeviceLogin>()
        /// By code.
        var codes = RecentRecords<AuthorizationCode>()
        /// Login pages that wait for their user, by the id in the page.
        var pages = RecentRecords<AuthorizationRequest>()
    }

    var settings: OAuthSettings
    var key: SigningKey
    var records = Records()

    init(_ settings: OAuthSettings) {
        self.settings = settings
        guard let key = settings.signingKey ?? SigningKey.generate() else {
            preconditionFailure("OpenSSL cannot make a P-256 key")
        }
        self.key = key
    }
}

/// What a user's login at the OAuth side has granted. It belongs to a session.
struct OAuthAuthorization: Codable, Sendable {
    let clientID: String
    let scopes: [String]
    /// The resources and audiences that the login has asked for.
    let audience: [String]
    /// When the user has logged in, in seconds since 1970.
    let authenticatedAt: Double
}

/// A login by the device grant (RFC 8628). Times are seconds since 1970 by the service's clock.
struct DeviceLogin: Codable, Sendable {
    enum Phase: String, Codable, Sendable { case waiting, approved, denied, used }

    let deviceCode: String
    /// Eight letters, with a hyphen in the middle.
    let userCode: String
    let clientID: String
    let scopes: [String]
    let audience: [String]
    /// PKCE with S256; nil: the client has sent none.
    let challenge: String?
    let expiresAt: Double
    var intervalSeconds: Double
    var phase = Phase.waiting
    /// The user that has approved it.
    var userID: String?
    var approvedAt: Double?
    var polledAt: Double?
    var polls = 0

    /// The reading of a user code leaves out everything but letters, of either case (RFC 8628 §6.1).
    static func letters(of userCode: String) -> String {
        String(userCode.uppercased().unicodeScalars.filter { ("A"..."Z").contains($0) }.map(Character.init))
    }

    /// Consonants alone, so that no word appears (RFC 8628 §6.1).
    static func newUserCode() -> String {
        let alphabet = Array("BCDFGHJKLMNPQRSTVWXZ")
        let letters = Identifiers.random(8).map { alphabet[Int($0) % alphabet.count] }
        return String(letters.prefix(4)) + "-" + String(letters.suffix(4))
    }
}

/// A request at the authorization endpoint that was found good (RFC 6749 §4.1.1). Its page is shown.
struct AuthorizationRequest: Codable, Sendable {
    let clientID: String
    let redirectURI: String
    let state: String?
    let scopes: [String]
    let audience: [String]
    /// PKCE with S256 (RFC 7636).
    let challenge: String
    let nonce: String?
    let loginHint: String?
    let expiresAt: Double
}

/// An authorization code. It works once.
struct AuthorizationCode: Codable, Sendable {
    let request: AuthorizationRequest
    let userID: String
    let issuedAt: Double
    let expiresAt: Double
    /// The session that it has begun; nil: it was not used yet.
    var sessionID: String?
}

/// Records by a key, of which the latest are kept.
struct RecentRecords<Record: Codable & Sendable>: Codable, Sendable {
    private var records: [String: Record] = [:]
    /// Keys in the order of their insertion. Those of removed records may be among them.
    private var order: [String] = []
    private static var recordsMax: Int { 10_000 }

    /// A record that is there. Assigning nil removes it.
    subscript(key: String) -> Record? {
        get { records[key] }
        set {
            if newValue != nil, records[key] == nil { order.append(key) }
            records[key] = newValue
            // Removed in large steps, because each removal moves the rest.
            guard order.count > 2 * Self.recordsMax else { return }
            let kept = order.filter { records[$0] != nil }
            for old in kept.dropLast(Self.recordsMax) { records[old] = nil }
            order = Array(kept.suffix(Self.recordsMax))
        }
    }

    /// The oldest first.
    var all: [(key: String, record: Record)] {
        order.compactMap { key in records[key].map { (key, $0) } }
    }
}
