import LanyardFoundations
import LanyardSettings

/// Admits a request and forwards its body.
extension ClientExchange {
    /// A request's head was read. The steps that follow, with their files:
    ///
    /// 1. The request is admitted, refused or responded to: `RequestAdmission`, here; its refusal: `+Refusal`, `+Ending`.
    /// 2. It gets a token, or is parked for one: `+Upstream`, `TokenCache`.
    /// 3. It gets a connection, or waits for one: `+Upstream`, `UpstreamPool`, `UpstreamPool+Idle`; one of this client alone:
    ///    `ClientSink.takeBound`, `BoundUpstreams`.
    /// 4. Its head is sent, with the body bytes that have come: here (`takeBodyBehindHead`), `+Upstream`, `RequestHeadWriter`.
    /// 5. The rest of its body is read and sent: `ClientConnection+HTTP1`, here, `+Upstream`.
    /// 6. The response's head is read: `+Response`, `ResponseRelay`. One that refuses the token is held: `+Replay`, `RefusedResponse`;
    ///    then the request begins again at 3 with another one, or at 4 on the same connection. A 101 becomes a tunnel: `+Upgrade`. After an
    ///    upstream that ends without a byte `Exchange` decides; a second attempt begins at 3: `+Ending`.
    /// 7. Head, body and trailers are relayed: `+Response`, `ResponseHeadWriter`, `ResponseRelay`, `TrailerFilter`.
    /// 8. It is counted (a tunnel when it begins, `+Upgrade`), and its connection given back, or closed by its `UpstreamLease`: `Exchange`
    ///    decides, `+Ending`.
    /// 9. The client's connection waits for the next request, or ends: `ClientConnection+HTTP1`, `ClientConnection+Ending`.
    ///
    /// - Parameter isLast: the client's connection ends behind the response.
    func begin(isLast: Bool) {
        state = .admission(nil)
        adoptServedConfiguration()
        machine = Exchange(input.head)
        relay.beginExchange()
        waits.writeTimeout = ExchangeWaits.standardWriteTimeout
        if isLast || shard.isDraining { machine.closeClient() }
        if shard.context.buffers.isUnder(.requestsRefused) { return refuse(.buffersFull) }
        guard let (bytes, lines) = input.headBytes else { return refuse(.internalError) }
        let admission = RequestAdmission(input.head, in: bytes, lines)
        let decision = servedBy.withRules { rules, routes in
            // Most listeners ask for none.
            admission.decide(
                rules, routes, viaName: shard.heads.viaName,
                capabilities: rules.callers.checksRequests ? sink.capabilities : [], isNamedClient: sink.isNamedClient)
        }
        switch decision {
        case .forward(let route, let target): forward(to: target, on: .passUnretained(served.routes[route.index]))
        case .respondToOptions: respondToOptions()
        case .handOut(let target): beginGrant(target)
        case .refuse(let problem, let route):
            if let route { count(for: .passUnretained(served.routes[route.index])) }
            refuse(problem)
        }
    }

    /// A request that is refused counts for its route.
    private func count(for route: Unmanaged<ShardRoute>) {
        state = .admission(route)
        waits.writeTimeout = route._withUnsafeGuaranteedRef { $0.timeouts.write }
    }

    private func forward(to target: RequestTarget, on shardRoute: Unmanaged<ShardRoute>) {
        guard shardRoute._withUnsafeGuaranteedRef({ admit(target, on: $0.route) }) else {
            count(for: shardRoute)
            return refuse(.connectNotBridged)
        }
        shardRoute._withUnsafeGuaranteedRef { prepareBody(on: $0.route) }
        guard let user = shardRoute._withUnsafeGuaranteedRef({ $0.route.user }) ?? served.active else {
            count(for: shardRoute)
            return refuse(.noActiveUser)
        }
        waits.writeTimeout = shardRoute._withUnsafeGuaranteedRef { $0.timeouts.write }
        let active = ActiveExchange(shardRoute, user: user)
        state = .forwarding(active)
        if active.lacksFieldValue { return refuse(active.shardRoute.missingFieldValue()) }
        acquireToken(for: active)
    }

    private func prepareBody(on route: Route) {
        replay.begin(input.head.framing, bytesMax: route.settings.replayBodyMax)
        if input.head.kind == .post, route.settings.errors != .problem, mayUseJSONRPC(on: route) {
            input.beginMessage()
        }
    }

    /// - Returns: false: an extended CONNECT asks for what no upgrade of the route is.
    private func admit(_ target: RequestTarget, on route: Route) -> Bool {
        guard input.head.traits.contains(.upgrade) else {
            input.admit(target, .none)
            return true
        }
        let upgrade = upgradeRequest(on: route)
        input.admit(target, upgrade)
        // Without the upgrade it is no request at all.
        if input.head.traits.contains(.bridged) { return rules.bridgesWebSocket && upgrade.isWebSocket }
        if case .dropped(let obstacle) = upgrade {
            shard.log.record(obstacle) {
                input.refusedRequest(input.requestID(from: shard), isHeadRead: true, on: route)
            }
        }
        return true
    }

    /// What the client is read for.
    enum WantedInput {
        case none, body, refusedBody
        /// A stream's bytes of a tunnel. Those of a connection the tunnel reads itself.
        case tunnel
    }

