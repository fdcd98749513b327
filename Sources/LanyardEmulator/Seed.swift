/// Users and keys that exist from the start.
public struct Seed: Sendable {
    /// A confirmed email/password user.
    public struct User: Sendable {
        /// Compared case-sensitively.
        public var email: String
        /// Any length. Only registration requires 6 to 128 characters.
        public var password: String

        /// A user that has not logged in yet.
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

        /// An enabled key.
        public init(name: String, key: String, email: String? = nil) {
            self.name = name
            self.key = key
            self.email = email
        }
    }

    /// Confirmed users.
    public var users: [User] = []
    /// Enabled keys.
    public var keys: [Key] = []

    /// No users and no keys.
    public init() {}
}
