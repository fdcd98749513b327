import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

private let program = "/usr/bin/node"

/// A client that speaks HTTP/2 without asking is told so in HTTP/2's own frames, and says what is the matter. curl's test is in
/// `CurlClientTests`.
@Suite struct HTTP2ClientTests {
    @Test(
        "1.3 Node that speaks HTTP/2 without asking is told that HTTP/1.1 is required",
        .enabled(if: access(program, X_OK) == 0, "needs Node.js (apt-get install nodejs)"))
    func node() async throws {
        let upstream = try RawServer()
        let lanyard = try await LanyardProcess.start(before: "http://\(upstream.endpoint)")
        let script = """
            const session = require("http2").connect("http://\(lanyard.data)")
            session.on("goaway", (code, last, data) => console.log(`goaway ${code} ${last} ${data}`))
            session.on("error", error => console.log(error.message))
            session.request({":path": "/"}).on("error", () => {})
            """
        let client = try ServerProcess(program, ["-e", script])
        #expect(try await client.waitForExit() == .code(0), "\(client.log)")
        // HTTP_1_1_REQUIRED (RFC 9113 §7).
        #expect(client.output.contains("goaway 13 0 HTTP/2 and gRPC are not supported\n"), "\(client.output)")
        #expect(client.output.contains("error code 13") && upstream.requests.isEmpty, "\(client.output)")
    }
}
