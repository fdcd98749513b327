import TestSupport
import Testing

@testable import SystemTestSupport

/// Routes, limits, listeners and the access log at a reload: new requests are served by the new configuration, also on
/// connections that stay, and requests in progress end as they began (architecture-control.md 7.9).
@Suite struct ReloadRouteTests {
    private static func named(_ name: String) -> RawServer.Script { { _ in .response(body: name) } }

    /// One request on a connection that stays open.
    private static func ask(
        _ client: RawClient, _ path: String, _ lanyard: ReloadedLanyard, fields: [(String, String)] = []
    ) async throws -> RawMessage {
        try client.exchange("GET", path, host: "\(lanyard.process.data)", fields: fields)
    }

    @Test("another upstream, a new route and a removed one are used by the next request of a connection that stays")
    func routes() async throws {
        let lanyard = try await ReloadedLanyard(Self.named("first"))
        let (second, third) = (try RawServer(script: Self.named("second")), try RawServer(script: Self.named("third")))
        let client = try RawClient(lanyard.process.data)
        #expect(try await Self.ask(client, "/", lanyard).bodyText == "first")
        let more = "{name: new, match: {path: /new}, upstream: \"http://\(third.endpoint)\"}"
        try lanyard.configure(to: second, more: [more])
        try await lanyard.reload(applies: "routes[0].upstream", "routes[1]")
        #expect(try await Self.ask(client, "/", lanyard).bodyText == "second")
        #expect(try await Self.ask(client, "/new/x", lanyard).bodyText == "third")
        // Idle connections to an upstream that no route has any more are closed.
        try await eventually("the first upstream has no connection") { lanyard.upstream.openCount == 0 }
        try lanyard.configure(to: second, route: ", match: {path: /only}")
        try await lanyard.reload(applies: "routes[0].match.path", "routes[1]")
        #expect(try await Self.ask(client, "/new/x", lanyard).status == 404)
        #expect(try await Self.ask(client, "/only", lanyard).bodyText == "second")
        // A route that keeps its upstream keeps the connection to it, and its counters.
        #expect(second.connectionCount == 1)
        let sample = #"lanyard_requests_total{route="all",code_class="2xx",origin="upstream"} 3"#
        try await eventually(sample) {
            try await RawClient.ask(lanyard.process.health, "GET", "/metrics").bodyText.contains(sample + "\n")
        }
    }

