import CNGHTTP2
import LanyardRequestPath

/// One reading of a script by a session, as a connection does it: events are taken, streams are adopted, frames are made.
final class HTTP2Run {
    /// Where the bytes between two actions are cut.
    enum Pieces { case whole, pieces, single }

    /// What this side does.
    enum Action: UInt8 {
        case request, respond, respondWithBody, respondWithTrailers, interim, addBody, endBody, cancel,
            resetWithoutError
        case consume, consumeHalf, ping, announceEnd, refuseStreams, forgetToken, terminate
        case upload, secret, otherSecret, longRequest
    }

    /// How the connection has ended.
    enum End: Equatable {
        case none
        case failed(HTTP2End)
        /// By the codec, with a GOAWAY.
        case refused
        case terminated
    }

    private let side: HTTP2Session.Side
    private let script: HTTP2Script
    private let session: HTTP2Session
    private let memory: HTTP2FuzzMemory
    let written: HTTP2Written
    private var streams = HTTP2FuzzStreams()
    private(set) var peer: HTTP2PeerFrames
    private(set) var transcript = HTTP2Transcript()
    private(set) var end = End.none
    /// Bytes came when all streams had ended behind a GOAWAY. The codec ignores them, but not those that came with the GOAWAY.
    private var isDrained = false
    /// Of all frames.
    private var counts = lanyard_h2_counts()
    /// Bytes that were fed.
    private var fed = 0

    init(_ script: HTTP2Script, _ side: HTTP2Session.Side, _ memory: HTTP2FuzzMemory) {
        guard let session = HTTP2Session(side, within: script.options.limits, isSecure: script.options.isSecure) else {
            fatalError("no memory for a session")
        }
        self.script = script
        self.side = side
        self.session = session
        self.memory = memory
        written = HTTP2Written(by: side)
        peer = HTTP2PeerFrames(startingAt: side == .server ? HTTP2FuzzBlocks.preface.count : 0)
    }

    /// Of either side.
    private var hasGoAway: Bool { transcript.hasGoAway || written.goAway != nil }

    func perform(_ pieces: Pieces) throws(BrokenPromise) {
        var cuts = script.bytes.withUnsafeBufferPointer { FuzzCuts($0) }
        for step in script.steps where end == .none {
            switch step {
            case .bytes(let range): try feed(range, pieces, &cuts)
            case .action(let kind, let argument):
                let action = Action(rawValue: kind) ?? Action(rawValue: kind & 15)!
                perform(action, argument)
                // Until the frame is made the codec takes further streams, and a later GOAWAY would name them.
                if action == .refuseStreams { try produce() }
            case .produce: try produce()
            }
            if script.options.isPrompt, end == .none { try produce() }
        }
        try finish()
    }

    // MARK: - What comes

    private func feed(_ range: Range<Int>, _ pieces: Pieces, _ cuts: inout FuzzCuts) throws(BrokenPromise) {
        streams.beginSegment()
        var start = range.lowerBound
        while start < range.upperBound, end == .none {
            let next =
                switch pieces {
                case .whole: range.upperBound
                case .pieces: min(cuts.end(from: start, of: range.upperBound), range.upperBound)
                case .single:
                    script.longRuns.first { $0.contains(start) }.map { min($0.upperBound, range.upperBound) } ?? start
                        + 1
                }
            try receive(start..<next)
            start = next
        }
        fed = start
        peer.advance(script.bytes, to: range.upperBound)
        settle()
    }

    private func receive(_ range: Range<Int>) throws(BrokenPromise) {
        if hasGoAway {
            isDrained =
                isDrained || streams.all.allSatisfy { $0.isClosed || (side == .client && !written.hasHead($0.number)) }
        }
        let piece = script.bytes.withUnsafeBufferPointer { memory.pieces.atEnd($0[run: range]) }
        let isAlive = session.receive(UnsafeRawBufferPointer(piece), in: memory.workspace)
        let events = memory.workspace.events
        for index in events.indices { try handle(events, index, in: piece) }
        try takeClosed()
        streams.closeUnadopted()
        if !isAlive { end = .failed(session.failureEnd) }
    }

