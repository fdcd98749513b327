import Glibc
import LanyardAdmin
import LanyardFoundations
import TestSupport
import Testing

/// Who may call: over TCP with the token, and never a web page.
@Suite struct AdminTCPTests {
    private static let bearer = "Authorization: Bearer \(AdminServer.token)\r\n"

    private static func ask(_ server: AdminServer, _ head: String) async throws -> RawMessage {
        try await server.talk { client in
            try client.send(head)
            return try client.response()
        }
    }

    @Test("with the token a call is answered")
    func token() async throws {
        let server = try AdminServer(isTCP: true)
        #expect(try await server.ask("GET", "/v1/status").status == 200)
        let odd = "GET /v1/users HTTP/1.1\r\nHost: localhost:\(server.endpoint.port)\r\n"
        #expect(try await Self.ask(server, odd + "authorization: bEaReR  \(AdminServer.token)\r\n\r\n").status == 200)
    }

    @Test(
        "without it, or with another one, 401",
        arguments: [
            "", "Authorization: Bearer \r\n", "Authorization: Bearer wrong\r\n",
            "Authorization: \(AdminServer.token)\r\n",
            "Authorization: Basic \(AdminServer.token)\r\n", "Authorization: Bearer \(AdminServer.token)x\r\n",
            bearer + bearer, "X-Authorization: Bearer \(AdminServer.token)\r\n",
        ])
    func noToken(_ field: String) async throws {
        var limits = AdminLimits()
        limits.connections.headTimeout = .seconds(86_400)
        let server = try AdminServer(isTCP: true, limits: limits, timeStands: true)
        let host = "Host: \(server.endpoint)\r\n"
        for start in ["GET /v1/status", "POST /v1/shutdown", "GET /nowhere"] {
            let response = try await server.talk { client in
                try client.send("\(start) HTTP/1.1\r\n\(host)\(field)\r\n")
                // A guess is answered late.
                try blockUntil("the response has come") {
                    server.pass(.milliseconds(100))
                    return client.socket.use { descriptor in
                        var byte: UInt8 = 0
                        return recv(descriptor, &byte, 1, CInt(MSG_PEEK) | CInt(MSG_DONTWAIT)) > 0
                    } ?? true
                }
                return try client.response()
            }
            #expect(response.status == 401)
            #expect(try AdminServer.problem(response) == "admin-token-required")
            #expect(response["WWW-Authenticate"] == "Bearer realm=\"lanyard\"")
        }
        #expect(server.stopCount == 0)
        #expect(server.log.lines("admin.refused").count == 3)
        #expect(!server.log.text.contains(AdminServer.token))
    }

    @Test("a token file that cannot be read lets no client in, and a new one counts soon")
    func tokenFile() async throws {
        let folder = try TemporaryFolder()
        let server = try AdminServer(isTCP: true, tokenFile: folder.file("later"))
        #expect(try await server.ask("GET", "/v1/status").status == 401)
        server.pass(.seconds(20))
        #expect(server.log.lines("admin.token.failed").count == 1)
        try folder.write("later", AdminServer.token)
        server.pass(FileWatch.interval + FileSettling.settlingDelay)
        #expect(try await server.ask("GET", "/v1/status").status == 200)
    }

    @Test(
        "another Host is not ours: a name that leads here is how a web page comes",
        arguments: ["evil.example", "127.0.0.1"])
    func host(_ host: String) async throws {
        let server = try AdminServer(isTCP: true)
        let response = try await Self.ask(server, "GET /v1/status HTTP/1.1\r\nHost: \(host)\r\n\(Self.bearer)\r\n")
        #expect(response.status == 421)
        #expect(try AdminServer.problem(response) == "host-not-allowed")
    }

    @Test("web pages are refused, over the unix socket, too", arguments: [false, true])
    func pages(_ isTCP: Bool) async throws {
        let server = try AdminServer(isTCP: isTCP)
        let pages = [
            "Origin: null", "Origin: http://localhost", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site",
        ]
        for page in pages {
            let head = "POST /v1/shutdown HTTP/1.1\r\nHost: \(server.endpoint)\r\n\(Self.bearer)\(page)\r\n\r\n"
            let response = try await Self.ask(
                server, isTCP ? head : head.replacing("\(server.endpoint)", with: "localhost"))
            #expect(response.status == 403, "\(page)")
            #expect(try AdminServer.problem(response) == "origin-not-allowed")
        }
        #expect(server.stopCount == 0)
        let own = "GET /v1/status HTTP/1.1\r\nHost: \(isTCP ? "\(server.endpoint)" : "x")\r\n\(Self.bearer)"
        #expect(try await Self.ask(server, own + "Sec-Fetch-Site: none\r\n\r\n").status == 200)
    }
}
