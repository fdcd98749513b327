/// Everything that listens, bound: the last step before the first thread (architecture.md 7.8). Whoever takes it over closes the
/// listeners when they are done: nothing else holds them.
struct Bindings: ~Copyable {
    /// In the order of `listeners`.
    let data: [ListeningSocket]
    let health: ListeningSocket?
    let admin: ListeningSocket?
    /// Why there is no admin API, though nobody turned it off.
    let adminError: ConfigurationError?

    /// - Throws: the first address that cannot be had, with where it was given and the remedy: exit 69. What was bound before is
    ///   closed again.
    init(_ configuration: Configuration, _ places: AddressPlaces) throws(ConfigurationError) {
        var data: [ListeningSocket] = []
        for (index, settings) in configuration.listeners.enumerated() {
            data.append(try Self.bound(settings, "listeners[\(index)].address", places))
        }
        // Both at once: a value that cannot be copied is either whole or not there.
        let health = try configuration.health.map { settings throws(ConfigurationError) in
            try Self.bound(ListenerSettings(address: settings.address), "health.address", places)
        }
        switch try AdminBinding.bind(configuration.admin, places) {
        case .off: (self.data, self.health, admin, adminError) = (data, health, nil, nil)
        case .bound(let socket): (self.data, self.health, admin, adminError) = (data, health, socket, nil)
        case .unavailable(let bindError): (self.data, self.health, admin, adminError) = (data, health, nil, bindError)
        }
    }

    /// Everything that was bound, under its name in the log.
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
