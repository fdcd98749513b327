import LanyardFoundations
import LanyardSettings

/// Relays the response: from the upstream's first byte to the client's last.
extension ClientExchange {
    /// Reads from the upstream while the client takes the bytes, up to one turn's share.
    func pumpResponse() {
        guard case .forwarding(let active) = state, replay.held == nil else { return }
        if let stream = upstream.stream { return pumpStream(stream, for: active) }
        var share = 256 << 10
        while let connection = upstream.connection, connection.stream.canRead, sink.canTake {
            guard let room = shard.memory.room(for: self, upTo: relay.readSizeMax) else { return }
            let progress: ExchangeProgress
            switch connection.stream.receive(into: room) {
            case .bytes(let count):
                progress = receive(UnsafeMutableRawBufferPointer(rebasing: room[0..<count]), for: active)
                share -= count
                // The end of the exchange may have released the client's connection.
                if progress == .continues { relay.adaptReadSize(afterReading: count, queued: sink.queuedBytes) }
            case .wouldBlock:
                progress = connection.stream.isBroken ? handleUpstreamEnd(clean: false, active) : .continues
            case .end: progress = handleUpstreamEnd(clean: !connection.stream.isBroken, active)
            case .failed: progress = handleUpstreamEnd(clean: false, active)
            }
            guard progress == .continues else { return }
            if share <= 0 { return shard.loop.resumeLater(self) }
        }
    }

    private func handleUpstreamEnd(clean: Bool, _ active: ActiveExchange) -> ExchangeProgress {
        if clean, relay.endsWithConnection, machine.response == .relaying { return finishUntilClose(active) }
        let action = machine.handleUpstreamEnd(
            clean: clean, sawBytes: relay.hasAnyOfHead, holdsRequest: input.body.isEnded && replay.holdsBody)
        let isRefused = if case .refuse = action { true } else { false }
        let session = upstream.connection?.stream.tlsSession
        // A server that may not renegotiate can also end the connection in order.
        let isEnded = isRefused && session?.wasAskedToRenegotiate == true
        guard let error = session?.failure ?? (isEnded ? .renegotiationRefused : nil) else { return carryOut(action) }
        active.pool.target.trust?.record(error)
        guard isRefused, error.isRefusal else { return carryOut(action) }
        // With TLS 1.3 an upstream may refuse the client certificate after the handshake.
        return carryOut(machine.refuse(.upstream(.tls(error))))
    }

    private func receive(_ arrived: UnsafeMutableRawBufferPointer, for active: ActiveExchange) -> ExchangeProgress {
        if relay.isInBody { return relayBody(arrived, of: active) }
        guard let table = relay.partialTable else {
            let start: Int
            switch readHeads(arrived, shard.memory.responseTable, for: active) {
            case .relayed(let progress): return progress
            case .incomplete(let offset): start = offset
            }
            guard start < arrived.count else { return .continues }
            // A partial head would have to be buffered, and no memory is left.
            if shard.context.buffers.isUnder(.requestsRefused) { return carryOut(machine.handleMemoryShortage()) }
            // The reader continues with this table when more bytes have come. The shard gets a new one.
            relay.keepHead(UnsafeRawBufferPointer(rebasing: arrived[start...]))
            shard.memory.renewResponseTable()
            return .continues
        }
        // Taken out of the relay: the end of this exchange may begin another one on this connection.
        var bytes = relay.takeBytes()
        bytes.append(UnsafeRawBufferPointer(arrived))
        switch readHeads(bytes.mutableBytes, table, for: active) {
        case .relayed(let progress): return progress
        case .incomplete(let start): bytes.consume(start)
        }
        guard !bytes.isEmpty else { return .continues }
        if shard.context.buffers.isUnder(.requestsRefused) { return carryOut(machine.handleMemoryShortage()) }
        relay.keepHead(&bytes)
        return .continues
    }

    /// What heads at the front of an upstream's bytes have led to.
    enum HeadReading {
        /// The head at this offset is not complete yet.
        case incomplete(Int)
        /// The final head was handled, or an error.
        case relayed(ExchangeProgress)
    }

