import CLinux
import Glibc
import Logging
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardRequestPath
@testable import LanyardSettings

@Suite struct AcceptorTests {
    @Test("a listener that fails for good is left alone for a moment, and can be stopped")
    func unwell() async throws {
        let bench = try ProxyBench()
        let shard = bench.path.shards[0]
        let settings = ListenerSettings(address: .tcp(host: "127.0.0.1", port: 0))
        let socket = try ListeningSocket(settings)
        let acceptor = Acceptor(
            socket, shard: shard, shards: [shard],
            listener: 0,
            log: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        // From now on accept(2) says EINVAL, and epoll that there is something.
        _ = shutdown(socket.raw, CInt(SHUT_RD))
        let (started, stopped) = (Milestone(), Milestone())
        shard.loop.post {
            acceptor.start()
            started.set()
        }
        try await eventually("it listens") { started.isSet }
        #expect(try await bench.ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 200)
        shard.loop.post {
            acceptor.stop()
            stopped.set()
        }
        try await eventually("it has stopped") { stopped.isSet }
    }

    @Test("a fault that a single client could be to blame for, again and again without end: the same")
    func unwellLikeAClient() async throws {
        let bench = try ProxyBench()
        let shard = bench.path.shards[0]
        let socket = try ListeningSocket(ListenerSettings(address: .tcp(host: "127.0.0.1", port: 0)))
        // In its place a datagram that waits: epoll says that there is something, accept(2) says EOPNOTSUPP.
        let datagrams = OwnedDescriptor(taking: Glibc.socket(AF_INET, CInt(SOCK_DGRAM.rawValue), 0))
        try #require(datagrams.raw >= 0 && dup2(datagrams.raw, socket.raw) == socket.raw)
        try sendDatagram(to: datagrams.raw)
        let log = LogRecorder()
        let acceptor = Acceptor(
            socket, shard: shard, shards: [shard],
            listener: 0,
            log: log.logger)
        let stopped = Milestone()
        shard.loop.post { acceptor.start() }
        try await eventually("it pauses") { log.lines.contains { $0.contains("listener.paused") } }
        #expect(try await bench.ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 200)
        shard.loop.post {
            acceptor.stop()
            stopped.set()
        }
        try await eventually("it has stopped") { stopped.isSet }
        #expect(log.lines.count { $0.contains("listener.paused") } == 1)
    }

    /// Sends one byte to the socket itself, which is bound by that to a port of the kernel's choice.
    private func sendDatagram(to raw: CInt) throws {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let sent = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                bind(raw, generic, size) == 0 && getsockname(raw, generic, &size) == 0
                    && sendto(raw, "x", 1, 0, generic, size) == 1
            }
        }
        try #require(sent)
    }
}
