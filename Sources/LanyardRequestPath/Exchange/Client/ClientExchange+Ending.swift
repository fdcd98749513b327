import LanyardFoundations
import LanyardSettings
import Logging

/// Performs the actions of `Exchange`: Lanyard's own responses, the end of an exchange, the end of the connection.
extension ClientExchange {
    func perform(_ action: Exchange.Action) { _ = carryOut(action) }

    /// Performs the action.
    ///
    /// - Returns: whether the exchange continues as it was.
    func carryOut(_ action: Exchange.Action) -> ExchangeProgress {
        switch action {
        case .wait: return .continues
        case .retry: retry()
        case .refuse(let problem): refuse(problem)
        case .abort(let cut): abort(cut)
        case .finish(let keepsUpstream, let keepsClient): finish(keepsUpstream: keepsUpstream, keepsClient: keepsClient)
        }
        return .ended
    }

    // MARK: Access log

    /// Counts a request and writes its line. Once for each request.
    ///
    /// - Parameter bytes: of the response's body.
    func record(_ status: Int?, _ origin: ShardCounters.Origin, _ end: AccessEntry.UnusualEnd?, bytes: Int) {
        if let served = state.route {
            served._withUnsafeGuaranteedRef {
                $0.countRequest(status: status, origin: origin, from: input.beganAt, to: shard.loop.now)
                logAccess(status, origin, end, bytes: bytes, of: $0.route)
            }
        } else {
            let counters = shard.counters.withoutRoute
            counters.countRequest(status: status, origin: origin, from: input.beganAt, to: shard.loop.now)
            logAccess(status, origin, end, bytes: bytes, of: nil)
        }
    }

    /// Writes the line of a request.
    ///
    /// - Parameter route: nil: it has none.
    func logAccess(
        _ status: Int?, _ origin: ShardCounters.Origin, _ end: AccessEntry.UnusualEnd?, bytes: Int, of route: Route?
    ) {
        // The shard's, which a reload replaces in a turn of its own: not counted.
        guard let log = shard.accessLog.map({ Unmanaged.passUnretained($0) }) else { return }
        // Each reading of the state counts what is in it.
        let state = self.state
        let isHeadRead = state.isHeadRead
        let entry = AccessEntry(
            id: input.requestID(from: shard), user: state.user, status: status, origin: origin,
            upgradeObstacle: input.upgradeObstacle, bytes: bytes, isHTTP2: sink.isStream, beganAt: input.beganAt,
            endedAt: shard.loop.now,
            retries: isHeadRead ? machine.retries : 0, replays: isHeadRead ? machine.replays : 0,
            generation: upstream.generation)
        input.withLoggedHead(isHeadRead: isHeadRead, on: route) { head in
            log._withUnsafeGuaranteedRef { $0.write(entry, head, of: route, end, in: shard.context.names) }
        }
    }

    // MARK: Lanyard's own responses

    /// Sends a problem response. The connection stays open if the request's framing is valid and its body was read to
    /// the end.
    func refuse(_ problem: Problem) {
        guard let form = responseForm(of: problem) else { return awaitRefusedBody(before: problem) }
        send(problem, as: form)
    }

    /// Sends a problem response.
    func send(_ problem: Problem, as form: ResponseForm) {
        dropUpstream(keeps: false)
        let isHeadRead = state.isHeadRead
        let closes = problem.closes || !isHeadRead || !input.body.isEnded || machine.closesClient || shard.isDraining
        if let reason = problem.rejection { shard.counters.countRejection(reason) }
        if problem.status == 500 { shard.counters.internalErrors.add() }
        if problem.status > 500 {
            let counters = state.shardRoute?.counters ?? shard.counters.withoutRoute
            counters.recordFailure(problem, at: shard.loop.now)
        }
        let id = recordInLog(problem)
        // If the head cannot be read, its method may still have been read.
        let method = isHeadRead ? input.head.kind : input.partialMethod
        let writer = ProblemWriter(
            context: shard.heads, problem: problem, form: form, requestID: id, isResponseToHead: method == .head,
            closes: closes,
            clientMinorVersion: isHeadRead ? input.head.minorVersion : 1)
        if sink.isStream {
            shard.heads.fields.clear()
            let body = writer.writeHead(into: &shard.heads.fields)?.bytes ?? []
            record(problem.status, .lanyard, AccessEntry.UnusualEnd(problem), bytes: body.count)
            return body.withUnsafeBytes { sendFrames($0) }
        }
        shard.heads.out.clear()
        let body = writer.writeHead(into: &shard.heads.out)
        if let body { shard.heads.out.write(body.bytes) }
        record(problem.status, .lanyard, AccessEntry.UnusualEnd(problem), bytes: body?.bytes.count ?? 0)
        sendResponse(closes: closes)
    }

    /// Counts and logs a refusal without a response.
    func recordRefusal(_ problem: Problem) {
        if let reason = problem.rejection { shard.counters.countRejection(reason) }
        _ = recordInLog(problem)
    }

    /// - Returns: the request's id.
    private func recordInLog(_ problem: Problem) -> RequestID {
        let id = input.requestID(from: shard)
        shard.log.record(problem) { refusedRequest(id) }
        return id
    }

    private func refusedRequest(_ id: RequestID) -> RefusedRequest {
        var request = input.refusedRequest(id, isHeadRead: state.isHeadRead, on: state.shardRoute?.route)
        if let user = state.user { request.user = shard.context.userName(user) }
        return request
    }

