/// Users and keys that exist from the start.
public struct Seed: Sendable {
    /// A confirmed email/password user.
    public struct User: Sendable {
        /// Compared with case.
        public var email: String
        /// Any length: only registering demands 6 to 128 characters.
        public var password: String

        /// A user who has not logged in yet.
        public init(email: String, password: String) {
            self.email = email
            self.password = password
        }
    }

    /// An API key: a user's own when `email` names one, else a server key.
    public struct Key: Sendable {
        /// Shown as the profile's name of a server user.
        public var name: String
        /// The secret itself; the real service makes 64 alphanumeric characters.
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

    /// Nobody.
    public init() {}
}
