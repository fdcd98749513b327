/// The addresses that listeners, health and admin will be bound to. It finds two that cannot be bound together.
struct ReservedAddresses {
    struct Reservation {
        let address: ListenerSettings.Address
        let place: ConfigurationPlace
        /// `listeners`, `health` or `admin`.
        let shown: String
    }

    private var byAddress: [String: Reservation] = [:]
    private var byPort: [UInt16: [Reservation]] = [:]
    /// The wildcard addresses in `byPort`.
    private var wildcards: [UInt16: [Reservation]] = [:]

    /// Adds an address.
    ///
    /// - Returns: an earlier reservation of the same address, or one that cannot be bound together with it; nil: none.
    mutating func reserve(_ reservation: Reservation) -> Reservation? {
        guard case .tcp(let host, let port) = reservation.address else {
            return register(reservation, as: "\(reservation.address)")
        }
        // The kernel chooses another port each time.
        guard port != 0 else { return nil }
        // One address has several spellings, above all in v6.
        let spelt = SocketAddress(host: host, port: port)?.host ?? host
        let canonical = AddressText.authority(host: spelt, port: port)
        let isWildcard = AddressText.reach(host) == .wildcard
        // Only a wildcard address conflicts with many others. An equal address is found before the others are searched.
        if let same = register(reservation, as: canonical) { return same }
        let others = (isWildcard ? byPort[port] : wildcards[port]) ?? []
        byPort[port, default: []].append(reservation)
        if isWildcard { wildcards[port, default: []].append(reservation) }
        return others.first { AddressText.clash($0.address, reservation.address) }
    }

    private mutating func register(_ reservation: Reservation, as name: String) -> Reservation? {
        if let other = byAddress[name] { return other }
        byAddress[name] = reservation
        return nil
    }
}
