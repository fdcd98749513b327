import LanyardFoundations
import LanyardSettings
import Logging

/// Performs the actions of `Exchange`: Lanyard's own responses, the end of an exchange, the end of the connection.
extension ClientConnection {
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
        if let served = state.shardRoute {
            served.countRequest(status: status, origin: origin, from: input.beganAt, to: shard.loop.now)
            logAccess(status, origin, end, bytes: bytes, of: served.route)
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
        let isHeadRead = state.isHeadRead
        let entry = AccessEntry(
            id: input.requestID(from: shard), user: state.user, status: status, origin: origin,
            upgradeObstacle: input.upgradeObstacle, bytes: bytes, beganAt: input.beganAt, endedAt: shard.loop.now,
            retries: isHeadRead ? exchange.retries : 0, replays: isHeadRead ? exchange.replays : 0,
            generation: upstream.generation)
        input.withLoggedHead(isHeadRead: isHeadRead, on: route) { head in
            log._withUnsafeGuaranteedRef { $0.write(entry, head, of: route, end, in: shard.context) }
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
        let closes = problem.closes || !isHeadRead || !input.body.isEnded || exchange.closesClient || shard.isDraining
        if let reason = problem.rejection { shard.counters.countRejection(reason) }
        if problem.status == 500 { shard.counters.internalErrors.add() }
        if problem.status > 500 {
            let counters = state.shardRoute?.counters ?? shard.counters.withoutRoute
            counters.recordFailure(problem, at: shard.loop.now)
        }
        let id = input.requestID(from: shard)
        shard.log(problem) { refusedRequest(id) }
        shard.out.clear()
        // If the head cannot be read, its method may still have been read.
        let method = isHeadRead ? input.head.kind : input.partialMethod
        let writer = ProblemWriter(
            shard: shard, problem: problem, form: form, requestID: id, isResponseToHead: method == .head,
            closes: closes,
            clientMinorVersion: isHeadRead ? input.head.minorVersion : 1)
        let bytes = writer.write(into: &shard.out)
        record(problem.status, .lanyard, AccessEntry.UnusualEnd(problem), bytes: bytes)
        sendResponse(closes: closes)
    }

    private func refusedRequest(_ id: RequestID) -> RefusedRequest {
        var request = input.refusedRequest(id, isHeadRead: state.isHeadRead, on: state.shardRoute?.route)
        if let user = state.user { request.user = shard.context.userName(user) }
        return request
    }

    /// Responds to `OPTIONS *` (http-requests.md 1.8).
    func respondToOptions() {
        let closes = !input.body.isEnded || exchange.closesClient || shard.isDraining
        record(200, .lanyard, nil, bytes: 0)
        shard.out.clear()
        shard.out.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nDate: " as StaticString)
        shard.writeDate(&shard.out)
        shard.out.write("\r\n" as StaticString)
        shard.out.write(ConnectionOptions.responseLine(closes: closes, clientMinorVersion: input.head.minorVersion))
        shard.out.write("\r\n" as StaticString)
        sendResponse(closes: closes)
    }

    /// Sends the shard's out buffer, which holds a whole response. Then the next request begins or the connection ends.
    private func sendResponse(closes: Bool) {
        replay.discardBody()
        endInboundWait()
        endOutboundWait()
        // `abandon` would count the request again: it was counted when its response was written.
        guard stream.send(shard.out.bytes, isLast: closes) == 0 else { return close() }
        if closes { closeAfterFlush() } else { beginNextRequest() }
    }

    /// The next request may have arrived already.
    private func beginNextRequest() {
        nextRequest()
        // The parse loop that called this continues by itself. A read here could meet the client's end too early.
        guard !input.isParsing else { return }
        parse()
        pump()
    }

    // MARK: End of the exchange

    private func retry() {
        dropUpstream(keeps: false)
        endInboundWait()
        endOutboundWait()
        guard case .exchange(let active) = state, let token = upstream.token else { return refuse(.internalError) }
        connectUpstream(for: active, token)
    }

    private func finish(keepsUpstream: Bool, keepsClient: Bool) {
        record(relay.status, .upstream, nil, bytes: relay.bodyBytes)
        dropUpstream(keeps: keepsUpstream && upstream.isFlushed)
        if keepsClient { beginNextRequest() } else { closeAfterFlush() }
    }

    /// Releases the upstream connection, or cancels the wait for one.
    func dropUpstream(keeps: Bool) {
        let pool = state.shardRoute?.pool
        if let acquisition = upstream.endAcquisition() { pool?.cancel(acquisition) }
        stopWaitingForToken()
        replay.endHold()
        relay.discard()
        guard let connection = upstream.detach(), let pool else { return }
        if keeps { giveBack(connection, to: pool) } else { pool.discard(connection) }
    }

    /// The connection may carry another request: of this client only, if the client has authenticated itself on it
    /// (http-connections.md 16.9).
    func giveBack(_ connection: UpstreamConnection, to pool: UpstreamPool) {
        if connection.isBound { bound.keep(connection, in: pool) } else { pool.giveBack(connection) }
    }

    /// The response was cut off. The client must be able to see that (http-forwarding.md 13.5).
    private func abort(_ cut: ResponseCut) {
        record(relay.status, .upstream, AccessEntry.UnusualEnd(cut), bytes: relay.bodyBytes)
        dropUpstream(keeps: false)
        if relay.isDelimitedByClose { stream.resetOnClose() }
        close()
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
        case .closed: return
        case .tunnel: return endTunnel(.aborted)
        case .admission, .exchange, .refusing:
            // The status of the response if one has begun. Without one the request counts as Lanyard's own.
            let status = relay.status == 0 ? nil : relay.status
            record(status, status == nil ? .lanyard : .upstream, end, bytes: relay.bodyBytes)
            dropUpstream(keeps: false)
            // An orderly close would make a body that is delimited by the close look complete (http-forwarding.md 13.5).
            if relay.isDelimitedByClose { stream.resetOnClose() }
        case .handshake, .waiting, .head, .flushing, .lingering:
            if relay.isDelimitedByClose, !stream.isFlushed || stream.isBroken { stream.resetOnClose() }
        }
        close()
    }

