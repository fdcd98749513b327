import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// Link-local IPv6 addresses, which are valid at one network interface only: `[fe80::1%25eth0]` (RFC 6874).
@Suite(.enabled(if: MountNamespace.isPossible, "needs root and namespaces of its own"))
struct ZoneTests {
    private static let keys = "unsafe_plain: true, allow_link_local: true"

    private static func upstream(_ zone: String, separator: String = "%25") -> String {
        "http://[\(PrivateNetwork.zonedAddress)\(separator)\(zone)]:\(PrivateNetwork.port)"
    }

    private func network() throws -> PrivateNetwork {
        try PrivateNetwork(hosts: ["127.0.0.1 localhost"], server: "::", hasZonedAddress: true)
    }

    /// Runs a command in the network of a process.
    private func run(_ command: [String], beside process: ServerProcess) async throws -> ServerProcess {
        let beside = try ServerProcess("/usr/bin/nsenter", ["--net=/proc/\(process.pid)/ns/net"] + command)
        try await beside.waitForExit()
        return beside
    }

    @Test("an upstream with a zone is reached, and the zone is in no Host", arguments: ["%25", "%"])
    func upstream(_ separator: String) async throws {
        let network = try network()
        let url = Self.upstream("lo", separator: separator)
        let lanyard = try await LanyardProcess.start(
            "routes: [{name: all, upstream: \"\(url)\", \(Self.keys)}]\n", token: "t",
            listener: "address: \"unix:\(network.folder.file("data.sock"))\"", launcher: network.launcher)
        #expect(try await lanyard.get("/").status == 200)
        let visit = try #require(try network.visits().first)
        #expect(visit.address == PrivateNetwork.zonedAddress)
        #expect(visit.host == "[\(PrivateNetwork.zonedAddress)]:\(PrivateNetwork.port)")
    }

    @Test("an interface that does not exist is a warning of check, and 502 of run until it is there")
    func missing() async throws {
        let network = try network()
        let url = Self.upstream("lan0")
        let yaml = "routes: [{name: all, upstream: \"\(url)\", \(Self.keys)}]\n"
        let path = try network.folder.write(
            "check.yaml",
            "identities: {fixed: {static: {token_file: \(try network.folder.write("t", "t"))}}}\n"
                + "users: {alice: {identity: fixed}}\n" + yaml)
        let check = try ServerProcess("lanyard", ["check", "--config", path])
        #expect(try await check.waitForExit() == .code(0))
        #expect(check.log.contains("routes[0].upstream: this machine has no network interface lan0"), "\(check.log)")
        let lanyard = try await LanyardProcess.start(
            yaml, token: "t", listener: "address: \"unix:\(network.folder.file("data.sock"))\"",
            launcher: network.launcher)
        let refused = try await lanyard.get("/")
        #expect(refused.status == 502)
        #expect(try refused.json["detail"].string?.contains("network interface") == true, "\(refused.bodyText)")
        // An address of the other end of a cable in this namespace.
        let steps =
            "ip link add lan0 type veth peer name lan1 && ip address add \(PrivateNetwork.zonedAddress)/64 dev lan0 nodad"
            + " && ip link set lan0 up && ip link set lan1 up"
        let cable = try await run(["/bin/sh", "-c", steps], beside: lanyard.process)
        #expect(cable.exit == .code(0), "\(cable.log)")
        #expect(try await lanyard.get("/").status == 200)
        #expect(try network.visits().map(\.host) == ["[\(PrivateNetwork.zonedAddress)]:\(PrivateNetwork.port)"])
    }

