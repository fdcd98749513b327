import Foundation
import Glibc
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// The built Lanyard whose brokers hand out tokens of the emulator's OAuth server, and of files (docs/reference/fleet.md 2).
@Suite struct BrokerServerTests {
    private static let capability = "0123456789abcdef0123456789abcdef"
    private static let otherCapability = "fedcba9876543210fedcba9876543210"
    private static let form = [("Content-Type", "application/x-www-form-urlencoded")]
    private static let accounts = "/computeMetadata/v1/instance/service-accounts"

    private struct Bench {
        let emulator: EmulatorProcess
        let lanyard: LanyardProcess
        /// Others may enter it.
        let folder: TemporaryFolder
        let secrets: TemporaryFolder
        let admin: RawEndpoint
        let unix: RawEndpoint
        let tcp: RawEndpoint

        init(tokens: String = "3600s") async throws {
            emulator = try await EmulatorProcess.start(tokens: tokens, arguments: ["--oauth"])
            (folder, secrets) = (try TemporaryFolder(shared: true), try TemporaryFolder())
            try secrets.write("client", "demo-secret")
            try secrets.write("alice", "token-of-alice")
            try secrets.write("bob", "token-of-bob")
            try secrets.write("one", BrokerServerTests.capability)
            try secrets.write("two", BrokerServerTests.otherCapability)
            admin = .unix(secrets.file("admin.sock"))
            unix = .unix(folder.file("broker.sock"))
            lanyard = try await LanyardProcess.start(
                """
                identities:
                  corp:
                    oauth2:
                      {issuer: "http://\(emulator.endpoint)/oauth", client_id: demo,
                       client_secret_file: \(secrets.file("client"))}
                  fileA: {static: {token_file: \(secrets.file("alice"))}}
                  fileB: {static: {token_file: \(secrets.file("bob"))}}
                users:
                  svc: {identity: corp, login: {client_credentials: {}}}
                  alice: {identity: fileA}
                  bob: {identity: fileB}
                brokers:
                  - address: "unix:\(folder.file("broker.sock"))"
                    socket_mode: "0666"
                    callers:
                      - {uids: [\(getuid())], users: [alice, svc]}
                      - {uids: [7001], users: [bob]}
                  - address: "127.0.0.1:0"
                    serves: [token, oauth2, gce_metadata]
                    unsafe: true
                    callers:
                      - {capability_file: \(secrets.file("one")), users: [svc],
                         audiences: ["https://a.example", "https://b.example"]}
                      - {capability_file: \(secrets.file("two")), users: [bob]}
                      - {users: [alice]}
                routes: [{name: all, upstream: "http://127.0.0.1:9", user: alice}]
                """, admin: "{address: \"unix:\(secrets.file("admin.sock"))\"}")
            let bound = try await lanyard.process.event("listening") {
                $0["listener"].string == "broker" && $0["address"].string?.hasPrefix("127.") == true
            }
            tcp = try RawEndpoint(bound["address"].string ?? "")
            try await lanyard.untilReady()
        }

        func post(_ body: String, capability: String? = nil) async throws -> RawMessage {
            let fields = capability.map { [("Lanyard-Capability", $0)] } ?? []
            return try await RawClient.ask(
                tcp, "POST", "/oauth2/token", fields: BrokerServerTests.form + fields, body: body)
        }

        /// The response with the token for svc, or with what is asked for.
        func token(_ query: String = "user=svc") async throws -> JSON {
            try await RawClient.ask(unix, "GET", "/v1/token?\(query)").json
        }

        /// Refreshes that a refused token has forced.
        var forced: Int { lanyard.process.lines.count { $0.event == "session.refresh.forced" } }

        func reload(_ old: String, _ new: String) async throws {
            let text = try String(contentsOfFile: lanyard.folder.file("lanyard.yaml"), encoding: .utf8)
            try #require(text.contains(old))
            try lanyard.folder.write("lanyard.yaml", text.replacing(old, with: new))
            let response = try await RawClient.ask(admin, "POST", "/v1/reload")
            #expect(response.status == 200, "\(response.bodyText)")
        }

        func end() async throws { _ = try await lanyard.process.terminate() }
    }

