import CNGHTTP2
import LanyardFoundations
import LanyardSettings

/// An upstream's HTTP/2 connection: reads its frames, has the streams, and sends what a turn of the loop has made ready at its end.
///
/// Belongs to the shard's queue, which the connection checks.
final class UpstreamMultiplexer {
    /// How the connection ends.
    private enum End {
        /// It does not.
        case none
        /// No further stream is opened; those in progress end in order.
        case draining
        /// Nothing more is read or sent.
        case ended
    }

    /// Not counted: the connection has it.
    private let owner: Unmanaged<UpstreamConnection>
    let session: HTTP2Session
    private let workspace: HTTP2Workspace
    private let resources: UpstreamPool.Resources
    private var lists = StreamLists()
    private var output: FrameOutput
    private var budgets = HTTP2Budgets()
    private var places: StreamPlaces
    private(set) var pings: PingSchedule
    private var end = End.none
    private var waits = MultiplexerWaits()

    /// nil: there is no memory.
    init?(
        of connection: UpstreamConnection, _ settings: HTTP2Settings, _ resources: UpstreamPool.Resources,
        at now: Instant
    ) {
        guard let workspace = resources.frames.workspace(),
            let session = HTTP2Session(
                .client, within: HTTP2Session.Limits(settings, resources.responseLimits),
                isSecure: connection.stream.isSecured, memory: resources.frames)
        else { return nil }
        owner = .passUnretained(connection)
        self.session = session
        self.workspace = workspace
        self.resources = resources
        output = FrameOutput(resources.frames)
        places = StreamPlaces(settings, at: now)
        resources.counters.connections.add()
        pings = PingSchedule(
            PingSchedule.Limits(after: settings.pingAfter * connection.pool.pingFactor, timeout: settings.pingTimeout),
            at: now)
    }

    private var connection: UpstreamConnection { owner.takeUnretainedValue() }
    private var loop: EventLoop { connection.pool.loop }

    // MARK: Places

    /// A request can begin now.
    func hasPlace(at now: Instant) -> Bool {
        end == .none && session.takesRequests && canTake
            && places.hasFree(besides: lists.open.count, announced: announcedMax, at: now)
    }

    /// Streams that the upstream allows. Before its SETTINGS: what is known of other connections, and 100 at most (H26).
    private var announcedMax: Int {
        waits.hasSettings
            ? session.peerStreamsMax : min(session.peerStreamsMax, connection.pool.sharing.knownStreamsMax)
    }

    /// No exchange has a place.
    var isIdle: Bool { lists.open.isEmpty && places.promised == 0 }

    /// It will take no further request.
    func isEnding(at now: Instant) -> Bool {
        end != .none || places.areUsedUp || now >= places.endsAt || !session.takesRequests
    }
    /// It takes none from then on.
    var endsAt: Instant { places.endsAt }

    /// Another request was carried before.
    var isReused: Bool { places.requests > 1 }

    /// A place for one exchange. Requires `hasPlace`.
    func open() -> UpstreamStream {
        let stream = resources.streams.take() ?? UpstreamStream(budget: resources.buffers)
        stream.begin(on: self)
        places.promise()
        return stream
    }

    /// The socket takes bytes, and the turn has room.
    var canTake: Bool { connection.stream.isFlushed && output.hasRoom && end != .ended }

    /// Bytes that the socket has taken.
    var takenBytes: UInt64 { connection.stream.taken }

    /// The head of the stream is submitted.
    func noteBegun(_ stream: UpstreamStream) {
        let isFirst = lists.open.isEmpty
        pings.recordRequest(isFirst: isFirst, at: loop.now)
        places.promised -= 1
        if lists.fresh.isEmpty { waits.takenBeforeFresh = connection.stream.taken }
        lists.add(stream)
        resources.counters.beginStream()
        if isFirst { connection.checkSilence() }
    }

    /// Its exchange does not use the stream any more.
    func noteReleased(_ stream: UpstreamStream) {
        if stream.place < 0 {
            if stream.id == 0 { places.promised -= 1 }
            lists.released.append(stream)
        }
        noteOutput()
    }

    func noteStalled(_ stream: UpstreamStream) {
        guard !stream.isStalled else { return }
        stream.isStalled = true
        lists.stalled.append(stream)
    }

    /// The upstream gets room for as many bytes.
    func credit(_ count: Int, of stream: UpstreamStream) {
        if stream.isClosed { session.consume(count) } else { session.consume(count, of: stream.id) }
        noteOutput()
    }

    var isPaused: Bool {
        get { waits.isPaused }
        set { waits.isPaused = newValue }
    }

    // MARK: Reading

    /// The socket can be read or takes bytes.
    func handleReadiness() {
        if connection.stream.canFlush { flush() }
        read()
    }

