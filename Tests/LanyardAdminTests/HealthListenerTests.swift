import Dispatch
import Glibc
import LanyardAdmin
import TestSupport
import Testing

@Suite struct HealthListenerTests {
    @Test("every page answers, with no-store and a whole body")
    func pages() async throws {
        let server = try HealthServer()
        for path in ["/livez", "/healthz", "/readyz", "/readyz/alice", "/startupz", "/readyz?verbose=1"] {
            let response = try await server.ask("GET", path)
            #expect(response.status == 200, "\(path)")
            #expect(response["Cache-Control"] == "no-store")
            #expect(response["Content-Type"] == "application/json")
            #expect(try response.json["status"].string == "ready")
        }
        #expect(try await server.ask("GET", "/readyz/zoe").status == 404)
        #expect(try await server.ask("GET", "/nowhere").status == 404)
        #expect(try await server.ask("GET", "/readyz/zoe").json["type"].string == "urn:lanyard:problem:no-such-user")
    }

    @Test("the facts of the moment decide, and a start is remembered")
    func facts() async throws {
        let server = try HealthServer()
        #expect(try await server.ask("GET", "/startupz").status == 200)
        server.change {
            $0.users = [.init(name: "alice", isReady: false, reason: "login_required", hasBeenReady: false)]
        }
        #expect(try await server.ask("GET", "/readyz").status == 503)
        #expect(try await server.ask("GET", "/readyz/alice").json["checks"][0]["reason"].string == "login_required")
        #expect(try await server.ask("GET", "/startupz").status == 200)
        #expect(try await server.ask("GET", "/livez").status == 200)
    }

    @Test("metrics come in the format that was asked for")
    func metrics() async throws {
        let server = try HealthServer()
        let plain = try await server.ask("GET", "/metrics")
        #expect(plain["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8")
        let read = try ExpositionReader(plain.body, openMetrics: false)
        #expect(read["lanyard_requests_total", ["route": "a"]] == 3)
        #expect(read["lanyard_build_info", ["version": "1.2.3", "commit": "abc"]] == 1)
        #expect(read["lanyard_health_connections", [:]] == 1)
        let open = try await HealthServer().ask("GET", "/metrics", fields: [("Accept", "application/openmetrics-text")])
        #expect(open["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8")
        _ = try ExpositionReader(open.body, openMetrics: true)
    }

