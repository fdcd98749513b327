import LanyardFoundations
import LanyardSettings

/// What has come of the requests of one client's connection, one at a time: the buffer of their bytes with the reader of
/// heads, the reader of the body, and what they have found.
///
/// It does no I/O: the connection brings the bytes and acts on what was found. The exchange checks the queue.
struct RequestInput: ~Copyable {
    /// What is forwarded of a request.
    private struct Admission {
        /// nil: the request is not forwarded.
        var target: RequestTarget?
        var upgrade: [UInt8]?
        var upgradeObstacle: UpgradeObstacle?
    }

    /// `buffer`, counted by hand: a stored reference would be counted at each use, since the use might replace it.
    private var ownedBuffer: Unmanaged<RequestBuffer>?
    /// When the first byte of the current request was read.
    private(set) var beganAt = Instant.never
    /// Of the body, if its route says that it is one.
    private var message = JSONRPCMessage()
    /// The latest one that was read whole.
    private(set) var head = RequestHead()
    private var admission = Admission()
    private(set) var body = RequestBody(.none)
    private var requestID: RequestID?
    private var peer: ForwardedPeer?
    /// Method and path of a request whose head was released, for the access log.
    private var keptHead: KeptHead?
    private var rare: RareParts?

    /// - Parameter kept: empty, as `takeKept` gives it; of a former client's input.
    init(reusing kept: KeptHead? = nil) { keptHead = kept }

    deinit { ownedBuffer?.release() }

    /// What another client's input may use again. It holds nothing of this one.
    mutating func takeKept() -> KeptHead? { keptHead.take().flatMap { $0.empty() ? $0 : nil } }

    private var keptHost: CopiedBytes? { rare?.host }
    /// As text.
    var trailers: CopiedBytes? { rare?.trailers }

    /// The parts that few requests have.
    private mutating func rareParts() -> RareParts {
        let parts = rare ?? RareParts()
        rare = parts
        return parts
    }

    /// The trailer section of a stream has come, as text.
    mutating func keepTrailers(_ text: UnsafeRawBufferPointer) {
        rareParts().trailers = CopiedBytes(text.assumingMemoryBound(to: UInt8.self))
    }

    /// Holds the head of the current request, and bytes that have arrived behind it. Nil while there are none.
    var buffer: RequestBuffer? { ownedBuffer?.takeUnretainedValue() }

    /// The buffer's bytes, which begin with the head, and the head's field lines; nil: the buffer was released. Valid while it is not.
    @inline(__always) var headBytes: (bytes: Bytes, lines: FieldLines)? {
        guard let ownedBuffer else { return nil }
        return ownedBuffer._withUnsafeGuaranteedRef { ($0.bytes, $0.table.all) }
    }

    /// The same while the head is among them.
    @inline(__always) private var keptHeadBytes: (bytes: Bytes, lines: FieldLines)? {
        guard let found = headBytes, found.bytes.count >= head.length else { return nil }
        return found
    }

    // MARK: Heads

    /// Free space for a read of head bytes.
    mutating func room(in shard: ShardCore) -> UnsafeMutableRawBufferPointer {
        ownBuffer(of: shard)._withUnsafeGuaranteedRef {
            $0.room(upTo: shard.headLimits.headBytesMax + RequestBuffer.firstCapacity)
        }
    }

    private mutating func ownBuffer(of shard: ShardCore) -> Unmanaged<RequestBuffer> {
        if let ownedBuffer { return ownedBuffer }
        let buffer = Unmanaged.passRetained(shard.memory.acquireBuffer())
        ownedBuffer = buffer
        return buffer
    }

    /// A read has put bytes into `room`.
    func recordArrival(_ count: Int) { ownedBuffer?._withUnsafeGuaranteedRef { $0.recordArrival(count) } }

    /// Bytes are buffered, used ones included.
    var hasBytes: Bool { ownedBuffer.map { $0._withUnsafeGuaranteedRef { $0.count > 0 } } ?? false }

    /// Reads the head at the front of the buffered bytes. If it is complete, it is the current request's.
    ///
    /// - Returns: whether it is complete.
    mutating func readHead(_ limits: HeadLimits, at now: Instant) throws(HeadError) -> Bool {
        guard let ownedBuffer else { return false }
        if !hasPartialHead { beganAt = now }
        let found = ownedBuffer._withUnsafeGuaranteedRef { $0.readHead(limits) }
        guard let head = try found.get() else { return false }
        adopt(head, limits)
        return true
    }

