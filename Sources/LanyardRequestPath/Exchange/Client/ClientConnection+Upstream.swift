import LanyardFoundations
import LanyardSettings

/// Sends an admitted request: acquires the token and the connection, then sends head and body.
extension ClientConnection {
    // MARK: Token

    /// Acquires the token of the route's user, or parks the request. A second call, after a token that expired before
    /// it was sent, keeps the user.
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
        // The request has had a token before and may have been sent with it. The user may be another account by now
        // (threats.md T18).
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

    /// Ends the parking of the request. The token cache removes its waiters itself when it receives a publication.
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

    /// `refresh.wait_max` has passed: the present token is used while it is unexpired (refresh.md 4).
    func tokenWaitTimedOut() {
        guard let user else { return }
        shard.tokens.unpark(self, for: user)
        unpark()
        if let token = shard.tokens.unexpiredToken(user, at: shard.loop.now) { return use(token) }
        refuse(.identityUnreachable(user: shard.context.userName(user), retryAfter: 1))
    }

    private func problem(_ refusal: AccessToken.Refusal, _ user: UserIndex) -> Problem {
        .noToken(
            refusal, user: shard.context.userName(user), loginRequiredStatus: shard.context.loginRequiredStatus,
            at: shard.loop.now)
    }

    // MARK: Connection

    private var pool: UpstreamPool? { route.map { shard.pools[$0.index] } }

    func acquireUpstream() {
        guard let pool, let user else { return }
        if !exchange.needsFreshConnection, let connection = pool.takeIdle(for: user, token?.account ?? .unknown) {
            return attach(connection)
        }
        connectUpstream()
    }

    /// - Parameter old: a connection to close; the new one gets its slot.
    func connectUpstream(inPlaceOf old: UpstreamConnection? = nil) {
        guard let pool, let user else { return }
        let request = pool.connect(for: user, token?.account ?? .unknown, inPlaceOf: old) { [unowned self] result in
            acquisition = nil
            switch result {
            case .success(let connection): attach(connection)
            case .failure(let failure): refuse(.upstream(failure))
            }
        }
        // If the call has completed already, it may have led to the next request, which has an acquisition of its own.
        if let request { acquisition = request }
    }

