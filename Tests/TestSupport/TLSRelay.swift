import CLinux
import COpenSSL
import Foundation
import Glibc
import LanyardFoundations

/// Puts TLS on one side of a byte relay, so that a test's plain client or server speaks it to the proxy.
///
/// An orderly end passes in both forms: a `close_notify` is an end of the plain side, and the other way round. Everything else that ends
/// one side resets the other. One thread for each connection. Stops on `deinit`.
package final class TLSRelay: Sendable {
    package enum Role: Sendable {
        /// Accepts TLS with this certificate and connects without it: stands before a server.
        case server(TestAuthority.Issued)
        /// Accepts without TLS and connects by it: stands before a listener. It verifies nothing.
        case client
    }

    /// The address for clients, in place of the target's.
    package let endpoint: RawEndpoint
    private let core: Core

    /// Listens on a free port.
    ///
    /// - Parameter version: one version alone, such as `TLS1_2_VERSION`; 0: all that OpenSSL speaks.
    package init(_ role: Role, before target: RawEndpoint, version: CInt = 0) throws {
        let listener = try RawSocket.listen(at: .tcp(0))
        endpoint = .tcp(listener.localPort)
        core = Core(role, listener, target, context: try Self.makeContext(role, version))
        let core = core
        Thread.detachNewThread { core.acceptAll() }
    }

    deinit { core.stop() }

    /// The most bytes of ciphertext that one connection has received, and that one has sent.
    package var longest: (received: Int, sent: Int) { core.state.withLock { $0.longest } }

    static func makeContext(_ role: Role, _ version: CInt) throws -> OpaquePointer {
        let method = if case .server = role { TLS_server_method() } else { TLS_client_method() }
        guard let context = SSL_CTX_new(method) else { throw TestFailure("no context") }
        if case .server(let issued) = role {
            let certificate = read(issued.certificate) { PEM_read_bio_X509($0, nil, nil, nil) }
            let key = read(issued.key) { PEM_read_bio_PrivateKey($0, nil, nil, nil) }
            defer {
                X509_free(certificate)
                EVP_PKEY_free(key)
            }
            guard SSL_CTX_use_certificate(context, certificate) == 1, SSL_CTX_use_PrivateKey(context, key) == 1 else {
                throw TestFailure("the certificate cannot be used")
            }
        }
        if version != 0 {
            SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, Int(version), nil)
            SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, Int(version), nil)
        }
        return context
    }

    private static func read(_ text: String, _ body: (OpaquePointer?) -> OpaquePointer?) -> OpaquePointer? {
        Array(text.utf8).withUnsafeBytes { bytes in
            let bio = BIO_new_mem_buf(bytes.baseAddress, CInt(bytes.count))
            defer { BIO_free(bio) }
            return body(bio)
        }
    }

    /// What the threads hold. They do not hold the relay, so it can be released while they run.
    private final class Core: Sendable {
        struct State {
            var live: [Int: RelayedConnection] = [:]
            var accepted = 0
            var longest = (received: 0, sent: 0)
        }

        let role: Role
        let listener: RawSocket
        let target: RawEndpoint
        nonisolated(unsafe) let context: OpaquePointer
        let state = Guarded(State())

        init(_ role: Role, _ listener: RawSocket, _ target: RawEndpoint, context: OpaquePointer) {
            (self.role, self.listener, self.target, self.context) = (role, listener, target, context)
        }

        deinit { SSL_CTX_free(context) }

        func stop() {
            listener.close()
            for connection in state.withLock({ Array($0.live.values) }) { connection.reset() }
        }

        func acceptAll() {
            while let accepted = listener.accept(with: nil) {
                guard let connection = try? connection(of: accepted) else {
                    accepted.reset()
                    continue
                }
                let number = state.withLock { state in
                    state.accepted += 1
                    state.live[state.accepted] = connection
                    return state.accepted
                }
                Thread.detachNewThread {
                    connection.run()
                    _ = self.state.withLock { $0.live.removeValue(forKey: number) }
                }
            }
        }

        private func connection(of accepted: RawSocket) throws -> RelayedConnection {
            let target = target
            switch role {
            case .server:
                return RelayedConnection(
                    context, isServer: true, wire: accepted, plain: nil, onWireBytes: noteWireBytes
                ) { try RawSocket.connect(to: target) }
            case .client:
                let wire = try RawSocket.connect(to: target)
                return RelayedConnection(
                    context, isServer: false, wire: wire, plain: accepted, onWireBytes: noteWireBytes
                ) { accepted }
            }
        }

        private func noteWireBytes(_ received: Int, _ sent: Int) {
            state.withLock { state in
                state.longest = (max(state.longest.received, received), max(state.longest.sent, sent))
            }
        }
    }
}

