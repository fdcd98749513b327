import CNGHTTP2
import LanyardFoundations
import LanyardSettings

/// A client's HTTP/2 connection: reads its frames, has the streams, and sends what a turn of the loop has made ready at its end.
///
/// Belongs to the shard's queue, which the connection checks.
final class HTTP2Receiver {
    /// How the connection ends.
    private enum End {
        /// It does not.
        case none
        /// The client was told that it will, and further streams are still served for a round trip (H30).
        case announced
        /// No further stream is served; those in progress end in order.
        case draining
        /// A GOAWAY with an error is sent, and nothing is read any more.
        case terminated
    }

    private struct Counts {
        /// Announced.
        let streamsMax: Int
        /// Streams that were refused in the present read because they were more.
        var refused = 0
        /// Streams so far.
        var requests = 0
        /// The last stream that a GOAWAY has left to be served.
        var lastServed = Int32.max
    }

    /// Not counted: the connection has it.
    private let owner: Unmanaged<ClientConnection>
    let session: HTTP2Session
    private let workspace: HTTP2Workspace
    private(set) var streams: [ClientStream] = []
    /// Their bodies wait for a window, or for the socket.
    private var stalled: [ClientStream] = []
    /// Their exchanges have ended, and some of their responses may not be in frames.
    private var ending: [ClientStream] = []
    private var output: FrameOutput
    /// The end of the turn is awaited.
    private var isTurnNoted = false
    private var end = End.none
    private var counts: Counts
    private var budgets = HTTP2Budgets()

    /// Streams so far.
    var requests: Int { counts.requests }
    var connection: ClientConnection { owner.takeUnretainedValue() }
    private var shard: ShardCore { connection.shard }

    init?(of connection: ClientConnection) {
        let shard = connection.shard
        var limits = shard.served.configuration.http2Limits
        limits.takesConnect = connection.exchange.rules.bridgesWebSocket
        guard let workspace = shard.memory.clientFrames.workspace(),
            let session = HTTP2Session(
                .server, within: limits, isSecure: connection.stream.isSecured, memory: shard.memory.clientFrames)
        else { return nil }
        owner = .passUnretained(connection)
        counts = Counts(streamsMax: limits.streamsMax)
        self.workspace = workspace
        output = FrameOutput(shard.memory.clientFrames)
        shard.counters.http2.clients.connections.add()
        self.session = session
    }

    /// The socket takes bytes, and the turn has room.
    var canTake: Bool { connection.stream.isFlushed && output.hasRoom }

    // MARK: Reading

    /// Reads once. Returns the number of bytes.
    func read() -> Int {
        guard end != .terminated, let room = shard.memory.clientFrames.room(for: connection) else { return 0 }
        let connection = connection
        switch connection.stream.receive(into: room) {
        case .bytes(let count):
            receive(UnsafeRawBufferPointer(rebasing: room[0..<count]))
            return count
        case .wouldBlock: break
        // HTTP/2 has no half-closed connection: the client is gone.
        case .end, .failed: connection.abandon()
        }
        return 0
    }

    /// Takes bytes of the connection.
    func receive(_ bytes: UnsafeRawBufferPointer) {
        guard end != .terminated else { return }
        let isAlive = session.receive(bytes, in: workspace)
        let events = workspace.events
        for index in events.indices { handle(events, index) }
        if !isAlive {
            terminate(session.failureEnd)
        } else {
            let frames = session.takeCounts()
            if frames.resets > 0 { shard.counters.http2.clients.resets.add(Int(frames.resets)) }
            let limit = budgets.charge(frames, refused: counts.refused, at: shard.loop.now)
            if let limit { terminate(limit) }
        }
        counts.refused = 0
        removeClosed()
        noteHead()
        noteOutput()
    }

    /// A head has `limits.header_timeout` from its first byte.
    private func noteHead() {
        let connection = connection
        guard end != .terminated, connection.state == .multiplexed else { return }
        switch connection.waits.wait {
        case .none, .idle: if session.isWithinHead { connection.begin(.head, for: shard.limits.headerTimeout) }
        case .head:
            guard !session.isWithinHead else { return }
            connection.endWait()
            if streams.isEmpty { connection.begin(.idle, for: connection.currentIdleTimeout) }
        case .handshake, .clientWrite, .kernelFlush, .linger: break
        }
    }

    /// The rest of a head has not come in time.
    func handleHeaderTimeout() { terminate(.headerTimeout) }