    private mutating func adopt(_ head: RequestHead, _ limits: HeadLimits) {
        self.head = head
        body = RequestBody(head.framing, trailers: limits)
        message = JSONRPCMessage()
    }

    /// Reads the head of a stream of HTTP/2, which the codec has written as text: the rules are those of any head.
    ///
    /// - Parameters:
    ///   - isWhole: no body follows.
    ///   - traits: what the text does not say.
    mutating func readHead(
        _ text: UnsafeRawBufferPointer, isWhole: Bool, _ traits: RequestHead.Traits, _ limits: HeadLimits,
        at now: Instant, in shard: ShardCore
    ) throws(HeadError) {
        let isBridged = traits.contains(.bridged)
        beganAt = now
        let buffer = ownBuffer(of: shard)
        buffer._withUnsafeGuaranteedRef {
            $0.append(text)
            $0.reader.hasStreamBody = !isWhole && !isBridged
        }
        let found = buffer._withUnsafeGuaranteedRef { $0.readHead(limits) }
        guard var head = try found.get(), head.length == text.count else {
            throw .malformed("a head that HTTP/1.1 cannot express")
        }
        guard head.framing != .chunked else { throw .malformed("a Transfer-Encoding in HTTP/2") }
        guard !isBridged || head.framing == .none else { throw .malformed("a Content-Length in a CONNECT") }
        head.isHTTP2 = true
        head.traits.formUnion(traits)
        if head.kind == .post, buffer._withUnsafeGuaranteedRef({ GRPC.isCall($0.table.all, in: $0.bytes) }) {
            head.traits.insert(.grpc)
        }
        adopt(head, limits)
    }

    /// The end of the stream has come: the next bytes of the body are its last ones.
    mutating func expectBodyEnd() { body.endsWithNext = true }

    /// The upstream's stream takes trailers behind a known length, too: the end of the client's stream says whether some come.
    mutating func awaitStreamEnd() { if head.isHTTP2, !body.isEnded { body.awaitsStreamEnd = true } }

    /// Keeps bytes of the body behind the head.
    mutating func append(_ bytes: UnsafeRawBufferPointer, in shard: ShardCore) {
        ownBuffer(of: shard)._withUnsafeGuaranteedRef { $0.append(bytes) }
    }

    /// The first bytes of a head were read.
    var hasPartialHead: Bool { ownedBuffer.map { $0._withUnsafeGuaranteedRef { $0.reader.hasAny } } ?? false }

    /// The first bytes are a TLS hello, as far as they have come: no method begins so.
    var beginsWithTLS: Bool {
        guard let buffer, buffer.count > 0 else { return false }
        return buffer.bytes[0] == 0x16 && (buffer.count == 1 || buffer.bytes[1] == 0x03)
    }

    /// Whether `Mcp-Method` says that the request is a notification; nil: there is no such field. Valid while the head is.
    var isMCPNotification: Bool? {
        guard let buffer, buffer.count >= head.length else { return nil }
        let lines = buffer.table.all
        for index in 0..<lines.count where lines.name(index, in: buffer.bytes).equals(lowered: "mcp-method") {
            return lines.value(index, in: buffer.bytes).hasPrefix(lowered: "notifications/")
        }
        return nil
    }

    /// The body is read as a message of JSON-RPC from here on. Nothing happens unless none of it was taken yet.
    mutating func beginMessage() {
        guard !message.isWanted, body.total == 0 else { return }
        message.begin()
    }

    /// The whole body was read, and no reply to it has an id to refer to.
    var isMessageWithoutReply: Bool { message.isWanted && body.isEnded && message.isWithoutReply }

    /// Bytes in the buffer behind the current head.
    var bytesBehindHead: Int { buffer.map { max($0.count - head.length, 0) } ?? 0 }

    /// Takes what has arrived of the body behind the head, without keeping it. The next request follows it.
    ///
    /// - Returns: false: it is malformed, and the connection cannot carry another request.
    mutating func dropArrivedBody(in shard: ShardCore) -> Bool {
        guard !message.hasBrokenFraming else { return false }
        guard !body.isEnded, let buffer, buffer.used < buffer.count else { return true }
        let rest = buffer.rest
        guard let used = try? consumeBody(rest).used else { return false }
        recordUsed(used, of: rest, isBuffered: true, in: shard)
        return true
    }

    /// The method of a head that could not be read, if the reader got that far.
    var partialMethod: RequestHead.Method { buffer?.reader.method ?? .other }

