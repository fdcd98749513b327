import LanyardSettings
import TestSupport

/// A request path before an upstream that the test plays itself, byte by byte.
final class TunnelBench: Sendable {
    static let asking =
        "GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: k\r\n\r\n"
    static let granting =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: a\r\n\r\n"
    /// What the client gets of it.
    static let granted =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: a\r\n\r\n"

    let bench: ProxyBench
    private let listener: RawSocket
    private let folder: TemporaryFolder?

    /// - Parameter isUnix: listener and upstream are unix sockets.
    init(isUnix: Bool = false, plan configure: (inout ProxyBench.Plan) -> Void = { _ in }) throws {
        let folder = isUnix ? try TemporaryFolder() : nil
        self.folder = folder
        let listener = try RawSocket.listen(at: folder.map { .unix($0.file("up")) } ?? .tcp(0))
        self.listener = listener
        bench = try ProxyBench(plan: { (plan: inout ProxyBench.Plan) in
            plan.usesUpstream = false
            plan.upstream.endpoint =
                folder.map { .unix(path: $0.file("up")) }
                ?? .tcp(host: "127.0.0.1", port: listener.localPort, tls: false)
            if let folder { plan.listener = ListenerSettings(address: .unix(path: folder.file("in"))) }
            configure(&plan)
        })
    }

    /// One end of a tunnel: a socket and what reads it. Used by one thread at a time.
    struct End: @unchecked Sendable {
        let socket: RawSocket
        let reader: RawReader

        init(_ socket: RawSocket) {
            self.socket = socket
            reader = RawReader(socket)
        }

        /// Whether unread bytes wait, or the other side has ended.
        var hasInput: Bool { reader.hasInput }

        func send(_ text: String) throws { try socket.send(text.utf8) }
        func read(_ count: Int) throws -> String { String(decoding: try reader.read(count), as: UTF8.self) }
        func head() throws -> String {
            String(decoding: try reader.readHead() ?? [], as: UTF8.self)
        }
        /// All that comes, and whether it ended in a reset.
        func rest() throws -> (text: String, wasReset: Bool) {
            let (bytes, wasReset) = try reader.readToAnyEnd()
            return (String(decoding: bytes, as: UTF8.self), wasReset)
        }
    }

    func connect() throws -> End { End(try .connect(to: bench.endpoint)) }

    func accept() throws -> End {
        guard let socket = listener.accept() else { throw TestFailure("the listener has ended") }
        return End(socket)
    }

    /// An open tunnel: the client's and the upstream's end of it.
    func open() throws -> (client: End, upstream: End) {
        let client = try connect()
        try client.send(Self.asking)
        let upstream = try accept()
        _ = try upstream.head()
        try upstream.send(Self.granting)
        let head = try client.head()
        guard head == Self.granted else { throw TestFailure("no tunnel: \(head)") }
        return (client, upstream)
    }

    /// Tunnels that are open.
    var tunnels: Int { bench.count("lanyard_upgraded_connections") }
}
