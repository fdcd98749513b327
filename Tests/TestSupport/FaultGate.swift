import Foundation
import Glibc
import LanyardFoundations

/// A byte relay in front of a server that makes network faults. The fault can be switched while it runs.
///
/// The mode is read when a connection, bytes of the client or bytes of a response arrive, so a switch also affects open connections.
/// A response is all bytes of the server between two sendings of the client. Two threads per connection. Stops on `deinit`.
package final class FaultGate: Sendable {
    /// How a connection ends: in order, or with RST.
    package enum Ending: Sendable { case close, reset }

    /// What the relay does with connections and bytes.
    package enum Mode: Sendable {
        case pass
        /// The kernel refuses new connections. Open ones continue. The port stays bound.
        case refuse
        /// The client's bytes are read and dropped, then the connection ends. The server never gets them.
        case dropRequest(Ending)
        /// The first `count` bytes of each response pass, then the connection ends. 0: the server has acted, the response is lost.
        case tear(afterBytes: Int, Ending)
        /// Each response is delayed by this.
        case delayResponse(Duration)
        /// Each response waits until this has happened.
        case holdResponse(until: Milestone)
        /// Each byte of a response is sent alone, this long after the previous one.
        case drip(Duration)
        /// The client's bytes are dropped and these are sent back. Then the connection ends.
        case garbage([UInt8])
        /// All bytes are read, none is passed, and no connection ends.
        case silence
    }

    /// The address for clients, in place of the server's.
    package let endpoint: RawEndpoint
    /// Its threads, for a `TestClock`.
    package var threads: PeerThreads { core.threads }
    private let core: Core

    /// Listens on a free port (or at a unix path) and relays to `upstream`.
    package init(before upstream: RawEndpoint, at endpoint: RawEndpoint = .tcp(0), mode: Mode = .pass) throws {
        let listener = endpoint == .tcp(0) ? try Self.listenByNumber() : try RawSocket.listen(at: endpoint)
        self.endpoint = endpoint == .tcp(0) ? .tcp(listener.localPort) : endpoint
        core = Core(listener: listener, upstream: upstream)
        try set(mode)
        let core = core
        core.threads.start { core.acceptAll() }
    }

    /// Listens on a free port that is bound by number: the kernel releases a port that it chose itself when `refuse` ends the
    /// listening. Another test may get the number first, so there are ten tries.
    private static func listenByNumber() throws -> RawSocket {
        for _ in 0..<10 {
            let probe = try RawSocket.listen(at: .tcp(0))
            let number = probe.localPort
            probe.close()
            if let listener = try? RawSocket.listen(at: .tcp(number)) { return listener }
        }
        throw TestFailure("ten free ports were each taken by another")
    }

    /// Switches the mode for connections and bytes that arrive from now on.
    package func set(_ mode: Mode) throws { try core.set(mode) }

    /// Connections accepted so far.
    package var connectionCount: Int { core.state.withLock { $0.accepted } }
    /// Connections that are open now.
    package var openCount: Int { core.state.withLock { $0.live.count } }
    /// Bytes of clients that were passed to the server.
    package var bytesForwarded: Int { core.state.withLock { $0.forwarded } }

    /// Ends every live connection, on both sides.
    package func cut(_ ending: Ending = .reset) { core.cutAll(ending) }
    /// Ends the listener and every connection.
    package func stop() { core.stop() }

    deinit { core.stop() }

    /// One relayed connection. `responseBytes` counts the bytes of the current response. Both threads use it, under the lock.
    private final class Pair: Sendable {
        let client: RawSocket
        let server = Guarded<RawSocket?>(nil)
        let responseBytes = Guarded(0)

        init(client: RawSocket) { self.client = client }

        func end(_ ending: Ending) {
            let server = server.withLock { $0 }
            switch ending {
            case .close: client.close()
            case .reset: client.reset()
            }
            server?.close()
        }
    }

    private final class Core: Sendable {
        struct State {
            var mode = Mode.pass
            var live: [Int: Pair] = [:]
            var accepted = 0
            var forwarded = 0
            var refusing = false
        }

        let listener: RawSocket
        let upstream: RawEndpoint
        let state = Guarded(State())
        let threads = PeerThreads()
        /// Signalled when the listener no longer refuses, and at the end.
        let resumed = DispatchSemaphore(value: 0)

        init(listener: RawSocket, upstream: RawEndpoint) {
            self.listener = listener
            self.upstream = upstream
        }

        var mode: Mode { state.withLock { $0.mode } }

        func set(_ mode: Mode) throws {
            let refuse = if case .refuse = mode { true } else { false }
            try state.withLock { state in
                state.mode = mode
                guard refuse != state.refusing else { return }
                state.refusing = refuse
                // A listener that is shut down refuses and stays bound; listen() opens it again.
                let result = listener.use { refuse ? shutdown($0, CInt(SHUT_RD)) : listen($0, 1024) }
                guard result == 0 else { throw TestFailure("switching to \(mode): errno \(errno)") }
                if !refuse { resumed.signal() }
            }
        }

        func stop() {
            listener.close()
            resumed.signal()
            cutAll(.close)
        }

        func cutAll(_ ending: Ending) { state.withLock { Array($0.live.values) }.forEach { $0.end(ending) } }

        func acceptAll() {
            while !listener.isClosed {
                guard let client = listener.accept(with: nil) else {
                    // A thread that polled would sleep between two polls, and a `TestClock` would let time pass. Without a refusal the
                    // listener has just begun to listen again.
                    if state.withLock({ $0.refusing }) { resumed.wait() } else { sched_yield() }
                    continue
                }
                let pair = Pair(client: client)
                let number = state.withLock { state -> Int in
                    state.accepted += 1
                    state.live[state.accepted] = pair
                    return state.accepted
                }
                threads.start {
                    self.relay(pair)
                    _ = self.state.withLock { $0.live.removeValue(forKey: number) }
                }
            }
        }

        /// Relays the client's bytes. Connects to the server when the first bytes pass.
        func relay(_ pair: Pair) {
            defer { pair.end(.close) }
            while let bytes = try? pair.client.receive(with: nil) {
                if bytes.isEmpty {
                    guard let server = pair.server.withLock({ $0 }) else { return }
                    server.halfClose()
                    // The other thread ends the pair after the server's last byte.
                    while !pair.client.isClosed && !server.isClosed { usleep(2000) }
                    return
                }
                switch mode {
                case .dropRequest(let ending): return pair.end(ending)
                case .silence: continue
                case .garbage(let garbage):
                    try? pair.client.send(garbage)
                    return
                case .pass, .refuse, .tear, .delayResponse, .holdResponse, .drip:
                    guard let server = try? connected(pair) else { return pair.end(.reset) }
                    pair.responseBytes.withLock { $0 = 0 }
                    guard (try? server.send(bytes, with: nil)) != nil else { return }
                    state.withLock { $0.forwarded += bytes.count }
                }
            }
        }

        func connected(_ pair: Pair) throws -> RawSocket {
            if let server = pair.server.withLock({ $0 }) { return server }
            let server = try RawSocket.connect(to: upstream)
            pair.server.withLock { $0 = server }
            threads.start { self.relayResponses(pair, server) }
            return server
        }

        func relayResponses(_ pair: Pair, _ server: RawSocket) {
            while let bytes = try? server.receive(with: nil), !bytes.isEmpty {
                let before = pair.responseBytes.withLock { responseBytes in
                    defer { responseBytes += bytes.count }
                    return responseBytes
                }
                guard (try? pass(bytes, before: before, pair)) != nil else { break }
            }
            pair.end(.close)
        }

        func pass(_ bytes: [UInt8], before: Int, _ pair: Pair) throws {
            switch mode {
            case .tear(let count, let ending) where before + bytes.count >= count:
                try pair.client.send(bytes.prefix(max(0, count - before)))
                pair.end(ending)
            case .delayResponse(let time):
                if before == 0 { Thread.sleep(forTimeInterval: time / .seconds(1)) }
                try pair.client.send(bytes, with: nil)
            case .holdResponse(let released):
                if before == 0 { released.wait(for: "the response may pass") }
                try pair.client.send(bytes, with: nil)
            case .drip(let time):
                for byte in bytes {
                    Thread.sleep(forTimeInterval: time / .seconds(1))
                    try pair.client.send(CollectionOfOne(byte))
                }
            case .silence: break
            default: try pair.client.send(bytes, with: nil)
            }
        }
    }
}
