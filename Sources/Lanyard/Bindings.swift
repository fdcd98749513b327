/// All listening sockets, bound as the last step before the first thread (architecture.md 7.8). The owner of this value closes them:
/// nothing else holds them.
struct Bindings: ~Copyable {
    /// In the order of the configuration's `listeners`.
    let data: [ListeningSocket]
    let health: ListeningSocket?
    let admin: ListeningSocket?
    /// Why there is no admin API although it is not turned off.
    let adminError: ConfigurationError?

    /// - Throws: the first address that cannot be bound, with its place and remedy: exit 69. Sockets bound before it are closed.
    init(_ configuration: Configuration, _ places: AddressPlaces) throws(ConfigurationError) {
        var data: [ListeningSocket] = []
        for (index, settings) in configuration.listeners.enumerated() {
            data.append(try Self.bound(settings, "listeners[\(index)].address", places))
        }
        // All properties are set at once: a noncopyable value cannot be partly initialised when an error is thrown.
        let health = try configuration.health.map { settings throws(ConfigurationError) in
            try Self.bound(ListenerSettings(address: settings.address), "health.address", places)
        }
        switch try AdminBinding.bind(configuration.admin, places) {
        case .off: (self.data, self.health, admin, adminError) = (data, health, nil, nil)
        case .bound(let socket): (self.data, self.health, admin, adminError) = (data, health, socket, nil)
        case .unavailable(let bindError): (self.data, self.health, admin, adminError) = (data, health, nil, bindError)
        }
    }

    /// All bound addresses with their names in the log.
    var listeners: [ProgramInfo.Listener] {
        let data = data.map { ("data", $0.address) }
        let others = [("health", health?.address), ("admin", admin?.address)]
        return (data + others.compactMap { name, address in address.map { (name, $0) } }).map {
            ProgramInfo.Listener(name: $0.0, address: $0.1.description)
        }
    }

    static func bound(
        _ settings: ListenerSettings, _ key: String, _ places: AddressPlaces
    ) throws(ConfigurationError) -> ListeningSocket {
        do throws(SystemError) {
            return try ListeningSocket(settings)
        } catch {
            let code: CInt? = if case .system(let code) = error.kind { code } else { nil }
            throw places.bindError(binding: settings.address, of: key, code: code)
        }
    }
}