    @Test("a process at the unix socket gets the tokens of its row, and one word for all others")
    func rows() async throws {
        let bench = try await Bench()
        #expect(try await bench.token("user=alice")["access_token"].string == "token-of-alice")
        let token = try await bench.token()
        #expect(token["user"].string == "svc" && token["token_type"].string == "Bearer")
        #expect((token["expires_in"].int ?? 0) > 3500 && (token["expires_in"].int ?? 0) <= 3595)
        let opened = try await RawClient.ask(
            bench.emulator.endpoint, "GET", "/protected/x",
            fields: [("Authorization", "Bearer \(token["access_token"].string ?? "")")])
        #expect(opened.status == 200)
        var words: Set<String> = []
        for name in ["bob", "nobody"] {
            let response = try await RawClient.ask(bench.unix, "GET", "/v1/token?user=\(name)")
            #expect(response.status == 403)
            words.insert(try response.json["detail"].string ?? "")
        }
        #expect(words.count == 1)
        try await bench.end()
    }

    @Test(
        "another user of the machine gets its own row's tokens alone",
        .enabled("needs root to be other users") { getuid() == 0 })
    func otherUser() async throws {
        let bench = try await Bench()
        guard case .unix(let path) = bench.unix else { return }
        func ask(_ uid: String, _ query: String) async throws -> String {
            let curl = try ServerProcess(
                "/usr/bin/setpriv",
                [
                    "--reuid", uid, "--clear-groups", "/usr/bin/curl", "-s", "-w", "|%{http_code}", "--unix-socket",
                    path, "http://localhost/v1/token\(query)",
                ])
            #expect(try await curl.waitForExit() == .code(0))
            return curl.output
        }
        let own = try await ask("7001", "")
        #expect(own.contains("token-of-bob") && own.hasSuffix("|200"))
        for (uid, query) in [("7001", "?user=alice"), ("7001", "?user=svc"), ("7002", ""), ("7002", "?user=bob")] {
            let refused = try await ask(uid, query)
            #expect(refused.hasSuffix("|403") && !refused.contains("token-of"), "\(uid)\(query)")
        }
        try await bench.end()
    }

