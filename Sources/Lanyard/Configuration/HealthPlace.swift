/// The health listener of a configuration, for the command that probes it.
package enum HealthEndpoint: Equatable, Sendable {
    case address(ListenerSettings.Address)
    /// There is no health listener, or none with an address.
    case none
    /// The configuration cannot be read, for these reasons; never empty.
    case unknown([ConfigurationError])
}