    private func handle(
        _ events: UnsafeMutableBufferPointer<lanyard_h2_event>, _ index: Int, in piece: Bytes
    ) throws(BrokenPromise) {
        let event = events[index]
        guard event.isMessage else { return transcript.add(event) }
        try BrokenPromise.unless(event.stream > 0, "an event of a message without a stream")
        if event.known == .head, side == .server {
            try begin(events, index)
        } else {
            let owner = event.headPlace.map { events[$0].owner } ?? event.owner
            try BrokenPromise.unless(event.headPlace ?? 0 < max(index, 1), "an event refers to a head behind it")
            try streams.check(event, owner, of: side)
        }
        let stream = streams[event.stream]!
        switch event.known {
        case .data, .end: try addBody(event, stream, in: piece)
        case .head, .trailers:
            try HTTP2HeadText.check(event, side, script.options)
            if event.known == .trailers {
                try BrokenPromise.unless(event.ends, "trailers that do not end the stream")
            }
            transcript.add(event)
        case .settings, .pingAcknowledged, .goAway: break
        }
        if event.known == .head { try stream.addHead(event, side) }
        if event.ends { stream.hasInputEnded = true }
    }

    private func begin(_ events: UnsafeMutableBufferPointer<lanyard_h2_event>, _ index: Int) throws(BrokenPromise) {
        let number = events[index].stream
        try BrokenPromise.unless(number & 1 == 1, "a client's stream has an even number")
        try BrokenPromise.unless(number > streams.latest, "numbers of streams do not rise")
        try BrokenPromise.unless(events[index].owner == nil, "a new stream has an owner")
        try BrokenPromise.unless(!written.isReset(number), "a stream that was reset begins")
        let stream = streams.add(number)
        guard session.adopt(number, by: stream.owner) else { return stream.isAdopted = false }
        events[index].owner = stream.owner
    }

    private func addBody(_ event: lanyard_h2_event, _ stream: HTTP2FuzzStream, in piece: Bytes) throws(BrokenPromise) {
        if event.known == .data {
            let start = piece.baseAddress!
            try BrokenPromise.unless(
                event.count > 0 && event.bytes >= start && event.bytes + event.count <= start + piece.count,
                "bytes of a body do not lie in the input")
            stream.undelivered += event.count
        } else {
            try BrokenPromise.unless(event.count == 0 && event.ends, "an end with bytes, or without an end")
        }
        transcript.addBody(event)
    }

    private func takeClosed() throws(BrokenPromise) {
        while let (owner, code) = session.takeClosed() {
            guard let stream = streams.stream(of: owner) else {
                throw BrokenPromise("a stream closes that has not begun")
            }
            try BrokenPromise.unless(!stream.isClosed, "a stream closes twice")
            stream.close(with: code)
        }
    }

    /// Bytes between two actions are read, or frames were made. The connection gets room for what closed streams have not delivered.
    private func settle() { session.consume(streams.takeDropped(into: &transcript)) }

    // MARK: - What is done

    private func perform(_ action: Action, _ argument: UInt8) {
        switch action {
        case .request: request(.request, argument, hasBody: false)
        case .upload: request(.upload, argument, hasBody: true)
        case .secret: request(.secret, argument, hasBody: false)
        case .otherSecret: request(.otherSecret, argument, hasBody: argument & 0x80 != 0)
        case .longRequest: request(.longHead, argument, hasBody: false)
        case .ping: session.ping()
        case .announceEnd: if side == .server { session.announceEnd() }
        case .refuseStreams: session.refuseStreams()
        // As a connection does when it becomes idle: a head that waits would lose its token.
        case .forgetToken: if streams.all.allSatisfy(\.isClosed) { session.forgetToken() }
        case .terminate:
            session.goAway(.enhanceYourCalm, HTTP2End.resets.rawValue)
            end = .terminated
        case .respond, .respondWithBody, .respondWithTrailers, .interim, .addBody, .endBody, .cancel,
            .resetWithoutError,
            .consume, .consumeHalf:
            if let stream = streams.open(argument & 7) { perform(action, argument, on: stream) }
        }
    }