    /// Reads while there is something, up to one turn's share.
    func read() {
        var share = 256 << 10
        let connection = connection
        while end != .ended, connection.stream.canRead {
            guard share > 0 else { return loop.resumeLater(connection) }
            guard let room = resources.frames.room(for: connection) else { return }
            switch connection.stream.receive(into: room) {
            case .bytes(let count):
                share -= count
                receive(UnsafeRawBufferPointer(rebasing: room[0..<count]))
            case .wouldBlock:
                guard connection.stream.isBroken else { return }
                return endLost()
            // HTTP/2 has no half-closed connection.
            case .end, .failed: return endLost()
            }
        }
    }

    private func receive(_ bytes: UnsafeRawBufferPointer) {
        let isAlive = session.receive(bytes, in: workspace)
        let events = workspace.events
        pings.recordFrames(hasMessages: events.contains(where: \.isMessage), at: loop.now)
        for index in events.indices {
            handle(events[index])
            guard end != .ended else { return }
        }
        for stream in lists.heads where end != .ended { stream.deliverHead() }
        lists.heads.removeAll(keepingCapacity: true)
        guard end != .ended else { return }
        let counts = session.takeCounts()
        resources.counters.resets.add(Int(counts.resets))
        let limit = budgets.charge(counts, refused: 0, at: loop.now)
        removeClosed()
        guard end != .ended else { return }
        if !isAlive || limit != nil {
            let reason = limit ?? session.failureEnd
            resources.counters.count(reason)
            connection.pool.target.recordEnd(reason.rawValue, byUpstream: false)
            session.goAway(reason.code, reason.rawValue)
            return connection.pool.discard(connection)
        }
        noteOutput()
    }

    private func handle(_ event: lanyard_h2_event) {
        switch event.known {
        case .head, .trailers: receiveSection(event)
        case .data, .end:
            guard let stream = stream(of: event) else { return session.consume(event.count) }
            stream.receiveBody(event.content, ends: event.ends)
        case .pingAcknowledged: connection.pool.handleAnsweredProbe(of: connection)
        case .goAway: receiveGoAway(code: event.code)
        // The codec has applied them: there may be more places.
        case .settings:
            waits.recordSettings()
            connection.pool.noteStreamsMax(session.peerStreamsMax)
            noteOutput()
        }
    }

    private func receiveSection(_ event: lanyard_h2_event) {
        guard let stream = stream(of: event) else { return }
        if event.isTooLarge {
            return refuse(stream, HeadError(.fieldsTooLarge, "the field section is too long"))
        }
        if event.isMalformed { return refuse(stream, .malformed("a field that HTTP/2 does not allow")) }
        if event.known == .head {
            let waits = stream.receiveHead(event.content, isNeverIndexed: event.isNeverIndexed, ends: event.ends)
            if waits { lists.heads.append(stream) }
        } else if event.ends {
            stream.receiveTrailers(event.content)
        } else {
            refuse(stream, .malformed("trailers before the end"))
        }
    }

    private func refuse(_ stream: UpstreamStream, _ error: HeadError) {
        session.reset(stream.id, .protocolError)
        stream.fail(.malformed(error))
        noteOutput()
    }

    private func stream(of event: lanyard_h2_event) -> UpstreamStream? {
        event.owner.map { Unmanaged<UpstreamStream>.fromOpaque($0).takeUnretainedValue() }
    }

    /// The codec has closed the streams that the upstream does not process (H28, H29).
    private func receiveGoAway(code: UInt32) {
        if end == .none { end = .draining }
        guard code != HTTP2Session.Code.noError.rawValue else { return }
        connection.pool.noteGoAway(code: code)
    }

    /// Removes the streams that the codec has closed, and those that no exchange uses.
    private func removeClosed() {
        var hasRoom = waits.takeNewLimit()
        while let (owner, code) = session.takeClosed() {
            let stream = Unmanaged<UpstreamStream>.fromOpaque(owner).takeUnretainedValue()
            guard stream.place >= 0 else { continue }
            lists.remove(stream)
            resources.counters.endStreams(1)
            hasRoom = true
            learnLimit(isRefused: code == HTTP2Session.Code.refusedStream.rawValue)
            if stream.owner == nil { lists.released.append(stream) }
            stream.close(UpstreamStream.Failure(code))
        }
        for stream in lists.released { resources.streams.keep(stream) }
        hasRoom = hasRoom || !lists.released.isEmpty
        lists.released.removeAll(keepingCapacity: true)
        if hasRoom, end != .ended { connection.pool.handleFreePlace(of: connection) }
    }

    private func learnLimit(isRefused: Bool) {
        guard isRefused else { return places.noteEnd() }
        resources.counters.refused.add()
        places.noteRefusal(others: lists.open.count)
        connection.pool.noteStreamsMax(min(session.peerStreamsMax, max(lists.open.count, 1)))
        // Without others the connection is of no use.
        if lists.open.isEmpty, end == .none { end = .draining }
    }

