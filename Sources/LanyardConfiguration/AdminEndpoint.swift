import LanyardSettings

/// The admin API of a configuration, for the commands that call it.
package enum AdminEndpoint: Equatable, Sendable {
    /// What a command needs to call it.
    package struct Place: Equatable, Sendable {
        /// As configured, or the default socket.
        package var address: ListenerSettings.Address
        /// `admin.token_file`; nil: none is named.
        package var tokenFile: String?
        /// The names of the identities with logins, in the order of the file; empty without a file.
        package var identities: [String]

        package init(address: ListenerSettings.Address, tokenFile: String? = nil, identities: [String] = []) {
            self.address = address
            self.tokenFile = tokenFile
            self.identities = identities
        }
    }

    case found(Place)
    /// The configuration turns the admin API off.
    case off
    /// The configuration cannot be read, for these reasons; never empty.
    case unknown([ConfigurationError])
}

/// The health listener of a configuration, for the command that probes it.
package enum HealthEndpoint: Equatable, Sendable {
    case address(ListenerSettings.Address)
    /// There is no health listener, or none with an address.
    case none
    /// The configuration cannot be read, for these reasons; never empty.
    case unknown([ConfigurationError])
}

/// The store of a configuration, for who must not harm it.
package enum StorePlace: Equatable, Sendable {
    /// The file, whether or not it exists. A relative path starts from the folder of the configuration.
    case path(String)
    /// The configuration names none: sessions are in memory only.
    case none
    /// The configuration, or the part that may name a store, cannot be read, for these reasons; never empty.
    case unknown([ConfigurationError])
}