    /// Reads the heads at the front of `arrived`: interim ones, then possibly the final one and its body.
    func readHeads(
        _ arrived: UnsafeMutableRawBufferPointer, _ table: FieldTable, for active: ActiveExchange
    ) -> HeadReading {
        var start = 0
        while true {
            let rest = UnsafeMutableRawBufferPointer(rebasing: arrived[start...])
            let headBytes = UnsafeRawBufferPointer(rest).assumingMemoryBound(to: UInt8.self)
            do throws(HeadError) {
                guard
                    let response = try relay.readHead(
                        headBytes, into: table, isResponseToHead: input.head.kind == .head,
                        limits: served.configuration.responseLimits)
                else {
                    return .incomplete(start)
                }
                let after = UnsafeMutableRawBufferPointer(rebasing: rest[response.length...])
                if !response.isInterim {
                    if response.status == 407, let proxy = active.shardRoute.forwardingProxy {
                        refuseLogin(at: proxy)
                        return .relayed(.ended)
                    }
                    if active.route.passesAuthorization || active.shardRoute.sharesConnections {
                        noteChallenge(table, headBytes, for: active)
                    }
                    active.shardRoute.counters.upstreamDuration.observe(from: upstream.sentAt, to: shard.loop.now)
                    if holdsForReplay(response, headBytes, table, for: active) { return .relayed(.ended) }
                    if replacesUnauthorized(
                        response, replay.obstacle, for: active, isClientChallenged: isClientChallenged(table, headBytes)
                    ) {
                        return .relayed(.ended)
                    }
                    return .relayed(relayFinal(response, headBytes, table, after, for: active))
                }
                guard relayInterim(response, headBytes, table, for: active) == .continues else {
                    return .relayed(.ended)
                }
                start += response.length
            } catch {
                return .relayed(carryOut(machine.handleUpstreamFailure(error)))
            }
        }
    }

    /// The proxy that forwards the request asks for a login, or refuses the one that it got.
    private func refuseLogin(at proxy: ShardProxy) {
        let address = upstream.connection?.stream.peerAddress
        refuse(.upstream(.proxy(.loginRequired(hasSentCredential: proxy.authorization != nil), at: address)))
    }

    /// The upstream may have begun to authenticate the connection by what its client sends (http-connections.md 16.9).
    private func noteChallenge(_ table: FieldTable, _ headBytes: Bytes, for active: ActiveExchange) {
        // A stream has no connection of its own to authenticate.
        guard !upstream.isStream, let connection = upstream.connection else { return }
        // Where users share connections, what the upstream may have made of Lanyard's own counts, too.
        guard !hasSentOwnAuthorization(active) || active.shardRoute.sharesConnections else { return }
        if ConnectionAuthentication.Challenge(of: table.all, in: headBytes).isOffered {
            connection.bind(to: active.user, upstream.token?.account ?? .unknown, on: active.route)
        }
    }

    /// The request's `Authorization` was Lanyard's: what the upstream says of it concerns no client.
    func hasSentOwnAuthorization(_ active: ActiveExchange) -> Bool {
        upstream.hasSentToken && active.route.bearerField.isAuthorization
    }

    func writer(
        _ response: ResponseHead, _ headBytes: Bytes, _ table: FieldTable, for active: ActiveExchange,
        keepsTrailer: Bool = false
    ) -> ResponseHeadWriter {
        ResponseHeadWriter(
            bytes: headBytes, head: response, lines: table.all,
            isClientTLS: rules.tlsIndex != nil,
            clientHost: active.route.mapsReferences ? input.clientHost : Bytes(start: nil, count: 0),
            clientMinorVersion: input.head.minorVersion, isResponseToHead: input.head.kind == .head,
            isClientHTTP2: sink.isStream, lacksReason: upstream.isStream, keepsTrailer: keepsTrailer)
    }

    /// Relays every 1xx except 101 to HTTP/1.1 clients (http-forwarding.md 11.5).
    private func relayInterim(
        _ response: ResponseHead, _ headBytes: Bytes, _ table: FieldTable, for active: ActiveExchange
    ) -> ExchangeProgress {
        relay.endInterim()
        let action = machine.handleInterim(
            bytes: response.length, bodyBytes: sentBodyBytes, at: shard.loop.now, continues: response.status == 100)
        guard action == .wait else {
            perform(action)
            return .ended
        }
        // The upstream says that it works on the request: the wait for the final head begins again (http-forwarding.md 11.6).
        if upstream.sentAt != .never { begin(.responseHead, for: active.timeouts.responseHeader) }
        if response.status == 100, upstream.isContinueDue {
            upstream.expectContinue(false)
            if !upstream.isHeadQueued { begin(.body, of: active) }
        }
        guard input.head.minorVersion > 0 else { return .continues }
        guard sendInterim(writer(response, headBytes, table, for: active), of: active) == .sent else {
            abandon()
            return .ended
        }
        return .continues
    }

