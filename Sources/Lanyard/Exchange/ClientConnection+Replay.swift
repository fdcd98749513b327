import Logging

/// An upstream refuses the token: the answer is held back, the token renewed, the request sent once more (http-rules.md 17.1, 17.2,
/// refresh.md 11).
extension ClientConnection {
    private var breaker: RouteBreaker? { route.map { shard.context.breakers[$0.index] } }

    /// Judges a final head. False: it goes to the client at once, with `hindrance` if that is worth a word.
    func holdsForReplay(_ response: ResponseHead, _ view: Bytes, _ table: FieldTable) -> Bool {
        guard response.status >= 200, let route, route.reauthenticates(on: response.status), let user, let token,
            let breaker
        else { return false }
        shard.counters.unauthorized(route: route.index)
        let refusal = TokenRefusal(table, in: view)
        guard exchange.replays == 0 else {
            if refusal == .token { trip(breaker, route) }
            return false
        }
        switch refusal {
        case .insufficientScope: return recordObstacle(.insufficientScope)
        case .invalidRequest: return recordObstacle(.invalidRequest)
        case .token: break
        }
        let mayForce = !breaker.isOpen(at: shard.loop.now)
        // Where the client's own authorization went upstream, its refusal says nothing about our token.
        if route.settings.clientAuthorization == .pass, !hasSentToken { return recordObstacle(.clientAuthorization) }
        let outlook = shard.tokens.refused(
            token.generation, of: user, accountEpoch: token.accountEpoch, at: shard.loop.now, forces: mayForce)
        if route.settings.clientAuthorization == .pass { return recordObstacle(.clientAuthorization) }
        let answer = RefusedResponse(
            body: bodyPart, token: part(outlook, otherwise: mayForce ? .refreshFailed : .breaker))
        if case .relay(let replayObstacle) = answer.action { return recordObstacle(replayObstacle) }
        let sent = answer.body == .awaited ? replayBody.count : nil
        hold(HeldResponse(response, table, view, answer, bodyBytesSent: sent, budget: shard.context.buffers), outlook)
        return true
    }

    /// Memory is tight: copies for replays go first (http-rules.md 8). Gives up the copy of a body that nothing needs yet: its request
    /// was sent, and no answer to it is held. While a connection is sought for a replay or a retry the copy is the only one.
    func releaseReplayCopy() {
        if phase == .exchange, held == nil, upstream != nil, replayBody.hasMemory { replayBody.forget() }
    }

    private func recordObstacle(_ replayObstacle: RefusedResponse.ReplayObstacle) -> Bool {
        shard.counters.recordObstacle(replayObstacle)
        self.replayObstacle = replayObstacle
        return false
    }

    /// What there is of the request's body to be sent again.
    private var bodyPart: RefusedResponse.Part {
        // An answer in place of 100 came before the body: whatever its size, all of it is still to come (http-rules.md 17.3).
        if head.expectation == .continue100, body.total == 0, !body.isEnded { return .ready }
        guard replayBody.isWhole else { return .lost(.bodyTooLarge) }
        return body.isEnded ? .ready : .awaited
    }

    private func part(
        _ outlook: TokenCache.ReplacementOutlook, otherwise replayObstacle: RefusedResponse.ReplayObstacle
    ) -> RefusedResponse.Part {
        switch outlook {
        case .renewed: .ready
        case .awaited: .awaited
        // With the breaker open nothing is waited for.
        case .underWay: replayObstacle == .breaker ? .lost(.breaker) : .awaited
        case .coolingDown: .lost(replayObstacle == .breaker ? .breaker : .cooldown)
        case .replaced: .lost(.sessionReplaced)
        case .none: .lost(replayObstacle)
        }
    }

    // MARK: Waiting

    private func hold(_ held: HeldResponse, _ outlook: TokenCache.ReplacementOutlook) {
        self.held = held
        exchange.hold()
        upstream?.keepAliveSeconds = held.head.keepAliveSeconds
        // Its bytes are copied; the lines of its table would be overwritten by the next head.
        if held.table === shard.responseTable {
            shard.responseTable = FieldTable(capacity: HeadLimits.response.fieldsMax)
        }
        isContinueDue = false
        clearInbound()
        clearOutbound()
        switch outlook {
        case .renewed(let token): held.token = token
        case .underWay: held.sawRenewal = true
        default: break
        }
        guard held.answer.action == .wait else { return replay() }
        if held.answer.token == .awaited, !awaitToken() { return }
        guard held.answer.body == .awaited else { return }
        setInbound(HeldResponse.bodyWaitMax)
        pump()
    }

    /// Waits for the refresh as a parked request does. False if there is no room.
    private func awaitToken() -> Bool {
        guard let user else { return false }
        guard shard.context.parked.take() else {
            relayHeld(.refreshFailed)
            return false
        }
        isParked = true
        setOutbound(shard.context.tokenWaitMax)
        shard.tokens.park(self, for: user)
        return true
    }

