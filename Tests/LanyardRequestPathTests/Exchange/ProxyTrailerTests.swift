import LanyardSettings
import TestSupport
import Testing

/// Trailers of responses (http-rules.md 6.5, 6.6).
@Suite(.timeLimit(minutes: 3)) struct ProxyTrailerTests {
    @Test("trailers torn anywhere arrive the same, over TCP and unix sockets", arguments: [false, true])
    func torn(_ isUnix: Bool) async throws {
        let folder = try TemporaryFolder()
        let text =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nDate: d\r\n\r\n2;a=b\r\nhi\r\n000\r\nX-Sum: 1\r\nCookie: c\r\nY: \r\n\r\n"
        let bytes = Array(text.utf8)
        let bench = try ProxyBench(at: isUnix ? .unix(folder.file("up")) : .tcp(0)) { request in
            let cut = Int(request.message.target.dropFirst()) ?? 0
            // The last round sends byte by byte.
            if cut > bytes.count {
                return RawResponse(bytes.flatMap { [.send([$0]), .pause(.microseconds(300))] } + [.close])
            }
            return RawResponse([
                .send(Array(bytes[..<cut])), .pause(.milliseconds(2)), .send(Array(bytes[cut...])), .close,
            ])
        } plan: {
            if isUnix { $0.listener = ListenerSettings(address: .unix(path: folder.file("in"))) }
        }
        let results = try await offPool { () throws -> [String] in
            try (0...(bytes.count + 1)).map { cut in
                let client = try RawClient(bench.endpoint)
                defer { client.close() }
                try client.send(
                    "GET /\(cut) HTTP/1.1\r\nHost: localhost\r\nConnection: close, TE\r\nTE: trailers\r\n\r\n")
                let got = String(decoding: try client.readToEnd(), as: UTF8.self)
                // Chunks may be cut as the reads were.
                return got.replacing("1\r\nh\r\n1\r\ni\r\n", with: "2\r\nhi\r\n")
            }
        }
        #expect(
            Set(results) == [
                """
                HTTP/1.1 200 OK\r\nDate: d\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nhi\r\n0\r\n\
                X-Sum: 1\r\nY: \r\n\r\n
                """
            ])
    }
}
