import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// Five thousand clients keep their connections and say nothing.
@Suite struct LongIdleClientTests {
    private static let clients = 5000
    private static let idle = 25
    private static let threads = 4

    @Test(
        "5,000 idle keep-alive clients are held, cost little, leave room for another, and are closed after idle_timeout",
        .enabled("needs 13,000 descriptors") { Descriptors.raise(to: 13_000) })
    func crowd() async throws {
        let upstream = try RawServer(requestsKeptMax: 0)
        let lanyard = try await LanyardProcess.start(
            before: "http://\(upstream.endpoint)",
            rest: "limits: {connections_max: 6000, idle_timeout: \(Self.idle)s}\n")
        #expect(lanyard.process.log(of: "limits.lowered").isEmpty)
        for _ in 0..<50 { #expect(try await lanyard.get("/").status == 200) }
        let rest = lanyard.process.residentBytes
        let data = lanyard.data
        let groups = try await withThrowingTaskGroup(of: [Guest].self) { group in
            for _ in 0..<Self.threads {
                group.addTask { try Self.arrive(Self.clients / Self.threads, at: data) }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        let perClient = (lanyard.process.residentBytes - rest) / Self.clients
        print("idle clients: \(perClient) bytes of memory each, \(rest) at rest")
        #expect(perClient < 4096, "\(perClient) bytes each")
        let early = groups.count { $0.socket.receiveNow(max: 1) != nil }
        #expect(early == 0, "\(early) did not last until all were there")
        #expect(try await lanyard.get("/further").status == 200)
        let lives = try Self.waitForEnds(of: groups)
        let (shortest, longest) = (lives.min()!, lives.max()!)
        #expect(shortest >= .seconds(Self.idle) - .milliseconds(50) && longest < .seconds(Self.idle + 3))
        #expect(try await lanyard.get("/further").status == 200)
        try await lanyard.process.terminate()
    }

    private struct Guest: Sendable {
        let socket: RawSocket
        /// When its one request was sent.
        let asked: ContinuousClock.Instant
    }

    /// Connects clients, each of which has its request answered.
    private static func arrive(_ count: Int, at endpoint: RawEndpoint) throws -> [Guest] {
        let request = Array("GET / HTTP/1.1\r\nHost: \(endpoint)\r\n\r\n".utf8)
        return try (0..<count).map { _ in
            let socket = try RawSocket.connect(to: endpoint)
            let asked = ContinuousClock.now
            try socket.send(request)
            let response = try RawReader(socket).readResponse()
            guard response.status == 200, response["Connection"] == nil else { throw TestFailure(response.headText) }
            return Guest(socket: socket, asked: asked)
        }
    }

    /// How long each lived after its request, to 50 ms. An end is an end of the stream: nothing is said before.
    private static func waitForEnds(of guests: [Guest]) throws -> [Duration] {
        var lives: [Duration] = []
        var waiting = guests
        let latest = ContinuousClock.now + .seconds(idle + 10)
        while !waiting.isEmpty {
            guard ContinuousClock.now < latest else { throw TestFailure("\(waiting.count) still live") }
            try waiting.removeAll { guest in
                guard let bytes = guest.socket.receiveNow(max: 64) else { return false }
                guard bytes.isEmpty else { throw TestFailure(String(decoding: bytes, as: UTF8.self)) }
                lives.append(.now - guest.asked)
                return true
            }
            Thread.sleep(forTimeInterval: 0.05)
        }
        return lives
    }
}
