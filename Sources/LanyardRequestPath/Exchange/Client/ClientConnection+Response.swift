import LanyardFoundations
import LanyardSettings

/// Relays the response: from the upstream's first byte to the client's last.
extension ClientConnection {
    /// Reads from the upstream while the client takes the bytes, up to one turn's share.
    func pumpResponse() {
        var share = 256 << 10
        while phase == .exchange, held == nil, let upstream, upstream.stream.canRead, stream.isFlushed {
            guard let room = shard.room(for: self, upTo: readSizeMax) else { return }
            switch upstream.stream.receive(into: room) {
            case .bytes(let count):
                receive(UnsafeMutableRawBufferPointer(rebasing: room[0..<count]))
                share -= count
                adaptReadSize(afterReading: count)
            case .wouldBlock: if upstream.stream.isBroken { return upstreamEnded(clean: false) }
            case .end: upstreamEnded(clean: !upstream.stream.isBroken)
            case .failed: upstreamEnded(clean: false)
            }
            if share <= 0 { return shard.loop.resumeLater(self) }
        }
    }

    /// Bytes. With a chunk's framing the read fits into 8 KiB.
    private static let readSizeMin = 8000

    /// Adapts the size of the next read to what the client takes.
    ///
    /// Bytes that a client does not take are buffered here. After a stall the next read is small; it doubles with each
    /// read that the client takes whole. Many slow clients so need less memory over time.
    private func adaptReadSize(afterReading count: Int) {
        if !stream.isFlushed {
            readSizeMax = Self.readSizeMin
        } else if count >= readSizeMax {
            readSizeMax = min(readSizeMax * 2, Shard.scratchBytes)
        }
    }

    private func upstreamEnded(clean: Bool) {
        if clean, responseBody?.framing == .untilClose, exchange.response == .relaying { return finishUntilClose() }
        perform(
            exchange.upstreamEnded(
                clean: clean, sawBytes: responseReader.hasAny, holdsRequest: body.isEnded && replayBody.isWhole))
    }

    private func receive(_ input: UnsafeMutableRawBufferPointer) {
        if responseBody != nil { return relayBody(input) }
        guard let table = partialTable else {
            guard let start = readHeads(input, shard.responseTable), start < input.count else { return }
            // A partial head would have to be buffered, and no memory is left.
            if shard.context.buffers.isCrowded { return perform(exchange.outOfMemory()) }
            // The reader continues with this table when more bytes have come. The shard gets a new one.
            partialHead.append(UnsafeRawBufferPointer(rebasing: input[start...]))
            partialTable = shard.responseTable
            shard.responseTable = FieldTable(capacity: HeadLimits.response.fieldsMax)
            return
        }
        partialHead.append(UnsafeRawBufferPointer(input))
        // Kept in a local variable: the end of this exchange may begin another one on this connection.
        var held = ByteQueue(budget: shard.context.buffers)
        swap(&held, &partialHead)
        partialTable = nil
        guard let start = readHeads(held.mutableBytes, table) else { return }
        held.consume(start)
        guard !held.isEmpty else { return }
        if shard.context.buffers.isCrowded { return perform(exchange.outOfMemory()) }
        swap(&held, &partialHead)
        partialTable = table
    }

    /// Reads the heads at the front of `input`: interim ones, then possibly the final one and its body.
    ///
    /// - Returns: the offset of a head that is not complete yet, or nil if nothing is left to do.
    private func readHeads(_ input: UnsafeMutableRawBufferPointer, _ table: FieldTable) -> Int? {
        var start = 0
        // An error may end this exchange and begin the next one. Bytes that are left then belong to neither.
        let connection = upstream
        while phase == .exchange, connection != nil, upstream === connection {
            let rest = UnsafeMutableRawBufferPointer(rebasing: input[start...])
            let view = UnsafeRawBufferPointer(rest).assumingMemoryBound(to: UInt8.self)
            do throws(HeadError) {
                guard let response = try responseReader.read(view, into: table, toHead: head.kind == .head) else {
                    return start
                }
                let after = UnsafeMutableRawBufferPointer(rebasing: rest[response.length...])
                if !response.isInterim {
                    if holdsForReplay(response, view, table) { return nil }
                    relayFinal(response, view, table, after)
                    return nil
                }
                relayInterim(response, view, table)
                start += response.length
            } catch {
                perform(exchange.upstreamFailed(error))
            }
        }
        return nil
    }

    func writer(_ response: ResponseHead, _ view: Bytes, _ table: FieldTable) -> ResponseHeadWriter {
        ResponseHeadWriter(
            shard: shard, bytes: view, head: response, table: table, clientMinorVersion: head.minorVersion,
            toHead: head.kind == .head)
    }

    /// Relays every 1xx except 101 to HTTP/1.1 clients (http-rules.md 11.5).
    private func relayInterim(_ response: ResponseHead, _ view: Bytes, _ table: FieldTable) {
        responseReader = ResponseReader()
        let action = exchange.interim(bytes: response.length, continues: response.status == 100)
        guard action == .wait else { return perform(action) }
        if response.status == 100, isContinueDue {
            isContinueDue = false
            if let route, queuedHeadStart == nil { setInbound(timeouts(route).requestIdle) }
        }
        guard head.minorVersion > 0 else { return }
        shard.out.clear()
        writer(response, view, table).writeInterim(into: &shard.out)
        push(UnsafeRawBufferPointer(start: nil, count: 0), "")
    }

