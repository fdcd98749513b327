import TestSupport
import Testing

@testable import SystemTestSupport

/// Requests on streams of an upstream's HTTP/2 connection (http2-rules.md), of clients of both versions. `deploy/check-http2` has upstreams
/// that send what no honest one does.
@Suite struct HTTP2UpstreamTests {
    private struct Bench {
        let upstream: HTTP2Upstream
        let lanyard: LanyardProcess

        func client() throws -> HTTP2Client {
            try HTTP2Client(RawSocket.connect(to: lanyard.data), keeping: [upstream, lanyard])
        }

        /// The response to a request of HTTP/1.1, to the end of its connection.
        func ask(_ start: String, _ fields: String = "", body: String = "") throws -> String {
            let socket = try RawSocket.connect(to: lanyard.data)
            try socket.send(
                Array("\(start) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\(fields)\r\n\(body)".utf8))
            var bytes: [UInt8] = []
            while case let more = try socket.receive(), !more.isEmpty { bytes += more }
            return String(decoding: bytes, as: UTF8.self)
        }
    }

    private static func start(
        streamsMax: UInt32 = 100, route: String = "", rest: String = "",
        _ script: @escaping HTTP2Upstream.Script = { _ in .response(200) }
    ) async throws -> Bench {
        let upstream = try HTTP2Upstream(streamsMax: streamsMax, script)
        let lanyard = try await LanyardProcess.start(
            before: "http://\(upstream.endpoint)", route: "protocol: http2" + (route.isEmpty ? "" : ", " + route),
            rest: rest, listener: "address: \"127.0.0.1:0\", allowed_hosts: [\"localhost:80\", \"localhost\"]")
        return Bench(upstream: upstream, lanyard: lanyard)
    }

    @Test(
        "H9 H10 H11 H18 a request of either version: one authority, no Host, no field of a hop, a token that no table has"
    )
    func requests() async throws {
        let bench = try await Self.start(rest: "shards: 1\n")
        let first = try bench.ask("GET /x?y", "X-A: b\r\nAuthorization: Bearer own\r\nTE: trailers\r\n")
        #expect(first.hasPrefix("HTTP/1.1 200 OK\r\n") && first.hasSuffix("\r\n\r\n2\r\nok\r\n0\r\n\r\n"), "\(first)")
        let client = try bench.client()
        let fields = [("cookie", "a=1"), ("te", "trailers"), ("cookie", "b=2"), ("x-a", "b")]
        #expect(try client.response(client.request("GET", "/x?y", fields)).status == 200)
        let requests = bench.upstream.requests
        try #require(requests.count == 2)
        for request in requests {
            #expect(request.head.hasPrefix("GET /x?y HTTP/1.1\r\n"), "\(request.head)")
            #expect(request.values("host") == ["\(bench.upstream.endpoint)"], "\(request.head)")
            #expect(request.values("authorization") == ["Bearer stream-token"] && request.values("x-a") == ["b"])
            #expect(request.values("connection") == [] && request.values("transfer-encoding") == [])
        }
        #expect(requests[1].values("te") == ["trailers"] && requests[1].values("cookie") == ["a=1; b=2"])
        #expect(requests[0].connection == requests[1].connection)
        // Never indexed: each request has the literal, whose first byte says so (RFC 7541 6.2.3).
        let bytes = bench.upstream.record.bytes[0]
        #expect(bytes.indices.count { bytes[$0] & 0xf0 == 0x10 } >= 2)
    }