    private func handle(_ events: UnsafeMutableBufferPointer<lanyard_h2_event>, _ index: Int) {
        let event = events[index]
        switch event.known {
        case .head: begin(events, index)
        case .data, .end:
            guard let stream = stream(of: event, in: events) else { return session.consume(event.count) }
            stream.receive(event.content, ends: event.ends)
        case .trailers: stream(of: event, in: events)?.receiveTrailers(event.content, fault: Self.fault(of: event))
        case .pingAcknowledged: if end == .announced { refuseStreams() }
        case .goAway: if end == .none { end = .draining }
        // The codec has applied them.
        case .settings: break
        }
    }

    private func stream(
        of event: lanyard_h2_event, in events: UnsafeMutableBufferPointer<lanyard_h2_event>
    ) -> ClientStream? {
        let owner = event.headPlace.map { events[$0].owner } ?? event.owner
        return owner.map { Unmanaged<ClientStream>.fromOpaque($0).takeUnretainedValue() }
    }

    // MARK: Streams

    private func begin(_ events: UnsafeMutableBufferPointer<lanyard_h2_event>, _ index: Int) {
        let event = events[index]
        let connection = connection
        let shard = shard
        // One that its client has cancelled makes room at once. What comes of it is still in the list of events.
        let areTooMany = streams.count - session.closedCount >= counts.streamsMax
        if areTooMany { counts.refused += 1 }
        if areTooMany || event.stream > counts.lastServed || shard.context.buffers.isUnder(.requestsRefused) {
            shard.counters.http2.clients.refused.add()
            _ = session.adopt(event.stream, by: nil)
            return session.reset(event.stream, .refusedStream)
        }
        let stream = connection.clients.stream(onListener: connection.exchange.rules.index)
        let reference = Unmanaged.passUnretained(stream).toOpaque()
        // A client that has reset its stream at once causes no work.
        guard session.adopt(event.stream, by: reference) else { return connection.clients.keep(stream) }
        events[index].owner = reference
        if streams.isEmpty { connection.endIdleWait() }
        stream.begin(event.stream, of: self, hasInputEnded: event.ends)
        streams.add(stream)
        counts.requests += 1
        shard.counters.http2.clients.beginStream()
        stream.exchange.connect(to: ClientSink(connection, stream: stream))
        stream.exchange.beginStream(
            event.content, isWhole: event.ends, event.traits, fault: Self.fault(of: event))
        if let countMax = shard.limits.requestsPerConnectionMax, counts.requests >= countMax, end == .none {
            refuseStreams()
        }
    }

    private static func fault(of event: lanyard_h2_event) -> Problem? {
        if event.isTooLarge { return .malformed(HeadError(.fieldsTooLarge, "the field section is too long")) }
        if event.hasOtherScheme { return .hostNotAllowed }
        guard event.isMalformed else { return nil }
        return .malformed(.malformed("a field that HTTP/2 does not allow, or a Host beside another authority"))
    }

    /// Removes the streams that the codec has closed.
    private func removeClosed() {
        while let (owner, _) = session.takeClosed() {
            let stream = Unmanaged<ClientStream>.fromOpaque(owner).takeUnretainedValue()
            guard stream.place >= 0, !stream.outlivesClose() else { continue }
            stream.close()
            // Its client has reset it.
            if stream.exchange.state.isHeadRead { stream.exchange.handleClientReset() }
            remove(stream)
        }
        guard streams.isEmpty, connection.state == .multiplexed else { return }
        switch end {
        case .none, .announced: connection.beginIdleTimeoutUnlessWaiting()
        case .draining, .terminated: break
        }
    }

    private func remove(_ stream: ClientStream) {
        session.consume(stream.undelivered)
        streams.take(stream)
        shard.counters.http2.clients.endStreams(1)
        if stream.isStalled { stalled.removeAll { $0 === stream } }
        ending.removeAll { $0 === stream }
        stream.endLife()
        connection.clients.keep(stream)
    }

    func noteStalled(_ stream: ClientStream) {
        guard !stream.isStalled else { return }
        stream.isStalled = true
        stalled.append(stream)
    }

    func noteEnd(of stream: ClientStream) {
        ending.append(stream)
        noteOutput()
    }

    /// The client gets room for as many bytes.
    func credit(_ count: Int, of stream: ClientStream) {
        session.consume(count, of: stream.id)
        noteOutput()
    }