    func attach(_ connection: UpstreamConnection) {
        guard let token, shard.loop.now < token.usableUntil else {
            // The token expired while the connection was established. An expired token is never sent.
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

    /// How long the upstream may take to respond to `Expect: 100-continue` before Lanyard sends the 100
    /// (http-rules.md 11.2).
    private static let continueWait = Duration.seconds(1)

    private func sendHead(to connection: UpstreamConnection, _ token: AccessToken) {
        guard let buffer, let route else { return }
        // A head must never be sent without the body bytes that were already taken from the client.
        guard body.total == 0 || replayBody.isWhole else { return refuse(.internalError) }
        let writer = RequestHeadWriter(
            shard: shard, route: route, bytes: buffer.bytes, head: head, table: buffer.table, target: target,
            upgrade: upgrade, peer: route.settings.forwarded == .append ? peer : nil)
        shard.out.clear()
        hasSentToken = writer.write(
            into: &shard.out, token: token, authority: shard.context.authorities[route.index],
            requestID: currentRequestID)
        // The body was sent before: it goes with the head in one write.
        let isRepeated = replayBody.count > 0 || body.isEnded && body.framing == .chunked
        exchange.sentHead(reused: connection.isReused, hasBody: !body.isEnded || isRepeated)
        if isRepeated {
            pushKept(from: 0, ends: body.isEnded, withHead: true)
        } else {
            push(UnsafeRawBufferPointer(start: nil, count: 0), "", withHead: true)
        }
        guard upstream === connection, !body.isEnded else { return }
        isContinueDue = head.expectation == .continue100
        // While the head is queued no body byte is queued behind it. Until then the request can still be given up, and
        // no 100 can be due.
        guard queuedHeadStart == nil else { return }
        if isContinueDue { setInbound(Self.continueWait) }
        forwardBuffered()
        pump()
    }

    /// Part of the head is queued and must not be sent: its token has expired, or the connection is broken.
    private func giveUpHead(_ upstream: UpstreamConnection) {
        let isUntouched = upstream.stream.taken == queuedHeadStart
        queuedHeadStart = nil
        if isUntouched, exchange.canRetryUnsent { return perform(exchange.retryUnsent()) }
        perform(exchange.timedOut(.upstreamWriteTimeout))
    }

    /// The client's own request id, for the log. Empty if the route has no such field or the head was released.
    var clientRequestID: String {
        guard phase == .exchange, let route, let buffer, buffer.count >= head.length else { return "" }
        let id = RequestIDField.safe(on: route, head, buffer.table, in: buffer.bytes)
        return id.map { String(decoding: $0, as: UTF8.self) } ?? ""
    }

    /// The request's id, created on first use.
    var currentRequestID: String {
        if requestID.isEmpty { requestID = shard.nextRequestID() }
        return requestID
    }

    /// Sends body bytes in the request's framing.
    func sendBody(_ data: UnsafeRawBufferPointer) {
        shard.out.clear()
        var tail: StaticString = ""
        if body.framing == .chunked { tail = shard.out.writeChunkStart(of: data.count, ends: body.isEnded) }
        push(data, tail)
    }

    /// Sends the kept body bytes from `offset` on, behind the contents of the out buffer.
    ///
    /// - Parameter ends: the body ends with these bytes.
    func pushKept(from offset: Int, ends: Bool, withHead: Bool = false) {
        guard let buffer else { return }
        let (first, second) = replayBody.bytes(from: offset, in: buffer)
        let count = first.count + second.count
        var tail: StaticString = ""
        if body.framing == .chunked { tail = shard.out.writeChunkStart(of: count, ends: ends) }
        shard.out.write(first)
        push(UnsafeRawBufferPointer(second), tail, withHead: withHead)
    }

    /// Sends the shard's out buffer, `data` and `tail` to the upstream, or queues them.
    private func push(_ data: UnsafeRawBufferPointer, _ tail: StaticString, withHead: Bool = false) {
        guard let upstream else { return }
        let start = upstream.stream.taken
        if upstream.stream.send(shard.out.bytes, data, tail) != 0 {
            if withHead, upstream.stream.taken == start, exchange.canRetryUnsent {
                return perform(exchange.retryUnsent())
            }
            // A failed write does not end the exchange: the bytes that the upstream has already sent are read first
            // (http-rules.md 9.7).
            return pumpResponse()
        }
        if withHead { queuedHeadStart = upstream.stream.isFlushed ? nil : start }
        updateSendTimeout()
    }

    func flushUpstream() {
        guard let upstream else { return }
        // The token may have expired while the head was queued. An expired token is never sent.
        if queuedHeadStart != nil, let token, shard.loop.now >= token.usableUntil { return giveUpHead(upstream) }
        if upstream.stream.flush() != 0 {
            if queuedHeadStart == upstream.stream.taken, exchange.canRetryUnsent { return giveUpHead(upstream) }
            return pumpResponse()
        }
        let headIsGone = queuedHeadStart != nil && upstream.stream.isFlushed
        if headIsGone { queuedHeadStart = nil }
        updateSendTimeout()
        if headIsGone, isContinueDue { setInbound(Self.continueWait) }
        if headIsGone, wantsBody { forwardBuffered() }
        pump()
    }

    /// Sets the deadlines anew after bytes were sent upstream or queued.
    func updateSendTimeout() {
        guard let upstream, let route, phase == .exchange, held == nil else { return }
        let timeouts = timeouts(route)
        if !upstream.stream.isFlushed {
            upstream.stream.restartProgress()
            return setInbound(timeouts.write)
        }
        if !body.isEnded { return setInbound(timeouts.requestIdle) }
        clearInbound()
        if exchange.request == .sending { exchange.requestEnded() }
        if exchange.response == .awaited { setOutbound(timeouts.responseHeader) }
    }
}
