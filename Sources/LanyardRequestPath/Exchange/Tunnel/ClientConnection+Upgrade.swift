import LanyardFoundations
import LanyardSettings
import Logging

/// Upgrades (http-forwarding.md 15): whether a request asks for one, whether a 101 grants it, and the tunnel that follows.
extension ClientConnection {
    /// What becomes of the request's `Upgrade`. One that is dropped is logged.
    func upgradeRequest(on route: Route) -> UpgradeRequest {
        guard let buffer = input.buffer else { return .none }
        return UpgradeRequest(of: input.head, buffer.table, in: buffer.bytes, on: route)
    }

    /// The only member of all `Upgrade` lines; nil if there are none or several.
    private static func onlyProtocol(_ table: FieldTable, _ bytes: Bytes) -> Bytes? {
        var only: Bytes?
        for index in 0..<table.count where table[index].name == .upgrade {
            for member in FieldList(table.value(index, in: bytes)) {
                guard only == nil else { return nil }
                only = member
            }
        }
        return only
    }

    /// Handles a 101. The tunnel begins if the request was sent whole and the granted protocol is the one that was asked
    /// for (http-forwarding.md 13.4, 15.4).
    ///
    /// - Parameter after: the bytes behind the 101, which belong to the tunnel.
    func switchProtocols(
        _ response: ResponseHead, _ view: Bytes, _ table: FieldTable, _ after: UnsafeRawBufferPointer,
        for active: ActiveExchange
    ) {
        // The client cannot change the protocol within a message (RFC 9110 §7.8).
        guard exchange.request == .sent else {
            return perform(exchange.handleUpstreamFailure(.malformed("a 101 before the end of the request's body")))
        }
        guard let upgrade = input.upgrade, let connection = upstream.connection, let token = upstream.token,
            response.minorVersion > 0,
            let granted = Self.onlyProtocol(table, view),
            upgrade.withUnsafeBufferPointer({ $0.equalsIgnoringCase(granted) })
        else { return perform(exchange.handleUpstreamFailure(.malformed("a 101 that was not requested"))) }
        shard.out.clear()
        writer(response, view, table, for: active)
            .writeSwitching(into: &shard.out, to: upgrade, on: active.shardRoute, of: shard)
        beginTunnel(connection, account: token.account, after, of: active)
    }

    private func beginTunnel(
        _ connection: UpstreamConnection, account: AccountNumber, _ after: UnsafeRawBufferPointer,
        of active: ActiveExchange
    ) {
        let tunnel = TunnelRelay(self, connection, account: account, limits: tunnelLimits(of: active))
        state = .tunnel(active, tunnel)
        relay.beginRelay(101)
        active.shardRoute.counters.countRequest(
            status: relay.status, origin: .upstream, from: input.beganAt, to: shard.loop.now)
        shard.counters.upgraded.add()
        upstream.releaseToken()
        replay.discardBody()
        upstream.expectContinue(false)
        endOutboundWait()
        shard.tunnels[ObjectIdentifier(self)] = self
        input.keepHead(of: active, for: shard.accessLog)
        guard tunnel.begin(after) == .continues else { return }
        if let buffer = input.buffer {
            // Bytes behind the request were held until now (http-forwarding.md 15.4).
            let sent = tunnel.send(UnsafeRawBufferPointer(buffer.rest), to: .upstream)
            input.releaseBuffer(to: shard)
            guard sent == .continues else { return }
        }
        // An authority may have been removed, or the user logged out, while the upstream worked on the request.
        if membership.isAdmissionEnding { return endTunnel(.distrusted) }
        if let end = shard.endOfTunnel(self) { return endTunnel(end) }
        tunnel.run()
    }

    private func tunnelLimits(of active: ActiveExchange) -> Tunnel.Limits {
        var limits = Tunnel.Limits()
        limits.idleTimeout = active.timeouts.upgradedIdle
        limits.halfClosedTimeout = active.timeouts.upgradedHalfClosed
        limits.writeTimeout = active.timeouts.write
        limits.maxAge = active.route.settings.upgradedMaxAge
        return limits
    }

