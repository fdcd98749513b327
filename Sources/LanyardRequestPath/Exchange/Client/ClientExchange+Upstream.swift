import LanyardFoundations
import LanyardSettings

/// Sends an admitted request: acquires the token and the connection, then sends head and body.
extension ClientExchange {
    // MARK: Token

    /// Acquires the token of the request's user, or parks the request. A second call follows a token that expired before
    /// it was sent.
    func acquireToken(for active: ActiveExchange) {
        let user = active.user
        switch shard.tokens.decide(user, at: shard.loop.now) {
        case .use(let token): use(token, for: active)
        case .park: park(active)
        case .refuse(let refusal):
            if waits(for: refusal, active) { park(active) } else { refuse(problem(refusal, user)) }
        case .replaced: refuse(.userReplaced(user: shard.context.userName(user)))
        }
    }

    /// With `wait_max` of the route a request waits for an identity service that gives no token for now: some clients take one refusal for
    /// a server that does not have what they ask for.
    private func waits(for refusal: AccessToken.Refusal, _ active: ActiveExchange) -> Bool {
        guard !shard.isDraining, let waitMax = active.route.settings.waitMax, waitMax > .zero else { return false }
        switch refusal {
        case .identityUnreachable: return true
        case .loginRequired, .loginRequiredElsewhere, .credentialRefusedElsewhere, .loggedOut, .credentialRefused,
            .clientRefused, .variantRefused, .tokenUnusable, .userUnknown:
            return false
        }
    }

    private func use(_ token: AccessToken, for active: ActiveExchange) {
        guard upstream.assign(token) else {
            return refuse(.sessionReplaced(user: shard.context.userName(active.user)))
        }
        acquireUpstream(for: active, token)
    }

    private func park(_ active: ActiveExchange) {
        if shard.isDraining { return refuse(.shuttingDown) }
        guard waitForToken(for: active) else {
            return refuse(
                .overloaded(
                    "Too many requests wait for a token or a connection: limits.parked_requests_max is reached."))
        }
    }

    /// Parks the request until the token cache receives a publication for the user. False if too many are parked.
    func waitForToken(for active: ActiveExchange) -> Bool {
        let parked = shard.context.parked
        guard shard.tokens.mayPark(active.user, among: parked), let permit = parked.acquire() else { return false }
        upstream.park(permit)
        var waitMax = active.route.settings.waitMax ?? served.configuration.tokenWaitMax
        if let end = input.callDeadline { waitMax = min(waitMax, max(end - shard.loop.now, .zero)) }
        begin(replay.held == nil ? TokenWait.first : .other, for: waitMax)
        shard.tokens.park(self, for: active.user)
        return true
    }

    /// Ends the parking of the request. The token cache removes its waiters itself when it receives a publication.
    func unpark() {
        if upstream.unpark() { waits.endToken(on: shard.loop) }
    }

    /// The request does not wait for a token any more.
    func stopWaitingForToken() {
        guard upstream.isParked else { return }
        let user: UserIndex? =
            switch state {
            case .forwarding(let active): active.user
            case .granting(let exchange): exchange.grant?.user
            case .none, .admission, .refusing, .tunnel: nil
            }
        guard let user else { return }
        shard.tokens.unpark(self, for: user)
        unpark()
    }

    package func handleTokenCacheChange() {
        shard.loop.assertIsCurrent()
        if upstream.isParked, case .granting(let exchange) = state { return handleTokenChange(of: exchange) }
        guard upstream.isParked, case .forwarding(let active) = state else { return }
        if replay.held != nil { return handleHeldTokenChange(for: active) }
        let user = active.user
        switch shard.tokens.decide(user, at: shard.loop.now) {
        case .park: shard.tokens.park(self, for: user)
        case .use(let token):
            unpark()
            use(token, for: active)
        case .refuse(let refusal):
            if waits(for: refusal, active) { return shard.tokens.park(self, for: user) }
            unpark()
            refuse(problem(refusal, user))
        case .replaced:
            unpark()
            refuse(.userReplaced(user: shard.context.userName(user)))
        }
    }