    // MARK: What is known about the request

    /// The request is forwarded.
    mutating func admit(_ target: RequestTarget, _ upgrade: UpgradeRequest) {
        admission.target = target
        switch upgrade {
        case .none: break
        case .forwarded(let name): admission.upgrade = name
        case .dropped(let obstacle): admission.upgradeObstacle = obstacle
        }
    }

    var target: RequestTarget { admission.target ?? .root }

    /// The protocol that the upstream is asked for, as the route spells it.
    var upgrade: [UInt8]? { admission.upgrade }

    /// The upstream is asked for another protocol.
    @inline(__always) var isUpgrade: Bool { head.traits.contains(.upgrade) && admission.upgrade != nil }

    /// Why the request's `Upgrade` was dropped; nil: it was not, or there is none.
    var upgradeObstacle: UpgradeObstacle? { admission.upgradeObstacle }

    /// The request is a call of gRPC. Inlined: the compiler copies the whole value for a function that reads it.
    @inline(__always) var isGRPC: Bool { head.traits.contains(.grpc) }

    /// When a call of gRPC has used its `grpc-timeout`; nil: it is no call, or has none (H45).
    @inline(__always) var callDeadline: Instant? { isGRPC ? endOfCall : nil }

    private var endOfCall: Instant? {
        guard let (bytes, lines) = keptHeadBytes else { return nil }
        return GRPC.timeout(lines, in: bytes).map { beganAt + $0 }
    }

    /// The request's id, created on first use.
    mutating func requestID(from shard: ShardCore) -> RequestID {
        let id = requestID ?? shard.nextRequestID()
        requestID = id
        return id
    }

    /// The client's `Host`. Valid while the request is. Inlined as far as most requests need it.
    @inline(__always) var clientHost: Bytes {
        if let (bytes, lines) = keptHeadBytes, head.host >= 0 { return lines.value(head.host, in: bytes) }
        return rareClientHost
    }

    private var rareClientHost: Bytes {
        if let (bytes, _) = keptHeadBytes {
            // An HTTP/1.0 request without `Host` may name one in its target (RFC 9112 §3.2.2).
            if case .absolute(let authority) = target.form { return bytes[run: head.target][run: authority] }
        }
        return keptHost?.bytes ?? Bytes(start: nil, count: 0)
    }

    /// The client's own request id, for the log. Empty if the route has no such field or the head was released.
    func clientRequestID(on route: Route) -> String {
        guard let buffer, buffer.count >= head.length else { return "" }
        let id = RequestIDField.safe(on: route, head, buffer.table.all, in: buffer.bytes)
        return id.map { String(decoding: $0, as: UTF8.self) } ?? ""
    }

    /// What the log says of the request, as far as it was read. The head may have been released.
    ///
    /// - Parameters:
    ///   - isHeadRead: the current request's head was read whole.
    ///   - route: nil: none was found.
    func refusedRequest(_ id: RequestID, isHeadRead: Bool, on route: Route?) -> RefusedRequest {
        var request = RefusedRequest(id: id, route: route?.settings.name ?? "")
        guard isHeadRead, let buffer, buffer.count >= head.length else { return request }
        if let route { request.clientID = clientRequestID(on: route) }
        let bytes = buffer.bytes
        request.method = String(decoding: bytes[run: head.method], as: UTF8.self)
        let raw = bytes[run: head.target]
        if let target = try? RequestTarget.parse(raw, method: head.kind) {
            request.path = String(decoding: raw[run: target.path], as: UTF8.self)
        }
        if head.host >= 0 { request.host = String(decoding: buffer.table.value(head.host, in: bytes), as: UTF8.self) }
        return request
    }

    /// Calls `work` with method, path and client's request id for the access log, as far as they were read.
    ///
    /// - Parameters:
    ///   - isHeadRead: the current request's head was read whole.
    ///   - route: nil: none was found.
    @inline(__always)
    func withLoggedHead(isHeadRead: Bool, on route: Route?, _ work: (LoggedHead) -> Void) {
        guard let keptHead, keptHead.isFilled else { return work(loggedHead(isHeadRead: isHeadRead, on: route)) }
        keptHead.withBytes(work)
    }