    /// All connection slots are in use: sends 503 and closes.
    func rejectOverloaded() {
        shard.loop.assertIsCurrent()
        shard.counters.countRejection(.limit)
        reject(
            .overloaded(
                "Too many client connections: limits.connections_max or limits.connections_per_peer_max is reached.",
                closes: true))
    }

    /// The client is none of the listener's `peers`: sends 403 and closes.
    func rejectPeer() {
        shard.loop.assertIsCurrent()
        reject(.peerNotAllowed)
    }

    /// Refuses the connection itself. Without a response if that would need a TLS handshake, which costs more than the connection.
    private func reject(_ problem: Problem) {
        if state.isHandshake {
            if let reason = problem.rejection { shard.counters.countRejection(reason) }
            let id = input.requestID(from: shard)
            shard.log(problem) { refusedRequest(id) }
            return close()
        }
        refuse(problem)
        if membership.isOverRejectionLimit { close() }
    }

    // MARK: End of the connection

    func closeAfterFlush() {
        let needsLinger = needsLinger
        state = .flushing
        bound.closeAll()
        endInboundWait()
        if !stream.isFlushed { return beginWriteTimeout() }
        if needsLinger { beginLinger() } else { close() }
    }

    /// Bytes that a client's kernel takes before its process reads: a tenth of the least window that systems offer.
    private static let bytesWithoutLingerMax: UInt64 = 6 << 10

    /// Whether a close at once could destroy the response (http-connections.md 9.8). It could not if the client has asked for the close,
    /// has sent nothing behind its request, and has room for all that was sent to it. A `close_notify` of its TLS may still come.
    private var needsLinger: Bool {
        guard state.isHeadRead, !input.head.wantsKeepAlive, input.body.isEnded else { return true }
        return input.hasUnusedBytes || stream.canRead || stream.isSecured || stream.isBroken
            || stream.taken > Self.bytesWithoutLingerMax
    }

    /// Begins the lingering close (http-connections.md 9.8).
    func beginLinger() {
        stream.endWriting()
        state = .lingering
        endOutboundWait()
        begin(.linger, until: waits.closing.beginLinger(at: shard.loop.now))
        input.releaseBuffer(to: shard)
        if stream.hasEnded { stream.expectInput() }
        pump()
    }

    /// Discards the input of one read. Returns the number of bytes.
    func discardInput() -> Int {
        switch stream.receive(into: shard.scratch) {
        case .bytes(let count):
            begin(.linger, until: waits.closing.lingerDeadline(at: shard.loop.now))
            return count
        case .wouldBlock: break
        case .end, .failed: close()
        }
        return 0
    }
}
