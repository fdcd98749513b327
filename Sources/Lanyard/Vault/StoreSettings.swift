/// `store:` of the configuration.
package enum StoreSettings: Equatable, Sendable {
    /// Nothing outlives a restart.
    case memory
    /// One sealed file.
    case file(path: String, sealedBy: KeyFile)

    /// Whether a sealed file may stand at a path.
    package static func accepts(path: String) -> Bool { StorePath(path) != nil }

    /// What the file is sealed with; read once, when the store is opened.
    package enum KeyFile: Equatable, Sendable {
        case key(String)
        case passphrase(String)

        package var path: String {
            switch self {
            case .key(let path), .passphrase(let path): path
            }
        }

        /// As people call it.
        package var kindName: String {
            switch self {
            case .key: "key"
            case .passphrase: "passphrase"
            }
        }
    }
}
