import Foundation
import LanyardFoundations
import TestSupport

@testable import SystemTestSupport

/// Clients that send whatever comes into their heads: whole requests, halves of them, garbage; and that go when they like.
final class SoakClients: Sendable {
    private final class Shared: Sendable {
        let isStopped = Guarded(false)
        let running = Guarded(0)
    }

    private let shared = Shared()

    /// Starts so many threads.
    init(_ count: Int, seed: UInt64, to endpoint: RawEndpoint, findings: SoakFindings) {
        let shared = shared
        shared.running.withLock { $0 = count }
        for number in 0..<count {
            Thread.detachNewThread {
                let random = SoakRandom(seed &+ UInt64(number))
                while !shared.isStopped.withLock({ $0 }) {
                    Self.visit(endpoint, random, findings)
                    do {
                        try findings.passBlocking(random.number(0...3)) { shared.isStopped.withLock { $0 } }
                    } catch {
                        findings.fault("a client: \(error)")
                    }
                }
                shared.running.withLock { $0 -= 1 }
            }
        }
    }

    /// Each ends after what it is doing now.
    func stop() { shared.isStopped.withLock { $0 = true } }

    var running: Int { shared.running.withLock { $0 } }

    /// One connection's life.
    private static func visit(_ endpoint: RawEndpoint, _ random: SoakRandom, _ findings: SoakFindings) {
        // While descriptors are short the connection may wait in the kernel's queue, and end there.
        guard let client = try? RawClient(endpoint) else { return findings.countAnswer("connections refused") }
        defer { if random.chance(20) { client.reset() } else { client.close() } }
        for _ in 0..<random.number(1...6) {
            do {
                guard try act(client, "\(endpoint)", random, findings) else { return }
            } catch {
                if "\(error)".contains(Patience.marker) { findings.fault("a client waited in vain: \(error)") }
                return findings.countAnswer("connections ended early")
            }
        }
    }

    /// False when nothing more can be said on the connection.
    private static func act(
        _ client: RawClient, _ host: String, _ random: SoakRandom, _ findings: SoakFindings
    ) throws -> Bool {
        let path = "/\(random.pick(SoakBench.routes))/\(random.number(0...999))"
        let head = "\(path) HTTP/1.1\r\nHost: \(host)\r\n"
        switch random.number(0...15) {
        case 0...5: try client.send("GET \(head)\r\n")
        case 6: try client.send("HEAD \(head)\r\n")
        case 7...8:
            let body = String(repeating: "b", count: random.number(0...100_000))
            try client.send("POST \(head)Content-Length: \(body.utf8.count)\r\n\r\n\(body)")
        case 9:
            try client.send("PUT \(head)Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            try findings.passBlocking(random.number(0...5))
            try client.send("0\r\n\r\n")
        case 10:
            // Several at once; each is answered, in order, unless a response ends the connection.
            try client.send(String(repeating: "GET \(head)\r\n", count: 3))
            for _ in 0..<2 where try !read(client, "GET", findings) { return false }
        case 11:
            try client.send("POST \(head)Content-Length: 5000\r\n\r\nonly a part")
            if random.chance(50) { return false }
            client.halfClose()
        case 12:
            try client.send("GET \(path) HT")
            return false
        case 13:
            try client.send(
                "POST \(head)Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /admin HTTP/1.1\r\n\r\n"
            )
        case 14:
            try client.send("GET \(head)Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: a2V5\r\n\r\n")
        default:
            try client.send("GET \(head)\r\n")
            // Goes while the response is on its way.
            _ = client.socket.receiveNow(max: random.number(1...2000))
            return false
        }
        return try read(client, "GET", findings)
    }

    /// Reads one response; false if it is the connection's last.
    private static func read(_ client: RawClient, _ method: String, _ findings: SoakFindings) throws -> Bool {
        let response = try client.response(to: method)
        findings.countAnswer("answers \(response.status / 100)xx")
        let text = response.headText + response.bodyText.prefix(4096)
        if text.contains("internal-error") { findings.fault("an internal error: \(text)") }
        if text.contains("Bearer ey") || text.contains("fixed-token") {
            findings.fault("an answer with a token: \(text)")
        }
        return response.status != 101 && response["Connection"]?.lowercased() != "close"
    }
}
