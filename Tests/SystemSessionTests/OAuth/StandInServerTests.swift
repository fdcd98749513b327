import Foundation
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// The built Lanyard with a client's own login, whose routes all name a token.
@Suite struct StandInServerTests {
    @Test(
        "two audiences are two token calls; a reload with a route for the plain token has it fetched, and no other one sent"
    )
    func twoAudiences() async throws {
        // A fake: its access tokens name the audience that was asked for.
        let server = try RawServer { request in
            let fields = request.message.bodyText.split(separator: "&").map(String.init)
            let audience = fields.first { $0.hasPrefix("audience=") }?.dropFirst("audience=".count) ?? "plain"
            return .response(
                fields: [("Content-Type", "application/json")],
                body: #"{"access_token":"for-\#(audience)","token_type":"Bearer","expires_in":3600}"#)
        }
        // It responds with what it was sent: the requests of several connections have no order.
        let upstream = try RawServer { .response(body: $0.message["Authorization"] ?? "none") }
        let folder = try TemporaryFolder()
        let socket = folder.file("admin.sock")
        let route = { (name: String, token: String) in
            "  - {name: \(name), match: {path: /\(name)}, upstream: \"http://\(upstream.endpoint)\", user: robot\(token)}\n"
        }
        let lanyard = try await LanyardProcess.start(
            "identities:\n  corp: {oauth2: {endpoints: {token: \"http://\(server.endpoint)/token\"}, client_id: lanyard}}\n"
                + "users: {robot: {identity: corp, login: {client_credentials: {}}}}\nroutes:\n"
                + route("orders", ", token: {audience: orders}") + route("stock", ", token: {audience: stock}"),
            admin: "{address: \"unix:\(socket)\"}")
        try await lanyard.untilReady()
        for name in ["orders", "stock"] {
            #expect(try await lanyard.get("/\(name)").bodyText == "Bearer for-\(name)")
        }
        #expect(server.requests.count == 2 && server.requests.allSatisfy { $0.bodyText.contains("audience=") })
        let admin = AdminClient(endpoint: .unix(socket))
        let user = try await admin.call("GET", "/v1/users/robot")
        #expect(user["session"].string == "valid")
        #expect(user["tokens"].array.map { $0["route"].string } == ["orders", "stock"])
        #expect(user["tokens"].array.allSatisfy { $0["state"].string == "valid" })
        try await admin.call("POST", "/v1/users/robot/refresh")
        #expect(server.requests.count == 3 && server.requests.last?.bodyText.contains("audience=orders") == true)
        let path = lanyard.folder.file("lanyard.yaml")
        let text = try String(contentsOfFile: path, encoding: .utf8)
        try lanyard.folder.write("lanyard.yaml", text.replacing("routes:\n", with: "routes:\n" + route("mail", "")))
        #expect(try await RawClient.ask(.unix(socket), "POST", "/v1/reload").status == 200)
        for (name, token) in [("mail", "plain"), ("orders", "orders"), ("stock", "stock")] {
            #expect(try await lanyard.get("/\(name)").bodyText == "Bearer for-\(token)")
        }
        try await lanyard.process.terminate()
    }

    /// A fake token endpoint whose responses change, an upstream that refuses tokens, and routes of one user.
    private struct Bench {
        private final class State: Sendable {
            let failures = Guarded([String: (status: Int, error: String)]())
            let refused = Guarded(Set<String>())
            let tokens = Guarded(0)
        }

        private let state = State()
        let server: RawServer
        let upstream: RawServer
        let lanyard: LanyardProcess
        let admin: AdminClient
        private let folder: TemporaryFolder

        init(_ routes: [(name: String, audience: String)]) async throws {
            let state = state
            server = try RawServer { request in
                let fields = request.message.bodyText.split(separator: "&").map(String.init)
                let audience = fields.first { $0.hasPrefix("audience=") }.map { String($0.dropFirst(9)) } ?? "plain"
                let head = [("Content-Type", "application/json")]
                if let failure = state.failures.withLock({ $0[audience] ?? $0["all"] }) {
                    return .response(failure.status, "X", fields: head, body: #"{"error":"\#(failure.error)"}"#)
                }
                let number = state.tokens.withLock { count in
                    count += 1
                    return count
                }
                return .response(
                    fields: head,
                    body: #"{"access_token":"\#(audience)-\#(number)","token_type":"Bearer","expires_in":3600}"#)
            }
            upstream = try RawServer { request in
                let token = request.message["Authorization"].map { String($0.dropFirst("Bearer ".count)) } ?? "none"
                return state.refused.withLock { $0.contains(token) }
                    ? .response(401, "Unauthorized", body: "") : .response(body: token)
            }
            folder = try TemporaryFolder()
            let socket = folder.file("admin.sock")
            lanyard = try await LanyardProcess.start(
                "identities:\n  corp: {oauth2: {endpoints: {token: \"http://\(server.endpoint)/token\"}, client_id: lanyard}}\n"
                    + "users: {robot: {identity: corp, login: {client_credentials: {}}}}\n"
                    + Self.yaml(routes, upstream), admin: "{address: \"unix:\(socket)\"}")
            admin = AdminClient(endpoint: .unix(socket))
            try await lanyard.untilReady()
        }

        /// What the response to a call for an audience, for `plain` or for `all` is from now on.
        func fail(_ audience: String, _ status: Int, _ error: String) {
            state.failures.withLock { $0[audience] = (status, error) }
        }

        func mend() { state.failures.withLock { $0 = [:] } }

        /// The upstream does not accept this token any more.
        func refuse(_ token: String) { _ = state.refused.withLock { $0.insert(token) } }

        private static func yaml(_ routes: [(name: String, audience: String)], _ upstream: RawServer) -> String {
            routes.reduce(into: "routes:\n") { text, route in
                let token = route.audience.isEmpty ? "" : ", token: {audience: \(route.audience)}"
                text += "  - {name: \(route.name), match: {path: /\(route.name)}, "
                text += "upstream: \"http://\(upstream.endpoint)\", user: robot\(token)}\n"
            }
        }

        /// The audience of the token that a request carries; nil: it got 503.
        func audience(_ route: String) async throws -> String? {
            let response = try await lanyard.get("/\(route)")
            guard response.status == 200 else { return nil }
            return String(response.bodyText.split(separator: "-").first ?? "")
        }

        func reload(_ routes: [(name: String, audience: String)]) async throws {
            let path = lanyard.folder.file("lanyard.yaml")
            let text = try String(contentsOfFile: path, encoding: .utf8)
            let start = try #require(text.range(of: "routes:\n")?.lowerBound)
            let lines = text[start...].split(separator: "\n", omittingEmptySubsequences: false).dropFirst()
            let rest = lines.drop { $0.hasPrefix("  - ") }.joined(separator: "\n")
            try lanyard.folder.write("lanyard.yaml", text[..<start] + Self.yaml(routes, upstream) + rest)
            try await admin.call("POST", "/v1/reload")
        }

        func user() async throws -> JSON { try await admin.call("GET", "/v1/users/robot") }
    }

    @Test("a refused renewal of the first route's token leaves it to its end, and no other token is asked for")
    func refusedRenewal() async throws {
        for (status, error) in [(401, "invalid_client"), (400, "invalid_target"), (403, "access_denied")] {
            let bench = try await Bench([("orders", "orders"), ("stock", "stock")])
            bench.fail("all", status, error)
            #expect(try await bench.admin.ask("POST", "/v1/users/robot/refresh").status != 200)
            #expect(bench.server.requests.count == 3)
            for name in ["orders", "stock"] { #expect(try await bench.audience(name) == name, "\(error)") }
            let user = try await bench.user()
            #expect(user["session"].string == "stale" && user["last_error"].string?.contains(error) == true, "\(user)")
            try await bench.lanyard.process.terminate()
        }
    }

    @Test("reloads while the service fails: each route whose token is there is served")
    func reloadDuringOutage() async throws {
        let (orders, stock, mail) = (("orders", "orders"), ("stock", "stock"), ("mail", ""))
        let bench = try await Bench([orders, stock])
        bench.fail("all", 503, "temporarily_unavailable")
        for routes in [
            [stock, orders], [("third", "third"), orders, stock], [orders, stock, mail], [orders, stock],
        ] {
            try await bench.reload(routes)
            for name in ["orders", "stock"] { #expect(try await bench.audience(name) == name, "\(routes)") }
        }
        #expect(try await bench.user()["session"].string == "valid")
        try await bench.reload([("orders", "changed"), stock])
        #expect(try await bench.audience("stock") == "stock")
        try await bench.reload([stock])
        #expect(try await bench.audience("stock") == "stock")
        #expect(try await bench.lanyard.readiness().status == 200)
        bench.mend()
        try await bench.reload([mail, stock])
        try await eventually("the plain token is there") { try await bench.audience("mail") == "plain" }
        #expect(try await bench.audience("stock") == "stock")
        try await bench.lanyard.process.terminate()
    }

    @Test("the plain token is refused: a route's own token is fetched and served all the same")
    func withoutPlain() async throws {
        for (status, error) in [(503, "temporarily_unavailable"), (401, "invalid_client"), (400, "invalid_target")] {
            let bench = try await Bench([("mail", ""), ("orders", "orders")])
            bench.fail("plain", status, error)
            #expect(try await bench.admin.ask("POST", "/v1/users/robot/refresh").status != 200)
            #expect(try await bench.user()["session"].string == "stale")
            let token = try await bench.lanyard.get("/orders").bodyText
            bench.refuse(token)
            #expect(try await bench.audience("orders") == "orders", "\(error)")
            #expect(bench.server.requests.last?.bodyText.contains("audience=orders") == true)
            #expect(try await bench.audience("mail") == "plain")
            try await bench.lanyard.process.terminate()
        }
    }
}
