import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// Five thousand clients keep their connections and say nothing.
@Suite struct LongIdleClientTests {
    private static let clients = 5000
    private static let idle = Duration.seconds(3600)
    private static let threads = 4

    @Test(
        "5,000 idle keep-alive clients are held, cost little, leave room for another, and are closed after idle_timeout",
        .enabled("needs 13,000 descriptors") { Descriptors.raise(to: 13_000) })
    func crowd() async throws {
        let clock = try TestClock()
        let upstream = try RawServer(requestsKeptMax: 0)
        clock.watch(upstream.threads)
        let lanyard = try await LanyardProcess.start(
            before: "http://\(upstream.endpoint)", rest: "limits: {connections_max: 6000, idle_timeout: 1h}\n",
            under: clock)
        // All are idle from the same moment on.
        clock.stop()
        #expect(lanyard.process.log(of: "limits.lowered").isEmpty)
        for _ in 0..<50 { #expect(try await lanyard.get("/").status == 200) }
        let rest = lanyard.process.residentBytes
        let data = lanyard.data
        let guests = try await withThrowingTaskGroup(of: [RawSocket].self) { group in
            for _ in 0..<Self.threads {
                group.addTask { try Self.arrive(Self.clients / Self.threads, at: data) }
            }
            return try await group.reduce(into: [RawSocket]()) { $0 += $1 }
        }
        let perClient = (lanyard.process.residentBytes - rest) / Self.clients
        print("idle clients: \(perClient) bytes of memory each, \(rest) at rest")
        #expect(perClient < 4096, "\(perClient) bytes each")
        #expect(try await lanyard.get("/further").status == 200)
        let grain = Duration.seconds(30)
        try await clock.pass(Self.idle - grain - .seconds(1), grain: grain)
        try await clock.pass(grain)
        let early = guests.count(where: \.hasInput)
        #expect(early == 0, "\(early) did not last for idle_timeout")
        // Looked at once a second.
        try await clock.pass(.seconds(3))
        // An end is an end of the stream: nothing is said before.
        let ends = guests.count { $0.receiveNow(max: 64)?.isEmpty == true }
        #expect(ends == Self.clients, "\(Self.clients - ends) did not end, or with bytes")
        #expect(try await lanyard.get("/further").status == 200)
        clock.run()
        try await lanyard.process.terminate()
    }

    /// Connects clients, each of which has its request answered.
    private static func arrive(_ count: Int, at endpoint: RawEndpoint) throws -> [RawSocket] {
        let request = Array("GET / HTTP/1.1\r\nHost: \(endpoint)\r\n\r\n".utf8)
        return try (0..<count).map { _ in
            let socket = try RawSocket.connect(to: endpoint)
            try socket.send(request)
            let response = try RawReader(socket).readResponse()
            guard response.status == 200, response["Connection"] == nil else { throw TestFailure(response.headText) }
            return socket
        }
    }
}
