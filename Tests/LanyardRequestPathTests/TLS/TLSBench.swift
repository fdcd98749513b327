import CLinux
import COpenSSL
import Glibc
import LanyardFoundations
import LanyardSettings
import TestSupport

@testable import LanyardRequestPath

/// Contexts from PEM text.
enum TLSBench {
    /// One authority for all tests that need no special one.
    static let authority = TestAuthority()

    static func authorities(_ pem: String = authority.pem) throws -> TLSAuthorities {
        try bytes(pem) { try TLSAuthorities($0) }
    }

    static func keyPair(_ issued: TestAuthority.Issued) throws -> TLSKeyPair {
        try keyPair(issued.certificate, issued.key)
    }

    static func keyPair(_ chain: String, _ key: String) throws -> TLSKeyPair {
        try bytes(chain) { chain in try bytes(key) { try TLSKeyPair(chain: chain, key: $0) } }
    }

    static func bytes<Value>(_ text: String, _ body: (UnsafeRawBufferPointer) throws -> Value) rethrows -> Value {
        try Array(text.utf8).withUnsafeBytes(body)
    }

    /// An upstream's context. It trusts `authority` and demands `localhost`.
    static func client(
        _ host: String = "localhost", trusting pem: String = authority.pem, showing issued: TestAuthority.Issued? = nil,
        skipsVerification: Bool = false, version: CInt = 0, clock: @escaping @Sendable () -> Instant = { .now },
        wallClock: @escaping @Sendable () -> WallTime = { .now }
    ) throws -> TLSClientContext {
        let context = try TLSClientContext(
            verifying: TLSServerName(host: host)!, authorities: authorities(pem),
            keyPair: issued.map { try keyPair($0) },
            skipsVerification: skipsVerification, clock: clock, wallClock: wallClock)
        limit(context.raw, to: version)
        return context
    }

    /// A listener's context, with a certificate for `localhost` of `authority`.
    static func server(
        _ issued: TestAuthority.Issued = authority.issue(), demanding clients: String? = nil, names: [String] = [],
        protocols: ListenerSettings.Protocols = .all, tickets: TLSTicketKeys = TLSTicketKeys(), version: CInt = 0,
        clock: @escaping @Sendable () -> Instant = { .now },
        wallClock: @escaping @Sendable () -> WallTime = { .now }
    ) throws -> TLSServerContext {
        let context = try TLSServerContext(
            keyPair(issued), clientAuthorities: clients.map { try authorities($0) },
            clientNames: TLSClientNames(names), protocols: protocols, tickets: tickets, clock: clock,
            wallClock: wallClock)
        limit(context.raw, to: version)
        return context
    }

    /// One version alone; 0: all that are allowed.
    private static func limit(_ context: OpaquePointer, to version: CInt) {
        guard version != 0 else { return }
        SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, Int(version), nil)
        SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, Int(version), nil)
    }

    /// Both versions that are spoken.
    static let versions = [TLS1_2_VERSION, TLS1_3_VERSION]
}

/// A socket's descriptor. A class, because tuples hold copies only.
final class TestSocket {
    let raw: CInt
    /// The owner of the descriptor, if it is not this.
    private let owner: RawSocket?

    init(taking raw: CInt) { (self.raw, owner) = (raw, nil) }

    init(_ socket: RawSocket) throws {
        guard let raw = socket.use({ $0 }) else { throw TestFailure("the socket is closed") }
        (self.raw, owner) = (raw, socket)
    }

    /// The peer has ended its direction, or there is an error.
    var hasEnded: Bool {
        // POLLRDHUP, which Swift's Glibc module leaves out.
        var entry = pollfd(fd: raw, events: 0x2000, revents: 0)
        return Glibc.poll(&entry, 1, 0) > 0
    }

    /// Bytes that have arrived, at most 4096.
    var available: Int {
        var room = [UInt8](repeating: 0, count: 4096)
        return max(recv(raw, &room, room.count, CInt(MSG_PEEK) | CInt(MSG_DONTWAIT)), 0)
    }

