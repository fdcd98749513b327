/// Connections that wait for the next request: last used, first reused.
extension UpstreamPool {
    /// An idle connection is kept so long (http-rules.md 8).
    private static let idleTimeout = Duration.seconds(30)

    /// An idle connection of `user` that is still good, or nil.
    package func takeIdle(for user: UserIndex) -> UpstreamConnection? {
        guard user.number < idleOfUsers.count else { return nil }
        while let connection = idleOfUsers[user.number].newest {
            removeIdle(connection)
            if connection.isQuiet, hasCurrentAddress(connection) { return connection }
            end(connection)
        }
        return nil
    }

    /// Whether a connection of `user` is idle, good or not.
    func hasIdle(for user: UserIndex) -> Bool {
        user.number < idleOfUsers.count && !idleOfUsers[user.number].isEmpty
    }

    /// Keeps a connection for the next request; an older one may have to go for it.
    func keepIdle(_ connection: UpstreamConnection) {
        var time = Self.idleTimeout
        if connection.keepAliveSeconds >= 0 { time = min(time, .seconds(max(connection.keepAliveSeconds - 1, 0))) }
        connection.becomeIdle(until: loop.now + time)
        let user = connection.user.number
        while idleOfUsers.count <= user { idleOfUsers.append(IdleList(.user)) }
        idleOfUsers[user].append(connection)
        idle.append(connection)
        publishIdle()
        idleOfShard.add(connection)
    }

    /// Takes a connection out of those that are idle; it stays open.
    func removeIdle(_ connection: UpstreamConnection) {
        connection.becomeActive()
        idleOfUsers[connection.user.number].remove(connection)
        idle.remove(connection)
        idleOfShard.remove(connection)
        publishIdle()
    }

    /// Closes all idle connections, for a drain.
    package func closeIdle() {
        while let connection = idle.newest { discard(connection) }
    }

    /// The name has other addresses now: closes idle connections to those that it had.
    func closeStaleConnections() {
        var moved: [UpstreamConnection] = []
        var place = idle.oldest
        while let connection = place {
            if !hasCurrentAddress(connection) { moved.append(connection) }
            place = idle.next(after: connection)
        }
        // The end of one may be another one's: its slot serves a request that waits.
        for connection in moved where connection.isIdle { discard(connection) }
    }
}
