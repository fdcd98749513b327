extension IdentitySettings {
    /// Another Lanyard, whose broker hands out the access tokens of its users (fleet.md 2).
    package struct OtherLanyard: Equatable, Sendable {
        /// Where a broker is.
        package enum Address: Hashable, Sendable, CustomStringConvertible {
            case unix(path: String)
            /// `http` or `https`, without a trailing slash.
            case url(String)

            package var description: String {
                switch self {
                case .unix(let path): "unix:\(path)"
                case .url(let text): text
                }
            }
        }

        /// In the order in which they are tried; at least one.
        package var addresses: [Address]
        /// The file with the secret that is sent as `Lanyard-Capability`; nil: none is. Read at each call.
        package var capabilityFile: String?

        package init(addresses: [Address], capabilityFile: String? = nil) {
            self.addresses = addresses
            self.capabilityFile = capabilityFile
        }
    }
}