    @Test(
        "a capability chooses its row, in a field or as the secret of an OAuth client, and each audience has its token")
    func capabilities() async throws {
        let bench = try await Bench()
        let body = "grant_type=client_credentials"
        for audience in ["https://a.example", "https://b.example"] {
            let response = try await bench.post("\(body)&audience=\(audience)", capability: Self.capability)
            let token = try #require(try response.json["access_token"].string)
            #expect(try VariantBench.claims(token)["aud"] as? String == audience)
            let secret = try await bench.post("\(body)&resource=\(audience)&client_secret=\(Self.capability)")
            #expect(try secret.json["access_token"].string == token)
        }
        for (form, error) in [
            ("audience=https://c.example", "invalid_target"), ("user=bob", "unauthorized_client"),
        ] {
            let response = try await bench.post("\(body)&\(form)", capability: Self.capability)
            #expect(try response.status == 400 && response.json["error"].string == error, "\(form)")
        }
        #expect(
            try await bench.post(body, capability: Self.otherCapability).json["access_token"].string == "token-of-bob")
        // Without a capability it is the row of everyone.
        #expect(try await bench.post(body).json["access_token"].string == "token-of-alice")
        #expect(try await bench.post(body + "&user=bob").json["error"].string == "unauthorized_client")
        try await bench.end()
    }

    @Test("the metadata interface gives the token of the row's first user to who asks as Google's clients do")
    func metadata() async throws {
        let bench = try await Bench()
        func ask(_ path: String, _ fields: [(String, String)]) async throws -> RawMessage {
            try await RawClient.ask(bench.tcp, "GET", Self.accounts + path, fields: fields)
        }
        let flavor = [("Metadata-Flavor", "Google")]
        let token = try await ask("/default/token", flavor)
        #expect(token["Metadata-Flavor"] == "Google")
        #expect(try token.json["access_token"].string == "token-of-alice" && token.json["expires_in"].int == 3600)
        #expect(try await ask("/default/email", flavor).bodyText == "alice@lanyard.local")
        #expect(try await ask("/default/token", []).status == 403)
        #expect(try await ask("/default/token", flavor + [("X-Forwarded-For", "10.0.0.1")]).status == 403)
        #expect(try await ask("/default/identity?audience=x", flavor).status == 404)
        try await bench.end()
    }

    @Test(
        "a reported refusal leads to one refresh and a new token; a second report, or one about another caller's user, to none"
    )
    func refusal() async throws {
        let bench = try await Bench()
        let before = try await bench.token()
        let generation = try #require(before["generation"].int)
        func report(_ user: String, _ generation: Int) async throws -> Int {
            let body = #"{"user":"\#(user)","generation":\#(generation)}"#
            return try await RawClient.ask(bench.unix, "POST", "/v1/token/refused", body: body).status
        }
        #expect(try await report("bob", 1) == 403)
        #expect(try await report("svc", generation - 1) == 202)
        #expect(try await bench.token()["generation"].int == generation)
        #expect(try await report("svc", generation) == 202)
        try await eventually("there is a new token") { try await bench.token()["generation"].int != generation }
        for _ in 0..<3 { #expect(try await report("svc", generation) == 202) }
        let after = try await bench.token()
        #expect(after["access_token"].string != before["access_token"].string)
        try await bench.end()
        try await bench.lanyard.process.settle()
        #expect(bench.forced == 1)
    }

    @Test("a reload adds, changes and removes rows and their capabilities")
    func reload() async throws {
        let bench = try await Bench()
        let body = "grant_type=client_credentials"
        func user(_ capability: String?) async throws -> String? {
            try await bench.post(body, capability: capability).json["access_token"].string
        }
        #expect(try await bench.token("user=bob")["access_token"] == .null)
        try await bench.reload("users: [alice, svc]}", "users: [alice, bob]}")
        #expect(try await bench.token("user=bob")["access_token"].string == "token-of-bob")
        #expect(try await bench.token()["status"].int == 403)
        // The files of two rows change places.
        try await bench.reload(
            bench.secrets.file("two") + ", users: [bob]", bench.secrets.file("one") + ", users: [bob]")
        try await bench.reload(
            bench.secrets.file("one") + ", users: [svc]", bench.secrets.file("two") + ", users: [svc]")
        #expect(try await user(Self.capability) == "token-of-bob")
        // Its row has several audiences, and the row of everyone decides about no one else's.
        #expect(try await user(Self.otherCapability) == nil)
        // The row of everyone goes.
        try await bench.reload("      - {users: [alice]}\n", "")
        #expect(try await user(nil) == nil)
        #expect(try await user(Self.capability) == "token-of-bob")
        try await bench.end()
    }

    @Test("who holds tokens is in the log, once a minute, and in the metrics; the tokens are in neither")
    func issued() async throws {
        let bench = try await Bench()
        var tokens: [String] = []
        for _ in 0..<5 { tokens += [try await bench.token()["access_token"].string ?? ""] }
        _ = try await bench.post("grant_type=client_credentials", capability: Self.otherCapability)
        _ = try await bench.token("user=nobody")
        let page = try await RawClient.ask(bench.lanyard.health, "GET", "/metrics").body
        let samples = try ExpositionReader(page, openMetrics: false).samples.filter {
            $0.name == "lanyard_tokens_issued_total"
        }
        let counts = Dictionary(
            uniqueKeysWithValues: samples.map { ("\($0.labels["caller"] ?? "") \($0.labels["user"] ?? "")", $0.value) })
        #expect(counts == ["uid:\(getuid()) svc": 5, "capability:1 bob": 1])
        try await bench.end()
        try await bench.lanyard.process.settle()
        let lines = bench.lanyard.process.lines
        let issued = lines.filter { $0.event == "token.issued" }
        #expect(issued.count == 2, "\(issued.map(\.text))")
        #expect(issued.first?.json["caller"].string == "uid:\(getuid())" && issued.first?.json["user"].string == "svc")
        #expect(issued.first?.json["count"].int == 1 && (issued.first?.json["expires_in"].int ?? 0) > 3500)
        try #require(tokens.allSatisfy { !$0.isEmpty })
        for line in lines {
            for secret in tokens + ["token-of", Self.capability, Self.otherCapability, "demo-secret"] {
                #expect(!line.text.contains(secret), "\(line.text)")
            }
        }
    }
}
