/// What a configuration says of the health listener, to a command that wants to ask it.
package enum HealthEndpoint: Equatable, Sendable {
    case address(ListenerSettings.Address)
    /// There is none, or none that can be asked by an address.
    case none
    /// The configuration cannot be read so far, for these reasons; never empty.
    case unknown([ConfigurationError])
}
