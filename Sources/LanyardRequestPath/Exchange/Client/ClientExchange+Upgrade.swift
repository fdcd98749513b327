import Glibc
import LanyardFoundations
import LanyardSettings
import Logging

/// Upgrades (http-forwarding.md 15): whether a request asks for one, whether a 101 grants it, and the tunnel that follows.
extension ClientExchange {
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
        _ response: ResponseHead, _ headBytes: Bytes, _ table: FieldTable, _ after: UnsafeRawBufferPointer,
        for active: ActiveExchange
    ) {
        // The client cannot change the protocol within a message (RFC 9110 §7.8).
        guard machine.request == .sent else {
            return perform(machine.handleUpstreamFailure(.malformed("a 101 before the end of the request's body")))
        }
        guard let upgrade = input.upgrade, let connection = upstream.connection, let token = upstream.token,
            response.minorVersion > 0,
            let granted = Self.onlyProtocol(table, headBytes),
            upgrade.withUnsafeBufferPointer({ $0.equalsIgnoringCase(granted) })
        else { return perform(machine.handleUpstreamFailure(.malformed("a 101 that was not requested"))) }
        guard !sink.isStream || WebSocketKey.isAccepted(by: table.all, in: headBytes, input.webSocketKey) else {
            return perform(
                machine.handleUpstreamFailure(.malformed("a 101 without the Sec-WebSocket-Accept of the key")))
        }
        let writer = writer(response, headBytes, table, for: active)
        if sink.isStream {
            shard.heads.fields.clear()
            writer.writeAgreement(into: &shard.heads.fields, on: active.shardRoute, in: shard.heads)
        } else {
            shard.heads.out.clear()
            writer.writeSwitching(into: &shard.heads.out, to: upgrade, on: active.shardRoute, in: shard.heads)
        }
        beginTunnel(connection, account: token.account, after, of: active)
    }

    /// To the client of an extended CONNECT a success in place of a 101 would say that its tunnel is open (RFC 8441 §5).
    func refuseSuccess() -> ExchangeProgress {
        carryOut(machine.handleUpstreamFailure(.malformed("a success in place of a 101")))
    }

    private func beginTunnel(
        _ connection: UpstreamConnection, account: AccountNumber, _ after: UnsafeRawBufferPointer,
        of active: ActiveExchange
    ) {
        let tunnel = TunnelRelay(
            self, connection, account: account, limits: tunnelLimits(of: active), shard.memory, on: shard.loop)
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
        guard tunnel.begin(sendAgreement(after), after.count) == .continues else { return }
        if let buffer = input.buffer {
            // Bytes behind the request were held until now (http-forwarding.md 15.4).
            let sent = tunnel.send(UnsafeRawBufferPointer(buffer.rest), to: .upstream)
            input.releaseBuffer(to: shard)
            guard sent == .continues else { return }
        }
        // An authority may have been removed, or the user logged out, while the upstream worked on the request.
        if sink.isAdmissionEnding { return endTunnel(.distrusted) }
        if let end = shard.endOfTunnel(active, account) { return endTunnel(end) }
        tunnel.run()
    }

    /// Sends the client the head that was written, and the bytes behind it. 0, or `errno`.
    private func sendAgreement(_ after: UnsafeRawBufferPointer) -> CInt {
        guard sink.isStream else { return sink.withStream { $0.send(shard.heads.out.bytes, after) } }
        return sink.send(&shard.heads.fields, after, ends: false) == .sent ? 0 : EPIPE
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
        shard.log.log.debug(
            "a tunnel has ended",
            metadata: [
                "event": "tunnel.ended", "reason": "\(end.rawValue)", "route": "\(active.route.settings.name)",
                "request_id": "\(input.requestID(from: shard))",
            ])
        if tunnel.resets(.upstream, by: end) { upstream.connection?.stream.resetOnClose() }
        dropUpstream(keeps: false)
        sink.endTunnel(end, resets: tunnel.resets(.client, by: end))
    }

    // MARK: Sessions that have ended

    /// Ends the tunnel if its session does not permit it any more (`close_upgraded_on`).
    func endTunnelOfEndedSession() {
        guard case .tunnel(let active, let tunnel) = state, let end = shard.endOfTunnel(active, tunnel.account) else {
            return
        }
        endTunnel(end)
    }

    /// Cuts the response in progress if its session does not permit it any more (`close_streams_on`).
    func cutResponseOfEndedSession() {
        if case .forwarding(let active) = state, let cut = cut(of: active) { perform(machine.handleSessionEnd(cut)) }
    }

    /// Why the response in progress must be cut; nil: it may continue.
    func cut(of active: ActiveExchange) -> ResponseCut? {
        guard active.route.closesStreams, machine.response == .relaying, let account = upstream.token?.account else {
            return nil
        }
        return shard.endOfResponse(active, account)
    }

    // MARK: TunnelClient

    func setTunnelDeadline(_ instant: Instant) { waits.begin(.tunnel, until: instant, on: shard.loop) }

    func withStream<Result>(_ work: (inout ByteStream) -> Result) -> Result { sink.withStream(work) }
    var tunnelStream: (any TunnelStream)? { sink.tunnelStream }
}
