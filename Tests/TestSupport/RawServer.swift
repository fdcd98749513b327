import Foundation
import LanyardFoundations

/// An upstream on plain sockets. It records the raw bytes of every connection and takes its responses from a script.
///
/// Each connection has a thread. The script is called on it once per request, in the order of the requests. Stops on `deinit`.
package final class RawServer: Sendable {
    /// A request and its connection.
    package struct Request: Sendable {
        /// Counted from 0 over the server's life.
        package let connection: Int
        /// Counted from 0 on its connection.
        package let index: Int
        /// The request as received.
        package let message: RawMessage
        /// When the kernel received its last byte, in seconds since 1970. Threads of a busy test may read it much later.
        /// nil: the kernel had not started to record such times yet.
        package let arrivedAt: Double?
    }

    /// The bytes and requests of one connection so far.
    package struct Record: Sendable {
        /// Raw bytes, cut at `recordedBytesMax`.
        package var bytes: [UInt8] = []
        /// Whole requests, at most `requestsKeptMax`.
        package var requests: [RawMessage] = []
        /// The client or the server has closed or reset.
        package var ended = false
    }

    /// Decides the response to a request. An error ends the connection.
    package typealias Script = @Sendable (Request) throws -> RawResponse
    /// Bytes kept of each connection.
    package static let recordedBytesMax = 4 << 20

    /// The address that it listens on.
    package let endpoint: RawEndpoint
    /// Its threads, for a `TestClock`.
    package var threads: PeerThreads { core.threads }
    private let core: Core

    /// Listens at once. The default script responds 200 with the body `ok`.
    ///
    /// - Parameter requestsKeptMax: requests kept of each connection. With 0 the raw bytes are not kept either, for long loads.
    package init(
        at endpoint: RawEndpoint = .tcp(0), requestsKeptMax: Int = 10_000,
        script: @escaping Script = { _ in .response() }
    ) throws {
        let listener = try RawSocket.listen(at: endpoint)
        // Accepted connections inherit it, so their first bytes are stamped, too.
        listener.stampArrivals()
        self.endpoint =
            switch endpoint {
            case .tcp: .tcp(listener.localPort)
            case .loopback(let number, _): .loopback(number, listener.localPort)
            case .loopbackV6: .loopbackV6(listener.localPort)
            case .unix: endpoint
            }
        let core = Core(listener: listener, requestsKeptMax: requestsKeptMax, script: script)
        self.core = core
        core.threads.start { core.acceptAll() }
    }

    /// The records of all connections, in the order of their arrival.
    package var records: [Record] { core.state.withLock { $0.records } }
    /// All requests of all connections, by connection.
    package var requests: [RawMessage] { records.flatMap(\.requests) }
    /// Connections accepted so far.
    package var connectionCount: Int { core.state.withLock { $0.records.count } }
    /// Connections that have not ended.
    package var openCount: Int { records.count { !$0.ended } }

    /// Resets every open connection. The server continues.
    package func resetAll() { core.live().forEach { $0.reset() } }
    /// Closes every open connection. The server continues.
    package func closeAll() { core.live().forEach { $0.close() } }
    /// Ends the listener and every connection.
    package func stop() { core.stop() }

    deinit { core.stop() }

    /// The state that the threads hold. They do not hold the server, so it can be released while they run.
    private final class Core: Sendable {
        struct State {
            var records: [Record] = []
            var live: [Int: RawSocket] = [:]
        }

        let listener: RawSocket
        let requestsKeptMax: Int
        let script: Script
        let state = Guarded(State())
        let threads = PeerThreads()

        init(listener: RawSocket, requestsKeptMax: Int, script: @escaping Script) {
            self.listener = listener
            self.requestsKeptMax = requestsKeptMax
            self.script = script
        }

        func live() -> [RawSocket] { state.withLock { Array($0.live.values) } }

        func stop() {
            listener.close()
            live().forEach { $0.close() }
        }

        func acceptAll() {
            while let socket = listener.accept(with: nil) {
                let number = state.withLock { state -> Int in
                    state.records.append(Record())
                    state.live[state.records.count - 1] = socket
                    return state.records.count - 1
                }
                threads.start { self.serve(socket, number) }
            }
        }

        /// Serves one connection to its end. An error means that the client has gone, which the record shows.
        func serve(_ socket: RawSocket, _ number: Int) {
            let reader = RawReader(socket, waitsForever: true)
            if requestsKeptMax > 0 {
                reader.onBytes = { bytes in
                    self.state.withLock { state in
                        let room = RawServer.recordedBytesMax - state.records[number].bytes.count
                        state.records[number].bytes += bytes.prefix(room)
                    }
                }
            }
            var index = 0
            while !socket.isClosed, let message = try? reader.readRequest() {
                if index < requestsKeptMax { state.withLock { $0.records[number].requests.append(message) } }
                let request = Request(
                    connection: number, index: index, message: message, arrivedAt: reader.lastArrival)
                guard let response = try? script(request), (try? perform(response, on: socket)) != nil else { break }
                index += 1
            }
            socket.close()
            state.withLock { state in
                state.records[number].ended = true
                state.live[number] = nil
            }
        }

        private func relay(_ socket: RawSocket, to server: RawEndpoint) throws {
            let other = try RawSocket.connect(to: server)
            let back = DispatchSemaphore(value: 0)
            threads.start {
                Self.copy(other, to: socket)
                back.signal()
            }
            Self.copy(socket, to: other)
            back.wait()
            other.close()
        }

        /// Passes bytes on, and then their end.
        private static func copy(_ from: RawSocket, to: RawSocket) {
            while let bytes = try? from.receive(with: nil), !bytes.isEmpty {
                guard (try? to.send(bytes, with: nil)) != nil else { break }
            }
            to.halfClose()
        }

        func perform(_ response: RawResponse, on socket: RawSocket) throws {
            for step in response.steps {
                switch step {
                case .send(let bytes): try socket.send(bytes, with: nil)
                case .repeated(let bytes, let times):
                    for _ in 0..<times { try socket.send(bytes, with: nil) }
                case .pause(let time): Thread.sleep(forTimeInterval: time / .seconds(1))
                case .perform(let work): work()
                case .relay(let server): try relay(socket, to: server)
                case .close: socket.close()
                case .reset: socket.reset()
                }
            }
        }
    }
}
