import Foundation
import LanyardFoundations
import TestSupport

/// Many clients that ask for a body and then take a little of it every second. One thread serves them all.
final class SlowReaders: Sendable {
    private struct State {
        var isStopped = false
        var ended = 0
        var bytes: [Int]
    }

    private let state: Shared
    private final class Shared: Sendable {
        let box: Guarded<State>
        init(_ count: Int) { box = Guarded(State(bytes: [Int](repeating: 0, count: count))) }
    }

    private static let batch = 50

    /// Connects and asks in batches. Blocks until each has the beginning of a 200: a request without a response holds a buffer of its own,
    /// and a crowd of those is not what is measured.
    ///
    /// - Parameter bytes: taken by each in a second.
    init(_ count: Int, of endpoint: RawEndpoint, _ path: String, bytes: Int) throws {
        let state = Shared(count)
        self.state = state
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
        Thread.detachNewThread { [sockets] in Self.run(sockets, state, bytes) }
    }

    deinit { stop() }

    /// Readers whose stream has ended, in whatever way.
    var ended: Int { state.box.withLock { $0.ended } }
    /// What the slowest has got so far.
    var least: Int { state.box.withLock { $0.bytes.min() ?? 0 } }

    /// They go away within a second.
    func stop() { state.box.withLock { $0.isStopped = true } }

    private static func run(_ sockets: [RawSocket], _ state: Shared, _ most: Int) {
        var live = Array(sockets.enumerated())
        while !state.box.withLock({ $0.isStopped }) {
            let start = ContinuousClock.now
            live.removeAll { number, socket in
                guard let bytes = socket.receiveNow(max: most) else { return false }
                state.box.withLock { state in
                    state.bytes[number] += bytes.count
                    if bytes.isEmpty { state.ended += 1 }
                }
                return bytes.isEmpty
            }
            Thread.sleep(forTimeInterval: max((start + .seconds(1) - .now) / .seconds(1), 0))
        }
        for socket in sockets { socket.close() }
    }
}