    /// The board has news of the user, and has forgotten who waits.
    func heldTokenChanged() {
        guard let held, let user, let token, let breaker else { return }
        // After a refresh that brought nothing no other one is forced.
        let mayForce = !held.sawRenewal && !breaker.isOpen(at: shard.loop.now)
        let outlook = shard.tokens.refused(
            token.generation, of: user, accountEpoch: token.accountEpoch, at: shard.loop.now, forces: mayForce)
        switch outlook {
        case .awaited: return shard.tokens.park(self, for: user)
        case .underWay:
            held.sawRenewal = true
            return shard.tokens.park(self, for: user)
        case .renewed(let token): held.token = token
        case .coolingDown, .replaced, .none: break
        }
        unpark()
        held.answer.token = outcome(outlook, held, breaker)
        decide(held)
    }

    /// What the wait for a token has brought.
    private func outcome(_ outlook: TokenCache.ReplacementOutlook, _ held: HeldResponse, _ breaker: RouteBreaker)
        -> RefusedResponse.Part
    {
        switch outlook {
        case .coolingDown where held.sawRenewal, .none where held.sawRenewal: return .lost(.refreshFailed)
        default:
            let isBroken = !held.sawRenewal && breaker.isOpen(at: shard.loop.now)
            return part(outlook, otherwise: isBroken ? .breaker : .refreshFailed)
        }
    }

    /// All of the body has come while its answer was held.
    func heldBodyArrived() {
        guard let held else { return }
        clearInbound()
        held.answer.body = .ready
        decide(held)
    }

    /// `refresh.wait_max` is over.
    func heldResponseTimedOut() { relayHeld(.refreshFailed) }

    private func decide(_ held: HeldResponse) {
        switch held.answer.action {
        case .wait: break
        case .replay: replay()
        case .relay(let replayObstacle): relayHeld(replayObstacle)
        }
    }

    private func forgetToken() {
        guard isParked, let user else { return }
        shard.tokens.unpark(self, for: user)
        unpark()
    }

    // MARK: Ends of the wait

    /// The answer goes to the client after all.
    ///
    /// - Returns: whether the exchange goes on.
    @discardableResult
    func relayHeld(_ replayObstacle: RefusedResponse.ReplayObstacle) -> Bool {
        guard let held else { return false }
        let number = requests
        forgetToken()
        clearInbound()
        clearOutbound()
        _ = recordObstacle(replayObstacle)
        if let sent = held.bodyBytesSent {
            // What came meanwhile was only kept: the upload goes on where it stood. A piece that was too large follows by itself.
            shard.out.clear()
            pushKept(from: sent, ends: body.isEnded && replayObstacle != .bodyTooLarge)
        }
        self.held = nil
        // The piece that was too large may be the last one; until it was sent, too, the upstream has not got the request whole.
        if replayObstacle != .bodyTooLarge { updateSendTimeout() }
        let bytes = held.bytes.mutableBytes
        let view = UnsafeRawBufferPointer(bytes).assumingMemoryBound(to: UInt8.self)
        relayFinal(held.head, view, held.table, UnsafeMutableRawBufferPointer(rebasing: bytes[held.head.length...]))
        guard phase == .exchange, requests == number else { return false }
        // Not here: what is being read may still stand in the shard's scratch.
        shard.loop.resumeLater(self)
        return true
    }

    /// Sends the request once more: it differs from the first one in the token only (http-rules.md 17.4).
    private func replay() {
        guard let held, let route, let upstream else { return }
        forgetToken()
        clearInbound()
        clearOutbound()
        shard.counters.replay()
        shard.log.debug(
            "the upstream refused the token: sending the request once more",
            metadata: [
                "event": "request.replayed", "status": "\(held.head.status)", "request_id": "\(currentRequestID)",
                "route": "\(route.settings.name)", "client_request_id": "\(clientRequestID)",
            ])
        if let renewed = held.token { token = renewed }
        let isInStep = exchange.replay(insteadOf: held.head) && upstream.outbound.isEmpty && !upstream.isBroken
        self.held = nil
        if exchange.needsFreshConnection {
            self.upstream = nil
            return connectUpstream(inPlaceOf: upstream)
        }
        var rejected = ResponseBody(held.head.framing, delivery: .raw)
        let behind = UnsafeMutableRawBufferPointer(rebasing: held.bytes.mutableBytes[held.head.length...])
        let used = try? rejected.take(behind).used
        if isInStep, used == behind.count, !upstream.hasEnded {
            if rejected.isEnded, upstream.isQuiet {
                self.upstream = nil
                upstream.reuse()
                return attach(upstream)
            }
            if !rejected.isEnded {
                self.upstream = nil
                _ = RejectedBodyReader(rejected, of: upstream, in: shard.pools[route.index], shard: shard)
                return acquireUpstream()
            }
        }
        self.upstream = nil
        shard.pools[route.index].discard(upstream)
        acquireUpstream()
    }

    // MARK: Breaker

    /// A fresh token was refused, too: no refresh would help.
    private func trip(_ breaker: RouteBreaker, _ route: Route) {
        guard breaker.trip(at: shard.loop.now) else { return }
        shard.log.warning(
            "the upstream refuses fresh tokens: no refresh is forced for 30 s",
            metadata: ["event": "route.breaker.opened", "route": "\(route.settings.name)"])
    }
}
