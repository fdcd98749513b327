import LanyardFoundations
import LanyardSettings
import Logging

/// The upstream refused the token: the response is held, the token renewed, and the request sent once more
/// (http-forwarding.md 17.1, 17.2, refresh-outcomes.md 11).
extension ClientExchange {
    /// Decides whether a final response is held for a replay.
    ///
    /// - Returns: false if the response goes to the client at once. `replayObstacle` then has the reason, if there is one
    ///   to report.
    func holdsForReplay(
        _ response: ResponseHead, _ headBytes: Bytes, _ table: FieldTable, for active: ActiveExchange
    ) -> Bool {
        let route = active.route
        guard response.status >= 200, let token = upstream.token,
            route.reauthenticates(on: response.status) || isRefusedCall(response, headBytes, table, on: route)
        else { return false }
        let breaker = active.shardRoute.breaker
        active.shardRoute.counters.countUnauthorized()
        let refusal = TokenRefusal(table, in: headBytes)
        guard machine.replays == 0 else {
            if refusal == .token, trip(breaker, route) {
                shard.tokens.noteRefusedReplay(token.generation, of: active.user)
            }
            return false
        }
        switch refusal {
        case .insufficientScope: return recordObstacle(.insufficientScope)
        case .invalidRequest: return recordObstacle(.invalidRequest)
        case .token: break
        }
        if route.passesAuthorization, !hasSentOwnAuthorization(active), isClientChallenged(table, headBytes) {
            return recordObstacle(.clientAuthorization)
        }
        let mayForce = !breaker.isOpen(at: shard.loop.now)
        // If the client's own authorization went upstream, the refusal says nothing about our token.
        if route.passesCredential, !upstream.hasSentToken {
            return recordObstacle(.clientAuthorization)
        }
        let outlook = shard.tokens.handleRefusal(
            token.generation, of: active.user, accountEpoch: token.accountEpoch, at: shard.loop.now, forces: mayForce)
        // After a publication the session path has counted the denial itself.
        if mayForce, case .coolingDown = outlook { shard.tokens.reportDenial(of: active.user) }
        if route.passesCredential { return recordObstacle(.clientAuthorization) }
        let decision = RefusedResponse(
            body: bodyPart, token: .init(outlook, otherwise: mayForce ? .refreshFailed : .breaker))
        if case .relay(let replayObstacle) = decision.action {
            if case .renewed = outlook { recordUnrepeatable(replayObstacle, response.status, route) }
            return recordObstacle(replayObstacle)
        }
        let sent = decision.body == .awaited ? replay.bodyBytes : nil
        let held = HeldResponse(
            response, table, headBytes, decision, bodyBytesSent: sent, budget: shard.context.buffers)
        hold(held, outlook, of: active)
        return true
    }

    /// A call of gRPC has ended with the status "unauthenticated" before any message (H45).
    private func isRefusedCall(_ response: ResponseHead, _ headBytes: Bytes, _ table: FieldTable, on route: Route)
        -> Bool
    {
        relay.endsWithHead && response.status == 200 && route.settings.refusals.calls
            && GRPC.status(table.all, in: headBytes) == GRPC.unauthenticated && input.isGRPC
    }

    /// The response is a step of the client's own authentication of the connection, or asks for it: another token would not
    /// help, and the step must reach the client (http-connections.md 16.9).
    func isClientChallenged(_ table: FieldTable, _ headBytes: Bytes) -> Bool {
        let challenge = ConnectionAuthentication.Challenge(of: table.all, in: headBytes)
        if challenge.isOffered, !challenge.hasBearer { return true }
        guard let buffer = input.buffer else { return false }
        return ConnectionAuthentication.isUsed(by: buffer.table.all, in: buffer.bytes)
    }

    /// Releases the copy of a request body that is not needed at the moment, because optional memory is freed (http-connections.md 8).
    ///
    /// The copy is kept while a response is held. It is also kept while a connection for a replay or a retry is
    /// acquired, because it is then the only copy.
    func releaseReplayCopy() {
        shard.loop.assertIsCurrent()
        if state.isForwarding, replay.held == nil, upstream.connection != nil, replay.hasMemory { replay.discardBody() }
    }

    private func recordObstacle(_ replayObstacle: ReplayObstacle) -> Bool {
        shard.counters.recordObstacle(replayObstacle)
        replay.record(replayObstacle)
        return false
    }

    private func recordUnrepeatable(_ obstacle: ReplayObstacle, _ status: Int, _ route: Route) {
        shard.log.record(obstacle, status: status, of: input.requestID(from: shard), on: route.settings.name)
    }

    /// Whether the request's body can be sent again.
    private var bodyPart: RefusedResponse.Part {
        // The response came instead of a 100 and before the body. All of the body is still to come, whatever its size
        // (http-forwarding.md 17.3).
        if input.head.expectation == .continue100, input.body.total == 0, !input.body.isEnded { return .ready }
        guard replay.holdsBody else { return .lost(.bodyTooLarge) }
        return input.body.isEnded ? .ready : .awaited
    }