    /// Relays the final head and the bytes that came with it.
    func relayFinal(
        _ response: ResponseHead, _ view: Bytes, _ table: FieldTable, _ after: UnsafeMutableRawBufferPointer
    ) {
        guard response.status != 101 else {
            return switchProtocols(response, view, table, UnsafeRawBufferPointer(after))
        }
        upstream?.keepAliveSeconds = response.keepAliveSeconds
        let hasUnknownEnd = response.framing == .chunked || response.framing == .untilClose
        let delivery: ResponseBody.Delivery = hasUnknownEnd && head.minorVersion > 0 ? .chunked : .raw
        isDelimitedByClose = hasUnknownEnd && head.minorVersion == 0
        var body = ResponseBody(response.framing, delivery: delivery)
        let used: Int
        let data: UnsafeRawBufferPointer
        do throws(HeadError) {
            (used, data) = try body.consume(after)
        } catch {
            // No byte of this response was sent to the client yet, so a problem can be sent instead.
            return perform(exchange.upstreamFailed(error))
        }
        if cannotKeepTrailers(of: body) { return perform(exchange.outOfMemory()) }
        if shard.isDraining { exchange.closeClient() }
        replayBody.discard()
        exchange.finalHead(response, delimitedByClose: isDelimitedByClose)
        sentStatus = response.status
        isContinueDue = false
        shard.out.clear()
        var writer = writer(response, view, table)
        writer.keepsTrailer = head.wantsTrailers && response.framing == .chunked && delivery == .chunked
        writer.writeFinal(
            into: &shard.out, delivery: delivery, closes: exchange.closesClient, replayObstacle: replayObstacle)
        if writer.keepsTrailer { keepNominations(response, view, table) }
        keepTrailers(of: body, in: UnsafeRawBufferPointer(after))
        deliver(data, of: body, leftover: used < after.count)
    }

    /// Relays body bytes.
    private func relayBody(_ input: UnsafeMutableRawBufferPointer) {
        guard var body = responseBody else { return }
        do throws(HeadError) {
            let (used, data) = try body.consume(input)
            if cannotKeepTrailers(of: body) { return perform(exchange.outOfMemory()) }
            shard.out.clear()
            keepTrailers(of: body, in: UnsafeRawBufferPointer(input))
            deliver(data, of: body, leftover: used < input.count)
        } catch {
            // Bytes before the error may be sent. The abort makes the missing end visible.
            perform(exchange.upstreamFailed(error))
        }
    }

    /// Sends body bytes behind the contents of the out buffer.
    private func deliver(_ data: UnsafeRawBufferPointer, of body: ResponseBody, leftover: Bool) {
        responseBody = body
        if body.isEnded, !partialHead.isEmpty { return deliverLast(data, leftover: leftover) }
        var tail: StaticString = ""
        if body.delivery == .chunked { tail = shard.out.writeChunkStart(of: data.count, ends: body.isEnded) }
        push(data, tail)
        guard phase == .exchange else { return }
        if body.isEnded { return perform(exchange.responseEnded(leftover: leftover)) }
        updateRelayTimeout()
        releaseHead()
    }

    /// While a long response is relayed the request's head is not needed.
    private func releaseHead() {
        guard body.isEnded, let buffer, buffer.used == buffer.count else { return }
        shard.giveBack(buffer)
        self.buffer = nil
    }

    /// The upstream's orderly close completes a body that is delimited by the close.
    private func finishUntilClose() {
        if responseBody?.delivery == .chunked {
            shard.out.clear()
            push(UnsafeRawBufferPointer(start: nil, count: 0), "0\r\n\r\n")
            guard phase == .exchange else { return }
        }
        perform(exchange.upstreamEnded(clean: true, sawBytes: true, holdsRequest: false))
    }

    /// Sends the shard's out buffer, `data` and `tail` to the client, or queues them.
    private func push(_ data: UnsafeRawBufferPointer, _ tail: StaticString) {
        if stream.send(shard.out.bytes, data, tail) != 0 { abandon() }
    }

    /// Sends a fixed text to the client.
    func deliver(_ text: StaticString) {
        shard.out.clear()
        push(UnsafeRawBufferPointer(start: nil, count: 0), text)
    }

    /// Sends the bytes that are queued for the client. When all are sent, reading goes on.
    func flush() {
        guard stream.flush() == 0 else { return abandon() }
        if !stream.isFlushed {
            // The client took some bytes: the write timeout begins again.
            return beginWriteTimeout()
        }
        switch phase {
        case .flushing: beginLinger()
        case .exchange:
            updateRelayTimeout()
            pumpResponse()
        case .waiting:
            beginIdleTimeout()
            parse()
        case .head, .tunnel, .lingering, .closed: break
        }
    }

    /// Sets the deadline anew after bytes were sent to the client or queued for it.
    private func updateRelayTimeout() {
        guard exchange.response == .relaying, let route else { return }
        if !stream.isFlushed { return beginWriteTimeout() }
        if let idle = timeouts(route).responseIdle { setOutbound(idle) } else { clearOutbound() }
    }

    static let standardWriteTimeout = Duration.seconds(60)

    var writeTimeout: Duration { route.map { timeouts($0).write } ?? tailTimeout }
}
