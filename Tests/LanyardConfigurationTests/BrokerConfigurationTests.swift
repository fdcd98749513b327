import TestSupport
import Testing

@testable import LanyardConfiguration
@testable import LanyardSettings

/// `brokers` (docs/reference/fleet.md 2, 3).
@Suite struct BrokerConfigurationTests {
    private static let head = """
        admin: off
        identities:
          fixed: {static: {token_file: secret}}
          corp: {oauth2: {issuer: "http://127.0.0.1:1/i", client_id: c, client_secret_file: secret}}
          one: {oauth2: {issuer: "http://127.0.0.1:2/i", client_id: c, client_secret_file: secret, access_tokens: single}}
        users:
          alice: {identity: fixed}
          svc: {identity: corp, login: {client_credentials: {}}}
          lone: {identity: one, login: {client_credentials: {}}}

        """
    private static let files = ["secret", "capability", "ca.pem", "cert.pem"]
    private static let tls = "tls: {certificate_file: cert.pem, key_file: secret, client_ca_file: ca.pem}"

    private static func load(_ brokers: String, head: String = head) throws -> (LoadedConfiguration, [String]) {
        let (loaded, diagnostics) = try Loading.load(head + "brokers:\n" + brokers + "\n", files: files)
        return (loaded, diagnostics)
    }

    /// A broker at a unix socket with these rows.
    private static func rows(_ rows: String) throws -> [String] {
        try load("  - {address: \"unix:/run/b.sock\", callers: [\(rows)]}").1
    }

