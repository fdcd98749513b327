import CLinux
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// `[::]` is every IPv6 address of the machine and no IPv4 one.
@Suite struct IPv6ListenerTests {
    private static let isThere: Bool = {
        let raw = socket(AF_INET6, CInt(SOCK_STREAM.rawValue), 0)
        guard raw >= 0 else { return false }
        defer { close(raw) }
        var address = sockaddr_in6()
        address.sin6_family = sa_family_t(AF_INET6)
        address.sin6_addr = in6addr_loopback
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(raw, $0, socklen_t(MemoryLayout<sockaddr_in6>.size)) == 0
            }
        }
    }()

    private func start(_ address: String, before upstream: RawServer) async throws -> LanyardProcess {
        try await LanyardProcess.start(
            "routes: [{name: all, upstream: \"http://\(upstream.endpoint)\"}]\n", token: "t",
            listener: "address: \"\(address)\", unsafe: true, allowed_hosts: [any.test]")
    }

    private func status(_ address: String) async throws -> String {
        let call = ["-sS", "-m", "10", "-g", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Host: any.test"]
        let curl = try ServerProcess("/usr/bin/curl", call + ["http://\(address)/"])
        try await curl.waitForExit()
        return curl.output
    }

    @Test(
        "it takes no IPv4 connection, and leaves 0.0.0.0 at the same port to another listener",
        .enabled("needs IPv6") { Self.isThere })
    func wildcard() async throws {
        let (sixUpstream, fourUpstream) = (try RawServer(), try RawServer())
        let (six, four) = try await pair(sixUpstream, fourUpstream)
        try await six.untilReady()
        try await four.untilReady()
        let port = six.data.port
        #expect(try await status("127.0.0.1:\(port)") == "200")
        #expect(try await status("[::1]:\(port)") == "200")
        #expect((sixUpstream.requests.count, fourUpstream.requests.count) == (1, 1))
        try await four.process.terminate()
        // Another process may have the IPv4 port now; it is not Lanyard at [::].
        _ = try await status("127.0.0.1:\(port)")
        #expect(sixUpstream.requests.count == 1)
    }

    /// One at a port of [::], one at the same port of 0.0.0.0: of those that the kernel chooses for IPv6, some are taken for IPv4.
    private func pair(
        _ sixUpstream: RawServer, _ fourUpstream: RawServer
    ) async throws -> (six: LanyardProcess, four: LanyardProcess) {
        var attempts = 0
        while true {
            let six = try await start("[::]:0", before: sixUpstream)
            attempts += 1
            do {
                return (six, try await start("0.0.0.0:\(six.data.port)", before: fourUpstream))
            } catch {
                guard attempts < 5, "\(error)".contains("is in use by another process") else { throw error }
                try await six.process.terminate()
            }
        }
    }

    @Test("health at [::] is asked at ::1", .enabled("needs IPv6") { Self.isThere })
    func health() async throws {
        let folder = try TemporaryFolder()
        let process = try ServerProcess(
            "lanyard",
            [
                "run", "--upstream", "http://127.0.0.1:1", "--token-file", try folder.write("token", "t"), "--listen",
                "127.0.0.1:0", "--health-address", "[::]:0",
            ])
        let address = try await process.event("listening") { $0["listener"].string == "health" }["address"].string
        let probe = try ServerProcess("lanyard", ["health", "--health", try #require(address)])
        #expect(try await probe.waitForExit() == .code(0), "\(probe.log)")
    }
}