    /// Closes both sides of the tunnel.
    func endTunnel(_ end: Tunnel.End) {
        shard.loop.assertIsCurrent()
        guard case .tunnel(let active, let tunnel) = state else { return }
        tunnel.stop()
        logAccess(101, .upstream, AccessEntry.UnusualEnd(end), bytes: tunnel.clientBytes, of: active.route)
        shard.tunnels[ObjectIdentifier(self)] = nil
        shard.counters.upgraded.add(-1)
        shard.log.debug(
            "a tunnel has ended",
            metadata: [
                "event": "tunnel.ended", "reason": "\(end.rawValue)", "route": "\(active.route.settings.name)",
                "request_id": "\(input.requestID(from: shard))",
            ])
        if tunnel.resets(.client, by: end) { stream.resetOnClose() }
        if tunnel.resets(.upstream, by: end) { upstream.connection?.stream.resetOnClose() }
        dropUpstream(keeps: false)
        close()
    }
}

/// Applies publications of the session path to the tokens of new requests, to open tunnels (`close_upgraded_on`) and to responses in
/// progress (`close_streams_on`).
extension Shard {
    /// A publication for one user.
    package func receive(_ availability: AccessToken.Availability, for user: UserIndex) {
        loop.assertIsCurrent()
        tokens.receive(availability, for: user)
        endSessions()
    }

    /// The account of one user.
    package func receive(_ account: AccountNumber, for user: UserIndex) {
        loop.assertIsCurrent()
        tokens.receive(account, for: user)
        endSessions()
    }

    /// Sets the active user.
    package func activate(_ user: UserIndex?) {
        loop.assertIsCurrent()
        served.activate(user)
        if let user { tokens.add(user) }
        endSessions()
    }

    func endTunnels() {
        guard !tunnels.isEmpty else { return }
        for client in Array(tunnels.values) {
            if let end = endOfTunnel(client) { client.endTunnel(end) }
        }
    }

    /// Why a tunnel must end; nil: it may continue.
    ///
    /// A new generation of the same session and an unreachable identity service are no reasons. Another account of the
    /// same user counts as a logout and as a switch. The session of the first account has then ended, and the route has
    /// another account.
    func endOfTunnel(_ client: ClientConnection) -> Tunnel.End? {
        guard case .tunnel(let active, let tunnel) = client.state else { return nil }
        let route = active.route
        switch change(of: active, tunnel.account, onLogout: route.closesOnLogout, onSwitch: route.closesOnSwitch) {
        case .logout: return .logout
        case .switch: return .switched
        case nil: return nil
        }
    }

    /// Why a response in progress must be cut; nil: it may continue. The reasons are those of tunnels.
    func endOfResponse(_ client: ClientConnection) -> ResponseCut? {
        loop.assertIsCurrent()
        guard case .exchange(let active) = client.state, active.route.closesStreams,
            client.exchange.response == .relaying, let account = client.upstream.token?.account
        else { return nil }
        let route = active.route
        switch change(
            of: active, account, onLogout: route.closesStreamsOnLogout, onSwitch: route.closesStreamsOnSwitch)
        {
        case .logout: return .logout
        case .switch: return .switched
        case nil: return nil
        }
    }

    /// What has happened to the session that a request was sent with.
    ///
    /// - Parameter account: of the request's token.
    private func change(
        of active: ActiveExchange, _ account: AccountNumber, onLogout: Bool, onSwitch: Bool
    ) -> RouteSettings.TunnelCloser? {
        let (user, route) = (active.user, active.route)
        let isAnother = account != tokens.account(of: user)
        if onLogout, isAnother || tokens.isSessionOver(user) { return .logout }
        guard onSwitch else { return nil }
        if isAnother { return .switch }
        if route.user == nil, let active = served.active, active != user { return .switch }
        return nil
    }
}
