import LanyardFoundations
import LanyardRequestPath
import TestSupport
import Testing

/// Exchanges with a refused token, torn at every byte on either side: the result does not depend on the cuts.
@Suite(.timeLimit(minutes: 3)) struct ProxyReplayCutTests {
    private static func normalized(_ bytes: [UInt8]) -> String {
        String(decoding: bytes, as: UTF8.self).replacing(/Date: [^\r]*/, with: "Date: d")
            .replacing(/lanyard-[0-9a-f]{8}/, with: "lanyard-x").replacing(/token-[0-9]+/, with: "token")
            .replacing(/bench.token[^\r]*/, with: "token").replacing(/"instance":"[0-9a-f]*"/, with: "i")
    }

    /// A bench that renews each refused token, and whose upstream answers each request's first sending with `first`.
    private static func bench(_ first: @escaping @Sendable (Int) -> RawResponse) throws -> ProxyBench {
        let last = Guarded(-1)
        let bench = try ProxyBench { request in
            // The number is in the path: `/17` is way 17.
            let number = Int(request.message.target.dropFirst().prefix { $0 != "?" }) ?? 0
            let isFirst = last.withLock { last in
                defer { last = number }
                return last != number
            }
            return isFirst ? first(number) : .response(body: "\(request.message.method) \(request.message.bodyText)")
        }
        bench.renews()
        return bench
    }

    @Test(
        "a client's bytes torn anywhere lead to the same two sendings and the same response",
        arguments: [
            "GET /N?b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            "POST /N HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 11\r\n\r\nhello world",
            """
            POST /N HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n\
            5;a=\"b\"\r\nhello\r\n1\r\n!\r\n0\r\nT: 1\r\n\r\n
            """,
            "PUT /N HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET * HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "DELETE /N HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc",
        ])
    func client(_ text: String) async throws {
        let bench = try Self.bench { _ in .response(401, "No", body: "no") }
        let count = text.utf8.count
        let ways = (0..<count).map { [$0] } + [Array(1..<count)]
        let results = try await offPool { () throws -> [String] in
            try ways.enumerated().map { number, cuts in
                let bytes = Array(text.replacing("/N", with: "/\(1000 + number)").utf8)
                let client = try RawClient(bench.endpoint)
                defer { client.close() }
                var start = 0
                for end in cuts + [bytes.count] where end > start || end == 0 {
                    try client.send(Array(bytes[start..<end]))
                    start = end
                }
                return Self.normalized(try client.readToEnd())
            }
        }
        #expect(Set(results).count == 1, "\(Set(results))")
        #expect(results[0].hasPrefix("HTTP/1.1 200 OK\r\n") && !results[0].contains("401"))
        let sent = Dictionary(grouping: bench.upstream.requests, by: \.target)
        #expect(sent.count == ways.count && sent.values.allSatisfy { $0.count == 2 })
        let kinds = Set(
            bench.upstream.requests.map {
                Self.normalized($0.head).replacing($0.target, with: "/N") + $0.bodyText
            })
        #expect(kinds.count == 1, "\(kinds)")
    }

    @Test(
        "a refusal torn anywhere leads to the same replay",
        arguments: [
            "HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno", "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 401 No\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nno\r\n0\r\nT: 1\r\n\r\n",
            """
            HTTP/1.1 103 Early\r\nLink: l\r\n\r\nHTTP/1.1 401 No\r\n\
            WWW-Authenticate: Bearer error=\"invalid_token\"\r\nContent-Length: 2\r\n\r\nno
            """,
            "HTTP/1.1 401 No\r\n\r\nuntil the end",
        ])
    func upstream(_ text: String) async throws {
        let bytes = Array(text.utf8)
        let bench = try Self.bench { number in
            let cut = number - 1000
            let end: [RawResponse.Step] = text.hasSuffix("the end") ? [.close] : []
            return RawResponse(
                [.send(Array(bytes[..<cut])), .pause(.milliseconds(2)), .send(Array(bytes[cut...]))] + end)
        }
        let results = try await offPool { () throws -> [String] in
            try (0...bytes.count).map { cut in
                let client = try RawClient(bench.endpoint)
                defer { client.close() }
                try client.send(
                    "POST /\(1000 + cut) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody"
                )
                return Self.normalized(try client.readToEnd())
            }
        }
        #expect(Set(results).count == 1, "\(Set(results))")
        #expect(results[0].hasSuffix("\r\n\r\nPOST body") && !results[0].contains("401"))
    }

    @Test(
        "a refusal that is not replayed passes the same however it is torn",
        arguments: [
            "HTTP/1.1 401 No\r\nContent-Length: 2\r\nA: b\r\n\r\nno",
            "HTTP/1.1 401 No\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nno\r\n0\r\nT: 1\r\n\r\n",
            "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"x, y\", Bearer error=\"insufficient_scope\"\r\nContent-Length: 2\r\n\r\nno",
        ])
    func relayed(_ text: String) async throws {
        let bytes = Array(text.utf8)
        let bench = try ProxyBench { request in
            let cut = (Int(request.message.target.dropFirst()) ?? 1000) - 1000
            return RawResponse([.send(Array(bytes[..<cut])), .pause(.milliseconds(2)), .send(Array(bytes[cut...]))])
        }
        let path = bench.path
        bench.tokens.onRefused.withLock {
            $0 = { old in
                path.publish(
                    ProxyBench.availability(old, "token", renewal: .possible(from: .now + .seconds(99))),
                    for: ProxyBench.user)
                // Asked anew by the next one.
                path.publish(ProxyBench.availability(old, "token"), for: ProxyBench.user)
            }
        }
        let results = try await offPool { () throws -> [String] in
            try (0...bytes.count).map { cut in
                let client = try RawClient(bench.endpoint)
                defer { client.close() }
                let response = try client.exchange("POST", "/\(1000 + cut)", body: Array("body".utf8))
                return Self.normalized(Array(response.headText.utf8) + response.body)
            }
        }
        #expect(Set(results).count == 1, "\(Set(results))")
        #expect(results[0].contains("Proxy-Status: lanyard; received-status=401; details=\"replay-not-possible: "))
        #expect(bench.upstream.requests.count == bytes.count + 1)
    }
}
