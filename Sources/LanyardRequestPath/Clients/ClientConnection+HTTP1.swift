import LanyardFoundations
import LanyardSettings

/// Reads the requests of HTTP/1.1, one after another: heads into the exchange's buffer, bodies into the shard's.
extension ClientConnection {
    var isParsing: Bool { clientProtocol.isParsing }

    /// Reads head bytes once. Returns their number.
    ///
    /// Not inlined, as what else `pump` calls: it is called twice for each request, and mostly has nothing to do.
    @inline(never)
    func readHead() -> Int {
        switch stream.receive(into: exchange.input.room(in: shard)) {
        case .bytes(let count):
            exchange.input.recordArrival(count)
            if mayBeginFrames, beginFrames() { return count }
            parse()
            return count
        case .wouldBlock: exchange.input.releaseEmptyBuffer(to: shard)
        case .end:
            if state == .head, !hasPartialPreface {
                exchange.refuse(.malformed("it ends within its head"))
            } else {
                close()
            }
        case .failed: abandon()
        }
        return 0
    }

    /// Processes the requests that have arrived, in order, until one must wait.
    func parse() {
        guard exchange.input.hasBytes, clientProtocol.beginParsing() else { return }
        defer { clientProtocol.endParsing() }
        while state.isWaitingForRequest, stream.isFlushed, exchange.input.hasBytes {
            do throws(HeadError) {
                guard try exchange.input.readHead(shard.headLimits, at: shard.loop.now) else { return awaitRest() }
                clientProtocol.countRequest()
                guard exchange.rules.acceptsHTTP1 else {
                    throw HeadError(.versionNotSupported, "this listener speaks HTTP/2 alone")
                }
                beginExchange()
            } catch {
                let isTLS = clientProtocol.requests == 0 && exchange.input.beginsWithTLS
                return exchange.refuse(isTLS ? .unexpectedTLS : .malformed(error))
            }
        }
    }

    /// Part of a head has arrived. The whole head is due within `header_timeout` of its first byte. The first head's
    /// deadline runs from the accept; a drain has shortened it, so it is then set anew.
    private func awaitRest() {
        guard exchange.input.hasPartialHead else { return }
        let isFirst = state == .waiting
        state = .head
        // A partial head would have to be buffered, and no memory is left.
        if shard.context.buffers.isUnder(.requestsRefused) { return exchange.refuse(.buffersFull) }
        guard isFirst else { return }
        if clientProtocol.requests > 0 || shard.isDraining {
            begin(.head, for: shard.limits.headerTimeout)
        } else {
            follow(with: .head)
        }
    }

    private func beginExchange() {
        state = .exchange
        endWait()
        let isLast = shard.limits.requestsPerConnectionMax.map { clientProtocol.requests >= $0 } ?? false
        exchange.begin(isLast: isLast || stream.hasLargeSession)
    }

    /// Reads body bytes once. Returns their number.
    @inline(never)
    func readBody() -> Int {
        if exchange.input.hasUnusedBytes {
            exchange.forwardBuffered()
            return 0
        }
        guard let room = shard.memory.room(for: exchange, upTo: exchange.input.body.readSize) else { return 0 }
        switch stream.receive(into: room) {
        case .bytes(let count):
            exchange.forwardBody(UnsafeMutableRawBufferPointer(rebasing: room[0..<count]))
            return count
        case .wouldBlock: break
        case .end: exchange.handleCutBody()
        case .failed: abandon()
        }
        return 0
    }

    /// Reads bytes of a refused request's body once. Returns their number.
    func readRefusedBody() -> Int {
        let room = exchange.input.room(in: shard)
        guard room.count > 0 else {
            exchange.finishRefusal()
            return 0
        }
        switch stream.receive(into: room) {
        case .bytes(let count):
            exchange.handleRefusedBody(count)
            return count
        case .wouldBlock: break
        case .end: exchange.finishRefusal()
        case .failed: abandon()
        }
        return 0
    }

    /// The exchange's response is complete.
    ///
    /// - Parameter closes: the connection ends behind it.
    func endExchange(closes: Bool) {
        guard !closes else { return closeAfterFlush() }
        state = .waiting
        exchange.awaitNext()
        if stream.isFlushed { beginIdleTimeout() } else { beginWriteTimeout() }
        // The next request may have arrived already. The parse loop that called this continues by itself. A read here could meet the
        // client's end too early.
        guard !isParsing else { return }
        parse()
        pump()
    }
}
