import Foundation
import LanyardFoundations
import TestSupport

/// Many clients that send a request's head at one byte a second and never finish it. One thread serves them all.
final class SlowSenders: Sendable {
    /// How one of them ended.
    struct Ending: Sendable {
        /// Since it had connected.
        let after: Duration
        /// All that it was told.
        let words: String
    }

    private struct State {
        var isStopped = false
        var endings: [Ending] = []
    }

    private let state = Shared()
    private final class Shared: Sendable { let box = Guarded(State()) }

    /// Connects all; each sends its first byte at once.
    init(_ count: Int, to endpoint: RawEndpoint) throws {
        let start = "GET /slow HTTP/1.1\r\nHost: \(endpoint)\r\nX-Slow: "
        let head = Array((start + String(repeating: "s", count: 1000)).utf8)
        let clients = try (0..<count).map { _ in
            let socket = try RawSocket.connect(to: endpoint)
            let born = ContinuousClock.now
            try socket.send(head.prefix(1))
            return (socket, born)
        }
        let state = state
        Thread.detachNewThread { Self.run(clients, head, state) }
    }

    deinit { stop() }

    /// Those that the other side has ended.
    var endings: [Ending] { state.box.withLock { $0.endings } }
    /// They go away within a tenth of a second.
    func stop() { state.box.withLock { $0.isStopped = true } }

    private static func run(_ clients: [(RawSocket, ContinuousClock.Instant)], _ head: [UInt8], _ state: Shared) {
        var live = clients.map { (socket: $0.0, born: $0.1, words: [UInt8]()) }
        var tick = 0
        while !state.box.withLock({ $0.isStopped }), !live.isEmpty {
            Thread.sleep(forTimeInterval: 0.1)
            tick += 1
            for index in live.indices.reversed() {
                if tick % 10 == 0 { try? live[index].socket.send([head[min(tick / 10, head.count - 1)]]) }
                guard let bytes = live[index].socket.receiveNow(max: 4096) else { continue }
                live[index].words += bytes
                guard bytes.isEmpty else { continue }
                let ending = Ending(
                    after: .now - live[index].born, words: String(decoding: live[index].words, as: UTF8.self))
                state.box.withLock { $0.endings.append(ending) }
                live[index].socket.close()
                live.remove(at: index)
            }
        }
        for client in live { client.socket.close() }
    }
}
