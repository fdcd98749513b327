import Foundation
import TestSupport

/// An upstream whose response to `/endless` never ends, as fast as it is taken. To anything else it responds `ok`. It stops
/// with the value.
final class EndlessUpstream: Sendable {
    /// As a route names it.
    let address: String
    private let listener: RawSocket
    private let taken = Tally()

    /// Bytes of endless answers that the kernel has taken so far.
    var sent: Int { taken.value }

    init() throws {
        // By itself the kernel takes megabytes of each response: with a thousand of them more than it has for all sockets together.
        let listener = try RawSocket.listen(at: .tcp(0), sendBuffer: 64 << 10)
        self.listener = listener
        let taken = taken
        address = "http://127.0.0.1:\(listener.localPort)"
        Thread.detachNewThread {
            while let socket = listener.accept(with: nil) {
                Thread.detachNewThread { Self.serve(socket, taken) }
            }
        }
    }

    deinit { listener.close() }

    /// To its end, which is the client's going away.
    private static func serve(_ socket: RawSocket, _ taken: Tally) {
        defer { socket.close() }
        let reader = RawReader(socket)
        let chunk = Array("1000\r\n".utf8) + [UInt8](repeating: 0x65, count: 4096) + Array("\r\n".utf8)
        while let request = try? reader.readRequest() {
            guard request.target == "/endless" else {
                try? socket.send(Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8))
                continue
            }
            try? socket.send(Array("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".utf8))
            // A reader that is slow enough leaves no room for minutes.
            while (try? socket.send(chunk)) != nil { taken.add(chunk.count) }
            return
        }
    }
}
