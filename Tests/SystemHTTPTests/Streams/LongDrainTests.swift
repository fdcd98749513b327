import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// SIGTERM while clients are at work.
@Suite(.serialized) struct LongDrainTests {
    private static let clients = 200
    private static let largeBytes = 200_000

    /// Small and large responses, quick and slow ones.
    private static func upstream() throws -> RawServer {
        try RawServer(requestsKeptMax: 0) { request in
            switch request.message.target {
            case "/large": .large(largeBytes)
            case "/slow": .response(body: "slow").after(.milliseconds(80))
            default: .response(body: "\(request.message.bodyCount)")
            }
        }
    }

    /// Every way in which a request may be on its way when the signal comes.
    private static func request(_ host: RawEndpoint, _ client: Int, _ number: Int) -> LoyalClients.Request {
        func request(_ method: String, _ target: String, _ fields: String, _ body: [UInt8], _ count: Int)
            -> LoyalClients.Request
        {
            let head = "\(method) \(target) HTTP/1.1\r\nHost: \(host)\r\n\(fields)\r\n"
            return LoyalClients.Request(method: method, bytes: Array(head.utf8) + body, bodyCount: count)
        }
        let body = [UInt8](repeating: 0x62, count: 10_000)
        switch (client + number) % 5 {
        case 0: return request("GET", "/slow", "", [], 4)
        case 1: return request("GET", "/large", "", [], largeBytes)
        case 2: return request("POST", "/up", "Content-Length: 10000\r\n", body, 5)
        case 3:
            let chunks = Array("2710\r\n".utf8) + body + Array("\r\n0\r\n\r\n".utf8)
            return request("POST", "/up", "Transfer-Encoding: chunked\r\n", chunks, 5)
        default: return request("GET", "/quick", "", [], 1)
        }
    }

    @Test(
        "a drain under load of 200 connections fails no request: each connection ends after a response that says so",
        arguments: [0, 2])
    func drain(_ drainMin: Int) async throws {
        let clock = try TestClock()
        let upstream = try Self.upstream()
        let lanyard = try await LanyardProcess.start(
            before: "http://\(upstream.endpoint)",
            rest: "shutdown: {drain_min: \(drainMin)s, drain_max: 30s}\n", under: clock)
        let data = lanyard.data
        let clients = try LoyalClients(Self.clients, to: data, pauseMost: .milliseconds(100)) {
            Self.request(data, $0, $1)
        }
        try await eventually("the load is on") { clients.outcome.responses > 5 * Self.clients }
        if drainMin > 0 { clock.stop() }
        let signalled = clock.elapsed
        lanyard.process.signal(SIGTERM)
        if drainMin > 0 {
            // While readiness is off and the listeners are still open, a client that comes is served as before.
            try await eventually("readiness is off") { try await lanyard.readiness().status == 503 }
            let tally = try await [ClosedLoop(clients: 4, data, "/quick")].run(requests: 200)[0]
            #expect(tally.failed == 0, "\(tally.failures)")
            #expect(try await lanyard.readiness().status == 503)
            clock.run()
        }
        let exit = try await lanyard.process.waitForExit()
        #expect(exit == .code(143))
        #expect(clock.elapsed - signalled > .seconds(drainMin))
        try await eventually("every client has seen its end") { clients.outcome.running == 0 }
        let outcome = clients.outcome
        #expect(outcome.failures.isEmpty, "\(outcome.failures.count): \(outcome.failures.prefix(5))")
        #expect(outcome.dismissed == Self.clients)
        #expect(lanyard.process.log(of: "shutdown.aborted").isEmpty)
    }

    @Test(
        "a client that says nothing when the drain begins, and asks 300 ms later, is answered; one that stays silent is closed"
    )
    func quiet() async throws {
        let clock = try TestClock()
        let upstream = try RawServer()
        clock.watch(upstream.threads)
        let lanyard = try await LanyardProcess.start(before: "http://\(upstream.endpoint)", under: clock)
        let data = lanyard.data
        let pair = (try RawClient(data), try RawClient(data))
        for client in [pair.0, pair.1] {
            guard try client.exchange("GET", "/", host: "\(data)").status == 200 else {
                throw TestFailure("no 200")
            }
        }
        let (late, silent) = pair
        clock.stop()
        lanyard.process.signal(SIGTERM)
        try await lanyard.process.event("shutdown.started")
        try await clock.pass(.milliseconds(300))
        #expect(!late.hasInput && !silent.hasInput)
        let response = try late.exchange("GET", "/late", host: "\(data)")
        #expect(response.status == 200 && response["Connection"] == "close")
        #expect(try late.readToEnd().isEmpty)
        clock.run()
        #expect(try silent.readToEnd().isEmpty)
        #expect(try await lanyard.process.waitForExit() == .code(143))
    }
}
