import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import TestSupport
import Testing

/// Upstream connections on which a client has authenticated itself (http-connections.md 16.9).
@Suite struct ProxyBoundConnectionTests {
    /// A server that authenticates connections, as IIS does: who has sent a proof on a connection is served on it until its end.
    private static func bench(
        _ scheme: String = "NTLM", _ configure: (inout ProxyBench.Plan) -> Void = { _ in }
    ) throws -> ProxyBench {
        let names = Guarded<[Int: String]>([:])
        return try ProxyBench { request in
            let sent = request.message["Authorization"] ?? ""
            if sent.lowercased().hasPrefix("\(scheme.lowercased()) proof-of-") {
                names.withLock { $0[request.connection] = String(sent.dropFirst(scheme.count + 10)) }
            } else if sent.lowercased().hasPrefix("\(scheme.lowercased()) hello") {
                return .response(401, "Unauthorized", fields: [("WWW-Authenticate", "\(scheme) riddle")], body: "")
            }
            if request.message.target == "/open" { return .response(body: "open on \(request.connection)") }
            guard let name = names.withLock({ $0[request.connection] }) else {
                return .response(401, "Unauthorized", fields: [("WWW-Authenticate", scheme)], body: "")
            }
            let body = "\(name) on \(request.connection)"
            return request.message.target == "/last"
                ? .response(fields: [("Connection", "close")], body: body).closing : .response(body: body)
        } plan: {
            $0.route.injectHeader = "X-Token"
            $0.route.injectPrefix = ""
            configure(&$0)
        }
    }

    /// Both steps of a client's authentication. Returns what it gets then.
    private static func login(_ client: RawClient, _ name: String, _ scheme: String = "NTLM") throws -> String {
        let first = try client.exchange("GET", "/", fields: [("Authorization", "\(scheme) hello")])
        #expect(first.status == 401 && first["WWW-Authenticate"] == "\(scheme) riddle")
        return try client.exchange("GET", "/", fields: [("Authorization", "\(scheme) proof-of-\(name)")]).bodyText
    }

    @Test(
        "16.9 a connection that a client has authenticated carries this client's requests only, and ends with it",
        arguments: ["NTLM", "ntlm", "Negotiate", "nEGOTIATE", "Kerberos", "CredSSP", "Nego2"])
    func owned(_ scheme: String) async throws {
        let bench = try Self.bench(scheme)
        let alice = try RawClient(bench.endpoint)
        #expect(try Self.login(alice, "alice", scheme) == "alice on 0")
        // Without credentials, on the same connection.
        #expect(try alice.exchange("GET", "/").bodyText == "alice on 0")
        let bob = try RawClient(bench.endpoint)
        // All that follows waits for connections of their own.
        try #require(try bob.exchange("GET", "/").status == 401)
        #expect(try Self.login(bob, "bob", scheme) == "bob on 1")
        #expect(try alice.exchange("GET", "/").bodyText == "alice on 0")
        #expect(try bob.exchange("GET", "/").bodyText == "bob on 1")
        try await eventually("both are idle") {
            bench.count("lanyard_upstream_connections", ["state": "idle"]) == 2
        }
        alice.close()
        try await eventually("it ends with its client") { bench.upstream.openCount == 1 }
        bob.close()
        try await eventually("so does the other") { bench.upstream.openCount == 0 }
        #expect(try await bench.ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 401)
        // The step of a handshake is no refusal of our token.
        #expect(bench.tokens.refused == [])
    }

    @Test("16.9 client_authorization: pass is the same; with Lanyard's own Authorization connections are shared")
    func passed() async throws {
        let bench = try Self.bench {
            ($0.route.injectHeader, $0.route.injectPrefix) = ("Authorization", "Bearer ")
            $0.route.clientAuthorization = .pass
        }
        let alice = try RawClient(bench.endpoint)
        #expect(try Self.login(alice, "alice") == "alice on 0")
        let bob = try RawClient(bench.endpoint)
        #expect(try bob.exchange("GET", "/").status == 401)
        #expect(try alice.exchange("GET", "/").bodyText == "alice on 0")
        // Lanyard's own token went with it: the connection is nobody's.
        let other = try RawClient(bench.endpoint)
        #expect(try other.exchange("GET", "/open").bodyText == "open on 1")
        for client in [alice, bob, other] { client.close() }
    }