    private func sendInterim(_ writer: borrowing ResponseHeadWriter, of active: ActiveExchange) -> ClientSend {
        if sink.isStream {
            shard.heads.fields.clear()
            writer.writeInterim(into: &shard.heads.fields, on: active.shardRoute, in: shard.heads)
            return sink.sendInterim(&shard.heads.fields)
        }
        shard.heads.out.clear()
        writer.writeInterim(into: &shard.heads.out, on: active.shardRoute, in: shard.heads)
        return push()
    }

    /// Bytes of the request's body that the upstream's connection has taken.
    private var sentBodyBytes: Int { input.body.total - upstream.queuedBytes }

    /// Relays the final head and the bytes that came with it.
    func relayFinal(
        _ response: ResponseHead, _ headBytes: Bytes, _ table: FieldTable, _ after: UnsafeMutableRawBufferPointer,
        for active: ActiveExchange
    ) -> ExchangeProgress {
        guard response.status != 101 else {
            switchProtocols(response, headBytes, table, UnsafeRawBufferPointer(after), for: active)
            return .ended
        }
        if response.status < 300, input.head.traits.contains(.bridged) { return refuseSuccess() }
        upstream.connection?.nextUse.keepAliveSeconds = response.keepAliveSeconds
        relay.beginBody(
            of: response, to: input.head, trailers: served.configuration.responseLimits,
            isStream: upstream.isStream)
        let (used, data): (Int, UnsafeRawBufferPointer)
        var after = after
        if let (bytes, ends) = upstream.stream?.takeBodyBehindHead() {
            after = bytes
            if ends { relay.expectEnd() }
        }
        do throws(HeadError) {
            (used, data) = try relay.consume(after)
        } catch {
            // No byte of this response was sent to the client yet, so a problem can be sent instead.
            perform(machine.handleUpstreamFailure(error))
            return .ended
        }
        if cannotKeepTrailers {
            perform(machine.handleMemoryShortage())
            return .ended
        }
        if shard.isDraining { machine.closeClient() }
        replay.discardBody()
        machine.handleFinalHead(response, delimitedByClose: relay.isDelimitedByClose)
        relay.beginRelay(response.status)
        if input.isGRPC { relay.noteCall() }
        upstream.expectContinue(false)
        writeFinal(
            writer(response, headBytes, table, for: active, keepsTrailer: relay.keepsTrailers), for: active)
        relay.keepNominations(response, headBytes, table)
        table.removeAll()
        relay.keepTrailers(in: UnsafeRawBufferPointer(after))
        let progress = deliver(data, leftover: used < after.count, for: active)
        // The user may have been logged out while the upstream worked on the request.
        guard progress == .continues, active.route.closesStreams, let cut = cut(of: active) else {
            return progress
        }
        return carryOut(machine.handleSessionEnd(cut))
    }

    private func writeFinal(_ writer: borrowing ResponseHeadWriter, for active: ActiveExchange) {
        let (heads, route) = (shard.heads, active.shardRoute)
        if sink.isStream {
            heads.fields.clear()
            heads.fields.isNeverIndexed = relay.isNeverIndexed
            return writer.writeFinal(
                into: &heads.fields, on: route, in: heads, delivery: .framed, closes: false,
                replayObstacle: replay.obstacle)
        }
        heads.out.clear()
        writer.writeFinal(
            into: &heads.out, on: route, in: heads, delivery: relay.delivery, closes: machine.closesClient,
            replayObstacle: replay.obstacle)
    }

    /// Relays body bytes.
    func relayBody(_ arrived: UnsafeMutableRawBufferPointer, of active: ActiveExchange) -> ExchangeProgress {
        do throws(HeadError) {
            let (used, data) = try relay.consume(arrived)
            if cannotKeepTrailers { return carryOut(machine.handleMemoryShortage()) }
            shard.heads.out.clear()
            relay.keepTrailers(in: UnsafeRawBufferPointer(arrived))
            return deliver(data, leftover: used < arrived.count, for: active)
        } catch {
            // Bytes before the error may be sent. The abort makes the missing end visible.
            return carryOut(machine.handleUpstreamFailure(error))
        }
    }

    /// Part of a trailer section would have to be buffered, and no memory is left.
    private var cannotKeepTrailers: Bool { relay.awaitsTrailers && shard.context.buffers.isUnder(.requestsRefused) }

    /// Sends body bytes behind the contents of the out buffer.
    private func deliver(
        _ data: UnsafeRawBufferPointer, leftover: Bool, for active: ActiveExchange
    ) -> ExchangeProgress {
        let hasEnded = relay.hasEnded
        relay.recordBody(data.count)
        guard push(data, ends: hasEnded, of: active) == .sent else {
            abandon()
            return .ended
        }
        if hasEnded {
            perform(machine.handleResponseEnd(leftover: leftover))
            return .ended
        }
        updateRelayTimeout(of: active)
        // While a long response is relayed the request's head is not needed.
        input.releaseRequest(active, to: shard)
        return .continues
    }

