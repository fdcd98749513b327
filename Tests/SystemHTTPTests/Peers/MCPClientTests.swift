import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// The Python SDK of MCP (deploy/peer-servers gets it) behind Lanyard: what it shows of Lanyard's own responses.
@Suite(.enabled(if: MCPClient.isThere, "needs deploy/peer-servers mcp"))
struct MCPClientTests {
    @Test(
        "19.5 it shows the detail of an error of JSON-RPC, and nothing of a problem", arguments: ["jsonrpc", "problem"])
    func refused(_ form: String) async throws {
        let upstream = try RawServer()
        let lanyard = try await LanyardProcess.start(
            "routes: [{upstream: \"http://\(upstream.endpoint)\", errors: \(form)}]\nactive_user: alice",
            token: "two words")
        try await lanyard.process.event("session.credential.refused")
        let shown = try await MCPClient.initialize("http://\(lanyard.data)/mcp")
        if form == "problem" {
            #expect(shown == "MCPError Server returned an error response\n")
        } else {
            #expect(
                shown.hasPrefix("MCPError Lanyard cannot log this user in: ") && shown.contains("/token"), "\(shown)")
        }
        #expect(upstream.requests.isEmpty)
    }

    @Test("17.6 in place of a 401 that no other token mends it shows a problem, and begins no login")
    func unauthorized() async throws {
        let upstream = try RawServer { _ in
            .response(401, "Unauthorized", fields: [("WWW-Authenticate", "Bearer")], body: "no")
        }
        let lanyard = try await LanyardProcess.start(
            before: "http://\(upstream.endpoint)", route: "errors: jsonrpc, unauthorized: 503")
        let shown = try await MCPClient.initialize("http://\(lanyard.data)/mcp")
        #expect(
            shown.hasPrefix(
                "MCPError The upstream refuses the user's token with 401. No other token was sent: the same token is in the file."
            ),
            "\(shown)")
        #expect(upstream.requests.count == 1)
    }
}

/// A session of the SDK that does no more than `initialize`.
private enum MCPClient {
    private static let root = Products.root + "/.build/peer-servers/mcp/"

    static var isThere: Bool { FileManager.default.fileExists(atPath: root + "ready") }

    private static let script = """
        import anyio, sys
        from mcp import ClientSession
        from mcp.client.streamable_http import streamable_http_client

        def leaves(error):
            if not isinstance(error, BaseExceptionGroup): return [error]
            return [leaf for part in error.exceptions for leaf in leaves(part)]

        async def main():
            try:
                async with streamable_http_client(sys.argv[1]) as streams, ClientSession(*streams[:2]) as session:
                    await session.initialize()
            except BaseException as error:
                for leaf in leaves(error): print(type(leaf).__name__, leaf)

        anyio.run(main)
        """

    /// What it shows of the failure.
    static func initialize(_ url: String) async throws -> String {
        let client = try ServerProcess(root + "bin/python", ["-B", "-c", script, url])
        #expect(try await client.waitForExit() == .code(0), "\(client.log)")
        return client.output
    }
}
