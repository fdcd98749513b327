import CNGHTTP2
import LanyardRequestPath

/// A stream as the head of the fuzzing knows it. Its source stays at its place until the run has ended.
final class HTTP2FuzzStream {
    var number: Int32
    let source: UnsafeMutablePointer<lanyard_h2_source>
    /// Bytes of its body for which the peer has got no room yet.
    var undelivered = 0
    private(set) var hasHead = false
    /// Trailers may follow, and no further head.
    private(set) var hasFinalHead = false
    var hasInputEnded = false
    private(set) var isClosed = false
    private(set) var code: UInt32 = 0
    /// False: the codec had closed it already.
    var isAdopted = true
    /// By this side.
    var isReset = false
    /// The frame of the reset was made: nothing comes any more.
    var hasSentReset = false
    /// This side may send a head.
    var takesHead = true
    var hasBody = false
    var hasTrailers = false

    init(_ number: Int32) {
        self.number = number
        source = .allocate(capacity: 1)
        source.initialize(to: lanyard_h2_source())
    }

    deinit { source.deallocate() }

    /// What the session knows it by.
    var owner: UnsafeMutableRawPointer { UnsafeMutableRawPointer(source) }

    func close(with code: UInt32) { (isClosed, self.code) = (true, code) }

    func addHead(_ event: lanyard_h2_event, _ side: HTTP2Session.Side) throws(BrokenPromise) {
        try BrokenPromise.unless(!hasFinalHead, "a second final head")
        hasHead = true
        // `HTTP/1.1 1`: an interim response.
        let isInterim = side == .client && event.count > 9 && event.content[9] == 0x31
        if !isInterim { hasFinalHead = true }
    }

    // MARK: Its body

    func setBody(_ body: UnsafePointer<UInt8>, _ count: Int, ends: Bool, hasTrailers: Bool) {
        guard takesHead, !hasBody else { return }
        source.pointee.second = body
        source.pointee.second_count = count
        source.pointee.ends = ends ? 1 : 0
        source.pointee.has_trailers = hasTrailers ? 1 : 0
        self.hasTrailers = hasTrailers
    }

    /// False: it has ended.
    func addBody(_ body: UnsafePointer<UInt8>, _ count: Int, ends: Bool) -> Bool {
        guard hasBody, !isReset, source.pointee.ends == 0 else { return false }
        source.pointee.first = body
        source.pointee.first_count = min(source.pointee.first_count + count, 64 << 10)
        if ends { source.pointee.ends = 1 }
        return true
    }

    /// As `StreamOutput` has it: all bytes are in frames, and trailers follow.
    var hasDueTrailers: Bool {
        hasTrailers && hasBody && source.pointee.ends != 0
            && source.pointee.first_count + source.pointee.second_count == 0
    }
}

/// The streams of a run.
struct HTTP2FuzzStreams {
    private(set) var all: [HTTP2FuzzStream] = []
    private var byNumber: [Int32: HTTP2FuzzStream] = [:]
    private var byOwner: [UnsafeMutableRawPointer: HTTP2FuzzStream] = [:]
    /// Those that were open at the segment's start.
    private var openBefore: [HTTP2FuzzStream] = []
    private(set) var latest: Int32 = 0

    var count: Int { all.count }

    subscript(number: Int32) -> HTTP2FuzzStream? { byNumber[number] }

    func stream(of owner: UnsafeMutableRawPointer) -> HTTP2FuzzStream? { byOwner[owner] }

    mutating func add(_ stream: HTTP2FuzzStream) {
        all.append(stream)
        byNumber[stream.number] = stream
        byOwner[stream.owner] = stream
        latest = max(latest, stream.number)
    }

    mutating func add(_ number: Int32) -> HTTP2FuzzStream {
        let stream = HTTP2FuzzStream(number)
        add(stream)
        return stream
    }

    /// One of those that are open; nil: none is.
    func open(_ choice: UInt8) -> HTTP2FuzzStream? {
        let open = all.filter { !$0.isClosed && !$0.isReset }
        return open.isEmpty ? nil : open[Int(choice) % open.count]
    }

    mutating func beginSegment() { openBefore = all.filter { !$0.isClosed } }

    /// Streams that were begun and closed by the same bytes.
    func closeUnadopted() {
        for stream in all where !stream.isAdopted && !stream.isClosed { stream.close(with: 0) }
    }

    /// Bytes of streams that have closed. Those that have closed since `beginSegment` are recorded.
    func takeDropped(into transcript: inout HTTP2Transcript) -> Int {
        for stream in openBefore where stream.isClosed { transcript.addClosed(stream.number, stream.code) }
        var count = 0
        for stream in all where stream.isClosed {
            count += stream.undelivered
            stream.undelivered = 0
        }
        return count
    }

    /// The stream may have such an event.
    func check(
        _ event: lanyard_h2_event, _ owner: UnsafeMutableRawPointer?, of side: HTTP2Session.Side
    ) throws(BrokenPromise) {
        guard let stream = byNumber[event.stream] else {
            throw BrokenPromise("an event of a stream that has not begun")
        }
        let hasOwner = owner == stream.owner || (owner == nil && !stream.isAdopted)
        try BrokenPromise.unless(hasOwner, "an event has another owner than its stream")
        try BrokenPromise.unless(!stream.isClosed, "an event behind the end of its stream")
        try BrokenPromise.unless(!stream.hasSentReset, "an event behind a reset")
        try BrokenPromise.unless(!stream.hasInputEnded, "an event behind the end of its message")
        if event.known == .head { return }
        try BrokenPromise.unless(stream.hasHead, "a part of a message without its head")
        try BrokenPromise.unless(stream.hasFinalHead, "a body or trailers in front of the final head")
    }
}
