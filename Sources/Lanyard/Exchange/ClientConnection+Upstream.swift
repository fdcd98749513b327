/// From an admitted request to its last byte upstream: token, connection, head, body.
extension ClientConnection {
    // MARK: Token

    /// Finds the token of the route's user, or parks. Asked again, because a token has ended before it was sent, the user is who it was.
    func acquireToken() {
        guard let route, let user = user ?? route.user ?? shard.tokens.active else { return refuse(.noActiveUser) }
        self.user = user
        switch shard.tokens.decide(user, at: shard.loop.now) {
        case .use(let token): use(token)
        case .park: park(user)
        case .refuse(let refusal): refuse(problem(refusal, user))
        }
    }

    private func use(_ token: AccessToken) {
        // It has had a token, and may have left with it: the user may be another account by now (threats.md T18).
        if let old = self.token, old.accountEpoch != token.accountEpoch, let user {
            return refuse(.sessionReplaced(user: shard.context.userName(user)))
        }
        self.token = token
        acquireUpstream()
    }

    private func park(_ user: UserIndex) {
        if shard.isDraining { return refuse(.shuttingDown) }
        guard shard.context.parked.take() else { return refuse(.overloaded("Too many requests wait for a token.")) }
        isParked = true
        setOutbound(shard.context.tokenWaitMax)
        shard.tokens.park(self, for: user)
    }

    /// Takes the request out of the car park. The board forgets it by itself when it publishes.
    func unpark() {
        guard isParked else { return }
        isParked = false
        shard.context.parked.giveBack()
        clearOutbound()
    }

    package func tokenCacheChanged() {
        guard isParked, let user else { return }
        if held != nil { return heldTokenChanged() }
        switch shard.tokens.decide(user, at: shard.loop.now) {
        case .park: shard.tokens.park(self, for: user)
        case .use(let token):
            unpark()
            use(token)
        case .refuse(let refusal):
            unpark()
            refuse(problem(refusal, user))
        }
    }

    /// `refresh.wait_max` is over: the token at hand serves while it is unexpired (refresh.md 4).
    func tokenWaitTimedOut() {
        guard let user else { return }
        shard.tokens.unpark(self, for: user)
        unpark()
        if let token = shard.tokens.unexpiredToken(user, at: shard.loop.now) { return use(token) }
        refuse(.identityUnreachable(user: shard.context.userName(user), retryAfter: 1))
    }

    private func problem(_ refusal: AccessToken.Refusal, _ user: UserIndex) -> Problem {
        let name = shard.context.userName(user)
        switch refusal {
        case .loginRequired: return .loginRequired(user: name, status: shard.context.loginRequiredStatus)
        case .credentialRefused(let message): return .credentialRefused(user: name, because: message)
        case .userUnknown(wasRemoved: false):
            return .userUnknown(user: name, status: shard.context.loginRequiredStatus)
        case .userUnknown(wasRemoved: true):
            return .userRemoved(user: name, status: shard.context.loginRequiredStatus)
        case .identityUnreachable(let nextAttempt):
            let wait = nextAttempt == .never ? 60 : (nextAttempt - shard.loop.now).inSeconds.rounded(.up)
            return .identityUnreachable(user: name, retryAfter: Int(wait))
        }
    }

    // MARK: Connection

    private var pool: UpstreamPool? { route.map { shard.pools[$0.index] } }

    func acquireUpstream() {
        guard let pool, let user else { return }
        if !exchange.needsFreshConnection, let connection = pool.takeIdle(for: user) { return attach(connection) }
        connectUpstream()
    }

    /// - Parameter old: ends, and gives the fresh one its place.
    func connectUpstream(inPlaceOf old: UpstreamConnection? = nil) {
        guard let pool, let user else { return }
        let request = pool.connect(for: user, inPlaceOf: old) { [unowned self] result in
            acquisition = nil
            switch result {
            case .success(let connection): attach(connection)
            case .failure(let failure): refuse(.upstream(failure))
            }
        }
        // Answered already, it may have led to the next request and to an acquisition of that one.
        if let request { acquisition = request }
    }

    func attach(_ connection: UpstreamConnection) {
        guard let token, shard.loop.now < token.usableUntil else {
            // It ended while the connection was being made: never send an expired one.
            pool?.giveBack(connection)
            return acquireToken()
        }
        upstream = connection
        connection.owner = self
        responseReader = ResponseReader()
        responseBody = nil
        sendHead(to: connection, token)
    }

    // MARK: Sending

    /// So long an upstream may take to answer a head that asks for `100 Continue` before we do (http-rules.md 11.2).
    private static let continueWait = Duration.seconds(1)

    private func sendHead(to connection: UpstreamConnection, _ token: AccessToken) {
        guard let buffer, let route else { return }
        // A head must never go without the bytes of its body that were taken from the client already.
        guard body.total == 0 || replayBody.isWhole else { return refuse(.internalError) }
        let writer = RequestHeadWriter(
            shard: shard, route: route, bytes: buffer.bytes, head: head, table: buffer.table, target: target,
            upgrade: upgrade, peer: route.settings.forwarded == .append ? peer : nil)
        shard.out.clear()
        hasSentToken = writer.write(
            into: &shard.out, token: token, authority: shard.context.authorities[route.index],
            requestID: currentRequestID)
        // Sent before, its body goes with the head in one piece.
        let isRepeated = replayBody.count > 0 || body.isEnded && body.framing == .chunked
        exchange.sentHead(reused: connection.isReused, hasBody: !body.isEnded || isRepeated)
        if isRepeated {
            pushKept(from: 0, ends: body.isEnded, withHead: true)
        } else {
            push(UnsafeRawBufferPointer(start: nil, count: 0), "", withHead: true)
        }
        guard upstream === connection, !body.isEnded else { return }
        isContinueDue = head.expectation == .continue100
        // Behind a head that waits no body waits: until then the request can still be given up. Nor can it be answered by a 100.
        guard unsentHeadBytes == 0 else { return }
        if isContinueDue { setInbound(Self.continueWait) }
        forwardBuffered()
        pump()
    }

