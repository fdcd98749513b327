/// Idle connections in the order in which they became idle, as an intrusive list. Adding one and removing any one costs
/// the same whatever their number, and no memory. The list does not retain the connections: `IdleConnections` does.
struct IdleList {
    /// The lists that an idle connection is in at the same time.
    enum Scope: Int { case shard, pool, user }

    /// A connection's links in one list.
    struct Links {
        unowned(unsafe) var older: UpstreamConnection?
        unowned(unsafe) var newer: UpstreamConnection?
    }

    private let scope: Int
    private(set) var count = 0
    private(set) unowned(unsafe) var oldest: UpstreamConnection?
    private(set) unowned(unsafe) var newest: UpstreamConnection?

    init(_ scope: Scope) { self.scope = scope.rawValue }

    var isEmpty: Bool { count == 0 }

    mutating func append(_ connection: UpstreamConnection) {
        connection.idleLinks[scope] = Links(older: newest, newer: nil)
        if let newest { newest.idleLinks[scope].newer = connection } else { oldest = connection }
        newest = connection
        count += 1
    }

    /// - Parameter connection: one of the list.
    mutating func remove(_ connection: UpstreamConnection) {
        let links = connection.idleLinks[scope]
        if let older = links.older { older.idleLinks[scope].newer = links.newer } else { oldest = links.newer }
        if let newer = links.newer { newer.idleLinks[scope].older = links.older } else { newest = links.older }
        connection.idleLinks[scope] = Links()
        count -= 1
    }

    /// The connection that became idle after this one.
    func next(after connection: UpstreamConnection) -> UpstreamConnection? { connection.idleLinks[scope].newer }
}
