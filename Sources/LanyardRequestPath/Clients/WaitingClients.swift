import LanyardFoundations

/// The clients of one shard that wait for a request, in the order in which they began to wait. At `connections_max` the
/// first one is closed for a new client (http-connections.md 20.5).
///
/// The list is intrusive: to begin and to end waiting costs a few stores for each request, whatever the number of
/// clients, and no memory. The list does not retain the clients. The shard does, and a client leaves the list before it
/// leaves the shard.
struct WaitingClients {
    /// A client in the list. References without counting: each request would otherwise count several.
    typealias Reference = Unmanaged<ClientConnection>

    /// A client's links in the list.
    struct Links {
        var earlier: Reference?
        var later: Reference?
        /// When the client began to wait; `.never`: it is not in the list.
        fileprivate(set) var since = Instant.never

        var isListed: Bool { since != .never }
    }

    private var firstReference: Reference?
    private var last: Reference?
    /// When the first client began to wait; `.never` if none waits.
    private(set) var since = Instant.never

    /// The client that has waited longest.
    var first: ClientConnection? { firstReference?.takeUnretainedValue() }

    /// The client begins to wait, even if it already waited.
    mutating func append(_ client: ClientConnection, at now: Instant) {
        if client.membership.waitingLinks.isListed { remove(client) }
        let reference = Reference.passUnretained(client)
        client.membership.waitingLinks = Links(earlier: last, later: nil, since: now)
        if let last {
            last._withUnsafeGuaranteedRef { $0.membership.waitingLinks.later = reference }
        } else {
            firstReference = reference
            since = now
        }
        last = reference
    }

    /// The client no longer waits. Does nothing if it did not wait.
    mutating func remove(_ client: ClientConnection) {
        let links = client.membership.waitingLinks
        guard links.isListed else { return }
        if let earlier = links.earlier {
            earlier._withUnsafeGuaranteedRef { $0.membership.waitingLinks.later = links.later }
        } else {
            firstReference = links.later
            since = links.later?._withUnsafeGuaranteedRef { $0.membership.waitingLinks.since } ?? .never
        }
        if let later = links.later {
            later._withUnsafeGuaranteedRef { $0.membership.waitingLinks.earlier = links.earlier }
        } else {
            last = links.earlier
        }
        client.membership.waitingLinks = Links()
    }
}