    /// Some of the head waits, and it cannot or must not be sent on: its token has ended, or the connection is broken.
    private func giveUpHead(_ upstream: UpstreamConnection) {
        let isUntouched = upstream.outbound.count == unsentHeadBytes
        unsentHeadBytes = 0
        if isUntouched, exchange.canRetryUnsent { return perform(exchange.retryUnsent()) }
        perform(exchange.timedOut(.upstreamWriteTimeout))
    }

    /// How the client itself calls its request, for the log; empty if the route has no use for that, or the head is gone.
    var clientRequestID: String {
        guard phase == .exchange, let route, let buffer, buffer.count >= head.length else { return "" }
        let id = RequestIDField.safe(on: route, head, buffer.table, in: buffer.bytes)
        return id.map { String(decoding: $0, as: UTF8.self) } ?? ""
    }

    /// The request's id, made when first asked for.
    var currentRequestID: String {
        if requestID.isEmpty { requestID = shard.nextRequestID() }
        return requestID
    }

    /// Sends body bytes in the request's own framing.
    func sendBody(_ data: UnsafeRawBufferPointer) {
        shard.out.clear()
        var tail: StaticString = ""
        if body.framing == .chunked {
            if data.count > 0 { shard.out.write(chunkOf: data.count) }
            tail = data.count > 0 ? (body.isEnded ? "\r\n0\r\n\r\n" : "\r\n") : (body.isEnded ? "0\r\n\r\n" : "")
        }
        push(data, tail)
    }

    /// Sends what is kept of the body from `offset` on behind what the out buffer holds already; `ends`: with the body's end.
    func pushKept(from offset: Int, ends: Bool, withHead: Bool = false) {
        guard let buffer else { return }
        let (first, second) = replayBody.bytes(from: offset, in: buffer)
        let count = first.count + second.count
        var tail: StaticString = ""
        if body.framing == .chunked {
            if count > 0 { shard.out.write(chunkOf: count) }
            tail = count > 0 ? (ends ? "\r\n0\r\n\r\n" : "\r\n") : (ends ? "0\r\n\r\n" : "")
        }
        shard.out.write(first)
        push(UnsafeRawBufferPointer(second), tail, withHead: withHead)
    }

    /// Hands the shard's out buffer, `data` and `tail` to the upstream.
    private func push(_ data: UnsafeRawBufferPointer, _ tail: StaticString, withHead: Bool = false) {
        guard let upstream else { return }
        let code = SocketWriter.send(
            upstream.raw, shard.out.bytes, data, tail, queue: &upstream.outbound, canWrite: &upstream.canWrite)
        if code != 0 {
            if withHead, exchange.canRetryUnsent { return perform(exchange.retryUnsent()) }
            return upstreamWriteFailed()
        }
        if withHead {
            unsentHeadBytes = upstream.outbound.isEmpty ? 0 : shard.out.count + data.count + tail.utf8CodeUnitCount
        }
        updateSendTimeout()
    }

    func flushUpstream() {
        guard let upstream else { return }
        // The token may have ended while its head waited: never send an expired one.
        if unsentHeadBytes > 0, let token, shard.loop.now >= token.usableUntil { return giveUpHead(upstream) }
        if SocketWriter.flush(upstream.raw, queue: &upstream.outbound, canWrite: &upstream.canWrite) != 0 {
            if unsentHeadBytes == upstream.outbound.count, exchange.canRetryUnsent { return giveUpHead(upstream) }
            return upstreamWriteFailed()
        }
        let headIsGone = unsentHeadBytes > 0 && upstream.outbound.isEmpty
        if headIsGone { unsentHeadBytes = 0 }
        updateSendTimeout()
        if headIsGone, isContinueDue { setInbound(Self.continueWait) }
        if headIsGone, wantsBody { forwardBuffered() }
        pump()
    }

    /// Moves the deadlines on after bytes went, or did not go, upstream.
    func updateSendTimeout() {
        guard let upstream, let route, phase == .exchange, held == nil else { return }
        let timeouts = timeouts(route)
        if !upstream.outbound.isEmpty {
            kernelBytesForUpstream = Socket.unsentBytes(upstream.raw)
            return setInbound(timeouts.write)
        }
        if !body.isEnded { return setInbound(timeouts.requestIdle) }
        clearInbound()
        if exchange.request == .sending { exchange.requestEnded() }
        if exchange.response == .awaited { setOutbound(timeouts.responseHeader) }
    }

    /// A failing write is not the end: what the upstream has already said is read first (http-rules.md 9.7).
    private func upstreamWriteFailed() {
        guard let upstream else { return }
        upstream.outbound.release()
        upstream.canRead = true
        upstream.isBroken = true
        pumpResponse()
    }
}