    @Test("the example of the reference is read, and what is printed loads as the same configuration")
    func example() throws {
        let (loaded, diagnostics) = try Self.load(
            """
              - address: unix:/run/lanyard/broker.sock
                serves: [token, oauth2, gce_metadata]
                callers:
                  - {uids: [0, 1000], users: [alice]}
                  - {users: [svc, active], capability_file: capability}
              - address: 127.0.0.1:7443
                \(Self.tls)
                callers:
                  - {client_names: [worker.internal, "IP:10.0.0.1"], users: [svc],
                     audiences: ["https://api.example.com", "https://b.example"], scopes: [read]}
            """)
        #expect(diagnostics.filter { !$0.hasPrefix("warning") } == [])
        let configuration = try #require(loaded.configuration)
        let brokers = configuration.listeners.compactMap(\.broker)
        #expect(configuration.listeners.count == 2 && brokers.map(\.index) == [0, 1])
        #expect(brokers.map(\.serves) == [[.token, .oauth2, .gceMetadata], [.token]])
        let rows = try #require(brokers.first?.callers)
        #expect(rows.map(\.uids) == [[0, 1000], []] && rows.map(\.users) == [["alice"], ["svc", "active"]])
        #expect(rows[0].capabilityFile == nil && rows[1].capabilityFile?.hasSuffix("/capability") == true)
        #expect(rows.map(\.isAnyone) == [false, false])
        let row = try #require(brokers.last?.callers.first)
        #expect(row.clientNames == ["worker.internal", "IP:10.0.0.1"] && row.scopes == ["read"])
        // Its tokens are fetched as those of routes are.
        #expect(
            configuration.variants["svc"]?.map(\.variant) == [
                TokenVariant(audience: "https://api.example.com", scopes: ["read"]),
                TokenVariant(audience: "https://b.example", scopes: ["read"]),
            ])
        // What is printed has whole paths, and is read in another folder.
        let folder = try #require(rows[1].capabilityFile).dropLast("capability".count)
        let printed = loaded.printed.replacing(folder, with: "")
        let again = try #require(try Loading.load(printed, files: Self.files).loaded.configuration)
        #expect(Self.withoutFiles(again) == Self.withoutFiles(configuration))
    }

    private static func withoutFiles(_ configuration: Configuration) -> [BrokerSettings] {
        configuration.listeners.compactMap(\.broker).map { broker in
            var broker = broker
            for row in broker.callers.indices { broker.callers[row].capabilityFile = nil }
            return broker
        }
    }

    @Test("a configuration with brokers needs no route")
    func noRoutes() throws {
        #expect(try Self.rows("{uids: [1], users: [alice]}") == [])
    }

    @Test(
        "what is wrong with a row is said with its place and remedy",
        arguments: [
            ("{uids: [1], users: []}", "callers[0].users is empty; name the users"),
            ("{uids: [1]}", "missing key \"brokers[0].callers[0].users\""),
            ("{uids: [-1], users: [alice]}", "\"-1\" is not a whole number"),
            ("{uids: [4294967295], users: [alice]}", "\"4294967295\" is not a whole number"),
            ("{users: [alice]}", "callers[0]: it has neither uids nor client_names nor capability_file"),
            ("{uids: [], users: [alice]}", "callers[0]: it has neither uids nor client_names nor capability_file"),
            ("{uids: [1], users: [alise]}", "no user \"alise\" is configured; did you mean \"alice\"?"),
            ("{uids: [1], users: [\"a b\"]}", "\"a b\" is not a name"),
            ("{uids: [1], users: [svc], audiences: []}", "callers[0].audiences is empty: no token could be given"),
            ("{uids: [1], users: [svc], scopes: []}", "callers[0].scopes is empty: no token could be given"),
            ("{uids: [1], users: [svc], scopes: [\"a b\"]}", "\"a b\" is no scope; write each scope as an element"),
            ("{uids: [1], users: [alice], audiences: [a]}", "a user of a static identity has one access token"),
            ("{uids: [1], users: [alice], scopes: [a]}", "a user of a static identity has one access token"),
            ("{uids: [1], users: [active], audiences: [a]}", "the active user may be one with a single access token"),
            ("{uids: [1], users: [lone], audiences: [a]}", "the identity one has one access token at a time"),
            ("{client_names: [a], users: [alice]}", "client_names: callers are asked for no certificate"),
            ("alice", "expected a mapping, found a single value"),
        ])
    func row(_ row: String, _ text: String) throws {
        let diagnostics = try Self.rows(row)
        #expect(diagnostics.count == 1 && diagnostics[0].contains(text), "\(diagnostics)")
        #expect(diagnostics.allSatisfy { $0.hasPrefix("lanyard.yaml:11:") }, "\(diagnostics)")
    }

    @Test(
        "a name of a certificate that none can have is an error, and a pattern a warning",
        arguments: [("IP:a", true), ("DNS:", true), ("URI:", true), ("email:", true), ("*.internal", false)])
    func clientNames(_ name: String, _ isError: Bool) throws {
        let row = "{client_names: [\"\(name)\"], users: [alice]}"
        let diagnostics = try Self.load("  - {address: \"127.0.0.1:1\", \(Self.tls), callers: [\(row)]}").1.filter {
            $0.contains("client_names")
        }
        let text =
            isError ? "is no name, or no address although it says IP:" : "is no pattern: it is compared as a whole"
        #expect(diagnostics.count == 1 && diagnostics[0].contains(text), "\(diagnostics)")
        #expect(diagnostics.allSatisfy { $0.hasPrefix("warning") != isError })
    }

    @Test(
        "what is wrong with a broker is said with its place and remedy",
        arguments: [
            ("address: \"unix:/b\"", "missing key \"brokers[0].callers\""),
            ("address: \"unix:/b\", callers: []", "brokers[0].callers is empty: every caller is refused"),
            ("address: \"unix:/b\", callers: {users: [alice]}", "brokers[0].callers: expected a list"),
            ("address: \"unix:/b\", serves: [], callers: [ROW]", "brokers[0].serves is empty"),
            ("address: \"unix:/b\", serves: [tokens], callers: [ROW]", "did you mean \"token\"?"),
            (
                "address: \"unix:/b\", allowed_origins: [\"http://a\"], callers: [ROW]",
                "unknown key \"allowed_origins\" in brokers[0]"
            ),
            (
                "address: \"127.0.0.1:1\", callers: [ROW]",
                "callers[0].uids: 127.0.0.1:1 is not a unix socket, so no caller has a user id"
            ),
            (
                "address: \"169.254.169.254:80\", unsafe: true, callers: [{capability_file: capability, users: [alice]}]",
                "brokers[0].address: 169.254.169.254 is an address of metadata services"
            ),
            (
                "address: \"10.0.0.1:80\", capability_file: capability, callers: [{capability_file: capability, users: [alice]}]",
                "tokens would cross the network in plain on their way from 10.0.0.1"
            ),
        ])
    func broker(_ keys: String, _ text: String) throws {
        let row = "{uids: [1], users: [alice]}"
        let diagnostics = try Self.load("  - {\(keys.replacing("ROW", with: row))}").1.filter {
            !$0.hasPrefix("warning")
        }
        #expect(diagnostics.count == 1 && diagnostics[0].contains(text), "\(diagnostics)")
    }

    @Test("a row that is everyone needs unsafe, on loopback and at a unix socket too, and is warned of")
    func everyone() throws {
        for address in ["unix:/run/b.sock", "127.0.0.1:1"] {
            let keys = "address: \"\(address)\", callers: [{users: [alice]}]"
            let without = try Self.load("  - {\(keys)}").1
            #expect(without.count == 1 && without[0].contains("so it is everyone"), "\(without)")
            let with = try Self.load("  - {unsafe: true, \(keys)}").1
            #expect(with.count == 1 && with[0].hasPrefix("warning"), "\(with)")
            #expect(with[0].contains("that reaches \(address) gets tokens of alice"), "\(with)")
        }
    }

    @Test("two brokers cannot have one address, nor a broker that of a listener")
    func clash() throws {
        let broker = "  - {address: \"unix:/run/b.sock\", callers: [{uids: [1], users: [alice]}]}"
        let twice = try Self.load(broker + "\n" + broker).1
        #expect(twice.count == 1 && twice[0].contains("cannot both be bound"), "\(twice)")
        let head = Self.head + "listeners: [{address: \"unix:/run/b.sock\"}]\n" + Loading.routes
        let both = try Self.load(broker, head: head).1.filter { !$0.hasPrefix("warning") }
        #expect(both.count == 1 && both[0].contains("cannot both be bound"), "\(both)")
    }

    @Test("an unknown user is a warning where the admin API may add it, unless its tokens have an audience")
    func laterUser() throws {
        let head = Self.head.replacing("admin: off\n", with: "")
        for (more, isError) in [("", false), (", audiences: [a]", true)] {
            let row = "{uids: [1], users: [carol]\(more)}"
            let diagnostics = try Self.load(
                "  - {address: \"unix:/run/b.sock\", callers: [\(row)]}", head: head
            ).1.filter { $0.contains("carol") }
            #expect(diagnostics.count == 1 && diagnostics[0].hasPrefix("warning") != isError, "\(diagnostics)")
        }
    }
}
