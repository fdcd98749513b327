/// One entry of `users:`: an alias, its identity service, and its credential.
package struct UserSettings: Equatable, Sendable {
    package var name: String
    /// The name of an identity.
    package var identity: String
    /// nil: an operator logs in.
    package var login: Login?
    /// How an operator logs in without naming a kind; nil: not interactively.
    package var interactiveLogin: LoginKind?

    /// A login as configured: its secret is a path. The file is read when it is used and again when it changes.
    package typealias Login = LoginMethod<String>

    package init(name: String, identity: String, login: Login? = nil) {
        self.name = name
        self.identity = identity
        self.login = login
    }
}

/// A name of a user, identity or route, in the configuration, the admin API and the store (architecture-control.md 4.1).
package enum ConfiguredName {
    /// Bytes of a name.
    package static let bytesMax = 64

    /// Whether `text` is `[A-Za-z0-9._-]{1,64}`: users' names become parts of file names.
    package static func isValid(_ text: String) -> Bool {
        (1...bytesMax).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
    }
}
