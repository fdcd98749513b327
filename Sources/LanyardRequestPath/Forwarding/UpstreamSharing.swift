import Glibc
import LanyardFoundations
import LanyardSettings

/// What one pool knows of the connections that several requests share. Belongs to the pool, whose queue it checks.
struct UpstreamSharing {
    /// The latest connection that might have spoken HTTP/2 has agreed on HTTP/1.1: requests do not wait for others' connections.
    var hasDeclined = false
    /// Streams that the upstream has allowed on the latest connection.
    var knownStreamsMax = 100
    /// Open ones of HTTP/2.
    var connections = UserTable<[UpstreamConnection]>(empty: [])
    /// Connections are being opened for these; others may follow them.
    var opening: [UpstreamPool.Acquisition] = []
    /// Idle connections that were asked whether they are alive, with the requests that wait for the reply (H33).
    var probes: [(connection: UpstreamConnection, waiting: UpstreamPool.Acquisition)] = []
    /// Each ENHANCE_YOUR_CALM doubles the time before a PING (H32).
    var pingFactor = 1
}

extension UpstreamPool {
    /// Which version of HTTP carries a request.
    package enum Need {
        case any
        /// It is an upgrade (H5).
        case http1
        /// It is a call of gRPC (H13), or sent again and must not meet a stale connection of HTTP/1.1.
        case http2

        func isMet(by connection: UpstreamConnection) -> Bool {
            switch self {
            case .any: true
            case .http1: connection.multiplexer == nil
            case .http2: connection.multiplexer != nil
            }
        }
    }
}

/// Connections of HTTP/2: each carries the requests of one user and account, as many at once as the upstream takes.
extension UpstreamPool {
    /// How long an idle connection may take to reply before it is used again.
    private static let probeTimeout = Duration.seconds(1)

    var pingFactor: Int { sharing.pingFactor }

    private var settings: HTTP2Settings { target.settings.http2 }

    /// A connection that is opened for the request may be one of HTTP/2.
    func mayShare(_ request: Acquisition) -> Bool { request.need != .http1 && maySpeakHTTP2 }

    /// The upstream may speak HTTP/2.
    package var maySpeakHTTP2: Bool {
        guard !target.needsHTTP1 else { return false }
        switch target.settings.httpVersion {
        case .http1: return false
        case .http2: return true
        case .auto: return trust != nil
        }
    }

    // MARK: Places

    /// A place on a connection that is in use.
    func takeShared(for user: UserIndex, _ account: AccountNumber, needing need: Need) -> UpstreamLease? {
        guard need != .http1, let place = sharing.connections.place(of: user) else { return nil }
        for connection in sharing.connections[place]
        where connection.account == account && !connection.idlePlace.isIdle && connection.isUsable()
            && isTrusted(connection) && hasCurrentAddress(connection) && !isProbed(connection)
        {
            return connection.lease()
        }
        return nil
    }

    /// The connection is open, for the request that has opened it and those that follow.
    func serve(_ request: Acquisition, by connection: UpstreamConnection) {
        loop.assertIsCurrent()
        if !speaksHTTP2(connection, for: request) { return serveAlone(request, by: connection) }
        sharing.hasDeclined = false
        guard connection.beginStreams(settings, resources) else {
            end(connection)
            return fail(request, .local(ENOMEM))
        }
        let followers = endOpening(request)
        let place = sharing.connections.placeMaking(for: connection.user)
        sharing.connections[place].append(connection)
        // One place is always free on a new connection, also if no request waits any more.
        if request.isAlive { reply(request, .success(connection.lease())) }
        serve(followers, by: connection)
        serveWaiters(by: connection)
        becomeIdleIfUnused(connection)
    }

    /// What the handshake has agreed on holds; without TLS, what is configured.
    private func speaksHTTP2(_ connection: UpstreamConnection, for request: Acquisition) -> Bool {
        if let session = connection.stream.tlsSession { return session.hasAgreedOnHTTP2 }
        return mayShare(request) && target.settings.httpVersion == .http2
    }

    /// The connection speaks HTTP/1.1, and carries one request.
    private func serveAlone(_ request: Acquisition, by connection: UpstreamConnection) {
        if mayShare(request) { sharing.hasDeclined = true }
        var followers = endOpening(request).filter(\.isAlive)
        let first = request.isAlive || followers.isEmpty ? request : followers.removeFirst()
        reply(first, .success(UpstreamLease(connection)))
        for follower in followers where follower.isAlive { start(follower) }
    }

    private func serve(_ requests: [Acquisition], by connection: UpstreamConnection) {
        for request in requests where request.isAlive {
            if connection.isOpen, connection.isUsable(), isTrusted(connection), hasCurrentAddress(connection) {
                reply(request, .success(connection.lease()))
            } else {
                start(request)
            }
        }
    }

    /// Requests that wait for a connection get the places of one that has some.
    private func serveWaiters(by connection: UpstreamConnection) {
        while connection.isOpen, connection.isUsable(), isTrusted(connection), hasCurrentAddress(connection),
            !isProbed(connection),
            let index = waiters.firstIndex(where: {
                $0.user == connection.user && $0.account == connection.account && $0.need != .http1
            })
        {
            let waiter = waiters.remove(at: index)
            reply(waiter, .success(connection.lease()))
        }
    }

    /// A stream has ended, or the socket takes bytes again.
    func handleFreePlace(of connection: UpstreamConnection) {
        loop.assertIsCurrent()
        serveWaiters(by: connection)
        becomeIdleIfUnused(connection)
    }

