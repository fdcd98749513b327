/// From an admitted request to its last byte upstream: token, connection, head, body.
extension ClientConnection {
    // MARK: Token

    /// Finds the token of the route's user, or parks.
    func seekToken() {
        guard let route, let user = route.user ?? shard.tokens.active else { return refuse(.noActiveUser) }
        self.user = user
        switch shard.tokens.decide(user, at: shard.loop.now) {
        case .use(let token): use(token)
        case .park: park(user)
        case .refuse(let refusal): refuse(problem(refusal, user))
        }
    }

    private func use(_ token: AccessToken) {
        self.token = token
        seekUpstream()
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

    package func tokenBoardChanged() {
        guard isParked, let user else { return }
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

    /// `refresh.wait_max` is over: the token at hand serves while it is unexpired (refresh-policy rule 4).
    func tokenOverdue() {
        guard let user else { return }
        shard.tokens.unpark(self, for: user)
        unpark()
        if let token = shard.tokens.lastResort(user, at: shard.loop.now) { return use(token) }
        refuse(.identityUnreachable(user: shard.context.userName(user), retryAfter: 1))
    }

    private func problem(_ refusal: AccessToken.Refusal, _ user: UserIndex) -> Problem {
        let name = shard.context.userName(user)
        switch refusal {
        case .loginRequired: return .loginRequired(user: name, status: shard.context.loginRequiredStatus)
        case .credentialRefused: return .credentialRefused(user: name)
        case .identityUnreachable(let nextAttempt):
            let wait = nextAttempt == .never ? 60 : (nextAttempt - shard.loop.now).inSeconds.rounded(.up)
            return .identityUnreachable(user: name, retryAfter: Int(wait))
        }
    }

    // MARK: Connection

    private var pool: UpstreamPool? { route.map { shard.pools[$0.index] } }

    private func seekUpstream() {
        guard let pool, let user else { return }
        if let connection = pool.takeIdle(for: user) { attach(connection) } else { seekFreshUpstream() }
    }

    func seekFreshUpstream() {
        guard let pool, let user else { return }
        let request = pool.connect(for: user) { [unowned self] result in
            acquisition = nil
            switch result {
            case .success(let connection): attach(connection)
            case .failure(let failure): refuse(.upstream(failure))
            }
        }
        // Answered already, it may have led to the next request and to an acquisition of that one.
        if let request { acquisition = request }
    }

    private func attach(_ connection: UpstreamConnection) {
        guard let token, shard.loop.now < token.usableUntil else {
            // It ended while the connection was being made: never send an expired one.
            pool?.giveBack(connection)
            return seekToken()
        }
        upstream = connection
        connection.owner = self
        responseReader = ResponseReader()
        responseBody = nil
        sendHead(to: connection, token)
    }

    // MARK: Sending

    private func sendHead(to connection: UpstreamConnection, _ token: AccessToken) {
        guard let buffer, let route else { return }
        let writer = RequestHeadWriter(
            shard: shard, route: route, bytes: buffer.bytes, head: head, table: buffer.table, target: target)
        shard.out.clear()
        let id = route.settings.requestIDHeader == nil ? "" : currentRequestID
        writer.write(into: &shard.out, token: token, authority: shard.context.authorities[route.index], requestID: id)
        exchange.sentHead(reused: connection.isReused, hasBody: !body.isEnded)
        push(UnsafeRawBufferPointer(start: nil, count: 0), "")
        guard upstream === connection, !body.isEnded else { return }
        owesContinue = head.expectation == .continue100
        setInbound(owesContinue ? .seconds(1) : timeouts(route).requestIdle)
        forwardBuffered()
        pump()
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

    /// Hands the shard's out buffer, `data` and `tail` to the upstream.
    private func push(_ data: UnsafeRawBufferPointer, _ tail: StaticString) {
        guard let upstream else { return }
        let code = Outlet.send(
            upstream.raw, shard.out.bytes, data, tail, queue: &upstream.outbound, canWrite: &upstream.canWrite)
        if code != 0 { return upstreamBroken() }
        noteSent()
    }

    func flushUpstream() {
        guard let upstream else { return }
        if Outlet.flush(upstream.raw, queue: &upstream.outbound, canWrite: &upstream.canWrite) != 0 {
            return upstreamBroken()
        }
        noteSent()
        pump()
    }

    /// Moves the deadlines on after bytes went, or did not go, upstream.
    private func noteSent() {
        guard let upstream, let route, phase == .exchange else { return }
        let timeouts = timeouts(route)
        if !upstream.outbound.isEmpty { return setInbound(timeouts.write) }
        if !body.isEnded { return setInbound(timeouts.requestIdle) }
        clearInbound()
        if exchange.request == .sending { exchange.requestEnded() }
        if exchange.response == .awaited { setOutbound(timeouts.responseHeader) }
    }

    /// A failing write is not the end: what the upstream has already said is read first (http-requirements 9.7).
    private func upstreamBroken() {
        guard let upstream else { return }
        upstream.outbound.release()
        upstream.canRead = true
        upstream.isBroken = true
        pumpResponse()
    }
}
