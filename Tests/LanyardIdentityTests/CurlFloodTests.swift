import IdentityTestSupport
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

@Suite("Identity services that flood")
struct CurlFloodTests {
    private static let authority = TestAuthority()
    private static let issued = authority.issue("DNS:localhost")
    /// A service that floods over plain http, or over TLS.
    struct Case: CustomTestStringConvertible, Sendable {
        let flood: FloodingService.Flood
        let isTLS: Bool
        var testDescription: String { "\(flood.rawValue)\(isTLS ? " over TLS" : "")" }

        static let all = FloodingService.Flood.allCases.flatMap { flood in
            (flood.isOfTLS ? [true] : [false, true]).map { Case(flood: flood, isTLS: $0) }
        }
    }

    private func bench(_ service: FloodingService, limits: CurlLimits = CurlLimits()) throws -> IdentityBench {
        let tls = IdentityTLSContents(authorities: Tokens.secret(Self.authority.pem))
        return try IdentityBench(baseURL: service.origin, limits: limits, tls: tls)
    }

    @Test("a flood that brings a response no further ends the call at a limit, with the reason", arguments: Case.all)
    func ends(_ flooded: Case) async throws {
        let service = try FloodingService(
            flooded.flood, pieces: pieces(flooded.flood), by: flooded.isTLS ? Self.issued : nil)
        var limits = CurlLimits()
        // A drip of all steps takes long.
        if flooded.flood.isDrip { limits.stepsMax = 200 }
        let bench = try bench(service, limits: limits)
        let error = try #require(await bench.refresh().failure)
        // libcurl itself refuses some: a chunk's size of more than 16 digits, a trailer line of more than 4 KiB, a blank status line.
        let isRefused = [.chunkDigits, .endlessTrailerLine, .blankLines].contains(flooded.flood)
        let end = isRefused ? "no response of the identity service" : "too large"
        #expect(error.message.contains(end), "\(error.message)")
    }

    @Test(
        "a proxy whose refusal of CONNECT never ends",
        arguments: ["Content-Length: 99999999999", "Transfer-Encoding: chunked"])
    func proxy(_ field: String) async throws {
        let proxy = try RawServer(requestsKeptMax: 1) { _ in
            let head = "HTTP/1.1 407 Proxy Authentication Required\r\n\(field)\r\n\r\n1;"
            return RawResponse([.send(Array(head.utf8)), .repeated([UInt8](repeating: 0x78, count: 1000), times: .max)])
        }
        var limits = CurlLimits()
        limits.stepsMax = 5000
        let bench = try IdentityBench(
            baseURL: "https://localhost:1", limits: limits, settings: { $0.proxy = .url("http://\(proxy.endpoint)") })
        let error = try #require(await bench.refresh().failure)
        #expect(error.message.contains("too large"), "\(error.message)")
    }

    private static let login = Array(
        #"""
        {"access_token":"\#(Tokens.access())","refresh_token":"\#(Tokens.refresh)",\#
        "user_id":"0123456789abcdef01234567","device_id":"000000000000000000000000"}
        """#.utf8)

    @Test("a limit that is crossed when the response is complete does not take it away", arguments: [false, true])
    func complete(isChunked: Bool) async throws {
        let head =
            isChunked
            ? "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                + "\(String(Self.login.count, radix: 16))\r\n"
            : "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(Self.login.count)\r\n\r\n"
        let whole = Array(head.utf8) + Self.login + Array((isChunked ? "\r\n0\r\n\r\n" : "").utf8)
        var outcomes: [Bool] = []
        for steps in 1...40 {
            var limits = CurlLimits()
            limits.stepsMax = steps
            let bench = try IdentityBench(limits: limits) { request, _ in
                request.method == "GET" ? nil : RawResponse([.send(whole)])
            }
            let outcome = await bench.login()
            outcomes.append(outcome.success != nil)
            #expect(outcome.failure?.hasMadeSession != true, "\(steps) steps: \(String(describing: outcome.failure))")
        }
        #expect(outcomes.contains(true) && outcomes.contains(false))
    }

    @Test("messages of TLS behind a complete response do not take it away")
    func messagesBehind() async throws {
        var outcomes: [Bool] = []
        for messages in 20...40 {
            let service = try FloodingService(.keyUpdates, around: Self.login, before: messages, by: Self.issued)
            let outcome = await (try bench(service)).login()
            outcomes.append(outcome.success != nil)
            #expect(outcome.failure?.hasMadeSession != true, "\(messages): \(String(describing: outcome.failure))")
        }
        #expect(outcomes.contains(true) && outcomes.contains(false))
    }

    private func pieces(_ flood: FloodingService.Flood) -> Int? {
        switch flood {
        case .keyUpdates, .sessionTickets: 200
        case _ where flood.isDrip: nil
        default: 2000
        }
    }
}