    @Test("a request in progress, its upload and a tunnel continue to the upstream that they began with")
    func inProgress() async throws {
        let gate = Milestone()
        let lanyard = try await ReloadedLanyard { request in
            if request.message.target == "/tunnel" {
                return .text("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
            }
            // In the tunnel.
            if request.message.target == "/ping" { return .response(body: "pong") }
            gate.wait(for: "the reload")
            return .response(body: "first")
        }
        let other = try RawServer(script: Self.named("second"))
        let host = "\(lanyard.process.data)"
        let (slow, upload) = (try RawClient(lanyard.process.data), try RawClient(lanyard.process.data))
        let tunnel = try RawClient(lanyard.process.data)
        try slow.send("GET /slow HTTP/1.1\r\nHost: \(host)\r\n\r\n")
        try upload.send("POST /upload HTTP/1.1\r\nHost: \(host)\r\nContent-Length: 10\r\n\r\n01234")
        try tunnel.send(
            "GET /tunnel HTTP/1.1\r\nHost: \(host)\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
        let switched = try tunnel.response().status
        #expect(switched == 101)
        try await eventually("the upstream has them") { lanyard.upstream.openCount == 3 }
        try lanyard.configure("limits: {header_bytes_max: 1KiB}\nlog: {access: false}", to: other)
        try await lanyard.reload(applies: "routes[0].upstream", "limits.header_bytes_max")
        try upload.send("56789")
        gate.set()
        let responses = [try slow.response().bodyText, try upload.response().bodyText]
        #expect(responses == ["first", "first"])
        let pong = try tunnel.exchange("GET", "/ping").bodyText
        #expect(pong == "pong")
        #expect(try await Self.ask(slow, "/", lanyard).bodyText == "second")
        tunnel.close()
        try await eventually("no connection of the former upstream is left") { lanyard.upstream.openCount == 0 }
    }

    @Test("limits apply to the next request and the next connection; lower ones close nothing")
    func limits() async throws {
        let lanyard = try await ReloadedLanyard()
        let (one, two) = (try RawClient(lanyard.process.data), try RawClient(lanyard.process.data))
        let long = String(repeating: "x", count: 2000)
        #expect(try await Self.ask(one, "/", lanyard, fields: [("Long", long)]).status == 200)
        #expect(try await Self.ask(two, "/", lanyard).status == 200)
        try lanyard.configure(
            """
            limits: {header_bytes_max: 1KiB, header_fields_max: 8, connections_max: 1, connections_per_peer_max: 1,
              buffer_bytes_max: 1MiB, parked_requests_max: 3, idle_timeout: 20s, requests_per_connection_max: 3}
            log: {access: false}
            """)
        #expect(try await lanyard.reload().status == 200)
        #expect(try await Self.ask(two, "/", lanyard).status == 200)
        #expect(try await Self.ask(one, "/", lanyard, fields: [("Long", long)]).status == 431)
        let third = try await Self.ask(two, "/", lanyard, fields: (0..<9).map { ("F\($0)", "x") })
        #expect(third.status == 431)
        // One of a peer, and one at all, from now on.
        one.close()
        two.close()
        try await eventually("both have ended") { try await lanyard.process.metric("lanyard_client_connections") == 0 }
        let only = try RawClient(lanyard.process.data)
        #expect(try await Self.ask(only, "/", lanyard).status == 200)
        let beyond = try RawClient(lanyard.process.data)
        #expect(try beyond.response().status == 503)
        try lanyard.configure("limits: {header_fields_max: 300}\nlog: {access: false}")
        #expect(try await lanyard.reload().status == 200)
        let many = try await Self.ask(only, "/", lanyard, fields: (0..<250).map { ("F\($0)", "x") })
        #expect(many.status == 200)
        let more = try RawClient(lanyard.process.data)
        #expect(try await Self.ask(more, "/", lanyard, fields: (0..<250).map { ("F\($0)", "x") }).status == 200)
    }

    @Test("what a listener demands of its callers applies to the next request of a connection that stays")
    func listener() async throws {
        let clock = try TestClock()
        let lanyard = try await ReloadedLanyard(under: clock)
        let client = try RawClient(lanyard.process.data)
        #expect(try await Self.ask(client, "/", lanyard).status == 200)
        let words = ["a", "b"].map { String(repeating: $0, count: 40) }
        let files = try words.map { try lanyard.process.folder.write("capability-\($0.prefix(1))", $0) }
        try lanyard.configure(listener: ", required_header: Lanyard-Request, capability_file: \(files[0])")
        try await lanyard.reload(applies: "listeners[0].capability_file", "listeners[0].required_header")
        #expect(try await Self.ask(client, "/", lanyard).status == 403)
        let called = ("Lanyard-Request", "1")
        let fields = words.map { [called, ("Lanyard-Capability", $0)] }
        #expect(try await Self.ask(client, "/", lanyard, fields: fields[0]).status == 200)
        #expect(try await Self.ask(client, "/", lanyard, fields: [fields[0][1]]).status == 403)
        try lanyard.configure(listener: ", required_header: Lanyard-Request, capability_file: \(files[1])")
        try await lanyard.reload(applies: "listeners[0].capability_file")
        #expect(try await Self.ask(client, "/", lanyard, fields: fields[0]).status == 403)
        #expect(try await Self.ask(client, "/", lanyard, fields: fields[1]).status == 200)
        // The new file is watched.
        try lanyard.process.folder.write("capability-b", words[0])
        try await clock.pass(until: "the changed capability counts", grain: .milliseconds(500)) {
            try await Self.ask(client, "/", lanyard, fields: fields[0]).status == 200
        }
        try lanyard.process.folder.write("short", "short")
        try lanyard.configure(listener: ", capability_file: \(lanyard.process.folder.file("short"))")
        let short = try await lanyard.reload()
        #expect(short.status == 422 && short.bodyText.contains("fewer than 32 characters"), "\(short.bodyText)")
        #expect(try await Self.ask(client, "/", lanyard).status == 403)
        try lanyard.configure(listener: ", allowed_hosts: [other.test]")
        #expect(try await lanyard.reload().status == 200)
        #expect(try await Self.ask(client, "/", lanyard).status == 421)
    }

    @Test("a route may pin a user that does not exist yet: its requests say so, and readiness sees it")
    func pinned() async throws {
        let lanyard = try await ReloadedLanyard()
        try lanyard.configure(more: [
            "{name: new, match: {path: /new}, user: bob, upstream: \"http://\(lanyard.upstream.endpoint)\"}"
        ])
        try await lanyard.reload(applies: "routes[1]")
        let refused = try await lanyard.process.get("/new")
        #expect(refused.status == 503 && refused.bodyText.contains("bob"), "\(refused.bodyText)")
        #expect(try await lanyard.process.readiness().status == 503)
        try lanyard.configure("login_required_status: 401\nlog: {access: false}")
        try await lanyard.reload(applies: "routes[1]", "login_required_status")
        try await lanyard.process.untilReady()
    }

    @Test("the access log begins and ends")
    func accessLog() async throws {
        let lanyard = try await ReloadedLanyard()
        let count = { lanyard.process.process.lines.count { $0.event == "access" } }
        for round in 1...3 {
            #expect(try await lanyard.process.get("/silent").status == 200)
            try lanyard.configure("log: {access: true}")
            try await lanyard.reload(applies: "log.access")
            #expect(try await lanyard.process.get("/logged").status == 200)
            try await eventually("a line for each round") { count() == round }
            try lanyard.configure("log: {access: false}")
            try await lanyard.reload(applies: "log.access")
        }
        #expect(!lanyard.process.process.log.contains("/silent"))
    }

    @Test("TLS of an upstream: added, with a wrong file refused as a whole, and taken away")
    func upstreamTLS() async throws {
        let clock = try TestClock()
        let lanyard = try await ReloadedLanyard(Self.named("plain"), under: clock)
        let authority = TestAuthority("An authority")
        let relay = try TLSRelay(.server(authority.issue("IP:127.0.0.1")), before: lanyard.upstream.endpoint)
        let file = try lanyard.process.folder.write("ca.pem", authority.pem)
        let tls = { (file: String) in
            "{name: tls, match: {path: /tls}, upstream: \"https://\(relay.endpoint)\", tls: {ca_file: \(file)}}"
        }
        try lanyard.configure(more: [tls(lanyard.process.folder.file("none.pem"))])
        #expect(try await lanyard.reload().status == 422)
        try await lanyard.isUnchanged()
        try lanyard.process.folder.write("broken.pem", "-----BEGIN CERTIFICATE-----")
        try lanyard.configure(more: [tls(lanyard.process.folder.file("broken.pem"))])
        #expect(try await lanyard.reload().status == 422)
        try lanyard.configure(more: [tls(file)])
        try await lanyard.reload(applies: "routes[1]")
        #expect(try await lanyard.process.get("/tls").status == 200)
        let other = try lanyard.process.folder.write("other.pem", TestAuthority("Another authority").pem)
        try lanyard.configure(more: [tls(other)])
        try await lanyard.reload(applies: "routes[1].tls.ca_file")
        #expect(try await lanyard.process.get("/tls").status == 502)
        // The new file is watched.
        try lanyard.process.folder.write("other.pem", authority.pem)
        try await clock.pass(until: "the right authority is trusted", grain: .milliseconds(500)) {
            try await lanyard.process.get("/tls").status == 200
        }
        try lanyard.configure()
        try await lanyard.reload(applies: "routes[1]")
        #expect(try await lanyard.process.get("/tls").status == 200)
        #expect(try await lanyard.process.get("/tls").bodyText == "plain")
    }
}