    private func perform(_ action: Action, _ argument: UInt8, on stream: HTTP2FuzzStream) {
        let size = [0, 1, 100, 1000, 5000, 16384, 20000, 40000][Int(argument >> 3 & 7)]
        switch action {
        case .respond: respond(stream, hasBody: false)
        case .respondWithBody, .respondWithTrailers:
            stream.setBody(memory.body, size, ends: argument & 0x40 == 0, hasTrailers: action == .respondWithTrailers)
            respond(stream, hasBody: true)
        case .interim:
            guard side == .server, stream.takesHead else { return }
            if HTTP2FuzzHead.interim.with({ session.respondInterim(stream.number, $0) }) { noteHead(.interim, stream) }
        case .addBody, .endBody:
            guard stream.addBody(memory.body, size, ends: action == .endBody) else { return }
            session.resume(stream.number)
        case .cancel, .resetWithoutError:
            session.reset(stream.number, action == .cancel ? .cancel : .noError)
            stream.isReset = true
        default:
            let count = action == .consume ? stream.undelivered : stream.undelivered / 2
            stream.undelivered -= count
            session.consume(count, of: stream.number)
        }
    }

    private func respond(_ stream: HTTP2FuzzStream, hasBody: Bool) {
        guard side == .server, stream.takesHead else { return }
        let source = hasBody ? stream.source : nil
        guard HTTP2FuzzHead.response.with({ session.respond(stream.number, $0, source) }) else { return }
        noteHead(.response, stream)
        stream.takesHead = false
        stream.hasBody = hasBody
    }

    private func request(_ head: HTTP2FuzzHead, _ argument: UInt8, hasBody: Bool) {
        guard side == .client, session.takesRequests, streams.count < 64 else { return }
        let stream = HTTP2FuzzStream(0)
        if hasBody {
            stream.setBody(memory.body, Int(argument) * 50, ends: argument & 1 == 0, hasTrailers: argument & 2 != 0)
        }
        stream.hasBody = hasBody
        guard
            let number = head.with({ session.request($0, hasBody ? stream.source : nil, by: stream.owner) })
        else { return }
        stream.number = number
        streams.add(stream)
        noteHead(head, stream)
    }

    private func noteHead(_ head: HTTP2FuzzHead, _ stream: HTTP2FuzzStream) {
        written.streams[stream.number, default: HTTP2Written.Stream()].heads.append(head)
    }

    /// Makes frames until nothing is left.
    private func produce() throws(BrokenPromise) {
        streams.beginSegment()
        repeat {
            var count = 0
            repeat {
                guard let amount = session.produce(into: memory.room) else {
                    throw BrokenPromise("the codec makes no frames")
                }
                count = amount
                try written.add(UnsafeRawBufferPointer(rebasing: memory.room[..<count]))
            } while memory.room.count - count < HTTP2Session.frameBytesMax
        } while submitTrailers()
        try takeClosed()
        for stream in streams.all where stream.isReset { stream.hasSentReset = true }
        try checkWritten()
        settle()
        if end == .none, let goAway = written.goAway, goAway.code != 0 { end = .refused }
    }

    private func submitTrailers() -> Bool {
        var hasSome = false
        for stream in streams.all where stream.hasDueTrailers && !stream.isClosed && !stream.isReset {
            stream.hasTrailers = false
            guard HTTP2FuzzHead.trailers.with({ session.submitTrailers(stream.number, $0) }) else { continue }
            noteHead(.trailers, stream)
            hasSome = true
        }
        return hasSome
    }

