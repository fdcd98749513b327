import LanyardFoundations
import LanyardSettings
import Logging

/// Performs the actions of `Exchange`: Lanyard's own responses, the end of an exchange, the end of the connection.
extension ClientConnection {
    func perform(_ action: Exchange.Action) {
        switch action {
        case .wait: break
        case .retry: retry()
        case .refuse(let problem): refuse(problem)
        case .abort: abort()
        case .finish(let keepsUpstream, let keepsClient): finish(keepsUpstream: keepsUpstream, keepsClient: keepsClient)
        }
    }

    // MARK: Lanyard's own responses

    /// Sends a problem response. The connection stays open if the request's framing is valid and its body was read to
    /// the end.
    func refuse(_ problem: Problem) {
        dropUpstream(keeps: false)
        let framed = phase == .exchange
        let closes = problem.closes || !framed || !body.isEnded || exchange.closesClient || shard.isDraining
        shard.counters.request(route: route?.index, status: problem.status, origin: .lanyard)
        if let reason = problem.rejection { shard.counters.rejected(reason) }
        if problem.status == 500 { shard.counters.internalErrors.add() }
        let id = currentRequestID
        logRefusal(problem, id)
        shard.out.clear()
        // If the head cannot be read, its method may have been read all the same.
        let method = framed ? head.kind : reader.method
        let writer = ProblemWriter(
            shard: shard, problem: problem, requestID: id, toHead: method == .head, closes: closes,
            clientMinorVersion: framed ? head.minorVersion : 1)
        writer.write(into: &shard.out)
        sendResponse(closes: closes)
    }

    private func logRefusal(_ problem: Problem, _ id: String) {
        guard shard.log.logLevel <= .debug, let leftOut = shard.refusals.admitLine(at: shard.loop.now) else { return }
        var metadata: Logger.Metadata = [
            "event": "request.refused", "reason": "\(problem.name)", "status": .stringConvertible(problem.status),
            "request_id": "\(id)", "route": "\(route?.settings.name ?? "")",
        ]
        let own = clientRequestID
        if !own.isEmpty { metadata["client_request_id"] = "\(own)" }
        if leftOut > 0 { metadata["left_out"] = .stringConvertible(leftOut) }
        shard.log.debug("the request was refused with a problem response", metadata: metadata)
    }

    /// Responds to `OPTIONS *` (http-rules.md 1.8).
    func respondToOptions() {
        let closes = !body.isEnded || exchange.closesClient || shard.isDraining
        shard.counters.request(route: nil, status: 200, origin: .lanyard)
        shard.out.clear()
        shard.out.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nDate: " as StaticString)
        shard.writeDate(&shard.out)
        shard.out.write("\r\n" as StaticString)
        shard.out.write(ConnectionOptions.responseLine(closes: closes, clientMinorVersion: head.minorVersion))
        shard.out.write("\r\n" as StaticString)
        sendResponse(closes: closes)
    }

    /// Sends the shard's out buffer, which holds a whole response. Then the next request begins or the connection ends.
    private func sendResponse(closes: Bool) {
        replayBody.discard()
        clearInbound()
        clearOutbound()
        let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
        let code = SocketWriter.send(raw, shard.out.bytes, nothing, "", queue: &outbound, canWrite: &canWrite)
        // `abandon` would count the request again: it was counted when its response was written.
        guard code == 0 else { return close() }
        if closes { closeAfterFlush() } else { beginNextRequest() }
    }

    /// The next request may have arrived already.
    private func beginNextRequest() {
        nextRequest()
        // The parse loop that called this goes on by itself. A read here could meet the client's end too early.
        guard !isParsing else { return }
        parse()
        pump()
    }

    // MARK: End of the exchange

    private func retry() {
        dropUpstream(keeps: false)
        clearInbound()
        clearOutbound()
        connectUpstream()
    }

    private func finish(keepsUpstream: Bool, keepsClient: Bool) {
        shard.counters.request(route: route?.index, status: sentStatus, origin: .upstream)
        let isWritten = upstream?.outbound.isEmpty ?? false
        dropUpstream(keeps: keepsUpstream && isWritten)
        if keepsClient { beginNextRequest() } else { closeAfterFlush() }
    }

