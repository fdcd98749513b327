/// Users and keys that exist from the start, and the configuration of apps.
public struct Seed: Sendable {
    /// An email/password account.
    public struct User: Sendable {
        /// Compared case-sensitively, unless the app's configuration says otherwise.
        public var email: String
        /// Any length. Only registration requires 6 to 128 characters.
        public var password: String
        /// Whether it may log in. An account that is not confirmed is pending.
        public var isConfirmed = true
        /// Whether its logins are refused.
        public var isDisabled = false
        var customData = JSONObject()

        /// A confirmed user that has not logged in yet.
        public init(email: String, password: String) {
            self.email = email
            self.password = password
        }
    }

    /// An API key: a user's key if `email` is set, else a server key.
    public struct Key: Sendable {
        /// The name in the profile of a server user.
        public var name: String
        /// The secret. The real service creates 64 alphanumeric characters.
        public var key: String
        /// The owner; nil for a server key.
        public var email: String?
        /// Whether its logins are refused.
        public var isDisabled = false

        /// An enabled key.
        public init(name: String, key: String, email: String? = nil) {
            self.name = name
            self.key = key
            self.email = email
        }
    }

    /// Users of the first app.
    public var users: [User] = []
    /// Keys of the first app.
    public var keys: [Key] = []
    /// The configured apps; empty: one app with the default providers.
    var apps: [AppSettings] = []

    /// The OAuth side; nil: there is none.
    public var oauth: OAuthSettings?

    /// No users, no keys and one app with the default providers.
    public init() {}

    /// The client app id of the first configured app; nil: none is configured.
    public var firstAppID: String? { apps.first?.appID }
}

/// Reads a seed file: users, keys and apps in YAML. emulator.md has its keys.
///
/// JSON is YAML, so a JSON file works, too. Relative paths start from the seed file's folder.
public enum SeedReader {
    /// Why a seed cannot be used, with the line. A type of its own, because it is for the developer, before the start.
    public struct ReadError: Error, CustomStringConvertible {
        /// One sentence for the developer.
        public let description: String

        init(_ description: String) { self.description = description }
        init(line: Int, _ problem: String) { description = "line \(line): \(problem)" }
    }

    /// - Throws: `ReadError` with the path and the line.
    public static func read(_ path: String) throws -> Seed {
        do throws(ReadError) {
            let files = SeedFiles(folder: SeedFiles.folder(of: path))
            return try seed(try ConfigurationNode.read(try SeedFiles.bytes(path)), files)
        } catch {
            throw error.description.hasPrefix(path) ? error : ReadError("\(path): \(error.description)")
        }
    }

    /// The seed in a text. Its relative paths start from `folder`.
    ///
    /// - Throws: `ReadError` with the line.
    public static func parse(_ text: String, folder: String = ".") throws -> Seed {
        try seed(try ConfigurationNode.read(Array(text.utf8)), SeedFiles(folder: folder))
    }

    /// The secret in a file: everything except one final newline.
    ///
    /// - Throws: `ReadError`.
    public static func secret(_ path: String) throws -> String { try SeedFiles.secret(path) }

    private static func seed(_ root: ConfigurationNode, _ files: SeedFiles) throws(ReadError) -> Seed {
        var seed = Seed()
        for (key, value) in try root.members(["users", "api_keys", "apps", "oauth"]) {
            switch key {
            case "users": seed.users = try AppReader.users(value, files)
            case "api_keys": seed.keys = try AppReader.keys(value, files)
            case "oauth": seed.oauth = try OAuthReader.settings(value, files)
            default:
                for element in try value.elements() {
                    let app = try AppReader.app(element, files)
                    guard !seed.apps.contains(where: { $0.appID == app.appID }) else {
                        throw ReadError(line: element.line, "app \(app.appID) is there twice")
                    }
                    seed.apps.append(app)
                }
            }
        }
        return seed
    }
}