    /// What is sent is within the windows, and replies to what has come.
    private func checkWritten() throws(BrokenPromise) {
        try BrokenPromise.unless(
            written.dataBytes <= peer.connectionWindow, "more was sent than the connection's window")
        for stream in streams.all {
            let data = written.streams[stream.number]?.data ?? 0
            try BrokenPromise.unless(data <= peer.window(of: stream.number), "more was sent than the stream's window")
            try BrokenPromise.unless(
                stream.isClosed || UInt64(data) == stream.source.pointee.framed,
                "framed bytes are not those that were sent")
        }
        try BrokenPromise.unless(written.settingsAcknowledged <= peer.settings, "SETTINGS acknowledged that never came")
        // Behind a GOAWAY, while no stream is open, the codec leaves PINGs without a reply.
        let isReply =
            hasGoAway
            ? written.pingsAcknowledged.count <= peer.pings.count : peer.pings.starts(with: written.pingsAcknowledged)
        try BrokenPromise.unless(isReply, "a PING acknowledged that never came")
        let initial = script.options.connectionWindow - 65535
        try BrokenPromise.unless(
            written.credit <= initial + peer.dataBytes + peer.restBytes(fed), "the window grows by more than has come")
    }

    // MARK: - The end

    private func finish() throws(BrokenPromise) {
        defer { counts = session.takeCounts() }
        switch end {
        case .failed(let reason):
            session.goAway(reason.code, reason.rawValue)
            try produce()
            try BrokenPromise.unless(written.goAway.map { $0.code != 0 } == true, "a connection fails without GOAWAY")
        case .terminated:
            try produce()
            try BrokenPromise.unless(written.goAway != nil, "a connection ends without GOAWAY")
        case .none:
            consumeAll()
            try produce()
            if end == .none { try checkAlive() }
        case .refused: break
        }
        guard end == .refused else { return }
        try BrokenPromise.unless(!session.isLive, "the codec has ended the connection and continues")
        // A PING's acknowledgement would be an event.
        let frame: [UInt8] = [0, 0, 8, HTTP2FrameType.ping.rawValue, 1, 0, 0, 0, 0] + [UInt8](repeating: 0, count: 8)
        _ = frame.withUnsafeBytes { session.receive($0, in: memory.workspace) }
        try BrokenPromise.unless(memory.workspace.events.isEmpty, "events behind the end of the connection")
    }

    private func consumeAll() {
        for stream in streams.all where !stream.isClosed {
            session.consume(stream.undelivered, of: stream.number)
            stream.undelivered = 0
        }
    }

    /// The connection lives: nothing that wants a reply is without one, and no window is lost.
    private func checkAlive() throws(BrokenPromise) {
        try BrokenPromise.unless(
            !session.isWithinHead || peer.mayBeWithinHead(fed), "a head is expected to continue that has ended")
        guard peer.isAtFrame(fed), session.isLive else { return }
        try BrokenPromise.unless(written.settingsAcknowledged == peer.settings, "SETTINGS without an acknowledgement")
        try BrokenPromise.unless(
            hasGoAway || written.pingsAcknowledged == peer.pings, "a PING without an acknowledgement")
        let initial = script.options.connectionWindow - 65535
        let owed = peer.dataBytes + initial - written.credit
        try BrokenPromise.unless(
            owed < script.options.connectionWindow / 2 + 1, "the connection's window has lost bytes")
    }

    /// Holds this run, of the bytes as they stand, to what must be the same however they are cut.
    func compare(with other: HTTP2Run) throws(BrokenPromise) {
        let items = transcript.items(besides: written, isEnded: end != .none)
        let others = other.transcript.items(besides: other.written, isEnded: end != .none)
        if isDrained || other.isDrained {
            let (left, right) = (items.filter { $0.kind != .closed }, others.filter { $0.kind != .closed })
            let isSame = left.count < right.count ? right.starts(with: left) : left.starts(with: right)
            return try BrokenPromise.unless(isSame, "cut otherwise, a drained connection has other events")
        }
        try BrokenPromise.unless(end == other.end, "cut otherwise, the connection ends otherwise")
        try BrokenPromise.unless(items == others, "cut otherwise, there are other events")
        try BrokenPromise.unless(
            written.comparable == other.written.comparable, "cut otherwise, other frames are written")
        guard end == .none else { return }
        try BrokenPromise.unless(
            HTTP2Transcript.isSame(counts, other.counts), "cut otherwise, frames are counted otherwise")
    }
}
