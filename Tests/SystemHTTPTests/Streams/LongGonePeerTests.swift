import TestSupport
import Testing

@testable import SystemTestSupport

/// http-connections.md 9.5 with a network that drops every packet: no reset says that the client is gone.
@Suite(.enabled(if: MountNamespace.isPossible, "needs root and namespaces of its own"))
struct LongGonePeerTests {
    private static let (own, clients) = ("10.98.76.54", "10.98.76.55")
    private static let head = "HTTP/1.1 200 OK\r\nDate: d\r\nTransfer-Encoding: chunked\r\n\r\n"
    private static let event = "9\r\ndata: 1\n\n\r\n"

    @Test(
        "9.5 An SSE client whose network is dropped frees its upstream connection, quiet or with bytes on their way",
        arguments: [false, true])
    func dropped(_ hasBytesOnTheirWay: Bool) async throws {
        let folder = try TemporaryFolder()
        let listener = try RawSocket.listen(at: .unix(folder.file("up")))
        let network = [
            "/usr/bin/unshare", "-n", "/bin/sh", "-c",
            "ip link set lo up && ip address add \(Self.own)/32 dev lo && ip address add \(Self.clients)/32 dev lo "
                + "&& exec \"$@\"", "sh",
        ]
        // With bytes on their way no probe is sent: their acknowledgement is what does not come.
        let idle = hasBytesOnTheirWay ? "none" : "1s"
        let path = try folder.write(
            "lanyard.yaml",
            """
            listeners: [{address: "\(Self.own):0", unsafe: true, allowed_hosts: ["any.test"]}]
            health: off
            admin: off
            identities: {fixed: {static: {token_file: \(try folder.write("token", "t"))}}}
            users: {alice: {identity: fixed}}
            routes: [{upstream: "unix:\(folder.file("up"))", timeouts: {response_idle: none, write: 2s}}]
            limits: {keepalive_idle: \(idle), keepalive_interval: 1s, keepalive_probes_max: 2}

            """)
        let command = network + [try Products.path("lanyard"), "run", "--config", path]
        let lanyard = try ServerProcess(command[0], Array(command.dropFirst()))
        let address = try await lanyard.event("listening")["address"].string ?? ""
        let enter = ["-t", "\(lanyard.pid)", "-n"]
        let curl = try ServerProcess(
            "/usr/bin/nsenter",
            enter + ["curl", "-s", "-N", "--interface", Self.clients, "-H", "Host: any.test", "http://\(address)/"])
        let upstream = Wire(try #require(listener.accept()))
        _ = try await upstream.head()
        try await upstream.send(Self.head + Self.event)
        try await eventually("the client has the event") { curl.output == "data: 1\n\n" }
        let drop = try ServerProcess(
            "/usr/bin/nsenter", enter + ["ip", "address", "del", "\(Self.clients)/32", "dev", "lo"])
        #expect(try await drop.waitForExit() == .code(0))
        if hasBytesOnTheirWay { try await upstream.send(Self.event) }
        #expect(try await upstream.rest().text == "")
        let line = try await lanyard.event("access")
        #expect(line["reason"].string == "client-gone" && line["status"].int == 200)
        #expect(try await lanyard.terminate() == .code(143))
    }
}