    /// Sends body bytes in the framing of the client's response. If the body ends, its last chunk and the kept trailers
    /// follow.
    private func push(_ data: UnsafeRawBufferPointer, ends: Bool, of active: ActiveExchange) -> ClientSend {
        if sink.isStream { return pushFrames(data, ends: ends, of: active) }
        let isLast = ends && !machine.keepsClient
        guard relay.delivery == .chunked else { return push(data, isLast: isLast) }
        guard ends, relay.hasTrailers else {
            return push(data, shard.heads.out.writeChunkStart(of: data.count, ends: ends), isLast: isLast)
        }
        let sent = push(data, shard.heads.out.writeChunkStart(of: data.count, ends: true, hasTrailers: true))
        guard sent == .sent else { return sent }
        shard.heads.out.clear()
        relay.writeTrailers(
            into: &shard.heads.out, on: active.route, shard.memory.responseTable,
            limits: served.configuration.responseLimits)
        shard.heads.out.endHead()
        return push(isLast: isLast)
    }

    /// The same on a stream, with the head that was written.
    private func pushFrames(_ data: UnsafeRawBufferPointer, ends: Bool, of active: ActiveExchange) -> ClientSend {
        guard ends, relay.hasTrailers else { return sink.send(&shard.heads.fields, data, ends: ends) }
        let trailers = sink.makeTrailers()
        relay.writeTrailers(
            into: &trailers.fields, on: active.route, shard.memory.responseTable,
            limits: served.configuration.responseLimits)
        return sink.send(&shard.heads.fields, data, behind: trailers)
    }

    /// The upstream's orderly close completes a body that is delimited by the close.
    private func finishUntilClose(_ active: ActiveExchange) -> ExchangeProgress {
        shard.heads.out.clear()
        guard push(UnsafeRawBufferPointer(start: nil, count: 0), ends: true, of: active) == .sent else {
            abandon()
            return .ended
        }
        return carryOut(machine.handleUpstreamEnd(clean: true, sawBytes: true, holdsRequest: false))
    }

    /// Sends the shard's out buffer, `data` and `tail` to the client, or queues them.
    ///
    /// - Parameter isLast: the connection ends behind them.
    private func push(
        _ data: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0), _ tail: StaticString = "",
        isLast: Bool = false
    ) -> ClientSend { sink.send(shard.heads.out.bytes, data, tail, isLast: isLast) }

    /// Sends Lanyard's own 100 to the client.
    func sendContinue() -> ClientSend {
        if sink.isStream {
            shard.heads.fields.clear()
            shard.heads.fields.beginResponse(100, "Continue")
            return sink.sendInterim(&shard.heads.fields)
        }
        shard.heads.out.clear()
        shard.heads.out.beginResponse(100, "Continue")
        shard.heads.out.endHead()
        return push()
    }

    /// The client has taken all bytes that were queued for it.
    func handleClientFlush() {
        guard case .forwarding(let active) = state else { return runTunnel() }
        // The client has taken interim responses slowly. Until now the upstream was not read.
        switch machine.response {
        // The response is not due before the request has been sent.
        case .awaited where !upstream.isParked && upstream.sentAt != .never: awaitUpstreamAnew(for: active)
        case .awaited, .held: endOutboundWait()
        case .relaying, .ended: break
        }
        updateRelayTimeout(of: active)
        pumpResponse()
    }

    /// The socket of a stream's connection takes bytes again, which other streams may have filled.
    func handleSocketFlush() {
        if waits.outbound == .clientWrite || state.isTunnel { handleClientFlush() } else { pumpResponse() }
    }

    /// A tunnel's stream takes bytes again.
    private func runTunnel() { if case .tunnel(_, let tunnel) = state { tunnel.run() } }

    /// Sets the deadline anew after bytes were sent to the client or queued for it.
    private func updateRelayTimeout(of active: ActiveExchange) {
        guard machine.response == .relaying else { return }
        if !sink.canTake { return beginWriteTimeout() }
        awaitResponseBytes(active.timeouts.responseIdle)
    }

    // MARK: Incomplete heads

    /// Buffered bytes of an incomplete response head or trailer section.
    var partialBytes: Int { state.isForwarding ? relay.partialBytes : 0 }

    /// Gives them up, because requests are refused for want of memory.
    func giveUpPartialHead() { if state.isForwarding { perform(machine.handleMemoryShortage()) } }
}
