/// Relays the trailers of a response to a client that asked for them (http-rules.md 6.5, 6.6).
extension ClientConnection {
    /// Keeps the head's `Connection` lines in front of the trailer section: a field that they name is not forwarded as
    /// a trailer either (http-rules.md 10.1). Does nothing if the head names none.
    func keepNominations(_ response: ResponseHead, _ view: Bytes, _ table: FieldTable) {
        guard response.connection.nominatesFields else { return }
        for index in 0..<table.count where table[index].name == .connection {
            keep("Connection: " as StaticString)
            partialHead.append(table.value(index, in: view))
            keep("\r\n" as StaticString)
        }
    }

    private func keep(_ text: StaticString) {
        partialHead.append(Bytes(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    /// Part of a trailer section would have to be buffered, and no memory is left.
    func cannotKeepTrailers(of body: ResponseBody) -> Bool {
        !body.isEnded && !body.trailerBytes.isEmpty && keepsTrailers(of: body) && shard.context.buffers.isCrowded
    }

    private func keepsTrailers(of body: ResponseBody) -> Bool { head.wantsTrailers && body.delivery == .chunked }

    /// Buffered bytes of an incomplete request head, response head or trailer section.
    var partialBytes: Int {
        switch phase {
        case .head: buffer?.count ?? 0
        // `Connection` lines alone are small. They are no reason to end a stream.
        case .exchange: responseBody == nil || partialHead.count > 4 << 10 ? partialHead.count : 0
        default: 0
        }
    }

    /// Gives up the incomplete head or trailer section, because memory is crowded and `partialBytes` is not 0.
    func giveUpPartialHead() { phase == .head ? refuse(.buffersFull) : perform(exchange.outOfMemory()) }

    /// Keeps the bytes of the trailer section that `body` found in `input`, if the client wants trailers. The reader's
    /// limit of a trailer section bounds them.
    func keepTrailers(of body: ResponseBody, in input: UnsafeRawBufferPointer) {
        let place = body.trailerBytes
        guard !place.isEmpty, keepsTrailers(of: body) else { return }
        partialHead.append(UnsafeRawBufferPointer(rebasing: input[place]))
    }

    /// Sends the last data, the last chunk, and the trailers that may be forwarded. Then the exchange has ended.
    func deliverLast(_ data: UnsafeRawBufferPointer, leftover: Bool) {
        let tail = shard.out.writeChunkStart(of: data.count, ends: false)
        send(data, tail)
        guard phase == .exchange else { return }
        shard.out.clear()
        shard.out.write("0\r\n" as StaticString)
        writeTrailers()
        send(UnsafeRawBufferPointer(start: nil, count: 0), "\r\n")
        guard phase == .exchange else { return }
        perform(exchange.responseEnded(leftover: leftover))
    }

    private func send(_ data: UnsafeRawBufferPointer, _ tail: StaticString) {
        if stream.send(shard.out.bytes, data, tail) != 0 { abandon() }
    }

    /// Reads the whole trailer section again and writes the fields that may be forwarded.
    private func writeTrailers() {
        var section = ByteQueue(budget: shard.context.buffers)
        swap(&section, &partialHead)
        guard let route else { return }
        let bytes = section.bytes
        let table = shard.responseTable
        table.removeAll()
        var reader = FieldSectionReader()
        var position = 0
        // The section was checked on arrival. The head's `Connection` lines stand before it.
        guard (try? reader.read(bytes, from: &position, into: table, limits: .response)) == true else { return }
        for index in 0..<table.count {
            let name = table.name(index, in: bytes)
            guard TrailerFilter.passes(name, on: route), !ConnectionOptions.nominates(name, table, in: bytes) else {
                continue
            }
            shard.out.write(name)
            shard.out.write(": " as StaticString)
            shard.out.write(table.value(index, in: bytes))
            shard.out.write("\r\n" as StaticString)
        }
    }
}
