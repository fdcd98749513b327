import LanyardFoundations
import TestSupport

/// Many clients that ask for a body and take a little of it at each turn, which the test begins.
final class SlowReaders: Sendable {
    private struct State {
        var hasEnded: [Bool]
        var bytes: [Int]
    }

    private static let batch = 50

    private let sockets: [RawSocket]
    private let state: Guarded<State>

    /// Connects and asks in batches. Blocks until each has the beginning of a 200: a request without a response holds a buffer of its own,
    /// and a crowd of those is not what is measured.
    init(_ count: Int, of endpoint: RawEndpoint, _ path: String) throws {
        // A unix listener takes any Host.
        let host = if case .unix = endpoint { "localhost" } else { "\(endpoint)" }
        let request = Array("GET \(path) HTTP/1.1\r\nHost: \(host)\r\n\r\n".utf8)
        var sockets: [RawSocket] = []
        while sockets.count < count {
            let batch = try (0..<min(Self.batch, count - sockets.count)).map { _ in
                // The kernel is not to read ahead for them.
                let socket = try RawSocket.connect(to: endpoint, receiveBuffer: 8192)
                try socket.send(request)
                return socket
            }
            for socket in batch {
                let start = String(decoding: try socket.receive(max: 12), as: UTF8.self)
                guard start == "HTTP/1.1 200" else { throw TestFailure("no endless response but '\(start)'") }
            }
            sockets += batch
        }
        self.sockets = sockets
        state = Guarded(
            State(hasEnded: [Bool](repeating: false, count: count), bytes: [Int](repeating: 0, count: count)))
    }

    deinit { stop() }

    /// Readers whose stream has ended, in whatever way.
    var ended: Int { state.withLock { $0.hasEnded.count { $0 } } }
    /// What the slowest has got so far.
    var least: Int { state.withLock { $0.bytes.min() ?? 0 } }

    /// Each takes up to so many of the bytes that have arrived.
    func takeTurn(bytes most: Int) {
        state.withLock { state in
            for (number, socket) in sockets.enumerated() where !state.hasEnded[number] {
                guard let bytes = socket.receiveNow(max: most) else { continue }
                state.bytes[number] += bytes.count
                state.hasEnded[number] = bytes.isEmpty
            }
        }
    }

    /// They go away.
    func stop() { for socket in sockets { socket.close() } }
}
