import TestSupport
import Testing

@testable import SystemTestSupport

/// The admin token and passwords go over plain HTTP to this machine alone.
@Suite struct PlainAdminTests {
    @Test(
        "an address that is not this machine's is refused before the token is read",
        arguments: [
            "192.0.2.1:7402", "255.255.255.255:7402", "[2001:db8::1]:7402", "[fec0::1]:7402", "126.255.255.255:7402",
        ])
    func refused(address: String) async throws {
        for command in [["status"], ["login", "bob", "--email", "a@x", "--password-file", "/nonexistent"]] {
            let run = try await CommandRun(command + ["--admin", address, "--token-file", "/nonexistent"])
            #expect(run.exit == .code(64))
            #expect(run.errors.first?.hasPrefix("error: \(address) is no loopback address") == true, "\(run.errors)")
            #expect(run.errors.last?.contains("--unsafe-plain-http") == true, "\(run.errors)")
        }
    }

    @Test(
        "this machine's addresses are called",
        arguments: ["127.0.0.1:1", "127.8.8.8:1", "[::1]:1", "localhost:1", "0.0.0.0:1"])
    func called(address: String) async throws {
        let folder = try TemporaryFolder()
        let token = try folder.write("token", String(repeating: "t", count: 40))
        let run = try await CommandRun(["status", "--admin", address, "--token-file", token])
        #expect(run.exit == .code(69), "\(run.errors)")
    }

    @Test("the flag allows it, and an IPv4 address in an IPv6 spelling is none")
    func flag() async throws {
        let folder = try TemporaryFolder()
        let token = try folder.write("token", String(repeating: "t", count: 40))
        // A socket of TCP cannot be connected to a broadcast address, so nothing is sent.
        let flags = ["--admin", "255.255.255.255:7402", "--token-file", token, "--unsafe-plain-http"]
        #expect(try await CommandRun(["status"] + flags).exit == .code(69))
        let mapped = try await CommandRun(["status", "--admin", "[::ffff:192.0.2.1]:7402", "--token-file", token])
        #expect(mapped.exit == .code(64))
    }

    @Test("an address of the environment or of the configuration is no other")
    func configured() async throws {
        let folder = try TemporaryFolder()
        let environment = ["LANYARD_ADMIN_ADDRESS": "192.0.2.1:7402"]
        let variable = try await CommandRun(["status", "--token-file", "/nonexistent"], environment: environment)
        #expect([.code(64), .code(78)].contains(variable.exit), "\(variable.errors)")
        let file = try folder.write(
            "lanyard.yaml", "admin: {address: \"192.0.2.1:7402\", token_file: token}\nstore: {memory: true}\n")
        let configured = try await CommandRun(["status", "--config", file])
        #expect([.code(64), .code(78)].contains(configured.exit), "\(configured.errors)")
    }
}