    @Test("16.9 a response that offers such a scheme, or says Persistent-Auth, binds its connection; others do not")
    func offered() async throws {
        for (fields, isBound) in [
            ([("WWW-Authenticate", "Negotiate")], true), ([("WWW-Authenticate", "Basic realm=\"a, b\", NTLM")], true),
            ([("www-authenticate", "Basic realm=x"), ("WWW-Authenticate", "ntlm TlRMTVNTUAAC")], true),
            ([("Persistent-Auth", "true")], true), ([("Persistent-Auth", "false")], false),
            ([("WWW-Authenticate", "Basic realm=\"x\"")], false), ([], false),
        ] as [([(String, String)], Bool)] {
            let bench = try ProxyBench { _ in
                .response(fields: fields)
            } plan: {
                $0.route.injectHeader = "X-Token"
            }
            let (first, second) = (try RawClient(bench.endpoint), try RawClient(bench.endpoint))
            for client in [first, second, first] { #expect(try client.exchange("GET", "/").status == 200) }
            #expect(bench.upstream.connectionCount == (isBound ? 2 : 1), "\(fields)")
            for client in [first, second] { client.close() }
        }
    }

    @Test(
        "16.9 the upstream's own end of such a connection leaves the client's open: its next request takes another one")
    func closed() async throws {
        let bench = try Self.bench()
        let alice = try RawClient(bench.endpoint)
        #expect(try Self.login(alice, "alice") == "alice on 0")
        #expect(try alice.exchange("GET", "/last").bodyText == "alice on 0")
        #expect(try alice.exchange("GET", "/").status == 401)
        #expect(try Self.login(alice, "alice") == "alice on 1")
        bench.upstream.closeAll()
        try await eventually("the end is seen") { bench.count("lanyard_upstream_connections") == 0 }
        #expect(try alice.exchange("GET", "/").status == 401)
        #expect(bench.upstream.connectionCount == 3)
        alice.close()
    }

    @Test("16.9 it is kept for as long as its client's connection, not for the idle time of the pool")
    func kept() throws {
        let bench = try Self.bench { $0.timeStands = true }
        let alice = try RawClient(bench.endpoint)
        #expect(try Self.login(alice, "alice") == "alice on 0")
        bench.pass(.seconds(60))
        #expect(try alice.exchange("GET", "/").bodyText == "alice on 0")
        bench.pass(.seconds(3_600))
        #expect(bench.count("lanyard_upstream_connections") == 0)
    }

    @Test("16.9 at connections_max it makes room for a request that waits, as any idle connection")
    func limit() async throws {
        let bench = try Self.bench { $0.upstream.connectionsMax = 1 }
        let alice = try RawClient(bench.endpoint)
        #expect(try Self.login(alice, "alice") == "alice on 0")
        let bob = try RawClient(bench.endpoint)
        #expect(try Self.login(bob, "bob") == "bob on 1")
        #expect(try alice.exchange("GET", "/").status == 401)
        for client in [alice, bob] { client.close() }
    }

    @Test(
        "16.9 a user's other account or another user never gets it, also where users share connections",
        arguments: [false, true])
    func users(_ sharesConnections: Bool) async throws {
        let bench = try Self.bench { $0.upstream.sharesConnections = sharesConnections }
        let alice = try RawClient(bench.endpoint)
        #expect(try Self.login(alice, "alice") == "alice on 0")
        let bob = bench.names.index(of: "bob")
        let secret = Array("token.of.bob".utf8).withUnsafeBytes { Secret(copying: $0) }
        let token = AccessToken(
            user: bob, generation: 1, token: secret, waitsFrom: .never, usableUntil: .now + .seconds(600))
        bench.path.publish(.token(token), for: bob)
        bench.path.activate(bob)
        bench.settle()
        #expect(try alice.exchange("GET", "/").status == 401)
        #expect(bench.upstream.connectionCount == 2)
        try await eventually("the former user's is closed") { bench.upstream.openCount == 1 }
        alice.close()
    }

    @Test(
        "16.1 where users share connections, one on which the upstream offers NTLM to Lanyard's own token serves one client"
    )
    func offeredToAll() async throws {
        let bench = try ProxyBench { request in
            .response(
                fields: request.message.target == "/offer" ? [("WWW-Authenticate", "Negotiate")] : [],
                body: "on \(request.connection)")
        } plan: {
            $0.upstream.sharesConnections = true
        }
        let (one, other) = (try RawClient(bench.endpoint), try RawClient(bench.endpoint))
        #expect(try one.exchange("GET", "/").bodyText == "on 0" && other.exchange("GET", "/").bodyText == "on 0")
        #expect(try one.exchange("GET", "/offer").bodyText == "on 0")
        #expect(try other.exchange("GET", "/").bodyText == "on 1")
        #expect(try one.exchange("GET", "/").bodyText == "on 0")
        for client in [one, other] { client.close() }
    }

    @Test("16.9 a reload that replaces the upstream closes it; one that keeps it keeps it")
    func reload() async throws {
        let bench = try Self.bench()
        let alice = try RawClient(bench.endpoint)
        #expect(try Self.login(alice, "alice") == "alice on 0")
        bench.apply(bench.settings)
        #expect(try alice.exchange("GET", "/").bodyText == "alice on 0")
        var settings = bench.settings
        settings.routes[0].upstream.timeouts.connect = .seconds(7)
        bench.apply(settings)
        try await eventually("it is closed") { bench.upstream.openCount == 0 }
        #expect(try alice.exchange("GET", "/").status == 401)
        alice.close()
    }

    @Test("16.9 a client that asks for the close, or is early with its response, leaves no connection to anybody")
    func ends() async throws {
        let bench = try Self.bench()
        let alice = try RawClient(bench.endpoint)
        #expect(try Self.login(alice, "alice") == "alice on 0")
        #expect(try alice.exchange("GET", "/", fields: [("Connection", "close")]).bodyText == "alice on 0")
        try await eventually("it is closed") { bench.upstream.openCount == 0 }
        let bob = try RawClient(bench.endpoint)
        #expect(try Self.login(bob, "bob") == "bob on 1")
        // The rest of the body never comes.
        try bob.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc")
        try await eventually("it has begun") { bench.received.last?.hasSuffix("abc") == true }
        bob.reset()
        try await eventually("that one, too") { bench.upstream.openCount == 0 }
        #expect(try await bench.ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 401)
        alice.close()
    }

    @Test("16.9 a refused token is renewed and the request replayed on the client's own connection")
    func replayed() async throws {
        let isAuthenticated = Guarded<Set<Int>>([])
        let bench = try ProxyBench { request in
            if request.message["Authorization"] != nil {
                isAuthenticated.withLock { _ = $0.insert(request.connection) }
            }
            let isKnown = isAuthenticated.withLock { $0.contains(request.connection) }
            guard request.message["X-Token"] != ProxyBench.token || request.message.target != "/again" else {
                return .response(401, "Unauthorized", body: "no")
            }
            return .response(body: isKnown ? "known on \(request.connection)" : "unknown")
        } plan: {
            ($0.route.injectHeader, $0.route.injectPrefix) = ("X-Token", "")
        }
        bench.renews()
        let alice = try RawClient(bench.endpoint)
        let proof = [("Authorization", "Negotiate proof")]
        #expect(try alice.exchange("GET", "/", fields: proof).bodyText == "known on 0")
        #expect(try alice.exchange("GET", "/again").bodyText == "known on 0")
        #expect(bench.tokens.refused == [1])
        #expect(try await bench.ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").bodyText == "unknown")
        alice.close()
    }
}