    // MARK: Waiting

    private func hold(_ held: HeldResponse, _ outlook: TokenCache.ReplacementOutlook, of active: ActiveExchange) {
        replay.hold(held)
        machine.hold()
        upstream.connection?.nextUse.keepAliveSeconds = held.head.keepAliveSeconds
        // The response's bytes are copied. Its field lines are not: the next head would overwrite them.
        if held.table === shard.memory.responseTable {
            shard.memory.renewResponseTable()
        }
        upstream.expectContinue(false)
        endInboundWait()
        endOutboundWait()
        switch outlook {
        case .renewed(let token): held.token = token
        case .inProgress: held.sawRenewal = true
        case .awaited, .coolingDown, .replaced, .unchanged, .none: break
        }
        guard held.decision.action == .wait else { return sendAgain(held, for: active) }
        if held.decision.token == .awaited, !awaitToken(for: active) { return }
        guard held.decision.body == .awaited else { return }
        begin(.heldBody, for: HeldResponse.bodyWaitMax)
        sink.read()
    }

    /// Parks the request until the refresh has ended.
    ///
    /// - Returns: false if too many requests are parked.
    private func awaitToken(for active: ActiveExchange) -> Bool {
        guard waitForToken(for: active) else {
            relayHeld(.refreshFailed, of: active)
            return false
        }
        return true
    }

    /// The token cache received a publication for the user. It has removed all waiters of that user.
    func handleHeldTokenChange(for active: ActiveExchange) {
        guard let held = replay.held, let token = upstream.token else { return }
        let breaker = active.shardRoute.breaker
        // If a refresh has already failed to bring a token, none is forced again.
        let mayForce = !held.sawRenewal && !breaker.isOpen(at: shard.loop.now)
        let outlook = shard.tokens.handleRefusal(
            token.generation, of: active.user, accountEpoch: token.accountEpoch, at: shard.loop.now, forces: mayForce)
        switch outlook {
        case .awaited: return shard.tokens.park(self, for: active.user)
        case .inProgress:
            held.sawRenewal = true
            return shard.tokens.park(self, for: active.user)
        case .renewed(let token): held.token = token
        case .coolingDown, .replaced, .unchanged, .none: break
        }
        unpark()
        held.decision.token = outcome(outlook, held, breaker)
        decide(held, for: active)
    }

    /// Maps the outlook after a publication to the token's part of the decision.
    private func outcome(_ outlook: TokenCache.ReplacementOutlook, _ held: HeldResponse, _ breaker: RouteBreaker)
        -> RefusedResponse.Part
    {
        switch outlook {
        case .coolingDown, .none: if held.sawRenewal { return .lost(.refreshFailed) }
        case .renewed, .awaited, .inProgress, .replaced, .unchanged: break
        }
        let isBroken = !held.sawRenewal && breaker.isOpen(at: shard.loop.now)
        return .init(outlook, otherwise: isBroken ? .breaker : .refreshFailed)
    }

    /// The whole request body has arrived while the response is held.
    func handleHeldBody(for active: ActiveExchange) {
        guard let held = replay.held else { return }
        endInboundWait()
        held.decision.body = .ready
        decide(held, for: active)
    }

    /// The rest of the request body is late.
    func handleHeldBodyTimeout(of active: ActiveExchange) {
        // The client is not read: the pause does not count against it.
        if isPaused { return begin(.heldBody, for: HeldResponse.bodyWaitMax) }
        relayHeld(.bodyLate, of: active)
    }

    /// `refresh.wait_max` has passed.
    func handleHeldResponseTimeout(of active: ActiveExchange) { relayHeld(.refreshFailed, of: active) }

    private func decide(_ held: HeldResponse, for active: ActiveExchange) {
        switch held.decision.action {
        case .wait: break
        case .replay: sendAgain(held, for: active)
        case .relay(let replayObstacle): relayHeld(replayObstacle, of: active)
        }
    }

    // MARK: End of the wait

