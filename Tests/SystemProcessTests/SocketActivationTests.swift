import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// Sockets that the service manager passes (`systemd:NAME`, sd_listen_fds(3)).
@Suite struct SocketActivationTests {
    private let folder: TemporaryFolder
    private let upstream: RawServer

    init() throws {
        folder = try TemporaryFolder()
        upstream = try RawServer(requestsKeptMax: 10)
        try folder.write("token", "t")
    }

    /// - Parameters:
    ///   - listener: the keys of the listener.
    ///   - others: health and admin.
    private func configuration(
        _ listener: String = "address: \"systemd:data\"",
        _ others: String = "health: {address: \"systemd:health\"}\nadmin: {address: \"systemd:admin\"}\n"
    ) throws -> [String] {
        let path = try folder.write(
            "lanyard.yaml",
            """
            listeners: [{\(listener)}]
            identities: {fixed: {static: {token_file: token}}}
            users: {alice: {identity: fixed}}
            routes: [{name: all, upstream: "http://\(upstream.endpoint)"}]
            store: {memory: true}
            shutdown: {drain_max: 5s}
            log: {access: false}

            """ + others)
        return ["run", "--config", path]
    }

    @Test("a reload checks the rules of activated sockets as the start does")
    func reloaded() async throws {
        let admin = folder.file("admin")
        let capability = try folder.write("capability", String(repeating: "c", count: 40))
        let others = "health: off\nadmin: {address: \"systemd:admin\"}\n"
        let safe = "address: \"systemd:data\", allowed_hosts: [localhost], "
        let manager = try SocketManager.start(
            ["data=any", "admin=unix:\(admin)"], configuration(safe + "capability_file: \(capability)", others))
        try await eventually("it serves:\n\(manager.log)") { manager.output.contains("ready\n") }
        for (keys, text) in [
            ("required_header: Lanyard-Request", "other machines can reach systemd:data"),
            ("capability_file: \(capability), peers: {uids: [0]}", "so peers restricts no client"),
        ] {
            _ = try configuration(safe + keys, others)
            let response = try await RawClient.ask(.unix(admin), "POST", "/v1/reload")
            #expect(response.status == 422 && response.bodyText.contains(text), "\(response.bodyText)")
        }
    }

    @Test("data, health and admin serve at the sockets that were passed, by name; the files stay with the manager")
    func served() async throws {
        let (health, admin) = (folder.file("health"), folder.file("admin"))
        let manager = try SocketManager.start(
            ["health=unix:\(health)", "unused=tcp", "data=tcp", "admin=unix:\(admin)"], configuration())
        let port = try await SocketManager.port(1, of: manager)
        try await eventually("it serves:\n\(manager.log)") { manager.output.contains("ready\n") }
        #expect(try await RawClient.ask(.tcp(port), "GET", "/x").status == 200)
        #expect(try await RawClient.ask(.unix(health), "GET", "/readyz").status == 200)
        #expect(try await RawClient.ask(.unix(admin), "GET", "/v1/status").status == 200)
        #expect(try await RawClient.ask(.tcp(port), "GET", "/x", fields: [("Host", "evil.test")]).status != 200)
        let unused = try await manager.event("start.sockets_unused")
        #expect(unused["names"].string == "unused")
        let data = try await manager.event("listening") { $0["listener"].string == "data" }
        #expect(data["address"].string == "127.0.0.1:\(port)")
        #expect(access(health, F_OK) == 0 && access(admin, F_OK) == 0)
    }

    @Test(
        "a number that the manager names and has not passed belongs to no listener: Lanyard's own sockets stay open",
        arguments: [["gone=closed", "data=tcp"], ["data=tcp", "gone=closed", "too=closed", "many=closed"]])
    func closed(_ places: [String]) async throws {
        // `ready` comes over the socket that Lanyard opens for it.
        let manager = try SocketManager.start(places, try configuration(others: "health: off\nadmin: off\n"))
        let port = try await SocketManager.port(places.firstIndex(of: "data=tcp") ?? 0, of: manager)
        try await eventually("it serves:\n\(manager.log)") { manager.output.contains("ready\n") }
        #expect(try await RawClient.ask(.tcp(port), "GET", "/x").status == 200)
    }

    @Test("while one program replaces another no request fails", arguments: [3])
    func replaced(_ count: Int) async throws {
        try await Replacement.check(clients: 20, count, try configuration(others: "health: off\nadmin: off\n"))
    }

    private func configuration(others: String) throws -> [String] {
        try configuration("address: \"systemd:data\"", others)
    }

    @Test(
        "a socket that is missing, double, of another kind or reachable from elsewhere ends the start with its reason")
    func refused() async throws {
        let off = "health: off\nadmin: off\n"
        let data = "address: \"systemd:data\""
        for (places, listener, others, code, words) in [
            (["other=tcp"], data, off, 69, "passed no socket of the name data (it passed other)"),
            (["data=tcp", "data=tcp"], data, off, 69, "passed 2 sockets of the name data"),
            (["data=datagram"], data, off, 69, "is not a listening stream socket"),
            (["data=any"], data, off, 78, "other machines can reach systemd:data"),
            (["data=any"], data + ", unsafe: true", off, 78, "no default for allowed_hosts"),
            (["data=tcp"], data + ", peers: {uids: [0]}", off, 78, "not a unix socket, so peers restricts no client"),
            (
                ["data=tcp", "admin=tcp"], data, "health: off\nadmin: {address: \"systemd:admin\"}\n", 78,
                "other users or machines"
            ),
            (["data=tcp"], data + ", socket_mode: \"0600\"", off, 78, "SocketMode="),
            (["data=tcp"], "address: \"systemd:\"", off, 78, "is not the name of a socket"),
        ] as [([String], String, String, Int, String)] {
            let manager = try SocketManager.start(places, replacements: -1, configuration(listener, others))
            #expect(try await manager.waitForExit() == .code(code), "\(words)")
            #expect(manager.log.contains(words), "\(manager.log)")
        }
        // Without a manager.
        let alone = try ServerProcess(
            "lanyard", configuration(data, off), environment: ["LISTEN_FDS": "1", "LISTEN_PID": "1"])
        #expect(try await alone.waitForExit() == .code(69))
        #expect(alone.log.contains("passed no socket of the name data;"), "\(alone.log)")
    }
}

/// A program that is replaced again and again behind one socket, under the load of clients in a closed loop.
enum Replacement {
    static func check(clients: Int, _ count: Int, _ arguments: [String]) async throws {
        let manager = try SocketManager.start(["data=tcp"], replacements: count, arguments)
        let port = try await SocketManager.port(of: manager)
        try await eventually("it serves:\n\(manager.log)") { manager.output.contains("ready\n") }
        let loop = ClosedLoop(clients: clients, .tcp(port), "/x", pause: .milliseconds(5))
        func responses() async throws {
            let before = loop.tally.requests
            try await eventually("each client has had a response since") { loop.tally.requests > before + 3 * clients }
        }
        for number in 1...count {
            try await responses()
            manager.signal(SIGUSR1)
            try await eventually("program \(number) is replaced") {
                manager.output.matches(of: /replaced/).count == number
            }
        }
        try await responses()
        let tally = try await loop.stop()
        #expect(tally.failed == 0, "\(tally.failures)")
        #expect(tally.requests > 10 * clients)
    }
}
