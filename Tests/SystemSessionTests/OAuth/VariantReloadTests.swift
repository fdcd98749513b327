import Foundation
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// The built Lanyard whose routes ask for tokens of their own, while its configuration and its users change.
@Suite struct VariantReloadTests {
    /// A fake: its access tokens name the audience that was asked for, so that the upstream tells them apart.
    private static func server() throws -> RawServer {
        try RawServer { request in
            guard request.message.target == "/token" else { return .response(404, "Not Found", body: "") }
            let fields = request.message.bodyText.split(separator: "&").map(String.init)
            let audience = fields.first { $0.hasPrefix("audience=") }?.dropFirst("audience=".count) ?? "plain"
            let rest = #""token_type":"Bearer","expires_in":3600,"refresh_token":"r""#
            return .response(
                fields: [("Content-Type", "application/json")], body: #"{"access_token":"for-\#(audience)",\#(rest)}"#)
        }
    }

    /// The token of the latest request, on whatever connection.
    private final class Latest: Sendable {
        let token = Guarded<String?>(nil)
    }

    private struct Bench {
        let server: RawServer
        let upstream: RawServer
        let folder: TemporaryFolder
        let lanyard: LanyardProcess
        let admin: RawEndpoint
        let latest = Latest()

        init() async throws {
            (server, folder) = (try VariantReloadTests.server(), try TemporaryFolder())
            upstream = try RawServer { [latest] request in
                latest.token.withLock { $0 = request.message["Authorization"] }
                return .response()
            }
            try folder.write("password", "p")
            let socket = folder.file("admin.sock")
            admin = .unix(socket)
            lanyard = try await LanyardProcess.start(
                """
                identities:
                  corp: {oauth2: {endpoints: {token: "http://\(server.endpoint)/token"}, client_id: lanyard}}
                users:
                  alice: {identity: corp, login: {password: {username: a, password_file: \(folder.file("password"))}}}
                routes:
                  - {name: orders, match: {path: /orders}, upstream: "http://\(upstream.endpoint)", user: alice,
                     token: {audience: orders}}
                  - {name: mail, match: {path: /mail}, upstream: "http://\(upstream.endpoint)", user: alice}
                """, admin: "{address: \"unix:\(socket)\"}")
            try await lanyard.untilReady()
        }

        /// The token that a request brings to the upstream; nil: the request got 503.
        func token(_ path: String) async throws -> String? {
            let count = upstream.requests.count
            let response = try await lanyard.get(path)
            guard response.status == 200 else {
                #expect(response.status == 503 && upstream.requests.count == count)
                return nil
            }
            return latest.token.withLock { $0 }
        }

        func reload(_ old: String, _ new: String) async throws {
            let path = lanyard.folder.file("lanyard.yaml")
            let text = try String(contentsOfFile: path, encoding: .utf8)
            try #require(text.contains(old))
            try lanyard.folder.write("lanyard.yaml", text.replacing(old, with: new))
            let response = try await RawClient.ask(admin, "POST", "/v1/reload")
            #expect(response.status == 200, "\(response.bodyText)")
        }

        func fetches(_ result: String) async throws -> Double? {
            let page = try await RawClient.ask(lanyard.health, "GET", "/metrics").body
            for sample in try ExpositionReader(page, openMetrics: false).samples
            where sample.name == "lanyard_variant_fetches_total" {
                if sample.labels["result"] == result { return sample.value }
            }
            return nil
        }
    }

    @Test("a reload that changes, drops and adds a route's token takes effect with the next request")
    func reload() async throws {
        let bench = try await Bench()
        #expect(try await bench.token("/orders") == "Bearer for-orders")
        #expect(try await bench.token("/mail") == "Bearer for-plain")
        #expect(try await bench.fetches("success") == 1)
        #expect(try await bench.fetches("session_dead") == 0, "it is 0 before the first event")
        try await bench.reload("{audience: orders}", "{audience: billing}")
        #expect(try await bench.token("/orders") == "Bearer for-billing")
        try await bench.reload(",\n     token: {audience: billing}", "")
        #expect(try await bench.token("/orders") == "Bearer for-plain")
        let calls = bench.server.requests.count
        try await bench.reload("path: /mail}, ", "path: /mail}, token: {resource: [\"https://mail.example\"]}, ")
        #expect(try await bench.token("/mail") == "Bearer for-plain")
        try #require(bench.server.requests.count == calls + 1)
        #expect(bench.server.requests.last?.bodyText.contains("resource=https%3A%2F%2Fmail.example") == true)
        #expect(bench.server.requests.count { $0.bodyText.contains("grant_type=password") } == 1, "no further login")
        try await bench.lanyard.process.terminate()
    }

    @Test("a removed user's token of a route is gone with the plain one, and comes back with the next login")
    func removal() async throws {
        let bench = try await Bench()
        #expect(try await bench.token("/orders") == "Bearer for-orders")
        #expect(try await RawClient.ask(bench.admin, "DELETE", "/v1/users/alice").status == 204)
        for path in ["/orders", "/mail"] { #expect(try await bench.token(path) == nil) }
        try await bench.reload("log:", "# changed\nlog:")
        for path in ["/orders", "/mail"] { #expect(try await bench.token(path) == nil, "a reload brings no user back") }
        let credential = #"{"password":{"username":"a","password":"p"}}"#
        let response = try await RawClient.ask(
            bench.admin, "POST", "/v1/users", body: #"{"name":"alice","identity":"corp","credential":\#(credential)}"#)
        #expect(response.status == 201, "\(response.bodyText)")
        #expect(try await bench.token("/orders") == "Bearer for-orders")
        #expect(try await bench.token("/mail") == "Bearer for-plain")
        try await bench.lanyard.process.terminate()
    }
}