    /// `refresh.wait_max`, or the route's, has passed: the present token is used while it is unexpired (refresh.md 4).
    func handleTokenWaitTimeout(of active: ActiveExchange) {
        let user = active.user
        stopWaitingForToken()
        if let end = input.callDeadline, shard.loop.now >= end { return refuse(.callTimeout) }
        if let token = shard.tokens.unexpiredToken(user, at: shard.loop.now) { return use(token, for: active) }
        if case .refuse(let refusal) = shard.tokens.decide(user, at: shard.loop.now) {
            return refuse(problem(refusal, user))
        }
        refuse(.identityUnreachable(user: shard.context.userName(user), retryAfter: 1))
    }

    /// A drain has begun: a request that waits by its route's `wait_max` is told now what it waits for, and one whose token is on its way
    /// waits no longer than others.
    func shortenTokenWait() {
        guard case .forwarding(let active) = state, upstream.isParked, replay.held == nil,
            let waitMax = active.route.settings.waitMax
        else { return }
        if case .refuse = shard.tokens.decide(active.user, at: shard.loop.now) {
            return handleTokenWaitTimeout(of: active)
        }
        begin(TokenWait.first, for: min(waitMax, served.configuration.tokenWaitMax))
    }

    func problem(_ refusal: AccessToken.Refusal, _ user: UserIndex) -> Problem {
        .noToken(
            refusal, user: shard.context.userName(user), loginRequiredStatus: served.configuration.loginRequiredStatus,
            at: shard.loop.now)
    }

    // MARK: Connection

    func acquireUpstream(for active: ActiveExchange, _ token: AccessToken) {
        if sink.hasBoundUpstreams, !machine.needsFreshConnection,
            let lease = sink.takeBound(from: active.pool, on: active.route, for: active.user, token.account)
        {
            return attach(lease, to: active, token)
        }
        // On a stream the upstream says what it has not processed: any connection of HTTP/2 is as good as a fresh one.
        let need: UpstreamPool.Need
        if input.isUpgrade {
            need = .http1
            input.renewWebSocketKey()
        } else {
            need = machine.needsFreshConnection || input.isGRPC ? .http2 : .any
        }
        if !machine.needsFreshConnection || need == .http2,
            let lease = active.pool.takeFree(
                for: active.connectionUser, active.connectionAccount(token), needing: need)
        {
            return attach(lease, to: active, token)
        }
        connectUpstream(for: active, token)
    }

    /// - Parameter old: of a connection to close; the new one gets its slot.
    func connectUpstream(
        for active: ActiveExchange, _ token: AccessToken, inPlaceOf old: consuming UpstreamLease? = nil
    ) {
        let acquisition = active.pool.connect(
            for: active.connectionUser, active.connectionAccount(token), inPlaceOf: old,
            needing: input.isUpgrade ? .http1 : input.isGRPC ? .http2 : .any
        ) { [unowned self] result in
            _ = upstream.endAcquisition()
            endCallWait()
            switch consume result {
            case .success(let lease): attach(lease, to: active, upstream.token)
            case .failure(let error): refuse(.upstream(error))
            }
        }
        // If the call has completed already, it may have led to the next request, which has an acquisition of its own.
        guard let acquisition else { return }
        upstream.beginAcquisition(acquisition)
        if let end = input.callDeadline { begin(TokenWait.connection, for: max(end - shard.loop.now, .zero)) }
    }

    /// The request does not wait for a connection any more.
    func endCallWait() { if waits.token == .connection { waits.endToken(on: shard.loop) } }

    /// `grpc-timeout` of a call has passed while it waits for a connection.
    func handleCallTimeout() { refuse(.callTimeout) }

    /// - Parameter token: the request's.
    func attach(_ lease: consuming UpstreamLease, to active: ActiveExchange, _ token: AccessToken?) {
        guard let token, shard.loop.now < token.usableUntil else {
            // The token expired while the connection was established. An expired token is never sent.
            giveBack(lease)
            return acquireToken(for: active)
        }
        if !lease.isStream, input.isGRPC {
            giveBack(lease)
            return refuse(.grpcNeedsHTTP2)
        }
        // A file may have become unusable while the request has waited.
        if active.lacksFieldValue {
            giveBack(lease)
            return refuse(active.shardRoute.missingFieldValue())
        }
        if lease.isStream { input.awaitStreamEnd() }
        lease.begin(by: self)
        let connection = lease.connection
        upstream.attach(lease)
        relay.expectHead()
        sendHead(to: connection, token, of: active)
    }

    // MARK: Sending