    @Test("listener and health at an address with a zone: curl, which leaves the zone out of Host, and lanyard health")
    func listeners() async throws {
        let network = try network()
        let token = try network.folder.write("t", "t")
        let place = "[\(PrivateNetwork.zonedAddress)%25lo]"
        let path = try network.folder.write(
            "lanyard.yaml",
            """
            listeners: [{address: "\(place):0", unsafe: true}]
            health: {address: "\(place):0"}
            admin: off
            identities: {fixed: {static: {token_file: \(token)}}}
            users: {alice: {identity: fixed}}
            routes: [{name: all, upstream: "http://127.0.0.1:\(PrivateNetwork.port)"}]
            """)
        let start = network.launcher + [try Products.path("lanyard"), "run", "--config", path]
        let process = try ServerProcess(start[0], Array(start.dropFirst()))
        let bound = try await process.event("listening") { $0["listener"].string == "data" }["address"].string
        let data = try #require(bound)
        #expect(data.hasPrefix("[\(PrivateNetwork.zonedAddress)%lo]:"))
        let url = "http://\(data.replacing("%", with: "%25"))/"
        let curl = try await run(
            ["/usr/bin/curl", "-sS", "-g", "-m", "10", "-o", "/dev/null", "-w", "%{http_code}", url], beside: process)
        #expect(curl.output == "200", "\(curl.log)")
        let health = try await process.event("listening") { $0["listener"].string == "health" }["address"].string
        let command = [try Products.path("lanyard"), "health", "--health", try #require(health)]
        let probe = try await run(command, beside: process)
        #expect(probe.exit == .code(0), "\(probe.log)")
        #expect(try await process.terminate() == .code(143))
    }

    @Test("a listener at an interface that does not exist ends the start with 69, and check names it")
    func missingListener() async throws {
        let folder = try TemporaryFolder()
        let flags = [
            "--upstream", "http://127.0.0.1:1", "--token-file", try folder.write("t", "t"), "--unsafe", "--listen",
            "[fe80::1%25none0]:0",
        ]
        for (command, code) in [("run", 69), ("check", 78)] {
            let process = try ServerProcess("lanyard", [command] + flags)
            #expect(try await process.waitForExit() == .code(code), "\(process.log)")
            #expect(process.log.contains("names a network interface that this machine does not have"))
        }
    }

    @Test("without a zone the address is an error of check and of run alike", arguments: ["check", "run"])
    func zoneless(_ command: String) async throws {
        let folder = try TemporaryFolder()
        let token = try folder.write("t", "t")
        let path = try folder.write(
            "lanyard.yaml",
            """
            listeners: [{address: "[fe80::1]:7400", unsafe: true}]
            health: {address: "[FE80::2]:7401"}
            admin: {address: "[fe80::3]:7402", token_file: \(token)}
            identities: {fixed: {static: {token_file: \(token)}}}
            users: {alice: {identity: fixed}}
            routes: [{upstream: "http://[fe80::4]:80", \(Self.keys)}]
            """)
        let process = try ServerProcess("lanyard", [command, "--config", path])
        #expect(try await process.waitForExit() == .code(78))
        for key in ["listeners[0].address", "health.address", "admin.address", "routes[0].upstream"] {
            let line = process.log.split(separator: "\n").first { $0.contains(" \(key): ") } ?? ""
            #expect(line.contains("is valid at one network interface only, and none is named"), "\(process.log)")
            #expect(line.contains("%25eth0"), "\(line)")
        }
    }

    @Test(
        "an identity service with a zone is refused with a sentence",
        arguments: ["app_services: {app_id: demo-abcde, base_url: URL}", "oauth2: {issuer: URL, client_id: c}"])
    func identity(_ kind: String) async throws {
        let folder = try TemporaryFolder()
        let path = try folder.write(
            "lanyard.yaml",
            """
            identities: {demo: {\(kind.replacing("URL", with: "\"https://[fe80::1%25eth0]:1\""))}}
            users: {alice: {identity: demo}}
            routes: [{upstream: "http://127.0.0.1:1"}]
            """)
        let check = try ServerProcess("lanyard", ["check", "--config", path])
        #expect(try await check.waitForExit() == .code(78))
        #expect(check.log.contains("has a zone, so it is a link-local address, and no identity call goes to one"))
    }
}
