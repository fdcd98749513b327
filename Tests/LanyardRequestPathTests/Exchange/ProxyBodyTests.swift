import LanyardSettings
import TestSupport
import Testing

/// Bodies, both ways.
@Suite(.timeLimit(.minutes(1))) struct ProxyBodyTests {
    private static let post = "POST / HTTP/1.1\r\nHost: localhost\r\n"
    private static let get = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

    /// An upstream that always answers these bytes, then perhaps ends.
    private static func saying(_ text: String, then end: [RawResponse.Step] = []) throws -> ProxyBench {
        try ProxyBench { _ in RawResponse([.send(Array(text.utf8))] + end) }
    }

    @Test(
        "a request body goes up whole, in its own framing",
        arguments: [
            ("Content-Length: 5\r\n\r\nhello", "hello", "Content-Length"),
            ("Content-Length: 0\r\n\r\n", "", "Content-Length"),
            (
                "Transfer-Encoding: Chunked\r\n\r\n2;a=\"b\"\r\nhe\r\n003\r\nllo\r\n0\r\nT: 1\r\n\r\n", "hello",
                "Transfer-Encoding"
            ),
            ("Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", "Transfer-Encoding"), ("\r\n", "", ""),
        ])
    func upload(_ rest: String, _ body: String, _ framing: String) async throws {
        let bench = try ProxyBench()
        #expect(try await bench.ask(Self.post + rest).status == 200)
        let request = bench.upstream.requests[0]
        #expect(request.bodyText == body)
        let framings = request.fields.map(\.name).filter { ["Content-Length", "Transfer-Encoding"].contains($0) }
        #expect(framings == (framing.isEmpty ? [] : [framing]))
        #expect(request["T"] == nil)
        if framing == "Transfer-Encoding" { #expect(request["Transfer-Encoding"] == "chunked") }
    }

    @Test("a megabyte goes up and comes down with its digest, in chunks and by length")
    func megabyte() async throws {
        let bench = try ProxyBench { request in
            let body = request.message.body
            guard request.message.target == "/chunked" else {
                return RawResponse([
                    .send(Array("HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\r\n".utf8) + body)
                ])
            }
            var steps: [RawResponse.Step] = [.send(Array("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".utf8))]
            var rest = body[...]
            var size = 1
            while !rest.isEmpty {
                let piece = rest.prefix(size)
                steps.append(.send(Array("\(String(piece.count, radix: 16))\r\n".utf8) + piece + Array("\r\n".utf8)))
                rest = rest.dropFirst(size)
                size = size * 3 % 65_521
            }
            return RawResponse(steps + [.send(Array("0\r\n\r\n".utf8))])
        }
        var random = SeededGenerator(5)
        let body = (0..<(1 << 20)).map { _ in UInt8.random(in: 0...255, using: &random) }
        let digest = body.withUnsafeBytes { SHA256Digest.hex(of: Array($0)) }
        let responses = try await bench.talk { client in
            try ["/", "/chunked"].map { try client.exchange("PUT", $0, body: body, within: .seconds(30)) }
        }
        #expect(responses.map(\.bodyDigest) == [digest, digest])
        #expect(bench.upstream.requests.map(\.bodyDigest) == [digest, digest])
    }

    @Test("a response that ends with the connection is chunked for HTTP/1.1, which goes on, and closes for HTTP/1.0")
    func untilClose() async throws {
        let bench = try Self.saying("HTTP/1.1 200 OK\r\nDate: d\r\n\r\nbody", then: [.close])
        try await bench.talk { client in
            let response = try client.exchange("GET", "/")
            #expect(response["Transfer-Encoding"] == "chunked")
            #expect(response.bodyText == "body")
            #expect(try client.exchange("GET", "/").bodyText == "body")
        }
        #expect(
            try await bench.askToEnd("GET / HTTP/1.0\r\n\r\n")
                == "HTTP/1.1 200 OK\r\nDate: d\r\nConnection: close\r\n\r\nbody")
    }

    @Test(
        "a truncated response never looks complete",
        arguments: [
            ("Content-Length: 9", "body", RawResponse.Step.close), ("Content-Length: 9", "body", .reset),
            ("Transfer-Encoding: chunked", "4\r\nbody\r\n", .close),
            ("Transfer-Encoding: chunked", "4\r\nbody\r\n0\r\n", .close),
            ("Transfer-Encoding: chunked", "9\r\nbody", .reset), ("A: 1", "body", .reset),
        ])
    func truncated(_ field: String, _ body: String, _ end: RawResponse.Step) async throws {
        let bench = try ProxyBench { request in
            let head = "HTTP/1.1 200 OK\r\n\(field)\r\n\r\n"
            return RawResponse([.send(Array((head + body).utf8)), .pause(.milliseconds(100)), end])
        }
        let text = try await bench.askToEnd(Self.get)
        #expect(text.hasPrefix("HTTP/1.1 200 OK\r\n"))
        #expect(!text.hasSuffix("0\r\n\r\n"))
        if field.hasPrefix("Content") { #expect(text.hasSuffix("\r\n\r\nbody")) }
        // To HTTP/1.0 an unknown length must end in a reset.
        guard !field.hasPrefix("Content") else { return }
        await #expect(throws: TestFailure.self) { try await bench.askToEnd("GET / HTTP/1.0\r\n\r\n") }
    }

    @Test(
        "a response whose first chunk is broken is 502, never half a response",
        arguments: ["zz\r\n", "3\r\nabcd\r\n", "+1\r\na"])
    func brokenAtOnce(_ chunk: String) async throws {
        let bench = try Self.saying("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\(chunk)")
        let response = try await bench.ask(Self.get)
        #expect(response.status == 502)
        #expect(response["Connection"] == nil)
    }

    @Test(
        "an upstream that cannot be trusted is 502, its connection closed, the client's kept",
        arguments: [
            "SSH-2.0-OpenSSH\r\n", "HTTP/2.0 200 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA : 1\r\n\r\n", "HTTP/1.1 200 OK\nA: 1\n\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
            "HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\na",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: 1\r\n b\r\n\r\n", "HTTP/1.1 200 OK\r\nA: \u{0}\r\n\r\n",
        ])
    func invalid(_ text: String) async throws {
        let bench = try Self.saying(text)
        try await bench.talk { client in
            let response = try client.exchange("GET", "/")
            #expect(response.status == 502)
            #expect(try response.json["type"].string == "urn:lanyard:problem:upstream-invalid")
            #expect(response["Proxy-Status"] == "lanyard; error=http_protocol_error")
            #expect(try client.exchange("GET", "/").status == 502)
        }
        try await eventually("both connections are closed") { bench.upstream.openCount == 0 }
        #expect(bench.upstream.connectionCount == 2)
    }

    @Test("HEAD, 204 and 304 have no body, whatever they announce, and keep what describes it")
    func bodiless() async throws {
        let bench = try ProxyBench { request in
            .text("HTTP/1.1 \(request.message.target.dropFirst()) X\r\nContent-Length: 5\r\nDate: d\r\n\r\n")
        }
        try await bench.talk { client in
            for (method, status, length) in [
                ("HEAD", 200, "5"), ("GET", 304, "5"), ("GET", 204, nil), ("HEAD", 204, nil),
            ] {
                let response = try client.exchange(method, "/\(status)")
                #expect(response.status == status)
                #expect(response["Content-Length"] == length)
                #expect(response.body == [])
            }
        }
        // A 204 that announces a body is not trusted further.
        #expect(bench.upstream.connectionCount == 2)
    }

    @Test("interim responses reach HTTP/1.1 clients with their fields, before the final one; HTTP/1.0 gets none")
    func interim() async throws {
        let bench = try Self.saying(
            """
            HTTP/1.1 103 Early\r\nLink: a\r\nContent-Length: 7\r\nConnection: x\r\nX: 1\r\n\r\nHTTP/1.1 102 P\r\n\r\n\
            HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 1\r\n\r\nz
            """
        )
        let final = "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 1\r\nConnection: close\r\n\r\nz"
        #expect(
            try await bench.askToEnd("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                == "HTTP/1.1 103 Early\r\nLink: a\r\n\r\nHTTP/1.1 102 P\r\n\r\n\(final)")
        #expect(try await bench.askToEnd("GET / HTTP/1.0\r\n\r\n") == final)
    }

    @Test("an interim response and then the end is 502")
    func interimOnly() async throws {
        let bench = try Self.saying("HTTP/1.1 103 Early\r\n\r\n", then: [.close])
        #expect(try await bench.ask(Self.get).status == 502)
    }

    @Test("what stands behind too many interim responses reaches no client, and does not respond to the next request")
    func interimFlood() async throws {
        let bench = try ProxyBench { request in
            guard request.message.target == "/flood" else {
                return RawResponse.response(body: "good").after(
                    .milliseconds(request.message.target == "/hold" ? 300 : 0))
            }
            let flood = String(repeating: "HTTP/1.1 103 Early\r\n\r\n", count: 17)
            return RawResponse.text(flood + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil").after(
                .milliseconds(600))
        }
        // While the flood is awaited, another connection comes to rest in the pool: the pipelined request will take it.
        async let held = bench.ask("GET /hold HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try await eventually("it is on its way") { bench.upstream.requests.count == 1 }
        let responses = try await bench.talk { client in
            try client.send("GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n" + Self.get)
            return [try client.response(), try client.response()]
        }
        #expect(responses.map(\.status) == [502, 200])
        #expect(responses[1].bodyText == "good")
        let body = try await held.bodyText
        #expect(body == "good")
    }

    @Test("Expect: 100-continue goes up, the upstream's 100 comes down, then the body goes up")
    func expectation() async throws {
        let listener = try RawSocket.listen(at: .tcp(0))
        let port = listener.localPort
        let bench = try ProxyBench(plan: {
            $0.usesUpstream = false
            $0.upstream.endpoint = .tcp(host: "127.0.0.1", port: port, tls: false)
        })
        let seen = try await bench.talk { client in
            try client.send(Self.post + "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n")
            let upstream = try #require(listener.accept())
            defer { upstream.close() }
            let head = try upstream.receive(through: "\r\n\r\n")
            try upstream.send("HTTP/1.1 100 Continue\r\n\r\n".utf8)
            #expect(try client.reader.readResponse().status == 100)
            try client.send("body")
            #expect(try upstream.receive(through: "body") == Array("body".utf8))
            try upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
            #expect(try client.response().bodyText == "ok")
            return String(decoding: head, as: UTF8.self)
        }
        #expect(seen.contains("\r\nExpect: 100-continue\r\n"))
        listener.close()
    }

    @Test(
        "a client that waits for 100 gets it after a second if the upstream says nothing; one that does not wait is served"
    )
    func ownContinue() async throws {
        let bench = try ProxyBench()
        try await bench.talk { client in
            try client.send(Self.post + "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n")
            #expect(try client.reader.readResponse().status == 100)
            try client.send("body")
            #expect(try client.response().status == 200)
            try client.send(Self.post + "Expect: 100-continue\r\nContent-Length: 4\r\n\r\nbody")
            #expect(try client.reader.readResponse().status == 200)
        }
        #expect(bench.upstream.requests.map(\.bodyText) == ["body", "body"])
    }

    @Test("a final status in place of 100 ends both connections; what follows is never read as a request")
    func refusedExpectation() async throws {
        let listener = try RawSocket.listen(at: .tcp(0))
        let port = listener.localPort
        let bench = try ProxyBench(plan: {
            $0.usesUpstream = false
            $0.upstream.endpoint = .tcp(host: "127.0.0.1", port: port, tls: false)
        })
        try await bench.talk { client in
            try client.send(Self.post + "Expect: 100-continue\r\nContent-Length: 40\r\n\r\n")
            let upstream = try #require(listener.accept())
            defer { upstream.close() }
            _ = try upstream.receive(through: "\r\n\r\n")
            try upstream.send("HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n".utf8)
            let response = try client.response()
            #expect(response.status == 401)
            #expect(response["Connection"] == "close")
            try client.send(Self.get)
            client.halfClose()
            #expect(try client.readToEnd() == [])
            #expect(try upstream.receive() == [])
        }
        listener.close()
    }

    @Test("a request body that is cut or breaks its rules never looks complete upstream")
    func cutUpload() async throws {
        let bench = try ProxyBench()
        for (text, halfCloses) in [
            ("Content-Length: 9\r\n\r\nbody", true), ("Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n", true),
            ("Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\nzz\r\n", false),
            ("Transfer-Encoding: chunked\r\n\r\n4\r\nbody0\r\n\r\n", false),
        ] {
            let response = try await bench.talk { client in
                try client.send(Self.post + text)
                if halfCloses { client.halfClose() }
                return String(decoding: try client.readToEnd(), as: UTF8.self)
            }
            #expect(response.hasPrefix("HTTP/1.1 400 "))
            #expect(response.contains("\r\nConnection: close\r\n"))
        }
        try await eventually("the upstream's connections end") { bench.upstream.openCount == 0 }
        #expect(bench.upstream.requests.count == 0)
        #expect(bench.received.allSatisfy { !$0.contains("0\r\n\r\n") })
    }
}