    private func sendHead(to connection: UpstreamConnection, _ token: AccessToken, of active: ActiveExchange) {
        guard let (bytes, lines) = input.headBytes else { return }
        let route = active.route
        let stream = upstream.stream
        if stream == nil, route.passesAuthorization, ConnectionAuthentication.isUsed(by: lines, in: bytes) {
            connection.bind(to: active.user, token.account, on: route)
        }
        // A head must never be sent without the body bytes that were already taken from the client.
        guard input.body.total == 0 || replay.holdsBody else { return refuse(.internalError) }
        guard takeBodyBehindHead(of: active) else { return }
        let peer = route.appendsPeer ? input.forwardedPeer(sink) : nil
        let writer = RequestHeadWriter(
            bytes: bytes, head: input.head, lines: lines, target: input.target,
            isClientTLS: rules.tlsIndex != nil)
        let id = input.requestID(from: shard)
        let hasToken = active.withRoute(shard.heads) { served, heads in
            if stream != nil {
                heads.fields.clear()
                heads.fields.isSecure = served.isTLS
                heads.fields.isNeverIndexed = input.head.traits.contains(.neverIndexed)
                return writer.write(
                    into: &heads.fields, on: served.route, in: heads, token: token, authority: served.authority,
                    requestID: id, upgrade: nil, peer: peer, values: served.fieldValues)
            }
            heads.out.clear()
            if let proxy = served.forwardingProxy { heads.proxyAuthorization = proxy.authorization }
            return writer.write(
                into: &heads.out, on: served.route, in: heads, token: token, authority: served.authority,
                requestID: id, upgrade: input.isUpgrade ? input.upgrade : nil, peer: peer, values: served.fieldValues)
        }
        upstream.recordHead(hasToken: hasToken)
        // The body has arrived with the head, or was sent before: it goes with the head in one write.
        let hasEnded = input.body.isEnded
        let isRepeated = replay.bodyBytes > 0 || hasEnded && input.body.framing.isOpenEnded
        if let stream, !fitsUpstream(stream, token) { return }
        machine.handleSentHead(
            reused: stream?.isReused ?? connection.isReused, hasBody: !hasEnded || isRepeated)
        let sent =
            if let stream {
                beginStream(stream, token, isRepeated: isRepeated, of: active)
            } else if isRepeated {
                pushKept(from: 0, ends: hasEnded, to: connection, of: active, withHead: true)
            } else {
                push(UnsafeRawBufferPointer(start: nil, count: 0), "", to: connection, of: active, withHead: true)
            }
        switch sent {
        case .untouched: return perform(machine.retryUnsent())
        case .failed: return pumpResponse()
        case .sent: break
        }
        guard !input.body.isEnded else { return }
        upstream.expectContinue(input.head.expectation == .continue100 && input.body.total == 0)
        // While the head is queued no body byte is queued behind it. Until then the request can still be given up, and
        // no 100 can be due.
        guard !upstream.isHeadQueued else { return }
        if upstream.isContinueDue { begin(.continue100, of: active) }
        forwardBuffered(of: active)
        // It may have ended, and its connection with it.
        if state.isForwarding { sink.read() }
    }

    /// Part of the head is queued and must not be sent: its token has expired, or the connection is broken.
    private func giveUpHead() {
        let isUntouched = upstream.isHeadUntouched
        upstream.giveUpHead()
        if isUntouched, machine.canRetryUnsent { return perform(machine.retryUnsent()) }
        perform(machine.handleTimeout(.upstreamWriteTimeout, isUntouched: isUntouched))
    }

    /// Sends body bytes in the request's framing.
    func sendBody(_ data: UnsafeRawBufferPointer, of active: ActiveExchange) {
        if let stream = upstream.stream {
            let none = UnsafeRawBufferPointer(start: nil, count: 0)
            if push(data, none, ends: input.body.isEnded, to: stream, of: active) != .sent { pumpResponse() }
            return
        }
        shard.heads.out.clear()
        var tail: StaticString = ""
        if input.body.framing.isOpenEnded {
            tail = shard.heads.out.writeChunkStart(
                of: data.count, ends: input.body.isEnded, hasTrailers: input.hasTrailers)
        }
        guard let connection = upstream.connection else { return }
        // A failed write does not end the exchange: the bytes that the upstream has already sent are read first
        // (http-connections.md 9.7).
        var sent = push(data, tail, to: connection, of: active)
        if sent == .sent, input.body.isEnded { sent = pushTrailers(to: connection, of: active) }
        if sent != .sent { pumpResponse() }
    }

