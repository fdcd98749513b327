import LanyardSettings
import TestSupport
import Testing

/// Trailers of responses (http-rules.md 6.5, 6.6).
@Suite(.timeLimit(.minutes(3))) struct ProxyTrailerTests {
    private static func asking(_ fields: String, version: String = "1.1") -> String {
        "GET / HTTP/\(version)\r\nHost: localhost\r\nConnection: close\r\n\(fields)\r\n"
    }
    private static let wanting = "TE: trailers\r\nConnection: TE\r\n"
    private static let response =
        """
        HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, Set-Cookie\r\nDate: d\r\n\r\n5\r\nhello\r\n\
        0\r\nX-Sum: 1\r\nset-cookie: a\r\nSet_Cookie: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\
        Connection: X\r\nAUTHORIZATION: x\r\nWWW-Authenticate: x\r\nCache-Control: no-store\r\nContent-Type: a\r\n\
        Host: a\r\nLanyard-X: 1\r\nX-Key: leak\r\nServer-Timing: t;dur=1\r\nx-sum: 2 \r\n\r\n
        """

    @Test("who asked for trailers gets those that may travel, and the upstream is told so")
    func wanted() async throws {
        let bench = try ProxyBench {
            _ in
            .text(Self.response)
        } plan: {
            $0.route.injectHeader = "X-Key"
        }
        let got = try await bench.askToEnd(Self.asking(Self.wanting))
        #expect(
            got
                == """
                HTTP/1.1 200 OK\r\nTrailer: X-Sum, Set-Cookie\r\nDate: d\r\nTransfer-Encoding: chunked\r\n\
                Connection: close\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\nServer-Timing: t;dur=1\r\nx-sum: 2\r\n\r\n
                """
        )
        let seen = try #require(bench.upstream.requests.first)
        #expect(seen.values("TE") == ["trailers"])
        #expect(seen.values("Connection") == ["TE"])
    }

    @Test(
        "who did not ask, or for a hop further off, gets neither trailers nor Trailer",
        arguments: [
            ("", "1.1"), ("TE: trailers\r\n", "1.1"), ("Connection: TE\r\n", "1.1"),
            ("TE: gzip\r\nConnection: TE\r\n", "1.1"),
            (wanting, "1.0"), ("TE: trailers;q=1\r\nConnection: TE\r\n", "1.1"),
        ])
    func unwanted(_ fields: String, _ version: String) async throws {
        let bench = try ProxyBench { _ in .text(Self.response) }
        let got = try await bench.askToEnd(Self.asking(fields, version: version))
        #expect(!got.lowercased().contains("x-sum"))
        #expect(got.hasSuffix(version == "1.1" ? "\r\n5\r\nhello\r\n0\r\n\r\n" : "\r\n\r\nhello"))
        let seen = try #require(bench.upstream.requests.first)
        #expect(seen["TE"] == nil && seen["Connection"] == nil)
    }

    @Test("a list of codings and several lines name trailers, too; a response without any ends as ever")
    func spellings() async throws {
        let bench = try ProxyBench { request in
            request.message.target == "/" ? .text(Self.response) : .response(fields: [("Trailer", "X")])
        }
        for fields in [
            "TE: gzip;q=0.5, Trailers\r\nConnection: te\r\n",
            "TE: deflate\r\nte: trailers\r\nConnection: close , TE\r\n",
        ] {
            #expect(
                try await bench.askToEnd(Self.asking(fields)).hasSuffix(
                    "\r\n0\r\nX-Sum: 1\r\nX-Key: leak\r\nServer-Timing: t;dur=1\r\nx-sum: 2\r\n\r\n"))
        }
        let known = try await bench.ask("GET /known HTTP/1.1\r\nHost: localhost\r\n\(Self.wanting)\r\n")
        #expect(known.bodyText == "ok")
        #expect(known["Trailer"] == nil)
    }

    @Test("a request's trailers are checked and dropped with Trailer")
    func request() async throws {
        let bench = try ProxyBench()
        let post =
            "POST / HTTP/1.1\r\nHost: localhost\r\nTrailer: X-Sum\r\n\(Self.wanting)Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"
        #expect(try await bench.ask(post + "X-Sum: 1\r\n\r\n").status == 200)
        let seen = try #require(bench.upstream.requests.first)
        #expect(seen["Trailer"] == nil)
        #expect(String(decoding: seen.framedBody, as: UTF8.self) == "1\r\na\r\n0\r\n\r\n")
        #expect(try await bench.ask(post + "X Sum: 1\r\n\r\n").status == 400)
    }

    @Test(
        "bad or endless trailers end the response without its end",
        arguments: [
            "X Sum: 1\r\n\r\n", "X: 1\n\r\n", " X: 1\r\n\r\n", String(repeating: "A: 1\r\n", count: 33) + "\r\n",
            "A: " + String(repeating: "a", count: 16 << 10) + "\r\n\r\n",
        ])
    func bad(_ trailers: String) async throws {
        let bench = try ProxyBench { _ in
            RawResponse([
                .send(Array("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n".utf8)),
                .pause(.milliseconds(30)), .send(Array("0\r\n\(trailers)".utf8)),
            ])
        }
        let got = try await bench.askToEnd(Self.asking(Self.wanting))
        #expect(got.hasSuffix("\r\n\r\n5\r\nhello\r\n"))
    }

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
