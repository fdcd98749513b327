import TestSupport
import Testing

@testable import SystemTestSupport

/// "Another account is logged in for our user. What the first one began is not finished by the second one." The accounts are those of a
/// real server's ID tokens; a script is the browser.
@Suite(.enabled(if: GlewlwydServer.isThere, "needs deploy/peer-servers glewlwyd"))
struct AccountOfLoginTests {
    /// Lanyard with one user of the server before an upstream of raw sockets.
    private struct Bench {
        let server: GlewlwydServer
        let upstream: RawSocket
        let callback: RawServer
        let lanyard: LanyardProcess
        let admin: AdminClient
        let folder: TemporaryFolder

        static func start() async throws -> Bench {
            let server = try await GlewlwydServer.start(lifetime: 3600)
            let folder = try TemporaryFolder()
            let (upstream, callback) = (try RawSocket.listen(at: .tcp(0)), try RawServer())
            let socket = folder.file("admin.sock")
            let yaml = """
                identities:
                  corp:
                    oauth2:
                      issuer: "\(server.issuer)"
                      client_id: lanyard
                      client_secret_file: \(try folder.write("secret", "s3cret"))
                      scopes: [openid, api]
                users: {operator: {identity: corp, login: {authorization_code: {}}}}
                routes: [{upstream: "http://127.0.0.1:\(upstream.localPort)", user: operator}]
                shards: 1

                """
            let lanyard = try await LanyardProcess.start(yaml, admin: "{address: \"unix:\(socket)\"}")
            let bench = Bench(
                server: server, upstream: upstream, callback: callback, lanyard: lanyard,
                admin: AdminClient(endpoint: .unix(socket)), folder: folder)
            try await bench.browse("register", bench.redirect)
            return bench
        }

        private var redirect: String { "http://\(callback.endpoint)/callback" }

        private func browse(_ arguments: String...) async throws {
            let script = Products.root + "/Tests/SystemSessionTests/OAuth/Peer/glewlwyd_browser.py"
            _ = try await PythonProcess.run(
                ["-B", script, arguments[0], "http://\(server.endpoint)"] + arguments.dropFirst())
        }

        /// An operator logs the user in, and this account of the server confirms it.
        func logIn(as account: String) async throws {
            let path = "/v1/users/operator/login"
            let login = try await admin.call("POST", path, #"{"redirect_uri":"\#(redirect)"}"#)
            try await browse("code", try #require(login["authorization_uri"].string), account)
            let query = try #require(callback.requests.last?.target.split(separator: "?", maxSplits: 1).last)
            let own = path + "/" + (login["id"].string ?? "")
            try await admin.call("POST", own, #"{"query":"\#(query)"}"#)
            try await eventually("the login as \(account) is done") {
                try await admin.call("GET", own)["status"].string == "done"
            }
        }

        /// Sends the head of a request on a connection of its own.
        func send(_ head: String, body: String = "") async throws -> Wire {
            let client = try await Wire.connect(to: lanyard.data)
            try await client.send("\(head)\r\nHost: \(lanyard.data)\r\n\r\n\(body)")
            return client
        }

        /// The next connection of the upstream.
        func accept() throws -> Wire { Wire(try #require(upstream.accept())) }

        func stop() async throws {
            try await lanyard.process.terminate()
            try await server.stop()
        }
    }

    /// What a first account has begun: an upgraded connection, a request that waits for its response, and an idle connection.
    private struct Begun {
        let tunnel: (client: Wire, upstream: Wire)
        let post: (client: Wire, upstream: Wire)
        let idle: Wire
        let token: String

        init(_ bench: Bench) async throws {
            let client = try await bench.send("GET /ws HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade")
            tunnel = (client, try bench.accept())
            _ = try await tunnel.upstream.head()
            try await tunnel.upstream.send(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
            #expect(try await client.head().hasPrefix("HTTP/1.1 101 "))
            post = (
                try await bench.send("POST /order HTTP/1.1\r\nContent-Length: 5", body: "order"), try bench.accept()
            )
            #expect(try await post.upstream.request()?.bodyText == "order")
            let get = try await bench.send("GET /first HTTP/1.1")
            idle = try bench.accept()
            token = try await Self.token(of: idle)
            try await idle.send(Self.done)
            #expect(try await get.response().status == 200)
        }

        static let done = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        static let refused =
            "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer error=\"invalid_token\"\r\nContent-Length: 0\r\n\r\n"

        static func token(of connection: Wire) async throws -> String {
            let head = try await connection.head()
            let line = head.split(separator: "\r\n").first { $0.lowercased().hasPrefix("authorization: bearer ") }
            return String(try #require(line))
        }
    }

    @Test(
        "17.5 An operator's login as another account: the waiting POST is not sent again, the WebSocket ends, a new connection serves"
    )
    func another() async throws {
        let bench = try await Bench.start()
        try await bench.logIn(as: "alice")
        let begun = try await Begun(bench)
        try await bench.logIn(as: "bob")
        for end in [begun.tunnel.client, begun.tunnel.upstream] { #expect(try await end.rest() == ("", false)) }
        try await begun.post.upstream.send(Begun.refused)
        let response = try await begun.post.client.response(to: "POST")
        #expect(response.status == 401)
        #expect(response["Proxy-Status"]?.contains("replay-not-possible: session replaced") == true)
        let page = try await RawClient.ask(bench.lanyard.health, "GET", "/metrics").bodyText
        #expect(page.contains("lanyard_replays_total{result=\"session_replaced\"} 1"))
        #expect(page.contains("lanyard_replays_total{result=\"replayed\"} 0"))
        let get = try await bench.send("GET /second HTTP/1.1")
        let second = try bench.accept()
        #expect(try await Begun.token(of: second) != begun.token)
        try await second.send(Begun.done)
        #expect(try await get.response().status == 200)
        #expect(try await begun.idle.rest() == ("", false))
        _ = try await bench.lanyard.process.event("session.account.changed")
        try await bench.stop()
    }

    @Test("an operator's login as the same account: the POST is sent again, the WebSocket and the connections stay")
    func same() async throws {
        let bench = try await Bench.start()
        try await bench.logIn(as: "alice")
        try await continues(bench)
        // No tunnel is left that the end of the process would wait for.
        try await bench.stop()
    }

    private func continues(_ bench: Bench) async throws {
        let begun = try await Begun(bench)
        try await bench.logIn(as: "alice")
        try await begun.post.upstream.send(Begun.refused)
        let again = try bench.accept()
        let request = try #require(try await again.request())
        #expect(request.bodyText == "order")
        #expect(request["Authorization"].map { begun.token.hasSuffix($0) } == false)
        try await again.send(Begun.done)
        #expect(try await begun.post.client.response(to: "POST").status == 200)
        try await begun.tunnel.client.send("still here")
        #expect(try await begun.tunnel.upstream.read(10) == "still here")
        #expect(!bench.lanyard.process.lines.compactMap(\.event).contains("session.account.changed"))
    }
}