    /// Sends the trailers of a body, if it has some and its framing takes them.
    private func pushTrailers(to connection: UpstreamConnection, of active: ActiveExchange) -> UpstreamSend {
        guard input.hasTrailers, input.body.framing.isOpenEnded else { return .sent }
        shard.heads.out.clear()
        input.writeTrailers(into: &shard.heads.out, on: active.route, shard.headLimits)
        shard.heads.out.endHead()
        return push(UnsafeRawBufferPointer(start: nil, count: 0), "", to: connection, of: active)
    }

    /// A larger run of body bytes is not copied behind the head: a second run costs the kernel less.
    private static let copiedBytesMax = 4 << 10

    /// Sends the kept body bytes from `offset` on, behind the contents of the out buffer.
    ///
    /// - Parameter ends: the body ends with these bytes.
    func pushKept(
        from offset: Int, ends: Bool, to connection: UpstreamConnection, of active: ActiveExchange,
        withHead: Bool = false
    ) -> UpstreamSend {
        guard let (bytes, _) = input.headBytes else { return .failed }
        let (first, second) = replay.bytes(from: offset, in: bytes)
        if let stream = upstream.stream {
            return push(
                UnsafeRawBufferPointer(first), UnsafeRawBufferPointer(second), ends: ends, to: stream, of: active)
        }
        let count = first.count + second.count
        var tail: StaticString = ""
        if input.body.framing.isOpenEnded {
            tail = shard.heads.out.writeChunkStart(of: count, ends: ends, hasTrailers: input.hasTrailers)
        }
        let hasTrailers = ends && input.hasTrailers
        if second.isEmpty, first.count > Self.copiedBytesMax {
            let sent = push(UnsafeRawBufferPointer(first), tail, to: connection, of: active, withHead: withHead)
            return sent == .sent && hasTrailers ? pushTrailers(to: connection, of: active) : sent
        }
        shard.heads.out.write(first)
        let sent = push(UnsafeRawBufferPointer(second), tail, to: connection, of: active, withHead: withHead)
        return sent == .sent && hasTrailers ? pushTrailers(to: connection, of: active) : sent
    }

    /// Sends the shard's out buffer, `data` and `tail` to the upstream, or queues them.
    private func push(
        _ data: UnsafeRawBufferPointer, _ tail: StaticString, to connection: UpstreamConnection,
        of active: ActiveExchange, withHead: Bool = false
    ) -> UpstreamSend {
        let start = connection.stream.taken
        guard connection.stream.send(shard.heads.out.bytes, data, tail) == 0 else {
            return withHead && connection.stream.taken == start && machine.canRetryUnsent ? .untouched : .failed
        }
        if withHead { upstream.recordSentHead(from: start, isQueued: !connection.stream.isFlushed) }
        updateSendTimeout(of: active)
        return .sent
    }

    func flushUpstream() {
        guard let connection = upstream.connection, case .forwarding(let active) = state else { return }
        // The token may have expired while the head was queued. An expired token is never sent.
        if upstream.isHeadQueued, let token = upstream.token, shard.loop.now >= token.usableUntil {
            // A final response decides what follows, whether it is held or relayed. The rest of the head stays queued.
            guard machine.response == .awaited else { return }
            return giveUpHead()
        }
        if connection.stream.flush() != 0 {
            if upstream.isHeadUntouched, machine.canRetryUnsent { return giveUpHead() }
            return pumpResponse()
        }
        let headIsGone = upstream.recordFlush()
        updateSendTimeout(of: active)
        if headIsGone, upstream.isContinueDue { begin(.continue100, of: active) }
        if headIsGone, wantsBody { forwardBuffered(of: active) }
        if state.isForwarding { sink.read() }
    }

    /// Sets the deadlines anew after bytes were sent upstream or queued.
    func updateSendTimeout(of active: ActiveExchange) {
        guard replay.held == nil else { return }
        // On a stream others may fill the socket.
        if upstream.hasQueue || !input.body.isEnded && !upstream.isFlushed && upstream.isStream {
            upstream.restartProgress()
            return begin(.upstreamWrite, of: active)
        }
        if !input.body.isEnded { return begin(.body, of: active) }
        endInboundWait()
        if machine.request == .sending { machine.handleRequestEnd() }
        guard machine.response == .awaited else { return }
        upstream.recordEnd(at: shard.loop.now)
        begin(.responseHead, for: active.timeouts.responseHeader)
    }
}
