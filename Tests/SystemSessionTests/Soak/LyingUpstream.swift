import Foundation
import TestSupport

@testable import SystemTestSupport

/// An upstream that answers most requests, lies to the others, and judges the token that each of them carries.
final class LyingUpstream: Sendable {
    /// Says what is wrong with a bearer token that came at that time (seconds since 1970); nil: nothing.
    typealias Judge = @Sendable (_ token: String, _ arrivedAt: Double) -> String?

    /// While it is 0, all responses are honest.
    let dishonesty: Tally
    let server: RawServer

    init(_ name: String, seed: UInt64, findings: SoakFindings, judge: @escaping Judge) throws {
        let random = SoakRandom(seed)
        let dishonesty = Tally()
        self.dishonesty = dishonesty
        server = try RawServer(requestsKeptMax: 0) { request in
            findings.count("upstream requests")
            let values = request.message.values("Authorization")
            if let value = values.first, values.count == 1, value.hasPrefix("Bearer ") {
                let arrival = request.arrivedAt ?? Date().timeIntervalSince1970
                if let fault = judge(String(value.dropFirst(7)), arrival) { findings.fault("\(name): \(fault)") }
            } else {
                findings.fault("\(name): a request with \(values.count) Authorization fields")
            }
            guard dishonesty.value > 0, random.chance(35) else { return Self.truth(request.message, random) }
            findings.count("upstream lies")
            return Self.lie(request.message, random)
        }
    }

    private static func truth(_ request: RawMessage, _ random: SoakRandom) -> RawResponse {
        if request.method == "HEAD" { return .text("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n") }
        return random.chance(10) ? .large(random.number(0...300_000)) : .response(body: "ok \(request.bodyCount)")
    }

    /// What no honest server says, or not so (docs/reference/http-forwarding.md has the rules that each of them breaks).
    private static func lie(_ request: RawMessage, _ random: SoakRandom) -> RawResponse {
        let response = RawResponse.response(body: String(repeating: "x", count: 2000))
        switch random.number(0...21) {
        case 0: return .close
        case 1: return .reset
        case 2: return response.torn(after: random.number(1...60))
        case 3: return response.torn(after: random.number(60...1500), by: .reset)
        case 4: return .text("this is no HTTP\r\n\r\n").closing
        case 5: return .text("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc")
        case 6: return .text("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
        case 7: return .text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n")
        case 8: return .text("HTTP/1.1 200 OK\nContent-Length: 2\n\nok")
        case 9: return .text("HTTP/1.1 200 OK\r\nX-Folded: a\r\n b\r\nContent-Length: 2\r\n\r\nok")
        case 10:
            return RawResponse([
                .send(Array("HTTP/1.1 200 OK\r\n".utf8)), .repeated(Array("X-Y: z\r\n".utf8), times: 20_000),
            ])
        case 11: return RawResponse.close.after(random.milliseconds(500...2500))
        case 12: return response.after(random.milliseconds(10...400))
        case 13: return drip("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n01234567890123456789")
        case 14, 15:
            return .response(401, "Unauthorized", fields: [("WWW-Authenticate", "Bearer error=\"invalid_token\"")])
        case 16:
            return .text("HTTP/1.1 101 Switching Protocols\r\nUpgrade: nonsense\r\nConnection: upgrade\r\n\r\nhello")
        case 17:
            return RawResponse([.repeated(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8), times: 50)] + response.steps)
        case 18: return .text("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more than was announced")
        case 19: return RawResponse.large(8 << 20).torn(after: random.number(100_000...8_000_000), by: .reset)
        case 20: return .text("HTTP/1.1 999 Nonsense\r\nContent-Length: -1\r\n\r\n").closing
        default: return response.closing
        }
    }

    private static func drip(_ text: String) -> RawResponse {
        RawResponse(text.utf8.flatMap { [RawResponse.Step.send([$0]), .pause(.milliseconds(5))] })
    }
}
