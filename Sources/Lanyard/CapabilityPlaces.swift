import LanyardBroker
import LanyardConfiguration
import LanyardFoundations
import LanyardRequestPath
import LanyardSettings

/// Where the configuration may name a file with a capability: a listener, or a row of a broker's callers. The shards keep capabilities by
/// these places.
struct CapabilityPlace: Sendable {
    /// nil: none is asked for there.
    let file: String?
    /// For the log.
    let shown: String
    let owner: ConfiguredFileError.Owner
}

extension ListenerSettings {
    /// - Parameter index: the listener's place among all.
    func owner(at index: Int) -> ConfiguredFileError.Owner { broker.map { .broker($0.index) } ?? .listener(index) }
}

extension [ListenerSettings] {
    /// Those of the listeners come first, at the places of the listeners themselves.
    var capabilityPlaces: [CapabilityPlace] {
        let own = enumerated().map { index, listener in
            CapabilityPlace(
                file: listener.capabilityFile, shown: "\(listener.address)", owner: listener.owner(at: index))
        }
        let rows = flatMap { listener in
            (listener.broker?.callers ?? []).enumerated().map { row, caller in
                CapabilityPlace(
                    file: caller.capabilityFile, shown: "\(listener.address), callers[\(row)]",
                    owner: .caller(broker: listener.broker?.index ?? 0, row: row))
            }
        }
        return own + rows
    }

    /// The brokers, one for each listener; nil: it forwards requests.
    func brokers(of configuration: Configuration, _ issued: IssuedTokens) -> [(any TokenGranter)?] {
        let variants = configuration.variants.mapValues { $0.map(\.variant) }
        let identities = Dictionary(
            configuration.identities.map { ($0.name, $0.scopes) }, uniquingKeysWith: { first, _ in first })
        let scopes = Dictionary(
            configuration.users.map { ($0.name, identities[$0.identity] ?? []) },
            uniquingKeysWith: { first, _ in first })
        var place = count
        return map { listener in
            guard let settings = listener.broker else { return nil }
            defer { place += settings.callers.count }
            let capabilities = settings.callers.indices.map { row in
                settings.callers[row].capabilityFile == nil ? nil : place + row
            }
            return Broker(
                settings, capabilities: capabilities, variants: variants, scopes: scopes, issued: issued)
        }
    }
}

extension IdentitySettings {
    /// What the plain token of its users is asked for.
    fileprivate var scopes: [String] { if case .oauth(let client) = kind { client.scopes } else { [] } }
}
