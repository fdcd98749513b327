import LanyardFoundations
import Synchronization

/// Idle connections: the last used is reused first.
extension UpstreamPool {
    /// How long an idle connection is kept (http-connections.md 8). Shorter than the 30 s after which some servers close theirs: a request
    /// that is sent at that moment would be lost.
    private static let idleTimeout = Duration.milliseconds(29_500)

    /// A free place on a connection of `user` and `account` that can be used, or nil. Idle connections of the user's other
    /// accounts are closed.
    ///
    /// - Parameter need: as in `connect`.
    package func takeFree(
        for user: UserIndex, _ account: AccountNumber, needing need: Need = .any
    ) -> UpstreamLease? {
        loop.assertIsCurrent()
        if !sharing.connections.isEmpty, let lease = takeShared(for: user, account, needing: need) { return lease }
        guard let place = idleOfUsers.place(of: user) else { return nil }
        while let connection = newestIdle(at: place, meeting: need) {
            let isUsable =
                connection.account == account && connection.isUsable() && isTrusted(connection)
                && hasCurrentAddress(connection)
            // Its request waits for the reply: `connect` asks it.
            if isUsable, mustProbe(connection) { return nil }
            removeIdle(connection)
            if isUsable { return connection.lease() }
            end(connection)
        }
        return nil
    }

    /// The last used idle connection of a user's list that may meet the need, usable or not.
    @inline(__always)
    private func newestIdle(at place: Int, meeting need: Need) -> UpstreamConnection? {
        var candidate = idleOfUsers[place].newest
        if need == .any { return candidate }
        while let connection = candidate, !need.isMet(by: connection) {
            candidate = idleOfUsers[place].next(before: connection)
        }
        return candidate
    }

    /// Takes a connection that belongs to its client for that client's next request.
    ///
    /// - Returns: nil: it cannot be used, and is closed.
    func takeBound(
        _ connection: UpstreamConnection, for user: UserIndex, _ account: AccountNumber
    ) -> UpstreamLease? {
        loop.assertIsCurrent()
        let isUsable =
            connection.isBound(to: user, account) && connection.isUsable() && isTrusted(connection)
            && hasCurrentAddress(connection)
        removeIdle(connection)
        if isUsable { return UpstreamLease(connection) }
        end(connection)
        return nil
    }

    /// Whether the name still has the connection's address. If not, it carries no further request
    /// (architecture.md 2.6).
    func hasCurrentAddress(_ connection: UpstreamConnection) -> Bool {
        let epoch = target.epoch.load(ordering: .relaxed)
        if connection.epochs.address == epoch { return true }
        guard let peer = connection.stream.peerAddress, target.hasAddress(peer) else { return false }
        connection.epochs.address = epoch
        return true
    }

    /// Whether a connection of `user` is idle that may meet the need, usable or not.
    func hasIdle(for user: UserIndex, needing need: Need) -> Bool {
        idleOfUsers.place(of: user).map { newestIdle(at: $0, meeting: need) != nil } ?? false
    }

    /// Keeps a connection for the next request. An older one may be closed for it.
    func keepIdle(_ connection: UpstreamConnection) {
        var time = Self.idleTimeout
        let keepAliveSeconds = connection.nextUse.keepAliveSeconds
        if keepAliveSeconds >= 0 { time = min(time, .seconds(max(keepAliveSeconds - 1, 0))) }
        if connection.isBound {
            // Its client's connection, which ends by itself, ends it: the client has authenticated itself for as long.
            let end = keepAliveSeconds >= 0 ? loop.now + .seconds(max(keepAliveSeconds - 1, 0)) : Instant.never
            connection.becomeIdle(until: end)
        } else {
            connection.becomeIdle(until: min(loop.now + time, connection.multiplexer?.endsAt ?? .never))
            let place = idleOfUsers.placeMaking(for: connection.user)
            idleOfUsers[place].append(connection)
        }
        idle.append(connection)
        publishIdle()
        idleOfShard.add(connection)
    }

    /// Removes a connection from the idle ones. It stays open.
    func removeIdle(_ connection: UpstreamConnection) {
        connection.becomeActive()
        if !connection.isBound, let place = idleOfUsers.place(of: connection.user) {
            idleOfUsers[place].remove(connection)
        }
        idle.remove(connection)
        idleOfShard.remove(connection)
        publishIdle()
    }

    /// Closes all idle connections, for a drain.
    package func closeIdle() {
        loop.assertIsCurrent()
        while let connection = idle.newest { discard(connection) }
    }

    /// The files of the upstream's TLS hold something else: connections of the former context carry no further request.
    func replaceTLS(_ context: TLSClientContext) {
        loop.assertIsCurrent()
        // Routes that share the pool each bring it.
        if trust?.replace(context) == true { closeStaleConnections() }
    }

    /// New connections, and requests that a proxy forwards, have another credential from here on.
    func replaceProxyAuthorization(_ value: Secret?) {
        loop.assertIsCurrent()
        resources.proxy.authorization = value
    }

    /// The addresses of the name have changed, or the upstream is verified by other files: closes idle connections that
    /// must not be used any more.
    func closeStaleConnections() {
        loop.assertIsCurrent()
        var moved: [UpstreamConnection] = []
        var place = idle.oldest
        while let connection = place {
            if !isTrusted(connection) || !hasCurrentAddress(connection) { moved.append(connection) }
            place = idle.next(after: connection)
        }
        // Closing one may end another one: its slot serves a request that waits.
        for connection in moved where connection.hasFreePlace { discard(connection) }
    }
}
