import LanyardFoundations

/// The use of one place of an upstream connection, by one exchange at a time. HTTP/1.1 has one place, which is the whole connection;
/// HTTP/2 has a stream for each.
///
/// It is given back, and the place is free for another request, or it ends otherwise, and its connection is closed; of HTTP/2 its stream.
/// So a place that is in use has one holder, which cannot forget it. Belongs to the shard's queue, which the connection's pool checks.
package struct UpstreamLease: ~Copyable {
    // Counted by hand: a value whose parts are counted cannot be given up without its deinit.
    private let reference: Unmanaged<UpstreamConnection>

    /// nil: HTTP/1.1.
    private let place: Unmanaged<UpstreamStream>?

    /// - Parameter connection: open; its place is not free any more.
    init(_ connection: UpstreamConnection, _ stream: UpstreamStream? = nil) {
        reference = .passRetained(connection)
        place = stream.map { .passRetained($0) }
    }

    /// Closes the connection: it must not be used again, or its holder has ended. A stream is reset unless it has ended.
    deinit {
        let connection = reference.takeRetainedValue()
        if let place { return place.takeRetainedValue().release() }
        connection.pool.end(connection)
    }

    /// What its owner reads and writes.
    package var connection: UpstreamConnection { reference.takeUnretainedValue() }

    /// The same of HTTP/2; nil: HTTP/1.1.
    @inline(__always) var stream: UpstreamStream? { place?.takeUnretainedValue() }
    @inline(__always) var isStream: Bool { place != nil }

    /// No byte of the request is queued, and the place takes further ones.
    var isFlushed: Bool {
        if let place { return place._withUnsafeGuaranteedRef { $0.isFlushed } }
        return reference._withUnsafeGuaranteedRef { $0.stream.isFlushed && !$0.stream.isBroken }
    }

    /// Some bytes of the request are queued.
    var hasQueue: Bool {
        if let place { return place._withUnsafeGuaranteedRef { !$0.isFramed } }
        return reference._withUnsafeGuaranteedRef { !$0.stream.isFlushed }
    }

    /// The connection belongs to one client (http-connections.md 16.9).
    var isBound: Bool { reference._withUnsafeGuaranteedRef { $0.isBound } }

    /// Bytes of the request that the upstream has not taken.
    var queuedBytes: Int {
        if let place { return place._withUnsafeGuaranteedRef { $0.queuedBytes } }
        return reference._withUnsafeGuaranteedRef { $0.stream.queuedBytes }
    }

    /// The events of the place go there from now on.
    package func begin(by owner: any UpstreamOwner) {
        if let stream { return stream.begin(by: owner) }
        reference._withUnsafeGuaranteedRef { $0.owner = owner }
    }

    /// The exchange has ended in an orderly way: the place is free.
    package consuming func giveBack() {
        if isStream { return close() }
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

    /// Closes the connection or the stream, which must not be used again. The same as the end of the lease, at a known place.
    package consuming func close() {}

    /// Closes the connection for another one.
    ///
    /// - Returns: its slot; nil: it was closed before, or serves other streams.
    consuming func closeForAnother() -> UpstreamSlot? {
        if isStream {
            close()
            return nil
        }
        let connection = reference.takeRetainedValue()
        discard self
        return connection.close()
    }
}
