import TestSupport
import Testing

/// Whole exchanges torn at every byte: no result depends on how the network cuts.
@Suite(.timeLimit(minutes: 3)) struct ProxyCutTests {
    private static let post = "POST /a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"

    /// Our clock and our request ids are not what is compared.
    private static func normalized(_ bytes: [UInt8]) -> String {
        VaryingText.normalized(String(decoding: bytes, as: UTF8.self), [.date, .instance, .pseudonym])
    }

    @Test(
        "a client's bytes torn anywhere give the same response, and the same request upstream",
        arguments: [
            "GET /a?b HTTP/1.1\r\nHost: localhost\r\nA: 1\r\nConnection: close\r\n\r\n",
            "\r\n\r\nGET http://localhost/x HTTP/1.0\r\nVia: 1.1 a\r\n\r\n",
            post + "Content-Length: 11\r\n\r\nhello world",
            post + "Transfer-Encoding: chunked\r\n\r\n5;a=\"b\"\r\nhello\r\n1\r\n!\r\n0\r\nT: 1\r\n\r\n",
            """
            PUT /1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabcGET /2 HTTP/1.1\r\nHost: localhost\r\n\
            Connection: close\r\n\r\n
            """,
            "GET /1 HTTP/1.1\r\nHost: evil\r\n\r\nGET /2 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            "HEAD / HTTP/1.1\r\nHost: localhost\r\nAuthorization: x\r\nConnection: close, authorization\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: localhost\r\nA: 1\r\n folded\r\n\r\n",
            post + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            "GET / HTTP/1.1\nHost: localhost\n\n",
            """
            DELETE / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /%zz HTTP/1.1\r\n\
            Host: localhost\r\nConnection: close\r\n\r\n
            """,
        ])
    func client(_ text: String) async throws {
        let bench = try ProxyBench { .response(body: "\($0.message.target) \($0.message.bodyText)") }
        let bytes = Array(text.utf8)
        let ways = (0..<bytes.count).map { [$0] } + [Array(1..<bytes.count)]
        let results = try await offPool { () throws -> [String] in
            try ways.map { cuts in
                let client = try RawClient(bench.endpoint)
                defer { client.close() }
                var start = 0
                for end in cuts + [bytes.count] {
                    // A refusal may come before the last byte; the rest is then discarded.
                    guard (try? client.send(Array(bytes[start..<end]))) != nil else { break }
                    start = end
                }
                return Self.normalized(try client.readToEnd())
            }
        }
        #expect(Set(results).count == 1, "\(Set(results))")
        let requests = Set(bench.upstream.requests.map { Self.normalized($0.head) + $0.bodyText })
        #expect(requests.count == Set(bench.upstream.requests.map(\.target)).count, "\(requests)")
    }

    @Test(
        "an upstream's bytes torn anywhere give the same response",
        arguments: [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: 1\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n6\r\n world\r\n0\r\nT: 1\r\n\r\n",
            "HTTP/1.1 103 Early\r\nLink: l\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.1 204 No Content\r\nA: 1\r\n\r\n", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\nuntil the end",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", "HTTP/1.1 2000 OK\r\n\r\n",
        ])
    func upstream(_ text: String) async throws {
        let bytes = Array(text.utf8)
        let bench = try ProxyBench { request in
            let cut = Int(request.message.target.dropFirst()) ?? 0
            return RawResponse([
                .send(Array(bytes[..<cut])), .pause(.milliseconds(2)), .send(Array(bytes[cut...])), .close,
            ])
        }
        let results = try await offPool { () throws -> [String] in
            try (0...bytes.count).map { cut in
                let client = try RawClient(bench.endpoint)
                defer { client.close() }
                try client.send("GET /\(cut) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                var response = try client.reader.readResponse()
                var text = ""
                while response.status < 200 {
                    text += response.headText
                    response = try client.reader.readResponse()
                }
                // Chunks may be cut as the reads were.
                return Self.normalized(Array((text + response.headText).utf8) + response.body)
                    + "\(try client.readToEnd())"
            }
        }
        #expect(Set(results).count == 1, "\(Set(results))")
    }
}
