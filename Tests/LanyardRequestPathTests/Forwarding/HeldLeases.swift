@testable import LanyardFoundations
@testable import LanyardRequestPath

/// The leases that a test holds, by their connections: it does with each what an exchange would.
final class HeldLeases: Sendable {
    private final class Held: @unchecked Sendable {
        let connection: UpstreamConnection
        var lease: UpstreamLease?

        init(_ lease: consuming UpstreamLease) {
            connection = lease.connection
            self.lease = consume lease
        }
    }

    private let held = Guarded<[ObjectIdentifier: Held]>([:])

    func hold(_ lease: consuming UpstreamLease) -> UpstreamConnection {
        let connection = lease.connection
        let new = Held(lease)
        held.withLock { $0[ObjectIdentifier(connection)] = new }
        return connection
    }

    func hold(_ result: consuming Result<UpstreamLease, UpstreamError>) -> Result<UpstreamConnection, UpstreamError> {
        switch consume result {
        case .success(let lease): .success(hold(lease))
        case .failure(let error): .failure(error)
        }
    }

    /// On the pool's queue.
    func giveBack(_ connection: UpstreamConnection) { take(connection)?.lease.take()?.giveBack() }

    /// On the pool's queue.
    func close(_ connection: UpstreamConnection) { take(connection)?.lease.take()?.close() }

    /// On the pool's queue, before the pool ends.
    func closeAll(of pool: UpstreamPool) {
        let all = held.withLock { Array($0.values) }
        for held in all where held.connection.pool === pool { held.lease.take()?.close() }
    }

    private func take(_ connection: UpstreamConnection) -> Held? {
        held.withLock { $0.removeValue(forKey: ObjectIdentifier(connection)) }
    }
}
