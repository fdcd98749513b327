import TestSupport
import Testing

@testable import SystemTestSupport

/// "Our user is another account over there by now. What was asked before is not done in the new one's name."
@Suite struct AnotherAccountTests {
    private static let why =
        "lanyard; received-status=401; details=\"replay-not-possible: session replaced\""

    /// A device whose identity service ends access tokens with their session.
    private static func emulator() async throws -> EmulatorProcess {
        try await .start(tokens: "1800s", arguments: ["--revoke-ends-access-tokens"])
    }

    /// One guest, whom Lanyard logs in by itself.
    private static func guest(
        _ emulator: EmulatorProcess, routes: String = "", rest: String = ""
    ) async throws -> LanyardProcess {
        let lanyard = try await LanyardProcess.start(
            """
            identities: {demo: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(emulator.endpoint)"}}}
            users: {kiosk: {identity: demo, login: {anonymous: {}}}}
            routes: [\(routes){name: all, upstream: "http://\(emulator.endpoint)"}]
            \(rest)
            """)
        try await lanyard.untilReady()
        return lanyard
    }

    private static func post(_ lanyard: LanyardProcess) async throws -> RawMessage {
        try await RawClient.ask(lanyard.data, "POST", "/protected/", body: "order")
    }

    /// The lines of a metric with what they count.
    private static func replays(_ lanyard: LanyardProcess, _ result: String) async throws -> Bool {
        let page = try await RawClient.ask(lanyard.health, "GET", "/metrics").bodyText
        return page.split(separator: "\n").contains("lanyard_replays_total{result=\"\(result)\"} 1")
    }

    @Test(
        "17.5 A guest whose session is revoked is a new account: the POST that left as the old one is not repeated as the new one"
    )
    func newGuest() async throws {
        let emulator = try await Self.emulator()
        let lanyard = try await Self.guest(emulator)
        let first = try await Self.post(lanyard).json["user_id"].string
        try await emulator.control("POST", "/sessions/revoke", "{}")
        let refused = try await Self.post(lanyard)
        #expect(refused.status == 401 && refused["Proxy-Status"] == Self.why)
        #expect(try await Self.replays(lanyard, "session_replaced"))
        #expect(try await !Self.replays(lanyard, "replayed"))
        _ = try await lanyard.process.event("session.account.changed")
        let next = try await Self.post(lanyard)
        #expect(next.status == 200)
        #expect(try next.json["user_id"].string != first)
        #expect(try await emulator.calls("login") == 2)
    }