    private func becomeIdleIfUnused(_ connection: UpstreamConnection) {
        guard connection.isOpen, let multiplexer = connection.multiplexer, multiplexer.isIdle,
            !connection.idlePlace.isIdle, !isProbed(connection)
        else { return }
        guard !multiplexer.isEnding(at: loop.now), mayBecomeIdle(connection) else { return end(connection) }
        keepIdle(connection)
        schedule(.idled)
    }

    /// The connection is closed.
    func removeShared(_ connection: UpstreamConnection) {
        loop.assertIsCurrent()
        guard connection.multiplexer != nil, let place = sharing.connections.place(of: connection.user) else { return }
        sharing.connections[place].removeAll { $0 === connection }
        let failed = sharing.probes.filter { $0.connection === connection }
        sharing.probes.removeAll { $0.connection === connection }
        for (_, request) in failed where request.isAlive { start(request) }
    }

    // MARK: Connections that are being opened

    /// The request waits for a connection that is opened for another one of the same user, or that is asked whether it is alive.
    ///
    /// - Returns: false: there is none.
    func follow(_ request: Acquisition) -> Bool {
        loop.assertIsCurrent()
        guard mayShare(request) else { return false }
        if probeIdle(for: request) { return true }
        guard !sharing.hasDeclined,
            let leader = sharing.opening.first(where: {
                $0.user == request.user && $0.account == request.account && $0.followers.count < followersMax
            })
        else { return false }
        guard let permit = parked.acquire() else {
            reply(request, .failure(.connectionLimit))
            return true
        }
        request.park(permit)
        leader.followers.append(request)
        return true
    }

    /// As many streams as the upstream allows, less the one of the request that opens the connection.
    private var followersMax: Int { min(sharing.knownStreamsMax, 100) - 1 }

    /// The upstream has announced so many streams, or has refused more.
    func noteStreamsMax(_ streamsMax: Int) {
        loop.assertIsCurrent()
        sharing.knownStreamsMax = max(streamsMax, 1)
    }

    /// - Returns: whether the request was waiting so.
    func unfollow(_ request: Acquisition) -> Bool {
        loop.assertIsCurrent()
        request.endWait()
        if let index = sharing.probes.firstIndex(where: { $0.waiting === request }) {
            let connection = sharing.probes.remove(at: index).connection
            becomeIdleIfUnused(connection)
            return true
        }
        guard let leader = sharing.opening.first(where: { $0.followers.contains { $0 === request } }) else {
            return false
        }
        leader.followers.removeAll { $0 === request }
        if !leader.isWanted { abandon(leader) }
        return true
    }

    /// The opening of a connection has ended.
    ///
    /// - Returns: who has followed it.
    func endOpening(_ request: Acquisition) -> [Acquisition] {
        loop.assertIsCurrent()
        guard let index = sharing.opening.firstIndex(where: { $0 === request }) else { return [] }
        sharing.opening.remove(at: index)
        let followers = request.followers
        request.followers = []
        return followers
    }

    // MARK: Connections that were idle for long (H33)

    /// Whether the connection has been idle so long that it may be dead without a sign.
    func mustProbe(_ connection: UpstreamConnection) -> Bool {
        connection.multiplexer?.pings.hasHeardNothing(for: settings.pingAfter, at: loop.now) ?? false
    }

    private func isProbed(_ connection: UpstreamConnection) -> Bool {
        sharing.probes.contains { $0.connection === connection }
    }

    /// The request waits for the reply of a connection that was idle for long, or that is being asked.
    ///
    /// - Returns: whether there is one.
    func probeIdle(for request: Acquisition) -> Bool {
        loop.assertIsCurrent()
        guard request.need != .http1, let connection = idleToProbe(for: request) else { return false }
        let isNew = !isProbed(connection)
        sharing.probes.append((connection, request))
        guard isNew else { return true }
        removeIdle(connection)
        connection.multiplexer?.ping()
        connection.awaitProbe(until: loop.now + Self.probeTimeout)
        return true
    }

    private func idleToProbe(for request: Acquisition) -> UpstreamConnection? {
        let probed = sharing.probes.first {
            $0.connection.user == request.user && $0.connection.account == request.account
        }
        if let probed { return probed.connection }
        guard let place = idleOfUsers.place(of: request.user) else { return nil }
        var candidate = idleOfUsers[place].newest
        while let idle = candidate {
            if Need.http2.isMet(by: idle), idle.account == request.account, idle.isUsable(), mustProbe(idle) {
                return idle
            }
            candidate = idleOfUsers[place].next(before: idle)
        }
        return nil
    }

    /// The upstream has replied to a PING.
    func handleAnsweredProbe(of connection: UpstreamConnection) {
        loop.assertIsCurrent()
        let waiting = sharing.probes.filter { $0.connection === connection }.map(\.waiting)
        guard !waiting.isEmpty else { return }
        sharing.probes.removeAll { $0.connection === connection }
        connection.awaitProbe(until: .never)
        serve(waiting, by: connection)
        becomeIdleIfUnused(connection)
    }

    /// The upstream has ended a connection with an error.
    func noteGoAway(code: UInt32) {
        loop.assertIsCurrent()
        let isCalm = code == HTTP2Session.Code.enhanceYourCalm.rawValue
        if isCalm { sharing.pingFactor = min(sharing.pingFactor * 2, 64) }
        target.recordEnd(isCalm ? "enhance_your_calm" : "goaway", byUpstream: true)
    }
}
