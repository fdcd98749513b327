import COpenSSL
import Foundation
import LanyardFoundations

/// An identity service that floods its client with bytes that bring a response no further.
///
/// It responds to location requests as a healthy service does, and floods all others. One thread for each connection. Stops on `deinit`.
package final class FloodingService: Sendable {
    /// What it floods with.
    package enum Flood: String, CaseIterable, Sendable {
        /// Messages of TLS 1.3 after the handshake. They need TLS.
        case keyUpdates, sessionTickets
        /// Messages that a handshake of TLS 1.2 ignores, in place of the handshake.
        case helloRequests
        /// A handshake that comes byte by byte.
        case handshakeDrip
        /// An extension of a chunk that never ends, in full packets.
        case chunkExtension
        /// The same byte by byte.
        case chunkExtensionDrip
        /// Digits of a chunk's size.
        case chunkDigits
        case interimResponses
        case fieldLines, endlessFieldLine
        case trailerLines, endlessTrailerLine
        /// Before the status line.
        case blankLines
        /// A body without a known end.
        case body
        /// One byte of a body in each chunk.
        case smallChunks

        /// The flood is a part of TLS, so the service needs TLS for it.
        package var isOfTLS: Bool { isHandshake || self == .keyUpdates || self == .sessionTickets }
        /// The flood takes the place of the handshake, so the location request meets it, too.
        package var isHandshake: Bool { self == .helloRequests || self == .handshakeDrip }

        /// It comes byte by byte.
        package var isDrip: Bool { self == .handshakeDrip || self == .chunkExtensionDrip }

        private static let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

        /// What comes before the flood, the piece that is repeated, and what makes a valid response of it.
        fileprivate var texts: (before: String, piece: String, after: String) {
            let last = "\r\n{\r\n1\r\n}\r\n0\r\n\r\n"
            let run = String(repeating: "x", count: 16_000)
            return switch self {
            case .keyUpdates, .sessionTickets: ("", "", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            case .helloRequests, .handshakeDrip: ("", "", "")
            case .chunkExtension: (Self.chunked + "1;", run, last)
            case .chunkExtensionDrip: (Self.chunked + "1;", "x", last)
            case .chunkDigits: (Self.chunked, String(repeating: "0", count: 16_000), "1" + last)
            case .interimResponses:
                (
                    "", String(repeating: "HTTP/1.1 103 Early Hints\r\n\r\n", count: 100),
                    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
                )
            case .fieldLines: ("HTTP/1.1 200 OK\r\n", "A: \(run)\r\n", "Content-Length: 2\r\n\r\n{}")
            case .endlessFieldLine: ("HTTP/1.1 200 OK\r\nA: ", run, "\r\nContent-Length: 2\r\n\r\n{}")
            case .trailerLines: (Self.chunked + "2\r\n{}\r\n0\r\n", "A: \(run.prefix(1000))\r\n", "\r\n")
            case .endlessTrailerLine: (Self.chunked + "2\r\n{}\r\n0\r\nA: ", run, "\r\n\r\n")
            case .blankLines:
                (
                    "", String(repeating: "\r\n", count: 8000), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
                )
            case .body: ("HTTP/1.1 200 OK\r\n\r\n", run, "")
            case .smallChunks: (Self.chunked, String(repeating: "1\r\n \r\n", count: 2000), "2\r\n{}\r\n0\r\n\r\n")
            }
        }
    }

    /// The address that it listens on.
    package let endpoint: RawEndpoint
    private let core: Core

    /// Listens at once.
    ///
    /// - Parameters:
    ///   - flood: what it sends.
    ///   - pieces: how many pieces come before the response becomes valid; nil: the flood ends with the connection.
    ///   - isStepped: the flood stands until `step` or `release`.
    ///   - issued: its certificate; nil: it speaks plain http.
    package init(
        _ flood: Flood, pieces: Int? = nil, isStepped: Bool = false, by issued: TestAuthority.Issued? = nil
    ) throws {
        precondition(issued != nil || !flood.isOfTLS, "this flood needs TLS")
        let listener = try RawSocket.listen(at: .tcp(0))
        endpoint = .tcp(listener.localPort)
        let version = flood == .helloRequests ? TLS1_2_VERSION : 0
        core = Core(
            flood, pieces, isStepped, listener, try issued.map { try TLSRelay.makeContext(.server($0), version) },
            origin: "\(issued == nil ? "http" : "https")://localhost:\(listener.localPort)")
        let core = core
        core.threads.start { core.acceptAll() }
    }

    /// A service that sends this many key updates, a complete response with this body, and as many again.
    package convenience init(
        _ flood: Flood, around body: [UInt8], before messages: Int, by issued: TestAuthority.Issued
    ) throws {
        try self.init(flood, by: issued)
        core.state.withLock { $0.framed = (body, messages) }
    }

    deinit { core.stop() }

    /// `http://localhost:PORT`, or with https.
    package var origin: String { core.origin }
    /// Floods that have begun.
    package var begun: Int { core.state.withLock { $0.begun } }
    /// Floods that have not ended.
    package var open: Int { core.state.withLock { $0.begun - $0.ended } }
    /// Bytes of the floods that the kernel has taken, before encryption.
    package var sentBytes: Int { core.state.withLock { $0.sentBytes } }

    /// Lets one more piece of a stepped flood go, of key updates the sixteenth part of one.
    package func step() { core.steps.signal() }
    /// Nothing holds a stepped flood any more.
    package func release() { core.release() }

    /// Ends the listener and every connection.
    package func stop() { core.stop() }

    private final class Core: Sendable {
        struct State {
            var isStepped: Bool
            var live: [Int: RawSocket] = [:]
            var accepted = 0
            var begun = 0
            var ended = 0
            var sentBytes = 0
            /// A complete response with this body comes between this many messages.
            var framed: (body: [UInt8], messages: Int)?
        }

        let flood: Flood
        let pieces: Int?
        let listener: RawSocket
        nonisolated(unsafe) let context: OpaquePointer?
        let origin: String
        let state: Guarded<State>
        let steps = DispatchSemaphore(value: 0)
        let threads = PeerThreads()

        init(
            _ flood: Flood, _ pieces: Int?, _ isStepped: Bool, _ listener: RawSocket, _ context: OpaquePointer?,
            origin: String
        ) {
            state = Guarded(State(isStepped: isStepped))
            (self.flood, self.pieces, self.listener, self.context, self.origin) = (
                flood, pieces, listener, context, origin
            )
        }

        deinit { SSL_CTX_free(context) }

        func release() {
            state.withLock { $0.isStepped = false }
            steps.signal()
        }

        func stop() {
            listener.close()
            release()
            for socket in state.withLock({ Array($0.live.values) }) { socket.reset() }
        }

        func acceptAll() {
            while let socket = listener.accept(with: nil) {
                let number = state.withLock { state in
                    state.accepted += 1
                    state.live[state.accepted] = socket
                    return state.accepted
                }
                threads.start {
                    // An error means that the client has gone.
                    try? self.serve(socket)
                    socket.close()
                    _ = self.state.withLock { $0.live.removeValue(forKey: number) }
                }
            }
        }

        private func serve(_ socket: RawSocket) throws {
            if flood.isHandshake {
                _ = try socket.receive(with: nil)
                return try flooding { try floodHandshake(socket) }
            }
            let wire = FloodedWire(socket, context)
            try wire.begin()
            let head = try wire.readHead()
            if head.contains("/location ") {
                let body =
                    #"{"deployment_model":"LOCAL","location":"US-VA","hostname":"\#(origin)","ws_hostname":"ws://x"}"#
                return try wire.send(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
                )
            }
            if let framed = state.withLock(\.framed) { return try send(framed.body, between: framed.messages, wire) }
            try flooding { try flood(wire) }
        }

        private func send(_ body: [UInt8], between messages: Int, _ wire: FloodedWire) throws {
            if messages > 0 { try wire.sendKeyUpdates(messages) }
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(body.count)\r\n\r\n"
            try wire.send(Array(head.utf8) + body)
            if messages > 0 { try wire.sendKeyUpdates(messages) }
        }

        private func flooding(_ body: () throws -> Void) throws {
            state.withLock { $0.begun += 1 }
            defer { state.withLock { $0.ended += 1 } }
            try body()
        }

        private func floodHandshake(_ socket: RawSocket) throws {
            switch flood {
            case .helloRequests:
                // A record of 4095 messages without content.
                let record: [UInt8] = [22, 3, 3, 0x3f, 0xfc] + [UInt8](repeating: 0, count: 4 * 4095)
                try repeatedly { try note(record.count) { try socket.send(record, with: nil) } }
            default:
                // A record of a ServerHello, of which only the lengths are right.
                try socket.send([22, 3, 3, 0x3f, 0xff, 2, 0, 0x3f, 0xfb], with: nil)
                try repeatedly { try drip { try socket.send([0], with: nil) } }
            }
        }

        private func flood(_ wire: FloodedWire) throws {
            let texts = flood.texts
            try wire.send(texts.before)
            switch flood {
            case .keyUpdates:
                try repeatedly {
                    let count = state.withLock { $0.isStepped } ? 4 : 64
                    try note(1) { try wire.sendKeyUpdates(count) }
                }
            case .sessionTickets: try repeatedly { try note(1) { try wire.sendTickets(16) } }
            default:
                let piece = Array(texts.piece.utf8)
                try repeatedly {
                    try piece.count == 1 ? drip { try wire.send(piece) } : note(piece.count) { try wire.send(piece) }
                }
            }
            try wire.send(texts.after)
        }

        private func note(_ count: Int, _ send: () throws -> Void) throws {
            try send()
            state.withLock { $0.sentBytes += count }
        }

        /// One byte, which the client reads alone if it has the time.
        private func drip(_ send: () throws -> Void) throws {
            try note(1, send)
            Thread.sleep(forTimeInterval: 0.000_05)
        }

        private func repeatedly(_ send: () throws -> Void) throws {
            var count = 0
            while pieces.map({ count < $0 }) ?? true {
                if state.withLock({ $0.isStepped }) { steps.wait() }
                try send()
                count += 1
            }
        }
    }
}

/// One connection, with or without TLS. Belongs to its thread.
private final class FloodedWire {
    private let socket: RawSocket
    private let ssl: OpaquePointer?
    /// Both belong to `ssl`.
    private let input: OpaquePointer?
    private let output: OpaquePointer?

    /// - Parameter context: nil: without TLS.
    init(_ socket: RawSocket, _ context: OpaquePointer?) {
        self.socket = socket
        guard let context else {
            (ssl, input, output) = (nil, nil, nil)
            return
        }
        (ssl, input, output) = (SSL_new(context), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()))
        SSL_set_bio(ssl, input, output)
        SSL_set_accept_state(ssl)
    }

    deinit { SSL_free(ssl) }

    /// The handshake.
    func begin() throws {
        guard let ssl else { return }
        while SSL_is_init_finished(ssl) == 0 {
            let result = SSL_do_handshake(ssl)
            try flush()
            if result == 1 { return }
            guard SSL_get_error(ssl, result) == SSL_ERROR_WANT_READ else { throw TestFailure("the handshake failed") }
            try fill()
        }
    }

    /// Up to the end of a request's head, in pieces that may have more.
    func readHead() throws -> String {
        var text = ""
        while !text.contains("\r\n\r\n") { text += String(decoding: try receive(), as: UTF8.self) }
        return text
    }

    func send(_ text: String) throws { try send(Array(text.utf8)) }

    func send(_ bytes: [UInt8]) throws {
        guard let ssl else { return try socket.send(bytes, with: nil) }
        guard !bytes.isEmpty else { return }
        var written = 0
        guard SSL_write_ex(ssl, bytes, bytes.count, &written) == 1 else { throw TestFailure("nothing was encrypted") }
        try flush()
    }

    func sendKeyUpdates(_ count: Int) throws {
        for _ in 0..<count {
            guard SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1, SSL_do_handshake(ssl) == 1 else {
                throw TestFailure("no key update")
            }
        }
        try flush()
    }

    func sendTickets(_ count: Int) throws {
        for _ in 0..<count {
            guard SSL_new_session_ticket(ssl) == 1, SSL_do_handshake(ssl) == 1 else { throw TestFailure("no ticket") }
        }
        try flush()
    }

    private func receive() throws -> [UInt8] {
        guard let ssl else {
            let bytes = try socket.receive(with: nil)
            if bytes.isEmpty { throw TestFailure("the client has ended") }
            return bytes
        }
        while true {
            var (room, count) = ([UInt8](repeating: 0, count: 16_384), 0)
            if SSL_read_ex(ssl, &room, room.count, &count) == 1 { return Array(room.prefix(count)) }
            try fill()
        }
    }

    private func fill() throws {
        let bytes = try socket.receive(with: nil)
        if bytes.isEmpty { throw TestFailure("the client has ended") }
        BIO_write(input, bytes, CInt(bytes.count))
    }

    private func flush() throws {
        while BIO_ctrl_pending(output) > 0 {
            let bytes = [UInt8](unsafeUninitializedCapacity: BIO_ctrl_pending(output)) { bytes, count in
                count = Int(max(BIO_read(output, bytes.baseAddress, CInt(bytes.count)), 0))
            }
            try socket.send(bytes, with: nil)
        }
    }
}