    deinit { if owner == nil { close(raw) } }
}

/// One end of a connection: a session with its socket and its queue, as a byte stream holds them.
final class TLSEnd {
    let session: TLSSession
    let socket: TestSocket
    var queue: ByteQueue
    var canWrite = true

    init(
        _ socket: TestSocket, _ workspace: TLSWorkspace, budget: BufferBudget? = nil,
        _ make: (CInt, TLSWorkspace) throws -> TLSSession
    ) rethrows {
        session = try make(socket.raw, workspace)
        self.socket = socket
        queue = ByteQueue(budget: budget)
    }

    /// As epoll does it: everything may be possible again.
    func poll() -> CInt {
        session.noteReadable(hasEnded: socket.hasEnded)
        canWrite = true
        return flush()
    }

    /// Sends what waits. 0, or `errno`.
    private func flush() -> CInt {
        while !queue.isEmpty, canWrite {
            switch Socket.send(socket.raw, UnsafeRawBufferPointer(queue.bytes)) {
            case .bytes(let count): queue.consume(count)
            case .wouldBlock: canWrite = false
            case .failed(let code): return code
            }
        }
        return 0
    }

    func handshake() -> TLSSession.Progress {
        _ = poll()
        return session.handshake(queue: &queue, canWrite: &canWrite)
    }

    func receive(max: Int = 1 << 16) -> (TLSSession.Received, [UInt8]) {
        _ = poll()
        var received = TLSSession.Received.wouldBlock
        let bytes = [UInt8](unsafeUninitializedCapacity: max) { room, count in
            received = session.receive(
                into: UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(room)[..<max]),
                queue: &queue, canWrite: &canWrite)
            if case .bytes(let got) = received { count = got } else { count = 0 }
        }
        return (received, bytes)
    }

    func send(_ head: [UInt8], _ body: [UInt8] = [], _ tail: StaticString = "") -> CInt {
        head.withUnsafeBytes { head in
            body.withUnsafeBytes { session.send(head, $0, tail, queue: &queue, canWrite: &canWrite) }
        }
    }

    func closeNotify() -> CInt { session.closeNotify(queue: &queue, canWrite: &canWrite) }
    func hasPendingInput() -> Bool {
        _ = poll()
        return session.processIdleInput(queue: &queue, canWrite: &canWrite)
    }
}

/// A client's and a listener's end. Between them a socket pair, or a relay that cuts the ciphertext.
final class TLSPair {
    let workspace = TLSWorkspace()
    let client: TLSEnd
    let server: TLSEnd
    private let relay: (client: TestSocket, server: TestSocket)?
    /// Bytes that the relay moves at once.
    var step = 1 << 16
    /// What the relay has moved.
    private(set) var toServer: [UInt8] = []
    private(set) var toClient: [UInt8] = []

    init(
        _ clientContext: TLSClientContext, _ serverContext: TLSServerContext, relayed: Bool = false,
        overTCP: Bool = false, budget: BufferBudget? = nil
    ) throws {
        let make = overTCP ? Self.loopback : Self.pair
        let (left, right) = try make()
        let workspace = workspace
        if relayed {
            let (other, end) = try make()
            relay = (right, other)
            server = try TLSEnd(end, workspace, budget: budget) {
                try TLSSession($0, of: serverContext, workspace: $1)
            }
        } else {
            relay = nil
            server = try TLSEnd(right, workspace, budget: budget) {
                try TLSSession($0, of: serverContext, workspace: $1)
            }
        }
        client = try TLSEnd(left, workspace, budget: budget) { try TLSSession($0, to: clientContext, workspace: $1) }
    }