    @Test("H12 H15 bodies of every length both ways, trailers both ways", arguments: [0, 1, 300_000])
    func bodies(size: Int) async throws {
        let bench = try await Self.start { request in
            .response(
                200,
                [("x-count", "\(request.body.count)"), ("x-trailers", request.trailers.map { _ in "yes" } ?? "no")],
                body: request.body, trailers: [("x-sum", "1")])
        }
        let text = String(repeating: "a", count: size)
        let known = try bench.ask("POST /k", "Content-Length: \(size)\r\n", body: text)
        #expect(
            known.contains("x-count: \(size)\r\n") && known.contains("Transfer-Encoding: chunked"),
            "\(known.prefix(300))")
        let chunk = size == 0 ? "" : "\(String(size, radix: 16))\r\n\(text)\r\n"
        let chunked = try bench.ask(
            "POST /c", "Transfer-Encoding: chunked\r\nTE: trailers\r\nConnection: TE\r\n", body: chunk + "0\r\n\r\n")
        #expect(chunked.contains("x-count: \(size)\r\n"), "\(chunked.prefix(300))")
        let client = try bench.client()
        let stream = try client.request("POST", "/s", body: Array(text.utf8), ends: false)
        try client.send(trailers: [("x-end", "2")], on: stream)
        let response = try client.response(stream)
        #expect(response.body.count == size && response.trailers == "x-sum: 1\r\n\r\n" && response.hasEnded)
        #expect(response.field("x-trailers") == "yes" && response.resetCode == nil)
        // One that is 0 ends the request with its head.
        guard size > 0 else { return }
        let length = [("content-length", "\(size)")]
        let late = try client.request("POST", "/t", length, body: Array(text.utf8), ends: false)
        try client.send(trailers: [("x-end", "3")], on: late)
        #expect(try client.response(late).field("x-trailers") == "yes")
    }

    @Test(
        "H26 H27 many at once share a connection; an upstream of one stream gets one after another",
        arguments: [1, 100])
    func places(streamsMax: UInt32) async throws {
        let bench = try await Self.start(streamsMax: streamsMax, route: "connections_max: 2")
        let client = try bench.client()
        #expect(try client.response(client.request()).status == 200)
        let numbers = try (0..<100).map { _ in try client.request("POST", "/", body: [1, 2, 3]) }
        for number in numbers { #expect(try client.response(number).status == 200) }
        #expect(bench.upstream.requests.count == 101)
        #expect(bench.upstream.record.connections <= 2)
    }

    @Test("H28 what the upstream has not processed is sent again, whatever its method; never without end")
    func unprocessed() async throws {
        let refusing = try await Self.start { request in
            request.head.contains("/always") || request.connection == 0 && request.stream == 1
                ? .reset(7) : .response(200)
        }
        #expect(try refusing.ask("POST /", "Content-Length: 3\r\n", body: "abc").hasPrefix("HTTP/1.1 200"))
        #expect(refusing.upstream.requests.map(\.body) == [Array("abc".utf8), Array("abc".utf8)])
        #expect(try refusing.ask("POST /always", "Content-Length: 0\r\n").hasPrefix("HTTP/1.1 502"))
        #expect(refusing.upstream.requests.count == 5)
        let leaving = try await Self.start(rest: "shards: 1\n") { request in
            request.connection == 0 && request.stream == 3 ? .goAway(last: 1) : .response(200)
        }
        for _ in 0..<2 {
            #expect(try leaving.ask("POST /", "Content-Length: 1\r\n", body: "a").hasPrefix("HTTP/1.1 200"))
        }
        #expect(leaving.upstream.requests.map(\.connection) == [0, 0, 1])
    }

    @Test("H15 a stream or a connection that ends early is an error, never a clean end, and not sent again")
    func cuts() async throws {
        let bench = try await Self.start { request in
            request.head.contains("/reset") ? .reset(2) : request.head.contains("/close") ? .close : .response(200)
        }
        #expect(try bench.ask("POST /reset", "Content-Length: 0\r\n").hasPrefix("HTTP/1.1 502"))
        #expect(try bench.ask("GET /reset").hasPrefix("HTTP/1.1 502"))
        #expect(try bench.ask("POST /close", "Content-Length: 0\r\n").hasPrefix("HTTP/1.1 502"))
        #expect(try bench.ask("GET /").hasPrefix("HTTP/1.1 200"))
        #expect(bench.upstream.requests.count == 4)
    }

    @Test("H13 H43 H44 H45 a call of gRPC: Lanyard's own errors are heads with a status; one that is refused is a 16")
    func calls() async throws {
        let bench = try await Self.start(route: "match: {methods: [POST, PUT]}") { _ in
            .head(200, [("content-type", "application/grpc"), ("grpc-status", "16"), ("grpc-message", "no")])
        }
        let client = try bench.client()
        let call = [("content-type", "application/grpc+proto"), ("te", "trailers")]
        let refused = try client.response(client.request("POST", "/s/m", call, body: [0, 0, 0, 0, 0]))
        #expect(refused.status == 200 && refused.field("grpc-status") == "16" && refused.body.isEmpty)
        let elsewhere = try client.response(client.request("POST", "/s/m", authority: "other", call, body: [0]))
        #expect(elsewhere.status == 200 && elsewhere.field("grpc-status") == "7")
        #expect(elsewhere.field("content-type") == "application/grpc" && elsewhere.hasEnded && elsewhere.body.isEmpty)
        #expect(elsewhere.field("proxy-status") == "lanyard; error=http_request_denied")
        let old = try RawServer()
        let lanyard = try await LanyardProcess.start(
            before: "http://\(old.endpoint)",
            listener: "address: \"127.0.0.1:0\", allowed_hosts: [\"localhost:80\", \"localhost\"]")
        let other = try HTTP2Client(RawSocket.connect(to: lanyard.data), keeping: [old, lanyard])
        let downgraded = try other.response(other.request("POST", "/s/m", call, body: [0]))
        #expect(downgraded.field("grpc-status") == "14" && old.requests.isEmpty)
        let web = [("content-type", "application/grpc-web")]
        #expect(try other.response(other.request("POST", "/s/m", web, body: [0])).body == Array("ok".utf8))
    }
}
