import Glibc
import LanyardSettings

/// The identities and users that a builder has read so far, by name: with thousands of them a search for each user would take minutes.
struct ConfiguredAccounts {
    private var identities: [String: (settings: IdentitySettings, node: ConfigurationNode)] = [:]
    private var users: [String: UserSettings] = [:]
    /// The users with a file whose content works for one login, by each of the file's names.
    private var usersOfFiles: [String: [UserSettings]] = [:]

    func identity(_ name: String) -> IdentitySettings? { identities[name]?.settings }

    func node(ofIdentity name: String) -> ConfigurationNode? { identities[name]?.node }

    func user(_ name: String) -> UserSettings? { users[name] }

    mutating func add(_ identity: IdentitySettings, _ node: ConfigurationNode) {
        identities[identity.name] = (identity, node)
    }

    mutating func add(_ user: UserSettings) { users[user.name] = user }

    /// The users before this one that named the same file, in their order. This one is among them the next time.
    mutating func usersBefore(_ user: UserSettings, of file: String) -> [UserSettings] {
        let names = Self.names(of: file)
        let found = names.compactMap { usersOfFiles[$0] }.first ?? []
        for name in names { usersOfFiles[name, default: []].append(user) }
        return found
    }

    /// What two paths to one file have in common: links to it, or to its folder, count.
    private static func names(of path: String) -> [String] {
        let plain = path.split(separator: "/").filter { $0 != "." }.joined(separator: "/")
        var status = stat()
        guard stat(path, &status) == 0 else { return [plain] }
        return [plain, "/\(status.st_dev)/\(status.st_ino)"]
    }
}
