import LanyardFoundations
import LanyardSettings

/// Reads request heads and bodies.
extension ClientConnection {
    /// Reads head bytes once. Returns their number.
    func readHead() -> Int {
        let buffer = self.buffer ?? shard.takeBuffer()
        self.buffer = buffer
        let room = buffer.room(upTo: shard.context.headLimits.headBytesMax + RequestBuffer.firstCapacity)
        switch stream.receive(into: room) {
        case .bytes(let count):
            buffer.arrived(count)
            parse()
            return count
        case .wouldBlock: releaseEmptyBuffer()
        case .end: if phase == .head { refuse(.malformed("it ends within its head")) } else { close() }
        case .failed: abandon()
        }
        return 0
    }

    /// Processes the requests that have arrived, in order, until one must wait.
    func parse() {
        guard !isParsing else { return }
        isParsing = true
        defer { isParsing = false }
        while isWaitingForRequest, stream.isFlushed, let buffer, buffer.count > 0 {
            do throws(HeadError) {
                let limits = shard.context.headLimits
                guard let head = try reader.read(buffer.bytes, into: buffer.table, limits: limits) else {
                    return awaitRest()
                }
                self.head = head
                buffer.used = head.length
                beginExchange()
            } catch {
                return refuse(.malformed(error))
            }
        }
    }

    /// Part of a head has arrived. The whole head is due within `header_timeout` of its first byte. The first head's
    /// deadline runs from the accept; a drain has shortened it, so it is then set anew.
    private func awaitRest() {
        guard reader.hasAny else { return }
        let isFirst = phase == .waiting
        phase = .head
        // A partial head would have to be buffered, and no memory is left.
        if shard.context.buffers.isCrowded { return refuse(.buffersFull) }
        guard isFirst else { return }
        if requests > 0 || shard.isDraining { setInbound(shard.context.limits.headerTimeout) }
    }

    private func beginExchange() {
        phase = .exchange
        requests += 1
        clearInbound()
        exchange = Exchange(head)
        body = RequestBody(head.framing)
        sentStatus = 0
        tailTimeout = Self.standardWriteTimeout
        isDelimitedByClose = false
        if let requestsMax = shard.context.limits.requestsPerConnectionMax, requests >= requestsMax {
            exchange.closeClient()
        }
        if shard.isDraining { exchange.closeClient() }
        if shard.context.buffers.isCrowded { return refuse(.buffersFull) }
        switch admit() {
        case .forward(let route, let target):
            self.target = target
            upgrade = requestedUpgrade(on: route)
            replayBody.begin(head.framing, bytesMax: route.settings.replayBodyMax)
            replayObstacle = nil
            acquireToken()
        case .respondToOptions: respondToOptions()
        case .refuse(let problem): refuse(problem)
        }
    }

    /// A request body is expected and the upstream can take it.
    var wantsBody: Bool {
        guard !body.isEnded, let upstream else { return false }
        if let held { return held.decision.body == .awaited }
        return upstream.stream.isFlushed && !upstream.stream.isBroken && exchange.request == .sending
    }

    /// Reads body bytes once. Returns their number.
    func readBody() -> Int {
        if let buffer, buffer.used < buffer.count {
            forwardBuffered()
            return 0
        }
        guard let room = shard.room(for: self) else { return 0 }
        switch stream.receive(into: room) {
        case .bytes(let count):
            forwardBody(UnsafeMutableRawBufferPointer(rebasing: room[0..<count]), from: nil)
            return count
        case .wouldBlock: break
        case .end: perform(exchange.requestCut(.malformed("its body ends early")))
        case .failed: abandon()
        }
        return 0
    }

    /// Forwards the bytes that arrived behind the head.
    func forwardBuffered() {
        guard let buffer, buffer.used < buffer.count else { return }
        forwardBody(buffer.rest, from: buffer)
    }

    /// Forwards body bytes. Bytes of the next request are kept.
    private func forwardBody(_ input: UnsafeMutableRawBufferPointer, from source: RequestBuffer?) {
        isContinueDue = false
        do throws(HeadError) {
            let place = source?.used
            let (used, data) = try body.consume(input)
            if held != nil, !replayBody.makeRoom(for: data.count), !relayHeld(.bodyTooLarge) { return }
            replayBody.add(data, at: place, in: buffer)
            if let source {
                source.used += used
            } else if used < input.count {
                keep(UnsafeRawBufferPointer(rebasing: input[used...]))
            }
            if let bodyBytesMax = route?.settings.bodyBytesMax, body.total > bodyBytesMax {
                return perform(exchange.requestFailed(.contentTooLarge))
            }
            if held == nil { sendBody(data) } else if body.isEnded { heldBodyArrived() }
        } catch {
            perform(exchange.requestFailed(.malformed(error)))
        }
    }

    /// Keeps bytes behind a body: they belong to the next request (http-rules.md 5.6).
    private func keep(_ bytes: UnsafeRawBufferPointer) {
        let buffer = self.buffer ?? shard.takeBuffer()
        self.buffer = buffer
        buffer.append(bytes)
    }

    private func releaseEmptyBuffer() {
        guard let buffer, buffer.count == 0 else { return }
        shard.giveBack(buffer)
        self.buffer = nil
    }

    /// The client sent nothing for too long, or the upstream took nothing.
    ///
    /// After the response has begun neither ends the exchange. The upload may go on while the response lasts
    /// (http-rules.md 9.6). A response that makes progress is not cut (http-rules.md 8.2); it has its own deadline.
    func uploadTimedOut() {
        if held != nil {
            relayHeld(.bodyLate)
            return
        }
        guard exchange.response == .awaited else { return }
        if isPaused, let route { return setInbound(timeouts(route).requestIdle) }
        if isContinueDue, queuedHeadStart == nil {
            isContinueDue = false
            deliver("HTTP/1.1 100 Continue\r\n\r\n")
            if phase == .exchange, let route { setInbound(timeouts(route).requestIdle) }
        } else if let upstream, !upstream.stream.isFlushed {
            guard upstream.stream.checkProgress().isProgress, let route else {
                return perform(exchange.timedOut(.upstreamWriteTimeout))
            }
            setInbound(timeouts(route).write)
        } else if !body.isEnded {
            perform(exchange.requestFailed(.requestTimeout))
        }
    }

    func timeouts(_ route: Route) -> UpstreamSettings.Timeouts { shard.context.targets[route.index].settings.timeouts }
}
