/// What its listener, and the limits and lists of its shard, know of a client's connection.
struct ShardMembership: ~Copyable {
    /// Until the connection is closed.
    var slot: ConnectionSlot
    /// In the shard's list of all clients; -1: in none.
    fileprivate(set) var place = -1
    /// In the list of clients that may be closed for a new one.
    var waitingLinks = WaitingClients.Links()
    /// Among `Shard.handshakes` in progress.
    var handshakePermit: HandshakePermit?
    /// The client waits for its turn in `Shard.handshakes`.
    var isQueuedForHandshake = false
    /// The client's certificate has one of the listener's `client_names`, or the listener has none.
    var isNamedClient = true
    /// The listener would not admit the client any more. Its exchange ends soon, and becomes no tunnel.
    var isAdmissionEnding = false

    init(_ slot: consuming ConnectionSlot) { self.slot = slot }

    /// The connection counts as a client's. Else it is refused.
    var isAdmitted: Bool {
        switch slot {
        case .client: true
        case .rejection: false
        case .none: false
        }
    }

    /// The connection is refused and closed at once.
    var isOverRejectionLimit: Bool {
        switch slot {
        case .none: true
        case .rejection: false
        case .client: false
        }
    }
}

/// The clients of a shard, in no order. Each knows its place, so that it leaves without a search. Belongs to the shard's
/// queue, which the shard checks.
struct ClientList: ~Copyable {
    private(set) var all: [ClientConnection] = []
    /// Exchanges of clients that have left.
    var spares = SpareExchanges()

    mutating func append(_ client: ClientConnection) {
        client.membership.place = all.count
        all.append(client)
    }

    /// - Returns: false: the client has left before.
    mutating func remove(_ client: ClientConnection) -> Bool {
        let place = client.membership.place
        guard place >= 0 else { return false }
        client.membership.place = -1
        let last = all.removeLast()
        if last !== client {
            all[place] = last
            last.membership.place = place
        }
        return true
    }
}
