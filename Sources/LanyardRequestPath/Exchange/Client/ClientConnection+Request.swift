import LanyardFoundations
import LanyardSettings

/// Reads request heads and bodies.
extension ClientConnection {
    /// Reads head bytes once. Returns their number.
    ///
    /// Not inlined, as what else `pump` calls: it is called twice for each request, and mostly has nothing to do.
    @inline(never)
    func readHead() -> Int {
        switch stream.receive(into: input.room(in: shard)) {
        case .bytes(let count):
            input.recordArrival(count)
            parse()
            return count
        case .wouldBlock: input.releaseEmptyBuffer(to: shard)
        case .end: if case .head = state { refuse(.malformed("it ends within its head")) } else { close() }
        case .failed: abandon()
        }
        return 0
    }

    /// Processes the requests that have arrived, in order, until one must wait.
    func parse() {
        guard input.hasBytes, input.beginParsing() else { return }
        defer { input.endParsing() }
        while state.isWaitingForRequest, stream.isFlushed, input.hasBytes {
            do throws(HeadError) {
                guard try input.readHead(shard.headLimits, at: shard.loop.now) else { return awaitRest() }
                beginExchange()
            } catch {
                return refuse(input.beginsWithTLS ? .unexpectedTLS : .malformed(error))
            }
        }
    }

    /// Part of a head has arrived. The whole head is due within `header_timeout` of its first byte. The first head's
    /// deadline runs from the accept; a drain has shortened it, so it is then set anew.
    private func awaitRest() {
        guard input.hasPartialHead else { return }
        let isFirst = state.isWaiting
        state = .head
        // A partial head would have to be buffered, and no memory is left.
        if shard.context.buffers.isUnder(.requestsRefused) { return refuse(.buffersFull) }
        guard isFirst else { return }
        if input.requests > 0 || shard.isDraining {
            begin(.head, for: shard.limits.headerTimeout)
        } else {
            waits.follow(with: .head)
        }
    }

    private func beginExchange() {
        state = .admission(nil)
        adoptServedConfiguration()
        endInboundWait()
        exchange = Exchange(input.head)
        relay.beginExchange()
        waits.closing.setWriteTimeout(ClosingLimits.standardWriteTimeout)
        if let requestsMax = shard.limits.requestsPerConnectionMax, input.requests >= requestsMax {
            exchange.closeClient()
        }
        if shard.isDraining || stream.hasLargeSession { exchange.closeClient() }
        if shard.context.buffers.isUnder(.requestsRefused) { return refuse(.buffersFull) }
        guard let buffer = input.buffer else { return refuse(.internalError) }
        let served = served
        let admission = RequestAdmission(input.head, in: buffer.bytes, buffer.table.all)
        let rules = view.rules
        // Most listeners ask for none.
        let capabilities = rules.callers.checksRequests ? shard.capabilities : []
        let decision = admission.decide(
            rules, served.configuration.routes, viaName: shard.context.viaName, capabilities: capabilities,
            isNamedClient: membership.isNamedClient)
        switch decision {
        case .forward(let route, let target): forward(to: target, on: served.routes[route.index])
        case .respondToOptions: respondToOptions()
        case .refuse(let problem, let route):
            if let route { count(for: served.routes[route.index]) }
            refuse(problem)
        }
    }

    /// A request that is refused counts for its route.
    private func count(for route: ShardRoute) {
        state = .admission(route)
        waits.closing.setWriteTimeout(route.timeouts.write)
    }

    private func forward(to target: RequestTarget, on shardRoute: ShardRoute) {
        let route = shardRoute.route
        admit(target, on: route)
        replay.begin(input.head.framing, bytesMax: route.settings.replayBodyMax)
        if input.head.kind == .post, route.settings.errors != .problem, mayUseJSONRPC(on: route) {
            input.beginMessage()
        }
        guard let user = route.user ?? served.active else {
            count(for: shardRoute)
            return refuse(.noActiveUser)
        }
        waits.closing.setWriteTimeout(shardRoute.timeouts.write)
        let active = ActiveExchange(shardRoute: shardRoute, user: user)
        state = .exchange(active)
        acquireToken(for: active)
    }

    private func admit(_ target: RequestTarget, on route: Route) {
        guard input.head.traits.contains(.upgrade) else { return input.admit(target, .none) }
        let upgrade = upgradeRequest(on: route)
        input.admit(target, upgrade)
        if case .dropped(let obstacle) = upgrade {
            shard.log(obstacle) { input.refusedRequest(input.requestID(from: shard), isHeadRead: true, on: route) }
        }
    }

    /// A request body is expected and the upstream can take it.
    var wantsBody: Bool {
        guard !input.body.isEnded else { return false }
        if let held = replay.held { return held.decision.body == .awaited }
        return upstream.isFlushed && exchange.request == .sending
    }

    /// Reads body bytes once. Returns their number.
    @inline(never)
    func readBody(of active: ActiveExchange) -> Int {
        if input.hasUnusedBytes {
            forwardBuffered(of: active)
            return 0
        }
        guard let room = shard.room(for: self, upTo: input.body.readSize) else { return 0 }
        switch stream.receive(into: room) {
        case .bytes(let count):
            forwardBody(UnsafeMutableRawBufferPointer(rebasing: room[0..<count]), of: active)
            return count
        case .wouldBlock: break
        case .end: perform(exchange.handleRequestCut(.malformed("its body ends early")))
        case .failed: abandon()
        }
        return 0
    }

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
    func takeBodyBehindHead(in buffer: RequestBuffer, of active: ActiveExchange) -> Bool {
        guard !input.body.isEnded, input.body.total == 0, buffer.used < buffer.count else { return true }
        let (arrived, place) = (buffer.rest, buffer.used)
        guard replay.keepsWhole(arrived.count) else { return true }
        do throws(HeadError) {
            let (used, data) = try input.consumeBody(arrived)
            replay.keep(data, at: place, in: buffer)
            input.recordUsed(used, of: arrived, isBuffered: true, in: shard)
        } catch {
            perform(exchange.handleRequestFailure(.malformed(error)))
            return false
        }
        return checkBodySize(of: active)
    }

    /// - Returns: false: the body is too large, and the exchange has ended.
    private func checkBodySize(of active: ActiveExchange) -> Bool {
        guard let bodyBytesMax = active.route.settings.bodyBytesMax, input.body.total > bodyBytesMax else {
            return true
        }
        perform(exchange.handleRequestFailure(.contentTooLarge))
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
            perform(exchange.handleRequestFailure(.malformed(error)))
        }
    }

    /// The client sent nothing for too long, or the upstream took nothing.
    ///
    /// After the response has begun neither ends the exchange. The upload may continue while the response lasts
    /// (http-connections.md 9.6). A response that makes progress is not cut (http-connections.md 8.2); it has its own deadline.
    func handleUploadTimeout(_ wait: UploadWait, of active: ActiveExchange) {
        guard exchange.response == .awaited else { return }
        // Neither side is read: the pause does not count against them.
        if membership.isPaused { return begin(wait, of: active) }
        switch wait {
        case .continue100:
            upstream.expectContinue(false)
            guard sendText("HTTP/1.1 100 Continue\r\n\r\n") == .sent else { return abandon() }
            begin(.body, of: active)
        case .upstreamWrite:
            guard let connection = upstream.connection, connection.stream.checkProgress().isProgress else {
                let isUntouched = upstream.isHeadUntouched
                return perform(exchange.handleTimeout(.upstreamWriteTimeout, isUntouched: isUntouched))
            }
            begin(.upstreamWrite, of: active)
        case .body: perform(exchange.handleRequestFailure(.requestTimeout))
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