    /// What the buffer has of it.
    @inline(__always)
    private func loggedHead(isHeadRead: Bool, on route: Route?) -> LoggedHead {
        var logged = LoggedHead()
        guard isHeadRead, let (bytes, lines) = keptHeadBytes else { return logged }
        let raw = bytes[run: head.target]
        logged.method = bytes[run: head.method]
        if let route, route.requestIDName != nil {
            logged.clientID = RequestIDField.safe(on: route, head, lines, in: bytes)
        }
        if let target = admission.target {
            logged.path = raw[run: target.path]
        } else if let target = try? RequestTarget.parse(raw, method: head.kind) {
            logged.path = raw[run: target.path]
        }
        return logged
    }

    /// The head is about to be released while the request continues.
    mutating func keepHead(of active: ActiveExchange, for log: AccessLog?) {
        if active.route.mapsClientHost, keptHost == nil { rareParts().host = CopiedBytes(clientHost) }
        guard log != nil, keptHead?.isFilled != true else { return }
        let kept = keptHead ?? KeptHead()
        withLoggedHead(isHeadRead: true, on: active.route) { kept.fill(with: $0) }
        keptHead = kept
    }

    /// The client's address as field lines, for routes with `forwarded: append`; determined once.
    mutating func forwardedPeer(_ client: ClientSink) -> ForwardedPeer {
        if let peer { return peer }
        let peer = ForwardedPeer(client.peerAddress)
        self.peer = peer
        return peer
    }

    // MARK: Body

    /// The body bytes that have arrived with the head, and their place in the buffer; nil: there are none, or some were taken before.
    var bodyBehindHead: (bytes: UnsafeMutableRawBufferPointer, place: Int)? {
        guard !body.isEnded, body.total == 0, let ownedBuffer else { return nil }
        let found = ownedBuffer._withUnsafeGuaranteedRef { ($0.rest, $0.used) }
        return found.0.count > 0 ? found : nil
    }

    /// Bytes have arrived behind what the current request has used.
    var hasUnusedBytes: Bool { ownedBuffer.map { $0._withUnsafeGuaranteedRef { $0.used < $0.count } } ?? false }

    /// Finds the body's bytes at the front of `input`, as `RequestBody.consume`.
    mutating func consumeBody(
        _ input: UnsafeMutableRawBufferPointer
    ) throws(HeadError) -> (used: Int, data: UnsafeRawBufferPointer) {
        do throws(HeadError) {
            let found = try body.consume(input)
            if body.framing == .chunked { keepTrailers(in: input) }
            if message.isWanted { message.read(found.data) }
            return found
        } catch {
            message.noteBrokenFraming()
            throw error
        }
    }

    /// Counts the bytes of `input` that the body has used. The others belong to the next request (http-requests.md 5.6).
    ///
    /// - Parameter isBuffered: `input` is in the buffer; else the others are copied there.
    mutating func recordUsed(
        _ used: Int, of input: UnsafeMutableRawBufferPointer, isBuffered: Bool, in shard: ShardCore
    ) {
        if isBuffered {
            ownedBuffer?._withUnsafeGuaranteedRef { $0.used += used }
        } else if used < input.count {
            ownBuffer(of: shard).takeUnretainedValue().append(UnsafeRawBufferPointer(rebasing: input[used...]))
        }
    }

    // MARK: Memory

    /// The current request has ended. The next one may have arrived already.
    mutating func endRequest(in shard: ShardCore) {
        requestID = nil
        admission.target = nil
        admission.upgradeObstacle = nil
        // What most requests do not have is not released either.
        if admission.upgrade != nil { admission.upgrade = nil }
        if let keptHead, !keptHead.empty() { self.keptHead = nil }
        if rare != nil { rare = nil }
        if hasUnusedBytes { buffer?.compact() } else { releaseBuffer(to: shard) }
    }

    /// The bytes of the current request are not needed any more. Bytes of the next one stay.
    mutating func releaseRequest(_ active: ActiveExchange, to shard: ShardCore) {
        guard body.isEnded, let buffer, buffer.used == buffer.count else { return }
        keepHead(of: active, for: shard.accessLog)
        releaseBuffer(to: shard)
    }

    /// Releases a buffer that no read has filled.
    mutating func releaseEmptyBuffer(to shard: ShardCore) {
        guard let buffer, buffer.count == 0 else { return }
        releaseBuffer(to: shard)
    }

    /// All buffered bytes are dropped.
    mutating func releaseBuffer(to shard: ShardCore) {
        guard let buffer = ownedBuffer else { return }
        ownedBuffer = nil
        shard.memory.release(buffer.takeRetainedValue())
    }
}
