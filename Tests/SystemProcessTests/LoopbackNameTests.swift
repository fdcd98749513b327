import TestSupport
import Testing

@testable import SystemTestSupport

/// `localhost` and the names below it mean this machine, at both of its loopback addresses, whatever a resolver says (RFC 6761 §6.3).
@Suite struct LoopbackNameTests {
    /// What is bound at a port of ::1 that no other process has at 127.0.0.1: `localhost` would reach another test's server there.
    private static func alone<Bound>(_ bind: () throws -> Bound, port: (Bound) -> UInt16) throws -> (Bound, RawSocket) {
        // Those whose port is in use stay bound until another one is found.
        var others: [Bound] = []
        while true {
            let bound = try bind()
            if let other = try? RawSocket.refusing(at: .tcp(port(bound))) { return (bound, other) }
            others.append(bound)
            guard others.count < 20 else { throw TestFailure("no port of ::1 is free at 127.0.0.1") }
        }
    }

    @Test(
        "an upstream at ::1 is reached by localhost, also where ::1 is the machine's only IPv6 address",
        arguments: ["localhost", "LOCALHOST", "api.localhost", "a.b.LocalHost"])
    func upstream(_ name: String) async throws {
        let (upstream, other) = try Self.alone {
            try RawServer(at: .loopbackV6(0))
        } port: {
            $0.endpoint.port
        }
        defer { other.close() }
        let lanyard = try await LanyardProcess.start(before: "http://\(name):\(upstream.endpoint.port)")
        #expect(try await lanyard.get("/").status == 200)
        let own = "\(name.lowercased()):\(upstream.endpoint.port)"
        #expect(upstream.requests.map { $0["Host"] } == [own])
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    /// The program with its ports at ::1, which no other process has at 127.0.0.1, either.
    private static func serving(_ path: String) async throws -> (
        (lanyard: ServerProcess, admin: UInt16, health: UInt16), others: [RawSocket]
    ) {
        for _ in 0..<20 {
            let lanyard = try ServerProcess("lanyard", ["run", "--config", path])
            func port(_ listener: String) async throws -> UInt16 {
                let line = try await lanyard.event("listening") { $0["listener"].string == listener }
                return try RawEndpoint(line["address"].string ?? "").port
            }
            let (admin, health) = (try await port("admin"), try await port("health"))
            let others = [admin, health].compactMap { try? RawSocket.refusing(at: .tcp($0)) }
            if others.count == 2 { return ((lanyard, admin, health), others) }
            for socket in others { socket.close() }
            try await lanyard.terminate()
        }
        throw TestFailure("no ports of ::1 are free at 127.0.0.1")
    }

    @Test("an upstream of which nothing listens at either address is refused, not one that is unknown")
    func refused() async throws {
        let (closed, other) = try Self.alone {
            try RawSocket.refusing(at: .loopbackV6(0))
        } port: {
            $0.localPort
        }
        defer {
            closed.close()
            other.close()
        }
        let lanyard = try await LanyardProcess.start(before: "http://localhost:\(closed.localPort)")
        let response = try await lanyard.get("/")
        #expect(response.status == 502)
        #expect(response["Proxy-Status"] == "lanyard; error=connection_refused")
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("commands reach admin and health at ::1 by localhost")
    func commands() async throws {
        let folder = try TemporaryFolder()
        let token = try folder.write("admin-token", String(repeating: "t", count: 40))
        let path = try folder.write(
            "lanyard.yaml",
            """
            listeners: [{address: "[::1]:0"}]
            health: {address: "[::1]:0"}
            admin: {address: "[::1]:0", token_file: \(token)}
            identities: {fixed: {static: {token_file: \(try folder.write("token", "t"))}}}
            users: {alice: {identity: fixed}}
            routes: [{upstream: "http://127.0.0.1:9"}]

            """)
        let (started, other) = try await Self.serving(path)
        let (lanyard, admin, health) = started
        defer { for socket in other { socket.close() } }
        for arguments in [
            ["status", "--admin", "localhost:\(admin)", "--token-file", token],
            ["wait", "--for", "ready", "--health", "localhost:\(health)"],
            ["health", "--health", "localhost:\(health)"],
        ] {
            let command = try ServerProcess("lanyard", arguments)
            #expect(try await command.waitForExit() == .code(0), "\(arguments): \(command.log)\(command.output)")
        }
        #expect(try await lanyard.terminate() == .code(143))
    }
}

/// The same with other hosts files and networks.
@Suite(.enabled(if: MountNamespace.isPossible, "needs root and namespaces of its own"))
struct LoopbackNetworkTests {
    private func lanyard(_ network: PrivateNetwork, _ yaml: String, token: String? = nil) async throws -> LanyardProcess
    {
        try await .start(
            yaml, token: token, listener: "address: \"unix:\(network.folder.file("data.sock"))\"",
            launcher: network.launcher)
    }

    @Test(
        "no resolver is asked for an upstream: a hosts file without the name, or with another address, changes nothing",
        arguments: ["127.0.0.1", "::1"],
        [[], ["127.0.0.1 localhost"], ["::1 localhost"], ["\(PrivateNetwork.address) localhost api.localhost"]])
    func upstream(_ server: String, _ hosts: [String]) async throws {
        for name in ["localhost", "api.localhost"] {
            let network = try PrivateNetwork(hosts: hosts, server: server)
            let lanyard = try await lanyard(
                network, "routes: [{name: all, upstream: \"http://\(name):\(PrivateNetwork.port)\"}]\n", token: "t")
            #expect(try await lanyard.get("/").status == 200, "\(name)")
            #expect(try network.visits().map(\.address) == [server])
            #expect(try await lanyard.process.terminate() == .code(143))
        }
    }

    @Test("another name is reached at ::1 as well if its addresses are loopback ones", arguments: ["127.0.0.1", "::1"])
    func otherName(_ server: String) async throws {
        for hosts in [["\(server) dev.test"], ["127.0.0.1 dev.test", "::1 dev.test"]] {
            let network = try PrivateNetwork(hosts: hosts, server: server)
            let lanyard = try await lanyard(
                network,
                "routes: [{name: all, upstream: \"http://dev.test:\(PrivateNetwork.port)\", unsafe_plain: true}]\n",
                token: "t")
            #expect(try await lanyard.get("/").status == 200)
            #expect(try network.visits().map(\.address) == [server])
            #expect(try await lanyard.process.terminate() == .code(143))
        }
    }

    @Test("an identity service at either loopback address is called by the name", arguments: ["127.0.0.1", "::1"])
    func identity(_ server: String) async throws {
        for name in ["localhost", "id.localhost"] {
            let network = try PrivateNetwork(
                hosts: ["\(PrivateNetwork.address) localhost id.localhost"], server: server)
            try network.folder.write("password", "correct-horse\n")
            let lanyard = try await lanyard(
                network,
                """
                identities: {demo: {app_services: {app_id: demo-abcde, base_url: "http://\(name):\(PrivateNetwork.port)"}}}
                users:
                  alice:
                    identity: demo
                    login: {email_password: {email: a@example.com, password_file: \(network.folder.file("password"))}}
                routes: [{name: all, upstream: "http://127.0.0.1:\(PrivateNetwork.port)"}]

                """)
            // The login fails, because this server grants nothing.
            try await lanyard.process.event("session.login.failed")
            let visits = try network.visits()
            #expect(!visits.isEmpty && visits.allSatisfy { $0.address == server }, "\(name): \(visits)")
            #expect(try await lanyard.process.terminate() == .code(143))
        }
    }

    @Test("a listener at localhost is bound to ::1 where the machine has no 127.0.0.1")
    func listener() async throws {
        let network = try PrivateNetwork(hosts: [], server: "::1", hasLoopbackV4: false)
        let token = try network.folder.write("token", "t")
        let arguments = [
            "run", "--upstream", "http://localhost:\(PrivateNetwork.port)", "--token-file", token, "--listen",
            "localhost:0",
            "--health-address", "localhost:0", "--admin-address", "off",
        ]
        let command = network.launcher + [try Products.path("lanyard")] + arguments
        let lanyard = try ServerProcess(command[0], Array(command.dropFirst()))
        for name in ["data", "health"] {
            let line = try await lanyard.event("listening") { $0["listener"].string == name }
            #expect(line["address"].string?.hasPrefix("[::1]:") == true, "\(line)")
        }
        #expect(try await lanyard.terminate() == .code(143))
    }
}
