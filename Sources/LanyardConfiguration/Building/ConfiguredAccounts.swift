import Glibc
import LanyardSettings

/// The identities and users that a builder has read so far, by name: with thousands of them a search for each user would take minutes.
struct ConfiguredAccounts {
    private var identities: [String: (settings: IdentitySettings, node: ConfigurationNode)] = [:]
    private var users: [String: UserSettings] = [:]
    /// The users with a file whose content works for one login, by the file.
    private var usersOfFiles: [String: [UserSettings]] = [:]

    func identity(_ name: String) -> IdentitySettings? { identities[name]?.settings }

    func node(ofIdentity name: String) -> ConfigurationNode? { identities[name]?.node }

    func user(_ name: String) -> UserSettings? { users[name] }

    mutating func add(_ identity: IdentitySettings, _ node: ConfigurationNode) {
        identities[identity.name] = (identity, node)
    }

    mutating func add(_ user: UserSettings) { users[user.name] = user }

    /// The users before this one with the same file, in their order.
    func users(of file: String) -> [UserSettings] { usersOfFiles[Self.key(of: file)] ?? [] }

    /// Notes that the content of the file is for this user's login.
    mutating func add(_ user: UserSettings, of file: String) {
        usersOfFiles[Self.key(of: file), default: []].append(user)
    }

    /// The same for two paths to one file: links to it, or to its folder, count.
    private static func key(of path: String) -> String {
        var status = stat()
        guard stat(path, &status) == 0 else {
            return path.split(separator: "/").filter { $0 != "." }.joined(separator: "/")
        }
        return "/\(status.st_dev)/\(status.st_ino)"
    }
}
