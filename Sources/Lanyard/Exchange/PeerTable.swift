/// Counts the client connections of each peer address, for `limits.connections_per_peer_max`. Used by any shard when a
/// connection begins or ends.
final class PeerConnectionLimit: Sendable {
    private let connectionsMax: Int
    private let counts = Guarded<[String: Int]>([:])

    init(_ connectionsMax: Int) { self.connectionsMax = connectionsMax }

    /// Counts a connection of the peer. False if the peer is at its limit.
    func take(_ host: String) -> Bool {
        counts.withLock { counts in
            guard counts[host, default: 0] < connectionsMax else { return false }
            counts[host, default: 0] += 1
            return true
        }
    }

    func giveBack(_ host: String) {
        counts.withLock { counts in
            let left = counts[host, default: 1] - 1
            counts[host] = left > 0 ? left : nil
        }
    }
}