    /// Two sockets that do not block.
    static func pair() throws -> (TestSocket, TestSocket) {
        var ends: [CInt] = [0, 0]
        let kind = CInt(SOCK_STREAM.rawValue) | CInt(SOCK_NONBLOCK.rawValue) | CInt(SOCK_CLOEXEC.rawValue)
        guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { throw TestFailure("socketpair: errno \(errno)") }
        return (TestSocket(taking: ends[0]), TestSocket(taking: ends[1]))
    }

    /// The same over TCP.
    static func loopback() throws -> (TestSocket, TestSocket) {
        let listener = try RawSocket.listen(at: .tcp(0))
        let left = try connect(to: listener.localPort)
        guard let right = listener.accept() else { throw TestFailure("no connection") }
        return (left, try TestSocket(right))
    }

    /// A connected socket that does not block.
    static func connect(to port: UInt16) throws -> TestSocket { try TestSocket(RawSocket.connect(to: .tcp(port))) }

    /// Moves ciphertext; true: it has moved some.
    @discardableResult
    func carry() -> Bool {
        guard let relay else { return false }
        let there = move(relay.client.raw, relay.server.raw, &toServer)
        let back = move(relay.server.raw, relay.client.raw, &toClient)
        return there || back
    }

    private func move(_ from: CInt, _ to: CInt, _ record: inout [UInt8]) -> Bool {
        var bytes = [UInt8](repeating: 0, count: step)
        let count = recv(from, &bytes, step, CInt(MSG_PEEK))
        guard count > 0 else { return false }
        // What the reader has no room for stays.
        let sent = Glibc.send(to, bytes, count, CInt(MSG_NOSIGNAL))
        guard sent > 0 else { return false }
        record += bytes[..<sent]
        return recv(from, &bytes, sent, 0) == sent
    }

    /// Shakes hands until both ends are done or have failed.
    @discardableResult
    func shake() -> (client: TLSSession.Progress, server: TLSSession.Progress) {
        var (client, server) = (TLSSession.Progress.wouldBlock, TLSSession.Progress.wouldBlock)
        var quietRounds = 0
        while quietRounds < 3, client == .wouldBlock || server == .wouldBlock {
            if client == .wouldBlock { client = self.client.handshake() }
            if server == .wouldBlock { server = self.server.handshake() }
            quietRounds = carry() ? 0 : quietRounds + 1
        }
        return (client, server)
    }

    /// Shakes hands, and demands that both ends are done.
    func establish() throws {
        let result = shake()
        guard result == (.done, .done) else { throw TestFailure("handshake: \(result)") }
    }

    /// Sends from one end and reads at the other until all has arrived.
    func transfer(_ bytes: [UInt8], from sender: TLSEnd, to reader: TLSEnd) throws -> [UInt8] {
        guard sender.send(bytes) == 0 else { throw TestFailure("sending") }
        return try collect(bytes.count, from: sender, to: reader)
    }

    /// Reads so many bytes.
    func collect(_ count: Int, from sender: TLSEnd, to reader: TLSEnd) throws -> [UInt8] {
        var all: [UInt8] = []
        var quietRounds = 0
        while all.count < count, quietRounds < 3 {
            _ = sender.poll()
            let isMoving = carry()
            let (received, bytes) = reader.receive()
            all += bytes
            switch received {
            case .bytes: quietRounds = 0
            case .wouldBlock: quietRounds = isMoving ? 0 : quietRounds + 1
            default: throw TestFailure("\(received) after \(all.count) bytes")
            }
        }
        return all
    }
}

/// Records of TLS, by type and length, of captured ciphertext.
func records(_ bytes: ArraySlice<UInt8>) -> [(type: UInt8, count: Int)] {
    var (rest, found) = (bytes, [(type: UInt8, count: Int)]())
    while rest.count >= 5 {
        let start = rest.startIndex
        let count = Int(rest[start + 3]) << 8 | Int(rest[start + 4])
        found.append((rest[start], count))
        rest = rest.dropFirst(5 + count)
    }
    return found
}

/// Bytes that show where they are.
func pattern(_ count: Int) -> [UInt8] { (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) } }