    @Test(
        "17.5 A POST that left as the account of an operator's login is not repeated as that of the configured credential"
    )
    func configuredAgain() async throws {
        let emulator = try await Self.emulator()
        try await emulator.add("bob@example.com", password: UsersBench.password)
        let folder = try TemporaryFolder()
        let admin = RawEndpoint.unix(folder.file("admin.sock"))
        let lanyard = try await LanyardProcess.start(
            """
            identities: {demo: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(emulator.endpoint)"}}}
            users:
              alice:
                identity: demo
                login: {email_password: {email: \(EmulatorProcess.email), password_file: \(emulator.passwordFile)}}
            routes: [{name: all, upstream: "http://\(emulator.endpoint)", user: alice}]

            """, admin: "{address: \"\(admin)\"}")
        try await lanyard.untilReady()
        let alice = try await Self.post(lanyard).json["user_id"].string
        let login = try await RawClient.ask(
            admin, "POST", "/v1/users/alice/login", body: #"{"credential":\#(UsersBench.email("bob"))}"#)
        #expect(login.status == 200)
        let bob = try await Self.post(lanyard).json["user_id"].string
        #expect(bob != nil && bob != alice)
        try await emulator.control("POST", "/sessions/revoke", #"{"user":"bob@example.com"}"#)
        let refused = try await Self.post(lanyard)
        #expect(refused.status == 401 && refused["Proxy-Status"] == Self.why)
        #expect(try await Self.replays(lanyard, "session_replaced"))
        #expect(try await !Self.replays(lanyard, "replayed"))
        #expect(try await Self.post(lanyard).json["user_id"].string == alice)
    }

    @Test("a session that is revoked and begun anew as the same account costs no request")
    func sameAccount() async throws {
        let emulator = try await Self.emulator()
        let lanyard = try await LanyardProcess.start(emulator)
        try await lanyard.untilReady()
        let first = try await Self.post(lanyard).json["user_id"].string
        try await emulator.control("POST", "/sessions/revoke", "{}")
        let again = try await Self.post(lanyard)
        #expect(again.status == 200)
        #expect(try again.json["user_id"].string == first)
        #expect(try await Self.replays(lanyard, "replayed"))
    }

    @Test("16.1 No connection serves two accounts of a user: idle connections of the old account are closed")
    func connections() async throws {
        let emulator = try await Self.emulator()
        let upstream = try RawServer()
        let lanyard = try await Self.guest(
            emulator, routes: "{name: raw, match: {path: /raw}, upstream: \"http://\(upstream.endpoint)\"},",
            rest: "shards: 1")
        func subjects() throws -> [Set<String>] {
            try upstream.records.map { Set(try $0.requests.compactMap { try UsersBench.subject(of: $0) }) }
        }
        for _ in 0..<3 { #expect(try await lanyard.get("/raw").status == 200) }
        #expect(upstream.records.count == 1)
        try await emulator.control("POST", "/sessions/revoke", "{}")
        #expect(try await Self.post(lanyard).status == 401)
        _ = try await lanyard.process.event("session.account.changed")
        for _ in 0..<3 { #expect(try await lanyard.get("/raw").status == 200) }
        #expect(upstream.records.map(\.requests.count) == [3, 3])
        let accounts = try subjects()
        #expect(accounts.allSatisfy { $0.count == 1 } && accounts[0] != accounts[1])
        try await eventually("the old account's connection is closed") { upstream.records[0].ended }
    }

    @Test("16.1 No connection of a removed user serves a user that is added again under the name")
    func addedAgain() async throws {
        let upstream = try RawServer()
        let bench = try await UsersBench.start(
            """
              - {name: raw, match: {path: /raw}, upstream: "http://\(upstream.endpoint)", user: bob}
            active_user: alice
            shards: 1

            """)
        try await bench.untilAlice()
        for round in 1...2 {
            for account in ["bob", "dave", "bob"] {
                #expect(try await bench.add("bob", UsersBench.email(account)).status == 201)
                for _ in 0..<2 { #expect(try await bench.lanyard.get("/raw").status == 200) }
                #expect(try await bench.call("DELETE", "/users/bob").status == 204)
            }
            #expect(upstream.records.map(\.requests.count) == Array(repeating: 2, count: 3 * round))
        }
        for record in upstream.records {
            #expect(Set(try record.requests.compactMap { try UsersBench.subject(of: $0) }).count == 1)
        }
    }

    @Test("15.5 Another account closes the upgraded connections of routes that say logout or switch, and no other")
    func tunnels() async throws {
        let emulator = try await Self.emulator()
        let listener = try RawSocket.listen(at: .tcp(0))
        let upstream = "upstream: \"http://127.0.0.1:\(listener.localPort)\""
        let lanyard = try await Self.guest(
            emulator,
            routes: """
                {name: logout, match: {path: /logout}, \(upstream), close_upgraded_on: [logout]},
                {name: switch, match: {path: /switch}, \(upstream), close_upgraded_on: [switch]},
                {name: stay, match: {path: /stay}, \(upstream), close_upgraded_on: []},
                """)
        var ends: [(client: Wire, upstream: Wire)] = []
        for path in ["/logout", "/switch", "/stay"] {
            let client = try await Wire.connect(to: lanyard.data)
            try await client.send(
                "GET \(path) HTTP/1.1\r\nHost: \(lanyard.data)\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
            let socket = listener.accept()
            let server = Wire(try #require(socket))
            _ = try await server.head()
            try await server.send(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
            #expect(try await client.head().hasPrefix("HTTP/1.1 101 "))
            ends.append((client, server))
        }
        try await emulator.control("POST", "/sessions/revoke", "{}")
        #expect(try await Self.post(lanyard).status == 401)
        for (client, upstream) in ends.prefix(2) {
            #expect(try await client.rest() == ("", false))
            #expect(try await upstream.rest() == ("", false))
        }
        try await ends[2].client.send("still here")
        #expect(try await ends[2].upstream.read(10) == "still here")
    }
}
