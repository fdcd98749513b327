/// `store:` of the configuration.
package enum StoreSettings: Equatable, Sendable {
    /// Sessions end with the process.
    case memory
    /// One sealed file.
    case file(path: String, sealedBy: KeyFile)

    /// Whether a path may be used for a sealed file.
    package static func accepts(path: String) -> Bool { StorePath(path) != nil }

    /// The file of the sealing secret; read once, when the store is opened.
    package enum KeyFile: Equatable, Sendable {
        case key(String)
        case passphrase(String)

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
