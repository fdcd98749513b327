import Foundation
import Glibc
import Lanyard

/// A small byte relay that stands before any server and makes the faults of a network: switchable while it runs.
///
/// The mode is looked at when a connection arrives, when bytes of the client arrive and when bytes of an answer arrive, so a switch
/// also meets connections that are already open. "An answer" is what the server sends between two sendings of the client. Two
/// threads per connection. Stops when the value goes.
package final class FaultGate: Sendable {
    /// How a connection ends: in order, or with RST.
    package enum Ending: Sendable { case close, reset }

    /// What happens to what arrives.
    package enum Mode: Sendable {
        case pass
        /// Connections are refused by the kernel; live ones go on. The port stays ours.
        case refuse
        /// The client's bytes are taken and dropped, the connection ends: the server never sees them.
        case dropRequest(Ending)
        /// The first `count` bytes of each answer pass, then the connection ends. 0: the server has acted, the answer is lost.
        case tear(afterBytes: Int, Ending)
        /// Each answer begins this much later.
        case delayResponse(Duration)
        /// Each byte of an answer goes alone, this much after the one before.
        case drip(Duration)
        /// The client's bytes are dropped and answered with these; then the connection ends.
        case garbage([UInt8])
        /// Everything is accepted, nothing is passed, nothing ends.
        case silence
    }

    /// Where clients connect, in place of the server.
    package let endpoint: RawEndpoint
    private let core: Core

    /// Listens on a free port (or at a unix path) and relays to `upstream`.
    package init(before upstream: RawEndpoint, at endpoint: RawEndpoint = .tcp(0), mode: Mode = .pass) throws {
        var endpoint = endpoint
        if endpoint == .tcp(0) {
            // Bound by number: the kernel forgets a port of its own choice when `refuse` ends the listening.
            let probe = try RawSocket.listen(at: endpoint)
            endpoint = .tcp(probe.localPort)
            probe.close()
        }
        self.endpoint = endpoint
        core = Core(listener: try RawSocket.listen(at: endpoint), upstream: upstream)
        try set(mode)
        let core = core
        Thread.detachNewThread { core.acceptAll() }
    }

    /// Switches; in force for what arrives from now on.
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

    /// One relayed connection. `answered` counts the bytes of the present answer; both threads touch it, under the lock.
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
            }
        }

        func stop() {
            listener.close()
            cutAll(.close)
        }

        func cutAll(_ ending: Ending) { state.withLock { Array($0.live.values) }.forEach { $0.end(ending) } }

        func acceptAll() {
            while !listener.isClosed {
                guard let client = listener.accept() else {
                    // Refusing: nothing tells when the listening begins again.
                    usleep(2000)
                    continue
                }
                let pair = Pair(client: client)
                let number = state.withLock { state -> Int in
                    state.accepted += 1
                    state.live[state.accepted] = pair
                    return state.accepted
                }
                Thread.detachNewThread {
                    self.relay(pair)
                    _ = self.state.withLock { $0.live.removeValue(forKey: number) }
                }
            }
        }

        /// The client's side. The server is dialled with the client's first bytes that pass.
        func relay(_ pair: Pair) {
            defer { pair.end(.close) }
            while let bytes = try? pair.client.receive(within: nil) {
                if bytes.isEmpty {
                    guard let server = pair.server.withLock({ $0 }) else { return }
                    server.halfClose()
                    // The other thread ends the pair when the server has said all.
                    while !pair.client.isClosed && !server.isClosed { usleep(2000) }
                    return
                }
                switch mode {
                case .dropRequest(let ending): return pair.end(ending)
                case .silence: continue
                case .garbage(let garbage):
                    try? pair.client.send(garbage)
                    return
                case .pass, .refuse, .tear, .delayResponse, .drip:
                    guard let server = try? connected(pair) else { return pair.end(.reset) }
                    pair.responseBytes.withLock { $0 = 0 }
                    guard (try? server.send(bytes, within: .seconds(600))) != nil else { return }
                    state.withLock { $0.forwarded += bytes.count }
                }
            }
        }

        func connected(_ pair: Pair) throws -> RawSocket {
            if let server = pair.server.withLock({ $0 }) { return server }
            let server = try RawSocket.connect(to: upstream)
            pair.server.withLock { $0 = server }
            Thread.detachNewThread { self.relayResponses(pair, server) }
            return server
        }

        func relayResponses(_ pair: Pair, _ server: RawSocket) {
            while let bytes = try? server.receive(within: nil), !bytes.isEmpty {
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
                try pair.client.send(bytes, within: .seconds(600))
            case .drip(let time):
                for byte in bytes {
                    Thread.sleep(forTimeInterval: time / .seconds(1))
                    try pair.client.send(CollectionOfOne(byte))
                }
            case .silence: break
            default: try pair.client.send(bytes, within: .seconds(600))
            }
        }
    }
}
