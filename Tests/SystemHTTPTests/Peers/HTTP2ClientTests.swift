import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

private let nodePath = "/usr/bin/node"

/// Clients that speak HTTP/2 to a listener that does not are refused by a response of HTTP/1.1 and fail at once.
@Suite struct HTTP2ClientTests {
    private static let python = Products.root + "/.build/peer-servers/grpc/bin/python"

    /// What the client writes, and how many connections it has made.
    private static func run(
        _ program: String, _ arguments: (String) -> [String]
    ) async throws -> (output: String, connections: Int, problems: [String]) {
        let upstream = try RawServer()
        let lanyard = try await LanyardProcess.start(
            before: "http://\(upstream.endpoint)", listener: "address: \"127.0.0.1:0\", protocols: [http1]")
        let client = try ServerProcess(program, arguments("\(lanyard.data)"))
        #expect(try await client.waitForExit() == .code(0), "\(client.log)")
        #expect(upstream.requests.isEmpty)
        try await lanyard.process.event("request.refused")
        let refusals = lanyard.process.lines.filter { $0.event == "request.refused" }
        return (client.output, refusals.count, refusals.compactMap { $0.json["cause"].string })
    }

    @Test(
        "1.3 Node fails at its first request",
        .enabled(if: access(nodePath, X_OK) == 0, "needs Node.js (apt-get install nodejs)"))
    func node() async throws {
        let seen = try await Self.run(nodePath) { address in
            let script = """
                const session = require("http2").connect("http://\(address)")
                session.on("error", error => console.log(`session ${error.message}`))
                session.request({":path": "/"}).on("error", error => console.log(`request ${error.message}`))
                """
            return ["-e", script]
        }
        #expect(
            seen.output.contains("session Protocol error\n") && seen.output.contains("request Protocol error\n"),
            "\(seen)")
        #expect(seen.problems == ["this address does not speak HTTP/2; see protocols of the listener"])
    }

    @Test(
        "1.3 gRPC's client fails with UNAVAILABLE and the status, and does not connect for ever",
        .enabled(if: access(python, X_OK) == 0, "needs deploy/peer-servers grpc"))
    func grpc() async throws {
        let seen = try await Self.run(Self.python) { address in
            let script = """
                import grpc
                call = grpc.insecure_channel("\(address)").unary_unary("/a.B/C")
                try: call(b"x", timeout=3600)
                except grpc.RpcError as error: print(error.code(), error.details())
                """
            return ["-c", script]
        }
        #expect(seen.output.hasPrefix("StatusCode.UNAVAILABLE ") && seen.output.contains("HTTP status 505"), "\(seen)")
        #expect((1...3).contains(seen.connections), "\(seen)")
    }
}
