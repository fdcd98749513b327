import LanyardSettings
import TestSupport
import Testing

/// What never reaches the upstream, and how the client hears of it.
@Suite(.timeLimit(.minutes(1))) struct ProxyRefusalTests {
    @Test(
        "a request that cannot be read has one response, a closing problem, and nothing of it is forwarded",
        arguments: [
            ("GET /\r\nHost: localhost\r\n\r\n", 400), ("GET / HTTP/1.1\nHost: localhost\n\n", 400),
            ("GET  / HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nA: 1\r\n folded\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost : localhost\r\n\r\n", 400),
            (
                "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                400
            ),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400), ("GET / HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
            ("GET http://127.0.0.1/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
            ("GET http://u@localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
            ("GET * HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
            ("\u{16}\u{3}\u{1}", 400), ("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5, 5\r\n\r\nabcde", 400),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nContent_Length: 5\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nTransfer.Encoding: x\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nConnection!: x\r\n\r\n", 200),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nKeep_Alive: x\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
            ("GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", 505), ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
            ("POST / HTTP/1.1\r\nHost: localhost\r\nExpect: x\r\nContent-Length: 1\r\n\r\n", 417),
            ("CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        ])
    func closing(_ text: String, _ status: Int) async throws {
        let bench = try ProxyBench()
        guard status != 200 else { return #expect(try await bench.ask(text).status == 200) }
        let response = try await bench.talk { client throws in
            try client.send(
                text.unicodeScalars.map { UInt8($0.value) }
                    + Array("GET /next HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8))
            let response = try client.response()
            #expect(try client.readToEnd() == [])
            return response
        }
        #expect(response.status == status)
        #expect(response["Content-Type"] == "application/problem+json")
        #expect(response["Connection"] == "close")
        #expect(response["Cache-Control"] == "no-store")
        #expect(response["Proxy-Status"]?.hasPrefix("lanyard; error=http_request_") == true)
        let problem = try response.json
        #expect(problem["status"].int == status)
        #expect(problem["type"].string?.hasPrefix("urn:lanyard:problem:") == true)
        #expect(problem["instance"].string?.count == 16)
        #expect(bench.upstream.connectionCount == 0)
    }

    @Test(
        "a refusal of policy keeps the connection, and the next request is served",
        arguments: [
            ("GET / HTTP/1.1\r\nHost: evil\r\n\r\n", 421, "host-not-allowed"),
            ("GET / HTTP/1.1\r\nHost: localhost:81\r\n\r\n", 421, "host-not-allowed"),
            ("GET https://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 421, "host-not-allowed"),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n\r\n", 403, "origin-not-allowed"),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n\r\n", 403, "origin-not-allowed"),
            ("TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "method-not-allowed"),
            ("GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "malformed-request"),
            ("GET /.. HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "ambiguous-path"),
        ])
    func keeping(_ text: String, _ status: Int, _ name: String) async throws {
        let bench = try ProxyBench()
        try await bench.talk { client throws in
            // Both at once, and the second again when the first was answered.
            try client.send(text + "GET /next HTTP/1.1\r\nHost: localhost\r\n\r\n")
            let response = try client.response()
            #expect(response.status == status)
            #expect(try response.json["type"].string == "urn:lanyard:problem:\(name)")
            guard response["Connection"] == nil else { return #expect(status == 400) }
            #expect(try client.response().status == 200)
            try client.send(text)
            #expect(try client.response().status == status)
            #expect(try client.exchange("GET", "/next").status == 200)
        }
        #expect(bench.upstream.requests.allSatisfy { $0.target == "/next" })
    }

    @Test("CONNECT and TRACE are told what is allowed")
    func allow() async throws {
        let bench = try ProxyBench(plan: { $0.route.methods = ["GET", "PUT"] })
        for method in ["CONNECT", "TRACE"] {
            let target = method == "CONNECT" ? "localhost:80" : "/"
            let response = try await bench.ask("\(method) \(target) HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(response.status == 405)
            #expect(response["Allow"] == "GET, PUT")
        }
        #expect(bench.upstream.connectionCount == 0)
    }

    @Test("HEAD gets a problem's head without its body, and stays in step")
    func head() async throws {
        let bench = try ProxyBench()
        try await bench.talk { client throws in
            try client.send("HEAD / HTTP/1.1\r\nHost: evil\r\n\r\n")
            let response = try client.response(to: "HEAD")
            #expect(response.status == 421)
            #expect(Int(response["Content-Length"] ?? "") ?? 0 > 0)
            #expect(try client.exchange("GET", "/").status == 200)
        }
    }

    @Test("OPTIONS of the server is answered here", arguments: ["*", "http://localhost"])
    func options(_ target: String) async throws {
        let bench = try ProxyBench()
        try await bench.talk { client throws in
            let response = try client.exchange("OPTIONS", target)
            #expect(response.status == 200)
            #expect(response["Content-Length"] == "0")
            #expect(try client.exchange("OPTIONS", target, fields: [("Max-Forwards", "x")]).status == 400)
            #expect(try client.exchange("OPTIONS", target, fields: [("Expect", "x")]).status == 200)
            #expect(try client.exchange("OPTIONS", target, fields: [("Expect", "x")], body: [7]).status == 417)
        }
        try await bench.talk { client throws in
            #expect(try client.exchange("OPTIONS", target, host: "evil").status == (target == "*" ? 421 : 400))
        }
        #expect(bench.upstream.connectionCount == 0)
    }

    @Test("an allowed origin passes, unchanged")
    func allowedOrigin() async throws {
        let bench = try ProxyBench(plan: { $0.listener.allowedOrigins = ["https://app.test"] })
        let fields = "Origin: https://app.test\r\nSec-Fetch-Site: cross-site\r\n"
        #expect(try await bench.ask("GET / HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n").status == 200)
        #expect(bench.received[0].contains(fields))
        let other = try await bench.ask("GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: https://APP.test\r\n\r\n")
        #expect(other.status == 403)
    }

    @Test("HTTP/1.0 without Host is served, but not with an absolute target of another host")
    func hostless() async throws {
        let bench = try ProxyBench()
        #expect(try await bench.ask("GET / HTTP/1.0\r\n\r\n").status == 200)
        #expect(try await bench.ask("GET http://localhost/ HTTP/1.0\r\n\r\n").status == 200)
        #expect(try await bench.ask("GET http://evil/ HTTP/1.0\r\n\r\n").status == 421)
        #expect(try await bench.ask("GET ftp://localhost/ HTTP/1.0\r\n\r\n").status == 421)
        #expect(try await bench.ask("GET http://a%/ HTTP/1.0\r\n\r\n").status == 400)
        #expect(bench.upstream.requests.count == 2)
    }

    @Test("client_authorization: reject and forwarded: reject refuse, body_bytes_max bites before anything is sent")
    func policies() async throws {
        let bench = try ProxyBench(plan: {
            ($0.route.clientAuthorization, $0.route.forwarded, $0.route.bodyBytesMax) = (.reject, .reject, 3)
        })
        for (fields, status) in [
            ("Authorization: x", 403), ("Forwarded: x", 403), ("X-Forwarded-For: x", 403), ("Content-Length: 4", 413),
        ] {
            let response = try await bench.ask("POST / HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n\r\n")
            #expect(response.status == status)
        }
        #expect(bench.upstream.connectionCount == 0)
        let fits = try await bench.ask("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc")
        #expect(fits.status == 200)
    }

    @Test("limits of a head are told: 414, 431, 501")
    func limits() async throws {
        let bench = try ProxyBench()
        let long = String(repeating: "x", count: 17 << 10)
        for (text, status) in [
            ("GET /\(long)", 414), ("GET / HTTP/1.1\r\nA: \(long)", 431), (String(repeating: "M", count: 65), 501),
            ("GET / HTTP/1.1\r\n" + String(repeating: "A: 1\r\n", count: 129), 431),
        ] {
            let response = try await bench.askToEnd(text)
            #expect(response.hasPrefix("HTTP/1.1 \(status) "))
        }
    }

    @Test("a field section as large as the configuration allows is forwarded")
    func largestSection() async throws {
        let bench = try ProxyBench(plan: {
            ($0.limits.headerBytesMax, $0.limits.headerFieldsMax) = (1 << 20, 4096)
        })
        let line = "A: " + String(repeating: "v", count: 16_000) + "\r\n"
        let response = try await bench.ask(
            "GET / HTTP/1.1\r\nHost: localhost\r\n\(String(repeating: line, count: 60))\r\n")
        #expect(response.status == 200)
        #expect(bench.upstream.requests.first?.values("A").count == 60)
    }

    @Test("a head that does not come in time gets 408, a connection without a byte just ends")
    func timeouts() async throws {
        let bench = try ProxyBench(plan: {
            ($0.limits.headerTimeout, $0.limits.idleTimeout) = (.milliseconds(300), .milliseconds(300))
        })
        #expect(try await bench.askToEnd("") == "")
        #expect(try await bench.askToEnd("GET / HTTP/1.1\r\nHo").hasPrefix("HTTP/1.1 408 "))
        try await bench.talk { client throws in
            #expect(try client.exchange("GET", "/").status == 200)
            #expect(try client.readToEnd() == [])
        }
        try await bench.talk { client throws in
            #expect(try client.exchange("GET", "/").status == 200)
            try client.send("GET")
            #expect(try client.response().status == 408)
        }
    }
}