    @Test("HEAD gets the head alone, other methods 405 with Allow")
    func methods() async throws {
        let server = try HealthServer()
        let head = try await server.ask("HEAD", "/readyz")
        #expect(head.status == 200)
        #expect(head.body == [])
        #expect(head["Content-Length"] == "\(try await server.ask("GET", "/readyz").body.count)")
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"] {
            let response = try await server.ask(method, "/readyz")
            #expect(response.status == 405)
            #expect(response["Allow"] == "GET, HEAD")
        }
    }

    @Test("web pages read neither health nor metrics; an address typed into a browser does")
    func webPages() async throws {
        let server = try HealthServer()
        for field in [
            ("Origin", "http://evil.example"), ("Origin", "null"), ("Sec-Fetch-Site", "cross-site"),
            ("Sec-Fetch-Site", "same-site"),
        ] {
            for path in ["/livez", "/readyz", "/metrics"] {
                let response = try await server.ask("GET", path, fields: [field])
                #expect(response.status == 403, "\(path) \(field)")
                #expect(try response.json["type"].string == "urn:lanyard:problem:origin-not-allowed")
            }
        }
        for value in ["none", "same-origin"] {
            #expect(try await server.ask("GET", "/readyz", fields: [("Sec-Fetch-Site", value)]).status == 200)
        }
    }

    @Test("a kept connection answers one request after another, pipelined ones in order")
    func pipelining() async throws {
        let server = try HealthServer()
        let client = try RawClient(server.endpoint)
        let one = "GET /livez HTTP/1.1\r\nHost: localhost:\(server.endpoint.port)\r\n\r\n"
        let other = one.replacing("/livez", with: "/nowhere")
        var statuses: [Int] = []
        // More than one turn's share, cut at an odd place.
        let bytes = Array(String(repeating: one + other, count: 40).utf8)
        try client.send(Array(bytes[..<1001]))
        for _ in 0..<5 { statuses.append(try client.response().status) }
        try client.send(Array(bytes[1001...]))
        while statuses.count < 80 { statuses.append(try client.response().status) }
        #expect(statuses == Array(repeating: [200, 404], count: 40).flatMap(\.self))
    }

    @Test("a client that ends its direction still gets its responses")
    func halfClose() async throws {
        let server = try HealthServer()
        let client = try RawClient(server.endpoint)
        try client.send(String(repeating: "GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", count: 20) + "GET /li")
        client.halfClose()
        let bytes = try client.readToEnd()
        #expect(String(decoding: bytes, as: UTF8.self).split(separator: "HTTP/1.1 200 OK").count == 20)
    }

    @Test("HTTP/1.0 needs no Host, closes, and stays only when asked")
    func http10() async throws {
        let server = try HealthServer()
        let client = try RawClient(server.endpoint)
        try client.send("GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        let first = try client.response()
        try client.send("GET /livez HTTP/1.0\r\n\r\n")
        let second = try client.response()
        #expect(try client.readToEnd() == [])
        #expect(first["Connection"] == "keep-alive")
        #expect(second["Connection"] == "close")
    }

    @Test(
        "who is named by a foreign name is turned away, any IP literal is not",
        arguments: [
            ("evil.example", 421), ("localhost:1", 421), ("localhost", 421), ("127.0.0.1", 200), ("10.1.2.3:8080", 200),
            ("[fd00::1]:7401", 200), ("[::1]", 200), ("127.0.0.1.evil.example", 421), ("a b", 400), ("", 400),
            ("127.0.0.1:99999", 400),
        ])
    func hosts(host: String, status: Int) async throws {
        let server = try HealthServer()
        let response = try RawClient(server.endpoint).exchange("GET", "/livez", host: host)
        #expect(response.status == status)
    }

    @Test(
        "hosts of allowed_hosts are allowed besides, by name and port",
        arguments: [
            ("lanyard:PORT", 200), ("LANYARD:PORT", 200), ("lanyard", 200), ("lanyard:80", 200), ("lanyard:1", 421),
            ("metrics.test:9401", 200), ("metrics.test", 421), ("metrics.test:PORT", 421), ("evil.example:PORT", 421),
            ("lanyard.evil.example:PORT", 421), ("127.0.0.1", 200), ("localhost:PORT", 200), ("localhost", 421),
        ])
    func allowedHosts(host: String, status: Int) async throws {
        let server = try HealthServer(allowedHosts: ["Lanyard", "metrics.test:9401"])
        let named = host.replacing("PORT", with: "\(server.endpoint.port)")
        #expect(try RawClient(server.endpoint).exchange("GET", "/metrics", host: named).status == status)
    }

    @Test("a reload's allowed_hosts replace the former ones, on open connections as well")
    func reloadedHosts() async throws {
        let server = try HealthServer(allowedHosts: ["a.test"])
        let client = try RawClient(server.endpoint)
        #expect(try client.exchange("GET", "/livez", host: "a.test").status == 200)
        server.allow(["b.test"])
        #expect(try client.exchange("GET", "/livez", host: "b.test").status == 200)
        let refused = try client.exchange("GET", "/livez", host: "a.test")
        #expect(refused.status == 421)
        #expect(try refused.json["detail"].string?.contains("health.allowed_hosts") == true)
        #expect(try RawClient(server.endpoint).exchange("GET", "/livez", host: "127.0.0.1").status == 200)
    }

    @Test("an absolute target's authority counts in place of Host")
    func absolute() async throws {
        let server = try HealthServer()
        let port = server.endpoint.port
        for (target, status) in [
            ("http://localhost:\(port)/livez", 200), ("http://evil.example/livez", 421), ("ftp://a/livez", 400),
            ("*", 400),
        ] {
            let response = try RawClient(server.endpoint).exchange("GET", target, host: "127.0.0.1")
            #expect(response.status == status, "\(target)")
        }
    }

    @Test(
        "a malformed or oversized request is refused and the connection closed",
        arguments: [
            ("GET /livez HTTP/1.1\nHost: a\n\n", 400), ("GET /livez HTTP/1.1\r\nHost : a\r\n\r\n", 400),
            ("GET /livez HTTP/1.1\r\n\r\n", 400),
            ("GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n\r\n", 400),
            ("GET /livez HTTP/2.0\r\nHost: 127.0.0.1\r\n\r\n", 505), ("\u{16}\u{3}\u{1}\u{2}", 400),
            ("GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            ("GET /" + String(repeating: "a", count: 3_000), 414),
            ("GET / HTTP/1.1\r\nX: " + String(repeating: "a", count: 5_000), 431),
            ("GET / HTTP/1.1\r\n" + String(repeating: "X: a\r\n", count: 100) + "\r\n", 431),
        ])
    func malformed(request: String, status: Int) async throws {
        let server = try HealthServer()
        let client = try RawClient(server.endpoint)
        // What follows a fault is never read as a request.
        try client.send(request + "GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        let (response, rest) = (try client.response(), try client.readToEnd())
        #expect(response.status == status)
        #expect(response["Connection"] == "close")
        #expect(rest == [])
    }

    @Test("a request with a body is answered, its body not read, the connection closed")
    func body() async throws {
        let server = try HealthServer()
        let client = try RawClient(server.endpoint)
        try client.send("GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 60000\r\n\r\n")
        let response = try client.response()
        try client.send([UInt8](repeating: 0x61, count: 60_000))
        let rest = try client.readToEnd()
        #expect(response.status == 200)
        #expect(response["Connection"] == "close")
        #expect(rest == [])
    }

    @Test("a unix socket answers whatever the Host, and its path is gone afterwards")
    func unix() async throws {
        let folder = try TemporaryFolder()
        let path = folder.file("health.sock")
        do {
            let server = try HealthServer(unixPath: path)
            #expect(try await server.ask("GET", "/livez").status == 200)
        }
        #expect(access(path, F_OK) != 0)
    }

    @Test("a control plane that hangs costs liveness, and gets it back")
    func watchdog() async throws {
        let server = try HealthServer(timeStands: true)
        server.pass(.seconds(3600))
        #expect(try await server.ask("GET", "/livez").status == 200)
        server.controlPlane.suspend()
        // The latest heartbeat came at the end of that hour.
        server.pass(.seconds(10) - .nanoseconds(1))
        #expect(try await server.ask("GET", "/livez").status == 200)
        server.pass(.nanoseconds(1))
        #expect(try await server.ask("GET", "/livez").status == 503)
        #expect(try await server.ask("GET", "/livez").json["checks"][0]["name"].string == "watchdog")
        server.controlPlane.resume()
        server.pass(.zero)
        #expect(try await server.ask("GET", "/livez").status == 200)
    }
}
