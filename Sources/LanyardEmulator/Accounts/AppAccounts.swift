/// One app as it runs: its configuration and all that its users have made of it.
struct AppState: Sendable {
    var settings: AppSettings
    var accounts = AppAccounts()
}

/// The users of one app and what belongs to them. It is what a snapshot keeps of an app.
struct AppAccounts: Codable, Sendable {
    /// By user id.
    var users: [String: User] = [:]
    /// By the email in comparable form.
    var emails: [String: EmailAccount] = [:]
    /// In the order of their creation.
    var keys: [APIKey] = []
    /// User ids by provider and identity id, of external providers alone.
    var owners: [String: String] = [:]
    /// Authorization codes that have logged in.
    var usedCodes: Set<String> = []
    var pushRegistrations: [PushRegistration] = []
    /// How often cases of functions with `times` have fitted.
    var caseCounts: [String: Int] = [:]

    static func ownerKey(_ provider: Provider, _ id: String) -> String { provider.rawValue + " " + id }

    func key(withID id: String) -> Int? { keys.firstIndex { $0.id == id } }
}

struct User: Codable, Sendable {
    let id: String
    /// In the order of linking.
    var identities: [Identity]
    /// `data` of the profile.
    var data: JSONObject
    var type = "normal"
    var isDisabled = false
    /// The claim `user_data` of the access tokens.
    var customData = JSONObject()
    /// Seconds since 1970 by the service's clock.
    let createdAt: Double

    /// The service deletes an account that is anonymous only after this time.
    static let anonymousSecondsMax = 90.0 * 86_400

    var isAnonymous: Bool { identities.allSatisfy { $0.provider == .anonymous } }

    /// `data` with both spellings of a picture: core reads one, realm-web the other.
    var profileData: JSONObject {
        var data = data
        guard let picture = data["picture_url"] ?? data["picture"] else { return data }
        data["picture_url"] = picture
        data["picture"] = picture
        return data
    }

    func identity(of provider: Provider) -> Identity? { identities.first { $0.provider == provider } }
}

/// One way in which a user logs in.
struct Identity: Codable, Equatable, Sendable {
    let id: String
    let provider: Provider
    var data = JSONObject()

    /// An id of an anonymous or email/password identity.
    static func newID() -> String { Identifiers.new() + "-" + Identifiers.letters() }

    /// As in a profile, or without `provider_data` as in a token.
    func json(appID: String, inToken: Bool = false) -> JSONValue {
        .members([
            "id": .string(id), "provider_type": .string(provider.rawValue),
            "provider_id": .string(Identifiers.derived(from: "provider " + provider.rawValue + appID)),
            "provider_data": inToken || data.isEmpty ? nil : .object(data),
        ])
    }
}

/// An email/password account. It becomes a user at its first login, or when it is linked.
struct EmailAccount: Codable, Sendable {
    /// As registered.
    let email: String
    var password: String
    var isConfirmed: Bool
    var userID: String?
    /// For the user that it becomes.
    var isDisabled = false
    var customData = JSONObject()
}

struct APIKey: Codable, Sendable {
    let id: String
    let name: String
    let key: String
    var isDisabled = false
    /// The owner, or the server user that its first login created.
    var userID: String?
    /// The owner's email, for a configured key of an account that is no user yet.
    var email: String?
    /// Not a user's key.
    var isServerKey: Bool

    /// As a client sees it. Only the response to its creation has the key itself.
    func json(withKey: Bool = false) -> JSONValue {
        .members([
            "_id": .string(id), "key": withKey ? .string(key) : nil, "name": .string(name),
            "disabled": .boolean(isDisabled),
        ])
    }
}

struct PushRegistration: Codable, Equatable, Sendable {
    let service: String
    let userID: String
    var token: String
}