    // MARK: Sending

    /// Something may be ready to be sent at the end of the turn.
    func noteOutput() {
        guard !isTurnNoted else { return }
        isTurnNoted = true
        shard.loop.resumeLater(connection)
    }

    /// Makes frames of what was submitted. While the socket takes none the codec keeps it.
    func frame() {
        noteOutput()
        produce()
    }

    private func produce() { output.produce(from: session, to: &connection.stream) }

    /// The turn ends: what it has made ready leaves in one send.
    func finishTurn() {
        isTurnNoted = false
        let connection = connection
        endFinished()
        produce()
        for stream in ending { stream.sendTrailersIfDue() }
        guard output.send(to: &connection.stream), !output.isBroken else { return connection.abandon() }
        output.release()
        removeClosed()
        session.countMemory()
        resumeStalled()
        guard connection.state == .multiplexed else { return }
        if !connection.stream.isFlushed { connection.beginWriteTimeoutUnlessWaiting() }
        // Streams that continue have made further frames.
        guard output.isEmpty else { return noteOutput() }
        guard isOver else { return }
        if end == .none { shard.log.record(.malformed, peer: connection.stream.peerAddress) }
        // Nothing more of theirs can be sent.
        endStreams()
        connection.closeAfterFlush()
    }

    /// Buffered bytes of incomplete response heads and trailer sections.
    var partialBytes: Int { streams.reduce(0) { $0 + $1.exchange.partialBytes } }

    /// All that is open, for what concerns each exchange.
    func forEachExchange(_ work: (ClientExchange) -> Void) {
        for stream in Array(streams) where stream.isOpen { work(stream.exchange) }
    }

    /// Nothing more is sent or read.
    private var isOver: Bool {
        switch end {
        // The codec has met an error of its own.
        case .none: !session.isLive
        // The drain has a deadline.
        case .announced: false
        case .draining: streams.isEmpty || !session.isLive
        case .terminated: true
        }
    }

    /// Streams whose response is in frames: one whose request has not come whole is ended by a reset that says no error (H23).
    private func endFinished() {
        guard !ending.isEmpty else { return }
        // Tunnels that have outlived their streams.
        for stream in ending where stream.isClosed { remove(stream) }
        ending.removeAll { stream in
            guard stream.isFinished else { return false }
            if !stream.hasInputEnded { session.reset(stream.id, .noError) }
            return true
        }
    }

    /// Streams whose bodies are in frames by now continue.
    private func resumeStalled() {
        for stream in stalled.takeResumed() {
            stream.sendTrailersIfDue()
            if stream.isOpen { stream.exchange.handleClientFlush() } else { noteOutput() }
        }
    }

    /// The socket has taken all that was queued.
    func handleFlush() {
        noteOutput()
        for stream in streams where stream.isOpen && !stream.isStalled { stream.exchange.handleSocketFlush() }
    }

    // MARK: The end of the connection

    /// Streams in progress end in order, and no further ones are served after a round trip (H30).
    func drain() {
        guard end == .none else { return }
        end = .announced
        session.announceEnd()
        session.ping()
        noteOutput()
        // A client that acknowledges nothing has had its time then.
        if connection.waits.wait != .clientWrite { connection.begin(.idle, for: connection.currentIdleTimeout) }
    }

    func refuseStreams() {
        guard end != .draining, end != .terminated else { return }
        end = .draining
        counts.lastServed = session.lastStream
        session.refuseStreams()
        // At once: a later GOAWAY must not name a stream that this one excludes (RFC 9113 §6.8).
        frame()
    }

    private func terminate(_ reason: HTTP2End) {
        guard end != .terminated else { return }
        end = .terminated
        session.goAway(reason.code, reason.rawValue)
        shard.counters.http2.clients.count(reason)
        shard.log.record(reason, peer: connection.stream.peerAddress)
        noteOutput()
    }

    /// The connection is closed.
    func close() {
        shard.counters.http2.clients.connections.add(-1)
        endStreams()
        output.release()
    }

    private func endStreams() {
        for stream in streams {
            stream.close()
            if stream.exchange.state.isHeadRead { stream.exchange.abandon() }
        }
        for stream in streams {
            stream.place = -1
            stream.endLife()
            connection.clients.keep(stream)
        }
        shard.counters.http2.clients.endStreams(streams.count)
        (streams, stalled, ending) = ([], [], [])
    }
}
