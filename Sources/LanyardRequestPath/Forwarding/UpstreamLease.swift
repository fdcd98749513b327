import LanyardFoundations

/// The use of one place of an upstream connection, by one exchange at a time. HTTP/1.1 has one place, which is the whole connection.
///
/// It is given back, and the place is free for another request, or it ends otherwise, and its connection is closed. So a connection that
/// is in use has one holder, which cannot forget it. Belongs to the shard's queue, which the connection's pool checks.
package struct UpstreamLease: ~Copyable {
    // Counted by hand: a value whose parts are counted cannot be given up without its deinit.
    private let reference: Unmanaged<UpstreamConnection>

    /// - Parameter connection: open; its place is not free any more.
    init(_ connection: UpstreamConnection) { reference = .passRetained(connection) }

    /// Closes the connection: it must not be used again, or its holder has ended.
    deinit {
        let connection = reference.takeRetainedValue()
        connection.pool.end(connection)
    }

    /// What its owner reads and writes.
    package var connection: UpstreamConnection { reference.takeUnretainedValue() }

    /// The connection's events go there from now on.
    package func begin(by owner: any UpstreamOwner) { reference._withUnsafeGuaranteedRef { $0.owner = owner } }

    /// The exchange has ended in an orderly way: the place is free.
    package consuming func giveBack() {
        let connection = reference.takeRetainedValue()
        discard self
        connection.pool.giveBack(connection)
    }

    /// The same for a connection that belongs to one client (http-connections.md 16.9), which keeps it.
    ///
    /// - Returns: nil: it was closed.
    consuming func giveBackBound() -> UpstreamConnection? {
        let connection = reference.takeRetainedValue()
        discard self
        return connection.pool.keepBound(connection) ? connection : nil
    }

    /// Closes the connection, which must not be used again. The same as the end of the lease, at a known place.
    package consuming func close() {}

    /// Closes the connection for another one.
    ///
    /// - Returns: its slot; nil: it was closed before.
    consuming func closeForAnother() -> UpstreamSlot? {
        let connection = reference.takeRetainedValue()
        discard self
        return connection.close()
    }
}
