import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// How long a piece of a stream is on its way through the built binary. Pieces are sent one after the other, each when the one before has
/// arrived: what is held back for company would never come.
@Suite(.serialized) struct AloneStreamTests {
    private static let most = Duration.milliseconds(50)
    /// Whether a machine is busy elsewhere shows in one turn or another; whether a program waits, in all.
    private static let turns = 3
    /// Neither digits of a chunk size nor line ends.
    private static let letters = Array("ghijklmnopqrstuvwxyz".utf8)

    /// What is sent at once, and what of it must arrive before the next.
    fileprivate struct Piece {
        let bytes: [UInt8]
        let shows: [UInt8]

        init(_ text: String, shows: String? = nil) {
            bytes = Array(text.utf8)
            self.shows = Array((shows ?? text).utf8)
        }
    }

    /// How a body of pieces is framed.
    enum Framing: String, CaseIterable, CustomTestStringConvertible {
        case events = "server-sent events in chunks"
        case closeDelimited = "server-sent events until the connection's end"
        case length = "a body of known length"
        case torn = "one chunk byte by byte"
        var testDescription: String { rawValue }

        /// As sent in the head.
        var field: String {
            switch self {
            case .events: "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
            case .closeDelimited: "Content-Type: text/event-stream\r\n"
            case .length: "Content-Length: 1600\r\n"
            case .torn: "Transfer-Encoding: chunked\r\n"
            }
        }

        fileprivate var pieces: [Piece] {
            let payloads = (0..<100).map { "piece-\(1000 + $0)-of-1\n" }
            switch self {
            case .events: return payloads.map { Piece("10\r\n\($0)\r\n", shows: $0) }
            case .closeDelimited, .length: return payloads.map { Piece($0) }
            case .torn:
                let letters = (0..<100).map { AloneStreamTests.letters[$0 % AloneStreamTests.letters.count] }
                return [Piece("6", shows: ""), Piece("4\r", shows: ""), Piece("\n", shows: "")]
                    + letters.map { Piece(String(decoding: [$0], as: UTF8.self)) } + [Piece("\r\n", shows: "")]
            }
        }
    }

    private let upstream: RawSocket
    private let lanyard: LanyardProcess

    init() async throws {
        upstream = try RawSocket.listen(at: .tcp(0))
        lanyard = try await LanyardProcess.start(before: "http://127.0.0.1:\(upstream.localPort)")
    }

    /// Sends the pieces and returns how long the slowest was on its way.
    private static func slowest(
        _ pieces: [Piece], from source: RawSocket, to sink: RawSocket, _ lanyard: LanyardProcess,
        _ random: inout SeededGenerator
    ) async throws -> Duration {
        var slowest = Duration.zero
        for (number, piece) in pieces.enumerated() {
            // Now and then the loop has gone to rest.
            if Int.random(in: 1...3, using: &random) == 1 { try await lanyard.process.settle() }
            let start = ContinuousClock.now
            try source.send(piece.bytes)
            var seen: [UInt8] = []
            while !piece.shows.isEmpty, seen.firstRange(of: piece.shows) == nil {
                let bytes = try sink.receive()
                guard !bytes.isEmpty else { throw TestFailure("the stream ended at piece \(number)") }
                seen += bytes
            }
            slowest = max(slowest, .now - start)
        }
        return slowest
    }

    /// A client and the upstream connection of its request, both heads but the response's read.
    private static func meet(
        _ endpoint: RawEndpoint, _ listener: RawSocket, _ request: String
    ) throws -> (client: RawSocket, upstream: RawSocket) {
        let client = try RawSocket.connect(to: endpoint)
        try client.send(Array((request + "Host: \(endpoint)\r\n\r\n").utf8))
        guard let upstream = listener.accept() else { throw TestFailure("no connection comes") }
        _ = try upstream.receive(through: "\r\n\r\n")
        return (client, upstream)
    }

    @Test("what comes from the upstream reaches the client within 50 ms", arguments: Framing.allCases)
    func down(_ framing: Framing) async throws {
        let (endpoint, listener, lanyard) = (lanyard.data, upstream, lanyard)
        let times = try await Self.measure { random in
            let (client, upstream) = try Self.meet(endpoint, listener, "GET /stream HTTP/1.1\r\n")
            try upstream.send(Array("HTTP/1.1 200 OK\r\n\(framing.field)\r\n".utf8))
            _ = try client.receive(through: "\r\n\r\n")
            return try await Self.slowest(framing.pieces, from: upstream, to: client, lanyard, &random)
        }
        #expect(times.last! <= Self.most, "\(times)")
    }

    @Test("what a client uploads reaches the upstream within 50 ms", arguments: [Framing.events, .length, .torn])
    func up(_ framing: Framing) async throws {
        let (endpoint, listener, lanyard) = (lanyard.data, upstream, lanyard)
        let times = try await Self.measure { random in
            let (client, upstream) = try Self.meet(endpoint, listener, "POST /stream HTTP/1.1\r\n\(framing.field)")
            return try await Self.slowest(framing.pieces, from: client, to: upstream, lanyard, &random)
        }
        #expect(times.last! <= Self.most, "\(times)")
    }

    @Test("both directions stream at the same time: the response comes while the request is still being sent")
    func both() async throws {
        let (endpoint, listener, lanyard) = (lanyard.data, upstream, lanyard)
        let times = try await Self.measure { random in
            let (client, upstream) = try Self.meet(
                endpoint, listener, "POST /stream HTTP/1.1\r\n\(Framing.events.field)")
            try upstream.send(Array("HTTP/1.1 200 OK\r\n\(Framing.events.field)\r\n".utf8))
            _ = try client.receive(through: "\r\n\r\n")
            var slowest = Duration.zero
            for piece in Framing.events.pieces {
                slowest = max(
                    slowest, try await Self.slowest([piece], from: client, to: upstream, lanyard, &random))
                slowest = max(
                    slowest, try await Self.slowest([piece], from: upstream, to: client, lanyard, &random))
            }
            return slowest
        }
        #expect(times.last! <= Self.most, "\(times)")
    }

    /// Up to three turns; the last one is within bounds if any was.
    private static func measure(
        _ turn: (inout SeededGenerator) async throws -> Duration
    ) async throws -> [Duration] {
        var random = SeededGenerator(14)
        var times: [Duration] = []
        while times.count < turns, times.last.map({ $0 > most }) ?? true { times.append(try await turn(&random)) }
        return times
    }
}
