import COpenSSL
import Glibc
import LanyardFoundations

/// One end of a TLS connection over a socket that never blocks. Corresponds to an `SSL *`.
///
/// It borrows the socket's descriptor and makes no other call on it than `recv` and `send`. What the socket does not take goes to the
/// caller's queue, as ciphertext. After an error the caller closes the socket. Belongs to its `ByteStream`, whose owner
/// checks the queue.
package final class TLSSession {
    package enum Progress: Equatable, Sendable {
        /// The peer is verified. Data may be read and written.
        case done
        /// The rest of the handshake has not arrived.
        case wouldBlock
        case failed(TLSError)
    }

    package enum Received: Equatable, Sendable {
        case bytes(Int)
        /// Nothing there now.
        case wouldBlock
        /// The peer has ended its direction with a `close_notify`.
        case end
        case failed(TLSError)
    }

    private enum Role {
        case client(TLSClientContext)
        case server(TLSServerContext)
    }

    /// What the peer has asked for.
    private struct PeerRequests {
        var certificate = false
        /// A certificate after the handshake, since a reply was last counted.
        var lateCertificate = false
        /// OpenSSL has refused to renegotiate. The peer may continue, or end the connection.
        var renegotiation = false
    }

    /// What the peer's messages without data have cost, against `messagesMax` and `repliesMax`.
    private struct MessageCounts {
        /// In a row.
        var withoutData = 0
        var replies = 0
    }

    /// Messages in a row that bring no data. A connection needs a few: session tickets, and a key update in 2^24 records.
    private static let messagesMax = 32
    /// Replies to such messages: refusals to renegotiate, and key updates. A long stream has key updates, so it may have more: one for each
    /// MiB that has come.
    private static let repliesMax = 4

    private let handle: TLSHandle
    var ssl: OpaquePointer { handle.ssl }
    private var socket: UnsafeMutablePointer<lanyard_tls_socket> { handle.socket }
    private let workspace: TLSWorkspace
    private let role: Role

    private var isEstablished = false
    private var hasSentClose = false
    private var peerRequests = PeerRequests()
    private var messages = MessageCounts()
    private var upstreamVerification = UpstreamVerification()
    /// OpenSSL holds a session that is too large to keep, or a large certificate of the peer, as long as this connection lives.
    private(set) var hasLargeSession = false
    /// The end of the peer's direction, or the error that ended the session.
    private var ending: Received?
    /// Only the workspace changes it.
    var buffers = TLSWorkspace.SessionBuffers()

    /// The client's end of a connection to an upstream. A session that the context has kept is resumed.
    ///
    /// - Parameter descriptor: a connected socket that outlives the session.
    /// - Throws: `.protocolViolation` if there is no memory.
    package convenience init(
        _ descriptor: CInt, to context: TLSClientContext, workspace: TLSWorkspace,
        offer: TLSClientContext.Offer = .http1
    ) throws(TLSError) {
        try self.init(descriptor, context.raw, .client(context), workspace)
        SSL_set_connect_state(ssl)
        try offer.install(in: ssl)
        upstreamVerification.offer = offer
        if let name = context.sentName { _ = lanyard_tls_set_server_name(ssl, name) }
        upstreamVerification.beganAt = context.sessions.clock()
        if let session = context.sessions.newestUsable() {
            upstreamVerification.offered = session.verification
            SSL_set_session(ssl, session.raw)
        }
    }

    /// A listener's end of a connection.
    ///
    /// - Throws: `.protocolViolation` if there is no memory.
    package convenience init(
        _ descriptor: CInt, of context: TLSServerContext, workspace: TLSWorkspace
    ) throws(TLSError) {
        try self.init(descriptor, context.raw, .server(context), workspace)
        socket.pointee.hello.is_inspected = true
        SSL_set_accept_state(ssl)
    }

    private init(
        _ descriptor: CInt, _ context: OpaquePointer, _ role: Role, _ workspace: TLSWorkspace
    ) throws(TLSError) {
        guard let handle = TLSHandle(of: context, on: descriptor, output: workspace.output) else {
            throw .protocolViolation(ERR_peek_last_error())
        }
        self.handle = handle
        self.workspace = workspace
        self.role = role
        SSL_set_ex_data(ssl, 0, Unmanaged.passUnretained(self).toOpaque())
        workspace.add()
    }

    deinit {
        workspace.end(self)
        // Without this a connection that ends without a close_notify would take its session along, although it can be resumed.
        if isEstablished, failure == nil { SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN) }
        // The handle goes after this. No callback may find a session that is gone.
        SSL_set_ex_data(ssl, 0, nil)
    }

    // MARK: Facts

    /// The peer has asked for a certificate.
    var wasAskedForCertificate: Bool { peerRequests.certificate }
    /// The peer has asked to renegotiate, and was refused.
    var wasAskedToRenegotiate: Bool { peerRequests.renegotiation }

    /// The handshake is complete, and the peer is verified.
    package var canCarryData: Bool { isEstablished }
    /// The handshake has resumed an earlier session.
    package var isResumed: Bool { SSL_session_reused(ssl) == 1 }
    /// A listener's client: its certificate has one of the names that may call, or all may. After the handshake.
    package var isClientAllowed: Bool {
        guard case .server(let context) = role, !context.clientNames.isEmpty else { return true }
        guard let certificate = SSL_get1_peer_certificate(ssl) else { return false }
        defer { X509_free(certificate) }
        return context.clientNames.allow(certificate)
    }
    /// `TLSv1.2` or `TLSv1.3`.
    package var version: String { String(cString: SSL_get_version(ssl)) }
    /// Bytes of ciphertext that the socket has taken from this session directly; those of the caller's queue are not counted.
    package var sentBytes: UInt64 { socket.pointee.sent }
    /// Bytes of ciphertext that have come from the socket.
    package var receivedBytes: UInt64 { socket.pointee.received }
    /// Why the session has ended; nil: it continues, or the peer has ended it properly.
    package var failure: TLSError? { if case .failed(let error) = ending { error } else { nil } }

    /// Reading may bring bytes or an end without a further report of epoll.
    package var hasPendingInput: Bool { ending != nil || socket.pointee.may_read || SSL_has_pending(ssl) == 1 }

    /// The peer's certificate that was refused; nil: none was, or it was not sent again with a resumed session and nothing is known of
    /// it.
    package var refusedCertificate: RefusedCertificate? {
        if let refused = RefusedCertificate(socket.pointee.refused) { return refused }
        guard case .failed(let error) = ending, error.isCertificate, let offered = upstreamVerification.offered?.raw,
            offered.has_chain
        else { return nil }
        return RefusedCertificate(
            name: "", validFrom: WallTime(seconds: offered.valid_from),
            validUntil: WallTime(seconds: offered.valid_until))
    }

    /// epoll has reported that the socket can be read.
    ///
    /// - Parameter hasEnded: it has reported the peer's end or an error, too.
    package func noteReadable(hasEnded: Bool) {
        socket.pointee.may_read = true
        if hasEnded { socket.pointee.has_ended = true }
    }

    // MARK: Handshake

    /// Continues the handshake with what has arrived.
    ///
    /// - Parameters:
    ///   - queue: gets what the socket does not take.
    ///   - canWrite: cleared when the socket is full.
    package func handshake(queue: inout ByteQueue, canWrite: inout Bool) -> Progress {
        if let failure { return .failed(failure) }
        if isEstablished { return .done }
        workspace.noteUse(of: self)
        socket.pointee.wall_time = wallTime.seconds
        var outcome: CInt
        repeat {
            socket.pointee.is_starved = false
            outcome = lanyard_tls_handshake(ssl)
            // With TLS 1.2 no further hello comes, and later messages of a handshake are encrypted in records of the same type.
            if SSL_version(ssl) < TLS1_3_VERSION { socket.pointee.hello.is_inspected = false }
        } while outcome == SSL_ERROR_WANT_READ && !socket.pointee.is_starved && countsMessage()
        if outcome != SSL_ERROR_NONE, outcome != SSL_ERROR_WANT_READ, ending == nil { end(outcome) }
        // What a listener sends behind the client's last message are tickets: they go out with the response, or after 200 ms by the
        // kernel. The peer of an older version waits for that message.
        let isComplete = outcome == SSL_ERROR_NONE
        socket.pointee.sends_more = isComplete && SSL_is_server(ssl) == 1 && SSL_version(ssl) == TLS1_3_VERSION
        let broken = deliver(&queue, &canWrite)
        if let failure { return .failed(failure) }
        if broken != 0 { return fail(.reset(broken)) }
        guard outcome == SSL_ERROR_NONE else { return .wouldBlock }
        if let error = objection() { return fail(error) }
        messages.withoutData = 0
        isEstablished = true
        socket.pointee.hello.is_inspected = false
        if lanyard_tls_peer_certificate_bytes(ssl) > TLSSessionCache.sessionBytesMax { hasLargeSession = true }
        return .done
    }

    /// What OpenSSL does not verify itself.
    private func objection() -> TLSError? {
        switch role {
        case .client(let context):
            // OpenSSL does not verify the peer of a resumed session again.
            if context.verifiesCertificates, isResumed, let verification = upstreamVerification.offered,
                let error = verification.objection(at: wallTime)
            {
                return error
            }
            return upstreamVerification.offer.permits(selectedProtocol) ? nil : .noSharedProtocol
        // A ticket that may not be resumed leads to a full handshake.
        case .server: return nil
        }
    }

    private var wallTime: WallTime {
        switch role {
        case .client(let context): context.sessions.wallClock()
        case .server(let context): context.wallClock()
        }
    }

    private func fail(_ error: TLSError) -> Progress {
        ending = .failed(error)
        return .failed(error)
    }

    // MARK: Reading

    /// Reads data until `room` is full or nothing is left.
    ///
    /// - Parameter queue: gets replies to the peer's messages that the socket does not take.
    package func receive(
        into room: UnsafeMutableRawBufferPointer, queue: inout ByteQueue, canWrite: inout Bool
    ) -> Received {
        precondition(isEstablished)
        var filled = 0
        if ending == nil {
            workspace.noteUse(of: self)
            filled = fill(room)
            if workspace.output.pointee.count > 0 { sendReplies(&queue, &canWrite) }
        }
        if filled > 0 { return .bytes(filled) }
        return ending ?? .wouldBlock
    }

    private func fill(_ room: UnsafeMutableRawBufferPointer) -> Int {
        var filled = 0
        while filled < room.count, let count = read(room.baseAddress! + filled, room.count - filled, lanyard_tls_read) {
            filled += count
            // Nothing is left: without this each request would ask OpenSSL twice.
            if !socket.pointee.may_read, SSL_has_pending(ssl) == 0 { break }
        }
        return filled
    }

    private typealias Read = (OpaquePointer?, UnsafeMutableRawPointer?, Int, UnsafeMutablePointer<Int>?) -> CInt

    /// One record's data; nil: nothing there, or the session has ended.
    @inline(__always)
    private func read(_ room: UnsafeMutableRawPointer, _ size: Int, _ call: Read) -> Int? {
        while true {
            var count = 0
            socket.pointee.is_starved = false
            let outcome = call(ssl, room, size, &count)
            if outcome == SSL_ERROR_NONE {
                messages.withoutData = 0
                return count
            }
            guard outcome == SSL_ERROR_WANT_READ else {
                end(outcome)
                return nil
            }
            if socket.pointee.is_starved || !countsMessage() { return nil }
        }
    }

    /// A message without data has been read; false: it is one too many.
    private func countsMessage() -> Bool {
        messages.withoutData += 1
        if messages.withoutData > Self.messagesMax { ending = .failed(.tooManyMessages) }
        return ending == nil
    }

    /// A failed call ends the session.
    private func end(_ outcome: CInt) {
        var lacksCertificate = false
        if wasAskedForCertificate, case .client(let context) = role { lacksCertificate = !context.hasKeyPair }
        let reader = TLSErrorReader(
            ssl: ssl, isServer: SSL_is_server(ssl) == 1, lacksCertificate: lacksCertificate,
            isEstablished: isEstablished)
        let cause = reader.cause(outcome, socket.pointee)
        ending = cause.map { .failed(wasAskedToRenegotiate ? .renegotiationRefused : $0) } ?? .end
    }

    /// A read has made OpenSSL write: the alert of an error, a refusal to renegotiate, a certificate that was asked for late.
    private func sendReplies(_ queue: inout ByteQueue, _ canWrite: inout Bool) {
        // A certificate is a reply that the configuration allows. `messagesMax` bounds the requests for it.
        if peerRequests.lateCertificate { peerRequests.lateCertificate = false } else { messages.replies += 1 }
        if messages.replies > Self.repliesMax + Int(socket.pointee.received >> 20), ending == nil {
            ending = .failed(.tooManyMessages)
        }
        // A connection that cannot be written to says so at the next write.
        _ = deliver(&queue, &canWrite)
    }

    /// Reads the messages that have arrived on an idle connection.
    ///
    /// - Returns: whether input is pending: data, an end or an error. Messages without data, such as session tickets, are none, and the
    ///   connection stays usable (http-connections.md 16.2).
    package func processIdleInput(queue: inout ByteQueue, canWrite: inout Bool) -> Bool {
        guard isEstablished, ending == nil else { return true }
        // OpenSSL allocates a buffer for the read if the session has lost its own.
        workspace.noteUse(of: self)
        var byte: UInt8 = 0
        let count = read(&byte, 1, lanyard_tls_peek)
        if workspace.output.pointee.count > 0 { sendReplies(&queue, &canWrite) }
        return count != nil || ending != nil
    }

    // MARK: Writing

    /// Encrypts three runs of bytes, in as few records as they need, and sends them with one `send` if possible.
    ///
    /// - Parameters:
    ///   - queue: gets the ciphertext that the socket does not take; if it is not empty, all of it.
    ///   - canWrite: cleared when the socket is full.
    /// - Returns: 0, or `errno` if the connection is broken.
    package func send(
        _ head: UnsafeRawBufferPointer, _ body: UnsafeRawBufferPointer, _ tail: StaticString, isLast: Bool = false,
        queue: inout ByteQueue, canWrite: inout Bool
    ) -> CInt {
        precondition(isEstablished)
        guard failure == nil, !hasSentClose else { return EPIPE }
        let end = UnsafeRawBufferPointer(start: tail.utf8Start, count: tail.utf8CodeUnitCount)
        let total = head.count + body.count + end.count
        guard total > 0 else { return 0 }
        workspace.noteUse(of: self)
        socket.pointee.sends_directly = total <= TLSWorkspace.recordBytesMax && queue.isEmpty && canWrite
        socket.pointee.sends_more = isLast
        let isEncrypted = encrypt(head, body, end, total)
        socket.pointee.sends_directly = false
        // Bytes that the peer has sent can still be read when the socket takes none any more.
        let broken = deliver(&queue, &canWrite)
        return isEncrypted || broken != 0 ? broken : EPIPE
    }

    private func encrypt(
        _ head: UnsafeRawBufferPointer, _ body: UnsafeRawBufferPointer, _ tail: UnsafeRawBufferPointer, _ total: Int
    ) -> Bool {
        if head.count == total { return write(head) }
        if body.count == total { return write(body) }
        var used = 0
        guard gather(head, &used), gather(body, &used), gather(tail, &used) else { return false }
        return used == 0 || write(UnsafeRawBufferPointer(rebasing: workspace.plaintext[..<used]))
    }

    /// Fills up the record that is being put together. Whole records are encrypted where they are.
    private func gather(_ run: UnsafeRawBufferPointer, _ used: inout Int) -> Bool {
        let recordBytes = TLSWorkspace.recordBytesMax
        var rest = run[...]
        while !rest.isEmpty {
            if used == 0, rest.count >= recordBytes {
                let whole = rest.prefix(rest.count / recordBytes * recordBytes)
                guard write(UnsafeRawBufferPointer(rebasing: whole)) else { return false }
                rest = rest.dropFirst(whole.count)
                continue
            }
            let part = UnsafeRawBufferPointer(rebasing: rest.prefix(recordBytes - used))
            memcpy(workspace.plaintext.baseAddress! + used, part.baseAddress!, part.count)
            used += part.count
            rest = rest.dropFirst(part.count)
            guard used == recordBytes else { continue }
            guard write(UnsafeRawBufferPointer(workspace.plaintext)) else { return false }
            used = 0
        }
        return true
    }

    private func write(_ run: UnsafeRawBufferPointer) -> Bool {
        let outcome = lanyard_tls_write(ssl, run.baseAddress, run.count)
        if outcome == SSL_ERROR_NONE { return true }
        if ending == nil { end(outcome) }
        return false
    }

    /// Sends or queues what OpenSSL has written. 0, or `errno`.
    func deliver(_ queue: inout ByteQueue, _ canWrite: inout Bool) -> CInt {
        let output = UnsafeRawBufferPointer(
            start: workspace.output.pointee.start, count: workspace.output.pointee.count)
        workspace.output.pointee.count = 0
        if socket.pointee.write_error != 0 { return socket.pointee.write_error }
        if socket.pointee.is_full {
            socket.pointee.is_full = false
            canWrite = false
        }
        guard !output.isEmpty else { return 0 }
        var taken = 0
        if queue.isEmpty, canWrite {
            switch Socket.send(socket.pointee.descriptor, output, more: socket.pointee.sends_more) {
            case .bytes(let count): taken = count
            case .wouldBlock: break
            case .failed(let code): return code
            }
            socket.pointee.sent += UInt64(taken)
            if taken < output.count { canWrite = false }
        }
        if taken < output.count { queue.append(UnsafeRawBufferPointer(rebasing: output[taken...])) }
        return 0
    }

    /// Tells the peer that no data follow; this side's end follows at once. Reading may continue (RFC 8446 6.1). 0, or `errno`.
    package func closeNotify(queue: inout ByteQueue, canWrite: inout Bool) -> CInt {
        guard isEstablished, failure == nil, !hasSentClose else { return 0 }
        hasSentClose = true
        socket.pointee.sends_more = true
        _ = lanyard_tls_shutdown(ssl)
        return deliver(&queue, &canWrite)
    }

    // MARK: Called by OpenSSL, inside of the calls above

    /// The session that an `SSL *` belongs to.
    static func owner(of ssl: OpaquePointer) -> TLSSession? {
        SSL_get_ex_data(ssl, 0).map { Unmanaged<TLSSession>.fromOpaque($0).takeUnretainedValue() }
    }

    /// The upstream has given a session that can be resumed. Takes over the reference, or returns false: the session is too large.
    func keep(_ session: OpaquePointer) -> Bool {
        guard i2d_SSL_SESSION(session, nil) <= TLSSessionCache.sessionBytesMax else {
            hasLargeSession = true
            return false
        }
        let own = TLSVerification(socket.pointee.verification, at: upstreamVerification.beganAt)
        let session = TLSResumption(taking: session, isResumed ? upstreamVerification.offered ?? own : own)
        if case .client(let context) = role { context.sessions.add(session) }
        return true
    }

    /// A ticket is about to be made. The session of a resumed connection has what the session before it had. False: there is no memory.
    func recordVerificationInTicket() -> Bool {
        guard case .server(let context) = role, let session = SSL_get_session(ssl) else { return false }
        return isResumed || TLSVerification(socket.pointee.verification, at: context.clock()).write(into: session)
    }

    /// Whether a listener resumes the session of a ticket. If not, the handshake is a full one.
    func mayResume(_ session: OpaquePointer) -> Bool {
        guard case .server(let context) = role, let verification = TLSVerification(in: session) else { return false }
        return verification.isRecent(at: context.clock())
            && !(context.demandsCertificates && verification.objection(at: context.wallClock()) != nil)
    }

    /// The peer asks for a certificate.
    func noteCertificateRequest() {
        peerRequests.certificate = true
        peerRequests.lateCertificate = isEstablished
    }

    /// The peer asks to renegotiate, and is refused.
    func noteRenegotiation() { peerRequests.renegotiation = true }

    /// The keys of the listener's tickets; nil: this is the client's end.
    var ticketKeys: TLSTicketKeys? { if case .server(let context) = role { context.tickets } else { nil } }

    /// Frees OpenSSL's buffers. False: bytes wait in them, such as a part of a record. Called by the workspace.
    func freeBuffers() -> Bool { SSL_has_pending(ssl) == 0 && SSL_free_buffers(ssl) == 1 }

    /// Bytes that the session holds for a record whose rest has not come, as the workspace knows it.
    var partialRecordBytes: Int { buffers.partialRecord == .none ? 0 : TLSWorkspace.bufferBytes }
}