/// One connection of a relay. Belongs to its thread, except for `reset`.
private final class RelayedConnection: @unchecked Sendable {
    /// One side has ended in another way than by an end. A type of its own, because only its coming matters.
    private struct BrokenError: Error {}

    /// Bytes that a socket has not taken yet.
    private struct Outgoing {
        private var bytes: [UInt8] = []
        private var start = 0
        var isEmpty: Bool { start == bytes.count }

        mutating func append(_ more: UnsafeRawBufferPointer) {
            if isEmpty {
                bytes.removeAll(keepingCapacity: true)
                start = 0
            }
            bytes += more
        }

        /// Sends what the socket takes. Returns the count.
        mutating func flush(to socket: RawSocket) throws -> Int {
            guard !isEmpty else { return 0 }
            let (count, failure) =
                bytes[start...].withUnsafeBytes { rest in
                    socket.use { (send($0, rest.baseAddress, rest.count, CInt(MSG_NOSIGNAL)), errno) }
                } ?? (-1, EBADF)
            if count < 0, failure != EAGAIN, failure != EINTR { throw BrokenError() }
            start += max(count, 0)
            return max(count, 0)
        }
    }

    private let ssl: OpaquePointer
    /// Ciphertext from and to the wire. Both belong to `ssl`.
    private let input = BIO_new(BIO_s_mem())!
    private let output = BIO_new(BIO_s_mem())!
    private let wire: RawSocket
    private var plain: RawSocket?
    private let connect: () throws -> RawSocket
    private let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)

    private var toWire = Outgoing()
    private var toPlain = Outgoing()
    private var wireEnded = false
    private var hasCloseNotify = false
    private var plainEnded = false
    private var hasEndedWire = false
    private var hasEndedPlain = false
    private var received = 0
    private var sent = 0
    private let onWireBytes: (_ received: Int, _ sent: Int) -> Void

    /// - Parameters:
    ///   - onWireBytes: called with the bytes of ciphertext so far.
    ///   - connect: makes the plain side when the first bytes are there.
    init(
        _ context: OpaquePointer, isServer: Bool, wire: RawSocket, plain: RawSocket?,
        onWireBytes: @escaping (_ received: Int, _ sent: Int) -> Void, connect: @escaping () throws -> RawSocket
    ) {
        ssl = SSL_new(context)!
        SSL_set_bio(ssl, input, output)
        if isServer { SSL_set_accept_state(ssl) } else { SSL_set_connect_state(ssl) }
        (self.wire, self.plain, self.connect, self.onWireBytes) = (wire, plain, connect, onWireBytes)
    }

    deinit {
        SSL_free(ssl)
        room.deallocate()
    }

    /// From any thread: the wire's end wakes the connection's own.
    func reset() { wire.reset() }

    /// Blocks until both sides have ended.
    func run() {
        do {
            while !isDone() {
                var moved = try readWire()
                moved = try decrypt() || moved
                moved = try flushPlain() || moved
                moved = try readPlain() || moved
                moved = try flushWire() || moved
                if !moved { try wait() }
            }
            wire.close()
            plain?.close()
        } catch {
            wire.reset()
            plain?.reset()
        }
    }

    /// Passes ends on behind the last bytes.
    private func isDone() -> Bool {
        if hasCloseNotify, toPlain.isEmpty, !hasEndedPlain {
            hasEndedPlain = true
            guard let plain else { return true }
            plain.halfClose()
        }
        if plainEnded, toWire.isEmpty, !hasEndedWire {
            hasEndedWire = true
            wire.halfClose()
        }
        return hasEndedPlain && hasEndedWire
    }

    private func receive(from socket: RawSocket) throws -> Int? {
        let (count, failure) = socket.use { (recv($0, room.baseAddress, room.count, 0), errno) } ?? (-1, EBADF)
        if count >= 0 { return count }
        guard failure == EAGAIN || failure == EINTR else { throw BrokenError() }
        return nil
    }

    private func readWire() throws -> Bool {
        guard toPlain.isEmpty, !wireEnded, let count = try receive(from: wire) else { return false }
        if count == 0 { wireEnded = true } else { BIO_write(input, room.baseAddress, CInt(count)) }
        received += count
        onWireBytes(received, sent)
        return true
    }

    private func decrypt() throws -> Bool {
        guard !hasCloseNotify, toPlain.isEmpty else { return false }
        var moved = false
        while !hasCloseNotify {
            var count = 0
            ERR_clear_error()
            let result = SSL_read_ex(ssl, room.baseAddress, room.count, &count)
            collect()
            if result == 1 {
                toPlain.append(UnsafeRawBufferPointer(rebasing: room[..<count]))
                moved = true
                continue
            }
            switch SSL_get_error(ssl, result) {
            case SSL_ERROR_WANT_READ:
                // An end without a close_notify is a cut.
                if wireEnded { throw BrokenError() }
                return moved
            case SSL_ERROR_ZERO_RETURN:
                hasCloseNotify = true
                moved = true
            default:
                // The alert.
                _ = try? toWire.flush(to: wire)
                throw BrokenError()
            }
        }
        return moved
    }

    private func readPlain() throws -> Bool {
        guard let plain, !plainEnded, toWire.isEmpty, SSL_is_init_finished(ssl) == 1,
            let count = try receive(from: plain)
        else { return false }
        ERR_clear_error()
        if count == 0 {
            plainEnded = true
            SSL_shutdown(ssl)
        } else {
            var written = 0
            guard SSL_write_ex(ssl, room.baseAddress, count, &written) == 1, written == count else {
                throw BrokenError()
            }
        }
        collect()
        return true
    }

    /// Moves what OpenSSL has written to the queue of the wire.
    private func collect() {
        while BIO_ctrl_pending(output) > 0 {
            let bytes = [UInt8](unsafeUninitializedCapacity: BIO_ctrl_pending(output)) { bytes, count in
                count = Int(max(BIO_read(output, bytes.baseAddress, CInt(bytes.count)), 0))
            }
            bytes.withUnsafeBytes { toWire.append($0) }
        }
    }

    private func flushPlain() throws -> Bool {
        guard !toPlain.isEmpty else { return false }
        let plain = try self.plain ?? connect()
        self.plain = plain
        return try toPlain.flush(to: plain) > 0
    }

    private func flushWire() throws -> Bool {
        let count = try toWire.flush(to: wire)
        sent += count
        if count > 0 { onWireBytes(received, sent) }
        return count > 0
    }

    /// Waits for what can move. A closed socket of this side wakes it.
    private func wait() throws {
        let waited = wire.use { wireNumber in
            var wirePoll = pollfd(fd: wireNumber, events: 0, revents: 0)
            if toPlain.isEmpty, !wireEnded { wirePoll.events |= Int16(POLLIN) }
            if !toWire.isEmpty { wirePoll.events |= Int16(POLLOUT) }
            var plainPoll = pollfd(fd: -1, events: 0, revents: 0)
            if !toPlain.isEmpty { plainPoll.events |= Int16(POLLOUT) }
            if toWire.isEmpty, !plainEnded, SSL_is_init_finished(ssl) == 1 { plainPoll.events |= Int16(POLLIN) }
            // An error is reported without being asked for, and would be again and again.
            if wirePoll.events == 0 { wirePoll.fd = -1 }
            guard let plain, plainPoll.events != 0 else { return poll(&wirePoll, 1, Self.pollMilliseconds) }
            return plain.use { plainNumber in
                plainPoll.fd = plainNumber
                var both = [wirePoll, plainPoll]
                return poll(&both, 2, Self.pollMilliseconds)
            } ?? -1
        }
        if waited == nil || wire.isClosed { throw BrokenError() }
    }

    /// Neither socket may be worth a wait, until the relay is stopped.
    private static let pollMilliseconds: CInt = 500
}
