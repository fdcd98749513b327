import CLinux
import Glibc
import LanyardFoundations

/// One end of the request path: the connection to a client or to an upstream, as bytes in both directions.
///
/// It owns the socket, what epoll has reported about it, and the bytes that the socket has not taken yet. Nothing blocks.
/// What it reports says nothing about the form of the bytes on the wire: they are encrypted if the stream is secured by
/// TLS. Belongs to its owner, which checks the queue: a connection to a client or an upstream, or an attempt to connect.
package struct ByteStream: ~Copyable {
    /// What a read may bring, as epoll, the reads and the peer's TLS have reported it.
    private struct Input {
        var canRead = false
        /// A read has emptied the socket.
        var wasEmptied = false
        /// epoll reported an end or an error.
        var hasEnded = false
        /// The other side has sent urgent data of TCP: a short read does not mean that the socket is empty.
        var hasUrgentData = false
    }

    /// How this side's direction will end.
    private struct OutputEnd {
        /// The close must be a reset.
        var isReset = false
        /// It ends when nothing is queued any more.
        var followsFlush = false
        /// The kernel holds a last segment until it ends.
        var isAwaitedByKernel = false
    }

    /// -1 after `close`.
    private var descriptor: CInt
    private var watch: EventLoop.Watch?
    /// Encrypts and decrypts. nil: bytes go to the wire as they are.
    private var tls: TLSSession?
    /// Bytes that the socket has not taken yet. They go first.
    private var outbound: ByteQueue
    private var canWrite = true
    /// Bytes that the socket has taken since the connection was opened. Only differences have a meaning.
    package private(set) var taken: UInt64 = 0
    private var input = Input()
    private var peerProgress = PeerProgress()
    private var outputEnd = OutputEnd()
    /// A write failed, so no further byte is sent. Bytes that the other side has sent can still be read. Their end is
    /// not an orderly one: the write may have consumed the error of a reset (http-connections.md 9.7).
    package private(set) var isBroken = false
    /// nil: the kernel was not asked yet.
    private var knownAsTCP: Bool?

    /// - Parameter budget: counts the memory of bytes that the socket does not take.
    package init(taking socket: consuming OwnedDescriptor, budget: BufferBudget) {
        descriptor = socket.release()
        outbound = ByteQueue(budget: budget)
    }

    private init(descriptor: CInt) {
        self.descriptor = descriptor
        outbound = ByteQueue()
    }

    deinit { if descriptor >= 0 { Glibc.close(descriptor) } }

    /// Moves the connection to a stream for another owner. Nothing informs of it until it is watched again. This one is
    /// closed.
    package mutating func handOver(on loop: EventLoop) -> ByteStream {
        if let watch { loop.unwatch(watch) }
        watch = nil
        var other = ByteStream(descriptor: descriptor)
        descriptor = -1
        swap(&outbound, &other.outbound)
        (other.tls, tls) = (tls, nil)
        (other.input, other.canWrite) = (input, canWrite)
        (other.isBroken, other.taken) = (isBroken, taken)
        return other
    }

    // MARK: TLS

    /// Puts TLS between the bytes and the wire, as the client of an upstream. Before the first byte.
    ///
    /// - Throws: `.protocolViolation` if there is no memory. The bytes go without TLS then, so the caller closes the connection.
    package mutating func secure(
        to context: TLSClientContext, workspace: TLSWorkspace, offering offer: TLSClientContext.Offer = .http1
    ) throws(TLSError) { tls = try TLSSession(descriptor, to: context, workspace: workspace, offer: offer) }

    /// The same, as a listener.
    ///
    /// - Throws: as the function above does.
    package mutating func secure(as context: TLSServerContext, workspace: TLSWorkspace) throws(TLSError) {
        tls = try TLSSession(descriptor, of: context, workspace: workspace)
    }

    /// Continues the handshake with what has arrived. Data may pass after `.done`, which an unsecured stream is at once.
    package mutating func continueHandshake() -> TLSSession.Progress {
        guard let tls else { return .done }
        let broken = flush()
        guard broken == 0 else { return .failed(.reset(broken)) }
        let before = tls.sentBytes
        let progress = tls.handshake(queue: &outbound, canWrite: &canWrite)
        taken &+= tls.sentBytes &- before
        input.canRead = progress == .done && tls.hasPendingInput
        return progress
    }

    /// The stream is secured by TLS.
    package var isSecured: Bool { tls != nil }

    /// What there is to say of the TLS and its peer; nil: the stream is not secured.
    var tlsSession: TLSSession? { tls }

    /// The handshake has resumed an earlier session.
    package var isResumed: Bool { tls?.isResumed ?? false }
    /// The peer has given a session, or shown a certificate, whose memory an idle connection is not worth.
    package var hasLargeSession: Bool { tls?.hasLargeSession ?? false }

    /// Whether a listener's client is one of those that its names allow. After the handshake.
    package var isClientAllowed: Bool { tls?.isClientAllowed ?? true }

    /// Calls `work` with the peer's certificate (`X509 *`), which was verified; nil: there is none.
    func withPeerCertificate<Result>(_ work: (OpaquePointer?) -> Result) -> Result {
        guard let tls else { return work(nil) }
        return tls.withPeerCertificate(work)
    }

    /// The user at the other end of a unix socket; nil: a TCP peer.
    var peerUID: UInt32? { mutating get { isTCP ? nil : PeerCredentials(of: descriptor).uid } }

    /// The handshake has failed: what is left of the connection passes as it is on the wire. What TLS has sent, such as
    /// an alert, stays queued; what it has read is lost.
    package mutating func giveUpTLS() {
        tls = nil
        input.canRead = true
    }

    /// Why TLS has ended the stream; nil: it has not.
    package var tlsFailure: TLSError? { tls?.failure }

    // MARK: Events

    /// A read may bring something.
    package var canRead: Bool { input.canRead }
    /// epoll reported an end or an error. Reading continues until it is read.
    package var hasEnded: Bool { input.hasEnded }

    /// Has `watcher` informed of readiness until `close`.
    ///
    /// - Throws: the machine's `.system(errno)`: no memory, or too many watches of this user. The caller closes the connection.
    package mutating func watch(on loop: EventLoop, by watcher: Watcher) throws(SystemError) {
        watch = try loop.watch(descriptor, for: [.read, .write, .readHangUp, .urgent, .edge], by: watcher)
    }

    /// Whether this is the watch of `watch(on:by:)`.
    package func isWatched(as other: EventLoop.Watch) -> Bool { watch == other }

    /// Stores what epoll has reported.
    package mutating func record(_ readiness: IOReadiness) {
        if !readiness.isDisjoint(with: [.readHangUp, .hangUp, .error]) { input.hasEnded = true }
        if readiness.contains(.urgent) { input.hasUrgentData = true }
        if hasEnded || !readiness.isDisjoint(with: [.read, .urgent]) { input.canRead = true }
        if !readiness.isDisjoint(with: [.write, .hangUp, .error]) { canWrite = true }
        if canRead, let tls { tls.noteReadable(hasEnded: hasEnded) }
    }

    /// Something may have arrived that epoll has not reported yet.
    package mutating func expectInput() {
        input.canRead = true
        tls?.noteReadable(hasEnded: hasEnded)
    }

    // MARK: Reading

    /// Reads once. Without bytes `canRead` is cleared.
    package mutating func receive(into room: UnsafeMutableRawBufferPointer) -> Socket.Received {
        if let tls { return receive(into: room, from: tls) }
        let received = Socket.receive(descriptor, into: room)
        if case .bytes(let count) = received {
            // Edge-triggered: a short read has emptied the socket, unless an end or urgent data are known to follow.
            if count < room.count {
                input.canRead = hasEnded || isBroken || input.hasUrgentData
                input.wasEmptied = true
            }
        } else {
            input.canRead = false
        }
        return received
    }

    @inline(never)
    private mutating func receive(
        into room: UnsafeMutableRawBufferPointer, from tls: TLSSession
    ) -> Socket.Received {
        let before = tls.sentBytes
        let received = tls.receive(into: room, queue: &outbound, canWrite: &canWrite)
        taken &+= tls.sentBytes &- before
        input.canRead = false
        switch received {
        case .bytes(let count):
            input.canRead = tls.hasPendingInput
            input.wasEmptied = true
            return .bytes(count)
        case .wouldBlock: return .wouldBlock
        case .end:
            // The peer may leave the connection open behind its `close_notify`.
            input.hasEnded = true
            return .end
        case .failed(.reset(let code)): return .failed(code)
        // `tlsFailure` has the cause.
        case .failed: return .failed(EPROTO)
        }
    }

    /// Its reads have emptied the socket at least once. While `canRead` is false, nothing was reported since the latest such read.
    package var wasEmptied: Bool { input.wasEmptied }

    /// Whether a stream that has been idle since a wait of the loop may have input. False: the loop's latest wait has reported none. True:
    /// ask `hasPendingInput`.
    ///
    /// Only for TCP: a read of a unix socket also stops, without a report, where passed descriptors begin.
    ///
    /// - Parameters:
    ///   - loop: the loop of `watch(on:by:)`.
    ///   - wait: its `waits` when the stream became idle.
    package func mayHavePendingInput(on loop: EventLoop, since wait: Int) -> Bool {
        guard let watch, !canRead, !hasEnded, !isBroken, !input.hasUrgentData else { return true }
        return loop.mayHavePendingInput(watch, since: wait)
    }

    /// Whether bytes, an end or an error have arrived on an idle connection, which then is not usable any more (http-connections.md 16.2).
    /// Messages of TLS without data, such as session tickets, are read here and do not count.
    package mutating func hasPendingInput() -> Bool {
        guard let tls else { return canRead || Socket.hasPendingInput(descriptor) }
        guard !hasEnded, !isBroken else { return true }
        tls.noteReadable(hasEnded: false)
        let before = tls.sentBytes
        input.canRead = tls.processIdleInput(queue: &outbound, canWrite: &canWrite)
        taken &+= tls.sentBytes &- before
        return canRead
    }

    // MARK: Writing

    /// Sends three runs of bytes in order, behind the queued ones. What the socket does not take is queued.
    ///
    /// - Parameter isLast: `endWriting` or `close` follows at once. The end goes out with the last bytes: a segment less,
    ///   and the other side wakes once.
    /// - Returns: 0, or `errno` if the connection is broken; nothing is queued then.
    package mutating func send(
        _ head: UnsafeRawBufferPointer, _ body: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0),
        _ tail: StaticString = "", isLast: Bool = false
    ) -> CInt {
        if isLast { outputEnd.isAwaitedByKernel = true }
        if let tls { return send(head, body, tail, isLast: isLast, through: tls) }
        let end = UnsafeRawBufferPointer(start: tail.utf8Start, count: tail.utf8CodeUnitCount)
        guard outbound.isEmpty && canWrite else {
            outbound.append(head)
            outbound.append(body)
            outbound.append(end)
            return 0
        }
        let total = head.count + body.count + end.count
        guard total > 0 else { return 0 }
        let sent: Socket.Sent
        if head.count == total {
            sent = Socket.send(descriptor, head, more: isLast)
        } else if body.count == total {
            sent = Socket.send(descriptor, body, more: isLast)
        } else {
            sent = Self.gather(descriptor, head, body, end, more: isLast)
        }
        var count = 0
        switch sent {
        case .bytes(let number): count = number
        case .wouldBlock: break
        case .failed(let code): return fail(code)
        }
        taken &+= UInt64(count)
        guard count < total else { return 0 }
        canWrite = false
        for run in [head, body, end] {
            let skipped = min(count, run.count)
            count -= skipped
            outbound.append(UnsafeRawBufferPointer(rebasing: run[skipped...]))
        }
        return 0
    }

    @inline(never)
    private mutating func send(
        _ head: UnsafeRawBufferPointer, _ body: UnsafeRawBufferPointer, _ tail: StaticString, isLast: Bool,
        through tls: TLSSession
    ) -> CInt {
        let before = tls.sentBytes
        let code = tls.send(head, body, tail, isLast: isLast, queue: &outbound, canWrite: &canWrite)
        taken &+= tls.sentBytes &- before
        return code == 0 ? 0 : fail(code)
    }

    /// Sends queued bytes. 0, or `errno` if the connection is broken; nothing is queued then.
    package mutating func flush() -> CInt {
        while !outbound.isEmpty, canWrite {
            switch Socket.send(descriptor, UnsafeRawBufferPointer(outbound.bytes)) {
            case .bytes(let count):
                if count < outbound.count { canWrite = false }
                taken &+= UInt64(count)
                outbound.consume(count)
            case .wouldBlock: canWrite = false
            case .failed(let code): return fail(code)
            }
        }
        if outputEnd.followsFlush, outbound.isEmpty {
            outputEnd.followsFlush = false
            Socket.endWriting(descriptor)
        }
        return 0
    }

    private mutating func fail(_ code: CInt) -> CInt {
        outbound.release()
        isBroken = true
        expectInput()
        return code
    }

    private static func gather(
        _ descriptor: CInt, _ head: UnsafeRawBufferPointer, _ body: UnsafeRawBufferPointer,
        _ end: UnsafeRawBufferPointer, more: Bool
    ) -> Socket.Sent {
        withUnsafeTemporaryAllocation(of: iovec.self, capacity: 3) { runs in
            var used = 0
            func add(_ run: UnsafeRawBufferPointer) {
                guard run.count > 0 else { return }
                let vector = iovec(iov_base: UnsafeMutableRawPointer(mutating: run.baseAddress), iov_len: run.count)
                runs.initializeElement(at: used, to: vector)
                used += 1
            }
            add(head)
            add(body)
            add(end)
            return Socket.send(descriptor, UnsafeMutableBufferPointer(rebasing: runs[0..<used]), more: more)
        }
    }

    /// No byte is queued: the kernel has taken all.
    package var isFlushed: Bool { outbound.isEmpty }

    /// Bytes that are queued, as they go to the wire.
    package var queuedBytes: Int { outbound.count }

    /// Bytes are queued, and the socket takes some of them.
    package var canFlush: Bool { canWrite && !outbound.isEmpty }

    /// Ends this side's direction: the other side reads an end after all bytes that were sent. Nothing may be queued.
    package mutating func endWriting() {
        sendCloseNotify()
        // A full socket takes the `close_notify` later.
        guard outbound.isEmpty else { return outputEnd.followsFlush = true }
        outputEnd.isAwaitedByKernel = false
        Socket.endWriting(descriptor)
    }

    private mutating func sendCloseNotify() {
        guard let tls, !isBroken else { return }
        let before = tls.sentBytes
        let code = tls.closeNotify(queue: &outbound, canWrite: &canWrite)
        // It is sent once: a later close has nothing to wait for.
        if tls.sentBytes != before { outputEnd.isAwaitedByKernel = true }
        taken &+= tls.sentBytes &- before
        if code != 0 { _ = fail(code) }
    }

    // MARK: Progress of the other side

    /// Begins to observe the other side anew. While nothing is queued the next check is a first one.
    package mutating func restartProgress() {
        peerProgress.restart(at: outbound.isEmpty ? 0 : Socket.unsentBytes(descriptor))
    }

    /// Whether the other side has taken bytes of the kernel's send buffer since the last check (http-connections.md 8.2).
    package mutating func checkProgress() -> PeerProgress.Found { peerProgress.check(Socket.unsentBytes(descriptor)) }

    /// Whether the other side's kernel has acknowledged no byte between the last three calls, although some were on
    /// their way: its machine is gone, or it has no room because nothing is read. TCP only, where a kernel acknowledges
    /// what its process has not read yet.
    ///
    /// `TCP_USER_TIMEOUT` would not do: it also ends connections whose other side reads in small steps.
    package mutating func hasStalled() -> Bool {
        let unacknowledged = isTCP ? Socket.unsentBytes(descriptor) : 0
        guard unacknowledged > 0 else {
            peerProgress.acknowledged = nil
            return false
        }
        return peerProgress.hasStalled(at: taken &- UInt64(unacknowledged))
    }

    /// Bytes were unacknowledged at the last `hasStalled`.
    package var awaitsAcknowledgement: Bool { peerProgress.acknowledged != nil }

    // MARK: The socket

    /// A TCP connection: not a unix socket. Asks the kernel once.
    package var isTCP: Bool {
        mutating get {
            if let knownAsTCP { return knownAsTCP }
            let descriptor = self.descriptor
            let own = SocketAddress(filledBy: { getsockname(descriptor, $0, $1) == 0 })
            let isTCP = own.map { $0.family != AF_UNIX } ?? false
            knownAsTCP = isTCP
            return isTCP
        }
    }

    /// The other side has ended its direction: from now on it is probed often.
    func probeOften(by policy: KeepAlivePolicy) { policy.probeOften(descriptor) }

    /// The other side's socket is one of this machine that no process holds any more.
    var isPeerOrphaned: Bool { Socket.isPeerOrphaned(descriptor) }

    /// The pending error of the socket; 0 is none.
    package var pendingError: CInt { Socket.pendingError(descriptor) }

    /// The address of the other side; nil if the socket has none any more.
    package var peerAddress: SocketAddress? {
        let descriptor = self.descriptor
        return SocketAddress(filledBy: { getpeername(descriptor, $0, $1) == 0 })
    }

    /// The close will be a reset: an orderly one would state that all bytes have come.
    package mutating func resetOnClose() {
        outputEnd.isReset = true
        Socket.setResetOnClose(descriptor)
    }

    /// Closes the socket and discards what is queued. TLS says so to the other side, unless bytes are discarded: those
    /// must look cut off. Later calls find a closed descriptor.
    ///
    /// - Parameter loop: the loop of `watch(on:by:)`.
    package mutating func close(on loop: EventLoop) {
        guard descriptor >= 0 else { return }
        if outbound.isEmpty, !outputEnd.isReset {
            sendCloseNotify()
            // With unread input a close is a reset, before which the kernel drops what it still holds.
            if outputEnd.isAwaitedByKernel { Socket.endWriting(descriptor) }
        }
        tls = nil
        outbound.release()
        if let watch { loop.forget(watch) }
        watch = nil
        Glibc.close(descriptor)
        descriptor = -1
    }
}