    // MARK: Sending

    /// Something may be ready to be sent at the end of the turn.
    func noteOutput() {
        guard !waits.isTurnNoted, end != .ended else { return }
        waits.isTurnNoted = true
        loop.resumeLater(connection)
    }

    /// Makes frames of what was submitted. While the socket takes none the codec keeps it.
    func frame() {
        guard end != .ended else { return }
        noteOutput()
        output.produce(from: session, to: &connection.stream)
    }

    /// The loop's turn ends, or a pause of the reading.
    func resume() {
        if waits.isTurnNoted { finishTurn() }
        if end != .ended, connection.stream.canRead { read() }
    }

    private func finishTurn() {
        waits.isTurnNoted = false
        let connection = connection
        output.produce(from: session, to: &connection.stream)
        guard output.send(to: &connection.stream), !output.isBroken else {
            // What the upstream has said before is read first (http-connections.md 9.7).
            if end == .none { end = .draining }
            read()
            return endLost()
        }
        noteSentHeads()
        output.release()
        removeClosed()
        session.countMemory()
        guard end != .ended else { return }
        // The codec has met an error of the upstream, and has said so in a GOAWAY.
        if !session.isLive, end == .none {
            connection.pool.target.recordEnd(HTTP2End.malformed.rawValue, byUpstream: false)
            return connection.pool.discard(connection)
        }
        resumeStalled()
        if end == .draining, isIdle || !session.isLive { connection.pool.discard(connection) }
    }

    /// The connection is lost. Requests of which not a byte has left are sent on another one (H35).
    private func endLost() {
        guard end != .ended else { return }
        if end == .none { end = .draining }
        waits.isLost = true
        let unsent = connection.stream.taken == waits.takenBeforeFresh ? lists.fresh : []
        lists.fresh.removeAll()
        removeClosed()
        for stream in unsent where !stream.isClosed { stream.close(.notProcessed) }
        if end != .ended { connection.pool.discard(connection) }
    }

    private func noteSentHeads() {
        if connection.stream.isFlushed {
            waits.queuedHeadExpiresAt = .never
        } else {
            // What was handed on in this turn stands behind the socket.
            for stream in lists.open where stream.isUploading { stream.owner?.handleStream(stream) }
            for stream in lists.fresh {
                waits.queuedHeadExpiresAt = min(waits.queuedHeadExpiresAt, stream.headExpiresAt)
            }
        }
        lists.fresh.removeAll(keepingCapacity: true)
    }

    /// Streams whose bodies are in frames by now continue.
    private func resumeStalled() {
        for stream in lists.stalled.takeResumed() {
            stream.sendTrailersIfDue()
            stream.owner?.handleStream(stream)
        }
    }

    /// The socket takes bytes again.
    private func flush() {
        let connection = connection
        // An expired token is never sent: what is queued cannot be taken back.
        guard loop.now < waits.queuedHeadExpiresAt, connection.stream.flush() == 0 else {
            return connection.pool.discard(connection)
        }
        guard connection.stream.isFlushed else { return }
        waits.queuedHeadExpiresAt = .never
        noteOutput()
        for stream in lists.open where !stream.isStalled { stream.owner?.handleStream(stream) }
        if end != .ended { connection.pool.handleFreePlace(of: connection) }
    }

    // MARK: Life

    /// The upstream is asked whether it is there.
    func ping() {
        session.ping()
        pings.recordPing(at: loop.now)
        noteOutput()
    }

    /// What is to be done about the upstream's silence; nil: no stream is open.
    func checkSilence(at now: Instant) -> PingSchedule.Action? {
        guard !lists.open.isEmpty else { return nil }
        // What it may have said is not read for want of memory.
        if waits.isPaused { pings.recordFrames(hasMessages: false, at: now) }
        let action = pings.check(at: now)
        if action == .ping {
            session.ping()
            noteOutput()
        }
        return action
    }

    /// The connection closes. The upstream is told, if it takes bytes.
    func close() {
        guard end != .ended else { return }
        resources.counters.connections.add(-1)
        if !waits.isLost, !output.isBroken, connection.stream.isFlushed, !connection.stream.isBroken {
            if end == .none { session.goAway(.noError, "") }
            output.produce(from: session, to: &connection.stream)
            _ = output.send(to: &connection.stream)
        }
        end = .ended
        output.release()
        // What their exchanges do now does not reach this connection any more.
        let cut = lists.open
        resources.counters.endStreams(cut.count)
        lists = StreamLists()
        for stream in cut { stream.place = -1 }
        for stream in cut { stream.close(.cut) }
    }
}