    var wantedInput: WantedInput {
        switch state {
        case .forwarding: wantsBody ? .body : .none
        case .refusing: .refusedBody
        case .granting(let exchange): exchange.grant == nil && !input.body.isEnded ? .refusedBody : .none
        case .tunnel(_, let tunnel): tunnel.wantsStream ? .tunnel : .none
        case .none, .admission: .none
        }
    }

    /// A request body is expected and the upstream can take it.
    var wantsBody: Bool {
        guard !input.body.isEnded else { return false }
        if let held = replay.held { return held.decision.body == .awaited }
        return upstream.isFlushed && machine.request == .sending
    }

    /// Bytes of the body have come.
    func forwardBody(_ arrived: UnsafeMutableRawBufferPointer) {
        if case .forwarding(let active) = state { forwardBody(arrived, of: active) }
    }

    /// The same, for those that have come behind the head.
    func forwardBuffered() {
        if case .forwarding(let active) = state { forwardBuffered(of: active) }
    }

    /// The client has ended its direction within the body.
    func handleCutBody() { perform(machine.handleRequestCut(.malformed("its body ends early"))) }

    /// Forwards the bytes that arrived behind the head.
    func forwardBuffered(of active: ActiveExchange) {
        guard let buffer = input.buffer, buffer.used < buffer.count else { return }
        forwardBody(buffer.rest, of: active, at: buffer.used)
    }

    /// Takes the body bytes that have arrived with the head, so that the upstream gets both in one write and wakes once.
    ///
    /// Only bytes that the replay's copy keeps: a head that the upstream does not take is sent again, with them.
    ///
    /// - Returns: false: the body is refused, and the exchange has ended.
    func takeBodyBehindHead(of active: ActiveExchange) -> Bool {
        guard let (arrived, place) = input.bodyBehindHead, replay.keepsWhole(arrived.count) else { return true }
        do throws(HeadError) {
            let (used, data) = try input.consumeBody(arrived)
            replay.keepFirst(place..<(place + data.count))
            input.recordUsed(used, of: arrived, isBuffered: true, in: shard)
        } catch {
            perform(machine.handleRequestFailure(.malformed(error)))
            return false
        }
        return checkBodySize(of: active)
    }

    /// - Returns: false: the body is too large, and the exchange has ended.
    private func checkBodySize(of active: ActiveExchange) -> Bool {
        guard let bodyBytesMax = active.route.settings.bodyBytesMax, input.body.total > bodyBytesMax else {
            return true
        }
        perform(machine.handleRequestFailure(.contentTooLarge))
        return false
    }

    /// Forwards body bytes. Bytes of the next request are kept.
    ///
    /// - Parameter place: the offset of `arrived` in the buffer; nil if it is elsewhere.
    private func forwardBody(
        _ arrived: UnsafeMutableRawBufferPointer, of active: ActiveExchange, at place: Int? = nil
    ) {
        upstream.expectContinue(false)
        do throws(HeadError) {
            let (used, data) = try input.consumeBody(arrived)
            if replay.held != nil, !replay.makeRoom(for: data.count) {
                // First: behind a response in its place, the next request is read.
                input.recordUsed(used, of: arrived, isBuffered: place != nil, in: shard)
                guard relayHeld(.bodyTooLarge, of: active) else { return }
            } else {
                replay.keep(data, at: place, in: input.buffer)
                input.recordUsed(used, of: arrived, isBuffered: place != nil, in: shard)
            }
            guard checkBodySize(of: active) else { return }
            if replay.held == nil {
                sendBody(data, of: active)
            } else if input.body.isEnded {
                handleHeldBody(for: active)
            }
        } catch {
            perform(machine.handleRequestFailure(.malformed(error)))
        }
    }

    /// The client sent nothing for too long, or the upstream took nothing.
    ///
    /// After the response has begun neither ends the machine. The upload may continue while the response lasts
    /// (http-connections.md 9.6). A response that makes progress is not cut (http-connections.md 8.2); it has its own deadline.
    func handleUploadTimeout(_ wait: UploadWait, of active: ActiveExchange) {
        guard machine.response == .awaited else { return }
        // Neither side is read: the pause does not count against them.
        if isPaused { return begin(wait, of: active) }
        switch wait {
        case .continue100:
            upstream.expectContinue(false)
            guard sendContinue() == .sent else { return abandon() }
            begin(.body, of: active)
        case .upstreamWrite:
            guard upstream.hasProgress() else {
                let isUntouched = upstream.isHeadUntouched
                return perform(machine.handleTimeout(.upstreamWriteTimeout, isUntouched: isUntouched))
            }
            begin(.upstreamWrite, of: active)
        case .body: perform(machine.handleRequestFailure(.requestTimeout))
        }
    }

    /// How long the upstream may take to respond to `Expect: 100-continue` before Lanyard sends the 100
    /// (http-forwarding.md 11.2).
    private static let continueTimeout = Duration.seconds(1)

    /// Begins a wait of the upload, for its time-out.
    func begin(_ wait: UploadWait, of active: ActiveExchange) {
        let duration =
            switch wait {
            case .body: active.timeouts.requestIdle
            case .upstreamWrite: active.timeouts.write
            case .continue100: Self.continueTimeout
            }
        begin(InboundWait.upload(wait), for: duration)
    }
}