    /// Relays the held response to the client.
    ///
    /// - Returns: whether the exchange continues.
    @discardableResult
    func relayHeld(_ replayObstacle: ReplayObstacle, of active: ActiveExchange) -> Bool {
        guard let held = replay.held else { return false }
        stopWaitingForToken()
        endInboundWait()
        endOutboundWait()
        if held.token != nil { recordUnrepeatable(replayObstacle, held.head.status, active.route) }
        _ = recordObstacle(replayObstacle)
        if replacesUnauthorized(held.head, replayObstacle, for: active) { return false }
        if let sent = held.bodyBytesSent, let connection = upstream.connection {
            // Body bytes that arrived since were kept and not sent. The upload continues behind the bytes that were
            // sent. A piece that was too large to keep follows separately.
            shard.heads.out.clear()
            // The response goes to the client, whether the upstream takes the rest of the request or not.
            let ends = input.body.isEnded && replayObstacle != .bodyTooLarge
            _ = pushKept(from: sent, ends: ends, to: connection, of: active)
        }
        replay.endHold()
        // If a piece was too large to keep, it may be the last one. Until it is sent the upstream does not have the
        // whole request.
        if replayObstacle != .bodyTooLarge, upstream.connection != nil { updateSendTimeout(of: active) }
        let bytes = held.bytes.mutableBytes
        let headBytes = UnsafeRawBufferPointer(bytes).assumingMemoryBound(to: UInt8.self)
        let behind = UnsafeMutableRawBufferPointer(rebasing: bytes[held.head.length...])
        guard relayFinal(held.head, headBytes, held.table, behind, for: active) == .continues else { return false }
        // Not here: the bytes that are being processed may be in the shard's scratch buffer.
        shard.loop.resumeLater(self)
        return true
    }

    /// `unauthorized: 503`: a problem in place of a 401 about Lanyard's token, whatever has kept another one from being sent.
    ///
    /// - Parameter isClientChallenged: see there.
    /// - Returns: whether the exchange has ended.
    func replacesUnauthorized(
        _ response: ResponseHead, _ obstacle: ReplayObstacle?, for active: ActiveExchange,
        isClientChallenged: @autoclosure () -> Bool = true
    ) -> Bool {
        // A refusal of what the client has sent of its own is the client's, such as a step of its handshake (16.9).
        guard response.status == 401, active.route.settings.unauthorized == .problem, upstream.hasSentToken,
            obstacle != .clientAuthorization || hasSentOwnAuthorization(active) || !isClientChallenged(),
            !hasPassedAuthorization(active)
        else { return false }
        refuse(.tokenRefused(user: shard.context.userName(active.user), obstacle))
        return true
    }

    /// The client's own `Authorization` went upstream beside Lanyard's token, such as a password: the 401 may be about it, and only the
    /// client can send another one.
    private func hasPassedAuthorization(_ active: ActiveExchange) -> Bool {
        guard active.route.passesAuthorization, !hasSentOwnAuthorization(active), let buffer = input.buffer else {
            return false
        }
        let name: StaticString = "authorization"
        let isDropped = name.withUTF8Buffer { input.head.connection.nominates($0, buffer.table.all, in: buffer.bytes) }
        return !isDropped && ConnectionAuthentication.isAny(in: buffer.table.all, of: buffer.bytes)
    }

    /// Sends the request once more. Only the token differs (http-forwarding.md 17.4).
    private func sendAgain(_ held: HeldResponse, for active: ActiveExchange) {
        let route = active.route
        guard let token = held.token ?? upstream.token, upstream.connection != nil else { return }
        stopWaitingForToken()
        endInboundWait()
        endOutboundWait()
        shard.counters.countReplay()
        shard.log.log.debug(
            "the upstream refused the token: sending the request once more",
            metadata: [
                "event": "request.replayed", "status": .stringConvertible(held.head.status),
                "request_id": "\(input.requestID(from: shard))", "route": "\(route.settings.name)",
                "client_request_id": "\(input.clientRequestID(on: route))",
            ])
        upstream.renew(token)
        let isInStep = machine.replay(insteadOf: held.head) && upstream.isFlushed
        replay.endHold()
        guard let lease = upstream.detach() else { return }
        if lease.isStream {
            lease.close()
            return acquireUpstream(for: active, token)
        }
        if machine.needsFreshConnection { return connectUpstream(for: active, token, inPlaceOf: lease) }
        let connection = lease.connection
        var rejected = ResponseBody(held.head.framing, delivery: .raw)
        let behind = UnsafeMutableRawBufferPointer(rebasing: held.bytes.mutableBytes[held.head.length...])
        let used = try? rejected.consume(behind).used
        if isInStep, used == behind.count, !connection.stream.hasEnded, active.pool.isTrusted(connection) {
            if rejected.isEnded, connection.isUsable() {
                connection.reuse()
                return attach(lease, to: active, token)
            }
            if !rejected.isEnded {
                _ = RejectedBodyReader(rejected, of: lease, shard.memory, on: shard.loop)
                return acquireUpstream(for: active, token)
            }
        }
        // Closed before another one is acquired, which may need its slot.
        lease.close()
        acquireUpstream(for: active, token)
    }

    // MARK: Breaker

    /// The upstream refused a fresh token as well: another refresh would not help.
    ///
    /// - Returns: whether it was closed before.
    private func trip(_ breaker: RouteBreaker, _ route: Route) -> Bool {
        guard breaker.trip(at: shard.loop.now) else { return false }
        shard.log.log.warning(
            "the upstream refuses fresh tokens: no refresh is forced for 30 s",
            metadata: ["event": "route.breaker.opened", "route": "\(route.settings.name)"])
        return true
    }
}
