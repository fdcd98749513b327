/// The addresses that listeners, health and admin are to be bound to, so that no two of them need the same one.
struct TakenAddresses {
    struct Holder {
        let address: ListenerSettings.Address
        let place: ConfigurationPlace
        /// `listeners`, `health` or `admin`.
        let shown: String
    }

    private var byAddress: [String: Holder] = [:]
    private var byPort: [UInt16: [Holder]] = [:]
    /// Those of `byPort` that are every address of the machine.
    private var wildcards: [UInt16: [Holder]] = [:]

    /// Takes an address.
    ///
    /// - Returns: the holder that has taken it before, or one that cannot be bound beside it.
    mutating func take(_ holder: Holder) -> Holder? {
        guard case .tcp(let host, let port) = holder.address else {
            return register(holder, as: "\(holder.address)")
        }
        // The kernel chooses another one each time.
        guard port != 0 else { return nil }
        // One address has several spellings, above all in v6.
        let spelt = SocketAddress(host: host, port: port)?.host ?? host
        let canonical = AddressText.authority(host: spelt, port: port)
        let isWildcard = AddressText.reach(host) == .wildcard
        // Only what is every address meets many others; that it is taken twice shows before they are looked through.
        if let same = register(holder, as: canonical) { return same }
        let others = (isWildcard ? byPort[port] : wildcards[port]) ?? []
        byPort[port, default: []].append(holder)
        if isWildcard { wildcards[port, default: []].append(holder) }
        return others.first { AddressText.clash($0.address, holder.address) }
    }

    private mutating func register(_ holder: Holder, as name: String) -> Holder? {
        if let other = byAddress[name] { return other }
        byAddress[name] = holder
        return nil
    }
}