    /// Releases the upstream connection, or cancels the wait for one.
    func dropUpstream(keeps: Bool) {
        if let acquisition, let route {
            shard.pools[route.index].cancel(acquisition)
            self.acquisition = nil
        }
        if isParked, let user {
            shard.tokens.unpark(self, for: user)
            unpark()
        }
        held = nil
        partialTable = nil
        partialHead.release()
        responseBody = nil
        isContinueDue = false
        unsentHeadBytes = 0
        guard let upstream, let route else { return }
        self.upstream = nil
        let pool = shard.pools[route.index]
        if keeps { pool.giveBack(upstream) } else { pool.discard(upstream) }
    }

    /// The response was cut off. The client must be able to see that (http-rules.md 13.5).
    private func abort() {
        shard.counters.request(route: route?.index, status: sentStatus, origin: .upstream)
        dropUpstream(keeps: false)
        if isDelimitedByClose { Socket.setResetOnClose(raw) }
        close()
    }

    /// The client has disconnected, or reads nothing. Nothing more is sent.
    func abandon() {
        guard phase != .closed else { return }
        if phase == .tunnel { return endTunnel(.aborted) }
        if phase == .exchange {
            // The status of the response if one has begun. Without one the request counts as Lanyard's own.
            let status = sentStatus == 0 ? nil : sentStatus
            shard.counters.request(route: route?.index, status: status, origin: status == nil ? .lanyard : .upstream)
            dropUpstream(keeps: false)
            // An orderly close would make a body that is delimited by the close look complete (http-rules.md 13.5).
            if isDelimitedByClose { Socket.setResetOnClose(raw) }
        } else if isDelimitedByClose, !outbound.isEmpty {
            Socket.setResetOnClose(raw)
        }
        close()
    }

    /// All connection slots are in use: sends 503 and closes.
    func rejectOverloaded() {
        shard.counters.rejected(.limit)
        refuse(.overloaded("Too many client connections.", closes: true))
        if case .none = slot { close() }
    }

    /// The client is none of the listener's `peers`: sends 403 and closes.
    func rejectPeer() {
        refuse(.peerNotAllowed)
        if case .none = slot { close() }
    }

    // MARK: End of the connection

    private func closeAfterFlush() {
        phase = .flushing
        clearInbound()
        if outbound.isEmpty { beginLinger() } else { beginWriteTimeout() }
    }

    private static let lingerTimeout = Duration.seconds(10)
    private static let lingerIdleTimeout = Duration.seconds(2)

    /// Begins the lingering close (http-rules.md 9.8).
    func beginLinger() {
        Socket.endWriting(raw)
        phase = .lingering
        clearOutbound()
        let now = shard.loop.now
        let lingering = LingeringClose(at: now, timeout: Self.lingerTimeout, idleTimeout: Self.lingerIdleTimeout)
        lingeringClose = lingering
        shard.loop.set(inboundDeadline, at: lingering.deadline(at: now))
        if let buffer {
            shard.giveBack(buffer)
            self.buffer = nil
        }
        if hasEnded { canRead = true }
        pump()
    }

    /// Discards the input of one read. Returns the number of bytes.
    func discardInput() -> Int {
        switch Socket.receive(raw, into: shard.scratch) {
        case .bytes(let count):
            if count < shard.scratch.count { canRead = hasEnded }
            if let deadline = lingeringClose?.discarded(count, at: shard.loop.now) {
                shard.loop.set(inboundDeadline, at: deadline)
            } else {
                close()
            }
            return count
        case .wouldBlock: canRead = false
        case .end, .failed: close()
        }
        return 0
    }

    func close() {
        guard phase != .closed else { return }
        phase = .closed
        shard.loop.drop(inboundDeadline)
        shard.loop.drop(outboundDeadline)
        outbound.release()
        if let buffer {
            shard.giveBack(buffer)
            self.buffer = nil
        }
        releaseSocket()
        shard.remove(self)
    }
}
