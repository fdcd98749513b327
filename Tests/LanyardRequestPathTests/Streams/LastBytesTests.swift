import Glibc
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardRequestPath

/// The last bytes of a connection, which go out with its end.
@Suite struct LastBytesTests {
    private let loop: EventLoop
    private let listener: RawSocket

    init() throws {
        loop = try EventLoop(label: "last bytes")
        listener = try RawSocket.listen(at: .tcp(0))
    }

    /// Calls `work` with one end of a TCP connection as a stream. The other end is returned.
    private func connected(_ work: (inout ByteStream, RawSocket) -> Void) throws -> RawSocket {
        let peer = try RawSocket.connect(to: .tcp(listener.localPort))
        let raw = listener.use { accept($0, nil, nil) } ?? -1
        guard raw >= 0, fcntl(raw, F_SETFL, O_NONBLOCK) == 0 else { throw TestFailure("no connection") }
        var stream = ByteStream(taking: OwnedDescriptor(taking: raw), budget: BufferBudget(1 << 20))
        work(&stream, peer)
        return peer
    }

    private func send(_ text: String, to stream: inout ByteStream) {
        let sent = Array(text.utf8).withUnsafeBytes { stream.send($0, isLast: true) }
        #expect(sent == 0 && stream.isFlushed)
    }

    @Test("the end goes out with the last bytes, not behind them")
    func together() throws {
        var isHeld = false
        // The kernel holds them for 200 ms. A pause of the machine may be longer.
        for _ in 0..<20 where !isHeld {
            let peer = try connected { stream, peer in
                send("the last bytes", to: &stream)
                isHeld = peer.receiveNow(max: 100) == nil
                stream.endWriting()
            }
            #expect(try peer.receive() == Array("the last bytes".utf8))
            #expect(try peer.receive().isEmpty)
        }
        #expect(isHeld)
    }

    @Test("a late byte makes the close a reset, but the last bytes arrive before it", arguments: [true, false])
    func lateByte(endsWriting: Bool) throws {
        let peer = try connected { stream, peer in
            #expect(throws: Never.self) { try peer.send(Array("late".utf8)) }
            send("the last bytes", to: &stream)
            if endsWriting { stream.endWriting() }
            stream.close(on: loop)
        }
        #expect(try peer.receive() == Array("the last bytes".utf8))
    }
}