    /// Responds to `OPTIONS *` (http-requests.md 1.8).
    func respondToOptions() {
        let closes = !input.body.isEnded || machine.closesClient || shard.isDraining
        record(200, .lanyard, nil, bytes: 0)
        if sink.isStream {
            shard.heads.fields.clear()
            shard.heads.fields.beginResponse(200, "OK")
            shard.heads.fields.writeField("Content-Length", decimal: 0)
            shard.heads.writeDate(&shard.heads.fields)
            return sendFrames(UnsafeRawBufferPointer(start: nil, count: 0))
        }
        shard.heads.out.clear()
        shard.heads.out.beginResponse(200, "OK")
        shard.heads.out.writeField("Content-Length", decimal: 0)
        shard.heads.writeDate(&shard.heads.out)
        shard.heads.out.writePersistence(closes: closes, clientMinorVersion: input.head.minorVersion)
        shard.heads.out.endHead()
        sendResponse(closes: closes)
    }

    /// Sends the shard's out buffer, which holds a whole response. Then the next request begins or the connection ends.
    func sendResponse(closes: Bool) {
        replay.discardBody()
        endInboundWait()
        endOutboundWait()
        // `abandon` would count the request again: it was counted when its response was written.
        guard sink.send(shard.heads.out.bytes, isLast: closes) == .sent else { return sink.reset(looksComplete: false) }
        sink.end(closes: closes)
    }

    /// The same on a stream: the head that was written, and the whole body.
    func sendFrames(_ body: UnsafeRawBufferPointer) {
        replay.discardBody()
        endInboundWait()
        endOutboundWait()
        guard sink.send(&shard.heads.fields, body, ends: true) == .sent else { return sink.reset(looksComplete: false) }
        sink.end(closes: false)
    }

    // MARK: End of the exchange

    private func retry() {
        dropUpstream(keeps: false)
        endInboundWait()
        endOutboundWait()
        guard case .forwarding(let active) = state, let token = upstream.token else { return refuse(.internalError) }
        // On a stream the upstream has said that it has not processed the request; other connections may.
        if active.pool.maySpeakHTTP2 { return acquireUpstream(for: active, token) }
        connectUpstream(for: active, token)
    }

    private func finish(keepsUpstream: Bool, keepsClient: Bool) {
        record(relay.status, .upstream, nil, bytes: relay.bodyBytes)
        dropUpstream(keeps: keepsUpstream && upstream.isFlushed)
        sink.end(closes: !keepsClient)
    }

    /// Releases the upstream connection, or cancels the wait for one.
    func dropUpstream(keeps: Bool) {
        if let acquisition = upstream.endAcquisition() {
            state.shardRoute?.pool.cancel(acquisition)
            endCallWait()
        }
        stopWaitingForToken()
        replay.endHold()
        relay.discard()
        // A lease that is not given back closes its connection.
        if let lease = upstream.detach(), keeps { giveBack(lease) }
    }

    /// The connection may carry another request: of this client only, if the client has authenticated itself on it
    /// (http-connections.md 16.9).
    func giveBack(_ lease: consuming UpstreamLease) {
        if lease.isBound { sink.keepBound(lease) } else { lease.giveBack() }
    }

    /// The response was cut off. The client must be able to see that (http-forwarding.md 13.5).
    private func abort(_ cut: ResponseCut) {
        record(relay.status, .upstream, AccessEntry.UnusualEnd(cut), bytes: relay.bodyBytes)
        dropUpstream(keeps: false)
        if relay.isCall, cut != .request, endCall() { return }
        sink.reset(looksComplete: relay.isDelimitedByClose)
    }

    /// A call of gRPC whose response was cut off ends with a status, which its client understands better than a reset (H29, H46).
    private func endCall() -> Bool {
        let trailers = sink.makeTrailers()
        trailers.fields.writeField("grpc-status", decimal: GRPC.unavailable)
        GRPC.writeMessage("The response was cut off.", into: &trailers.fields)
        shard.heads.fields.clear()
        let none = UnsafeRawBufferPointer(start: nil, count: 0)
        guard sink.send(&shard.heads.fields, none, behind: trailers) == .sent else { return false }
        sink.end(closes: false)
        return true
    }

    /// The client has disconnected, or reads nothing. Nothing more is sent.
    ///
    /// - Parameter key: of the time that the client has not kept; nil: it has disconnected.
    func abandon(after key: String? = nil) {
        shard.loop.assertIsCurrent()
        abandon(AccessEntry.UnusualEnd(.client, "client-gone", key: key))
    }

    /// The listener would not admit the client any more, and its exchange has lasted too long since.
    func abandonDistrusted() {
        shard.loop.assertIsCurrent()
        abandon(AccessEntry.UnusualEnd(.lanyard, "distrusted"))
    }

    private func abandon(_ end: AccessEntry.UnusualEnd) {
        switch state {
        case .tunnel: return endTunnel(.aborted)
        case .admission, .forwarding, .refusing, .granting:
            // The status of the response if one has begun. Without one the request counts as Lanyard's own.
            let status = relay.status == 0 ? nil : relay.status
            record(status, status == nil ? .lanyard : .upstream, end, bytes: relay.bodyBytes)
            dropUpstream(keeps: false)
        case .none: break
        }
        sink.reset(looksComplete: relay.isDelimitedByClose)
    }
}
