/// `store:` of the configuration.
package enum StoreSettings: Equatable, Sendable {
    /// Sessions end with the process.
    case memory
    /// One sealed file.
    case file(path: String, sealedBy: KeyFile)

    /// The file; nil: there is none.
    package var path: String? {
        switch self {
        case .memory: nil
        case .file(let path, _): path
        }
    }

    /// Whether a path may be used for a sealed file.
    package static func accepts(path: String) -> Bool { StorePath(path) != nil }

    /// The file of the sealing secret; read once, when the store is opened.
    package enum KeyFile: Equatable, Sendable {
        case key(String)
        case passphrase(String)

        /// Where the secret is.
        package var path: String {
            switch self {
            case .key(let path), .passphrase(let path): path
            }
        }

        /// The word for operators.
        package var kindName: String {
            switch self {
            case .key: "key"
            case .passphrase: "passphrase"
            }
        }
    }
}

/// The names of a store's files: the sealed one, and the others, which begin with its name.
///
/// They never collide: a user's lock file has at least one character between two dots. So even the lock files of users called `lock` and
/// `open` differ from the store's own. Two stores in one folder stay separate if neither name is the other's followed by a dot and more.
package struct StorePath: Equatable, Sendable {
    /// As configured.
    package let path: String
    /// The folder of all the store's files.
    package let folder: String
    /// The name of the sealed file.
    package let name: String

    /// In bytes. With `.`, a user's name and `.lock` appended, it stays within the length of a file name.
    private static let nameBytesMax = 180

    /// nil: the path cannot be a file, or the name is one that the store uses for its other files.
    package init?(_ path: String) {
        let cut = path.lastIndex(of: "/")
        let name = cut.map { String(path[path.index(after: $0)...]) } ?? path
        guard !name.isEmpty, name != ".", name != "..", name.utf8.count <= Self.nameBytesMax,
            ![".lock", ".open", ".tmp", ".used", ".v1"].contains(where: name.hasSuffix)
        else { return nil }
        self.path = path
        self.name = name
        folder = cut.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
    }

    /// Held while the sealed file is read, changed and written.
    package var lock: String { name + ".lock" }
    /// Held shared by every process that has the store open.
    package var open: String { name + ".open" }
    /// Renamed to the sealed file. One name suffices, because the writer holds `lock`.
    package var temporary: String { name + ".tmp" }
    /// The marks of refresh tokens that were sent while the sealed file could not be written.
    package var used: String { name + ".used" }
    /// The sealed file of format 1 as it was before this release has changed it.
    package var format1: String { name + ".v1" }
    /// Held from before a user's call until its result is stored.
    package func lock(of user: String) -> String { "\(name).\(user).lock" }
}
