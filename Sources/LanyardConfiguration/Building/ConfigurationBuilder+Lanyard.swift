import LanyardFoundations
import LanyardSettings

/// `identities.*.lanyard`.
extension ConfigurationBuilder {
    /// Addresses of one identity. Each may cost a call some seconds.
    private static let addressesMax = 8

    /// nil: an error was reported.
    mutating func otherLanyard(
        _ section: ConfigurationSection, of identity: ConfigurationSection, shown: String
    ) -> IdentitySettings.OtherLanyard? {
        let addresses = addresses(section, of: identity, shown: "\(shown).address")
        var settings = IdentitySettings.OtherLanyard(addresses: addresses)
        if section.has("capability_file") || section.has("capability_credential") {
            guard
                let file = secret(
                    section, "capability_file", shown: shown, isOfField: true, meanwhile: "its users are refused")
            else { return nil }
            settings.capabilityFile = file
        }
        return addresses.isEmpty ? nil : settings
    }

    private mutating func addresses(
        _ section: ConfigurationSection, of identity: ConfigurationSection, shown: String
    ) -> [IdentitySettings.OtherLanyard.Address] {
        guard case .sequence(let elements)? = section.node["address"]?.content else { return [] }
        if elements.isEmpty {
            reportError(section.place("address"), "\(shown) is empty", remedy: "name a broker, such as unix:/path")
        }
        if elements.count > Self.addressesMax {
            reportError(
                section.place("address"), "\(shown) has more than \(Self.addressesMax) addresses",
                remedy: "name fewer, or one that a load balancer has")
        }
        var addresses: [IdentitySettings.OtherLanyard.Address] = []
        for element in elements {
            guard let text = element.text, let address = try? URLText.broker(text) else { continue }
            if addresses.contains(address) {
                reportError(element.place, "\(shown) has \(address) twice", remedy: "keep one of them")
            } else if checkReach(text, element.place, of: identity, shown: shown) {
                addresses.append(address)
            }
        }
        return addresses
    }
}
