import LanyardFoundations

/// The clients of one shard that wait for a request, in the order in which they began to wait. At `connections_max` the
/// first one is closed for a new client (http-rules.md 20.5).
///
/// The list is intrusive: to begin and to end waiting costs a few stores for each request, whatever the number of
/// clients, and no memory. The list does not retain the clients. The shard does, and a client leaves the list before it
/// leaves the shard.
struct WaitingClients {
    /// A client's links in the list.
    struct Links {
        unowned(unsafe) var earlier: ClientConnection?
        unowned(unsafe) var later: ClientConnection?
        /// When the client began to wait.
        fileprivate var since = Instant.never
        fileprivate(set) var isListed = false
    }

    /// The client that has waited longest.
    private(set) unowned(unsafe) var first: ClientConnection?
    private unowned(unsafe) var last: ClientConnection?

    /// When the first client began to wait; `.never` if none waits.
    var since: Instant { first?.waitingLinks.since ?? .never }

    /// The client begins to wait now, even if it already waited.
    mutating func append(_ client: ClientConnection) {
        remove(client)
        client.waitingLinks = Links(
            earlier: last, later: nil, since: client.shard.loop.now, isListed: true)
        if let last { last.waitingLinks.later = client } else { first = client }
        last = client
    }

    /// The client no longer waits. Does nothing if it did not wait.
    mutating func remove(_ client: ClientConnection) {
        let links = client.waitingLinks
        guard links.isListed else { return }
        if let earlier = links.earlier { earlier.waitingLinks.later = links.later } else { first = links.later }
        if let later = links.later { later.waitingLinks.earlier = links.earlier } else { last = links.earlier }
        client.waitingLinks = Links()
    }
}
