import Foundation
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// The built Lanyard with two access tokens of one session at authgent-server, whose refresh tokens work once. Its upstream takes a
/// token only for the audience that the path names.
final class VariantBench: Sendable {
    static let audiences = ["orders": "https://orders.example", "stock": "https://stock.example"]

    let server: PythonServer
    let relay: TokenRelay
    let upstream: RawServer
    let folder: TemporaryFolder

    /// - Parameters:
    ///   - lifetime: of access tokens, in seconds.
    ///   - takesResource: the server gives each refresh the audience of its `resource`, which the released one does not.
    ///   - delay: of each response of the token endpoint.
    init(lifetime: Int = 900, takesResource: Bool = true, delay: Duration = .zero) async throws {
        server = try await PythonServer.start(
            "authgent", ["--lifetime", "\(lifetime)"] + (takesResource ? ["--resource"] : []))
        relay = try TokenRelay(before: server.endpoint, delay: delay)
        folder = try TemporaryFolder()
        try folder.write("key", String(repeating: "k", count: 32))
        upstream = try RawServer { request in
            let name = String(request.message.target.split(separator: "/").first ?? "")
            let token = request.message["Authorization"].map { String($0.dropFirst("Bearer ".count)) }
            let audience = try? Self.claims(token)["aud"] as? String
            return audience == Self.audiences[name] && audience != nil
                ? .response(200, "OK", body: audience ?? "")
                : .response(421, "Misdirected Request", body: "a token for \(audience ?? "nobody") at \(name)")
        }
    }

    static func claims(_ token: String?) throws -> [String: Any] {
        let parts = try #require(token).split(separator: ".")
        let part = try #require(parts.count == 3 ? parts[1] : nil).replacing("-", with: "+").replacing("_", with: "/")
        let data = try #require(Data(base64Encoded: part + String(repeating: "=", count: (4 - part.count % 4) % 4)))
        return try #require(JSONSerialization.jsonObject(with: data) as? [String: Any])
    }

    func start(_ name: String = "one") async throws -> LanyardProcess {
        let yaml = """
            identities:
              corp:
                oauth2:
                  {endpoints: {token: "http://\(relay.endpoint)/token"}, client_id: \(try server.text("client_id")),
                   client_authentication: post, client_secret_file: \(server.folder.file("client_secret"))}
            users: {alice: {identity: corp, login: {refresh_token: {token_file: \(server.folder.file("refresh_token"))}}}}
            routes:
              - {name: orders, match: {path: /orders}, upstream: "http://\(upstream.endpoint)", user: alice,
                 token: {resource: ["\(Self.audiences["orders"] ?? "")"]}}
              - {name: stock, match: {path: /stock}, upstream: "http://\(upstream.endpoint)", user: alice,
                 token: {resource: ["\(Self.audiences["stock"] ?? "")"]}}
            store: {path: \(folder.file("sessions")), key_file: \(folder.file("key"))}

            """
        return try await LanyardProcess.start(
            yaml, admin: "{address: \"unix:\(folder.file(name + ".sock"))\", expose_tokens: true}")
    }

    func admin(_ name: String = "one") -> AdminClient { AdminClient(endpoint: .unix(folder.file(name + ".sock"))) }

    /// Calls for each token of the session, by its `resource`; none for the session's own.
    var callsByToken: [String: [TokenRelay.Call]] { Dictionary(grouping: relay.calls, by: \.resource) }

    /// No call began before the response to the one before, none was refused, and no refresh token was sent twice.
    func expectOneLane() {
        let calls = relay.calls
        #expect(calls.allSatisfy { $0.status == 200 }, "\(calls)")
        for (before, after) in zip(calls, calls.dropFirst()) {
            #expect(after.arrivedAt >= before.respondedAt, "two calls at once: \(before), \(after)")
        }
        #expect(Set(calls.map(\.refreshToken)).count == calls.count, "\(calls)")
    }

    func stop(_ processes: LanyardProcess...) async throws {
        for lanyard in processes { try await lanyard.process.terminate() }
        try await server.stop()
    }
}

/// Starts of authgent-server take seconds.
@Suite(.enabled(if: PythonServer.isThere("authgent"), "needs deploy/peer-servers authgent"))
struct VariantServerTests {
    @Test("two tokens of one rotating session: each request carries its own, in one lane; a restart needs no call")
    func twoVariants() async throws {
        let bench = try await VariantBench()
        let lanyard = try await bench.start()
        try await lanyard.untilReady()
        for (name, audience) in VariantBench.audiences {
            let response = try await RawClient.ask(lanyard.data, "GET", "/\(name)")
            #expect(response.status == 200 && response.bodyText == audience, "\(response.bodyText)")
        }
        #expect(bench.relay.calls.count == 3)
        let tokens = try await bench.admin().call("GET", "/v1/users/alice")["tokens"].array
        #expect(tokens.map { $0["route"].string } == ["orders", "stock"])
        #expect(tokens.allSatisfy { $0["state"].string == "valid" && $0["reason"].string == "token_valid" })
        let shown = try await bench.admin().call("GET", "/v1/users/alice/token")
        #expect(try VariantBench.claims(shown["access_token"].string)["aud"] as? String == bench.server.base)
        for token in shown["tokens"].array {
            #expect(
                try VariantBench.claims(token["access_token"].string)["aud"] as? String
                    == token["resource"].array.first?.string)
        }
        lanyard.process.signal(SIGKILL)
        try await lanyard.process.waitForExit()
        let again = try await bench.start()
        try await again.untilReady()
        for name in VariantBench.audiences.keys {
            #expect(try await RawClient.ask(again.data, "GET", "/\(name)").status == 200)
        }
        #expect(bench.relay.calls.count == 3)
        // The session is alive: the last refresh token works.
        try await bench.admin().call("POST", "/v1/users/alice/refresh")
        bench.expectOneLane()
        try await bench.stop(again)
    }

    @Test("a server that ignores resource: its token goes to no upstream, readiness says why, and the session lives")
    func ignoredResource() async throws {
        let bench = try await VariantBench(takesResource: false)
        let lanyard = try await bench.start()
        let refused = try await lanyard.process.event("session.variant.refused") { $0["route"].string == "orders" }
        #expect(refused["reason"].string == "audience_mismatch")
        let text = refused["error"].string ?? ""
        #expect(text.contains(bench.server.base) && text.contains("https://orders.example"), "\(text)")
        _ = try await lanyard.process.event("session.variant.refused") { $0["route"].string == "stock" }
        let response = try await RawClient.ask(lanyard.data, "GET", "/orders")
        #expect(response.status == 503 && response.bodyText.contains("credential-refused"), "\(response.bodyText)")
        let ready = try await RawClient.ask(lanyard.health, "GET", "/readyz")
        #expect(ready.status == 503 && ready.bodyText.contains("audience_mismatch"), "\(ready.bodyText)")
        let user = try await bench.admin().call("GET", "/v1/users/alice")
        #expect(user["session"].string == "valid")
        #expect(bench.upstream.requests.isEmpty)
        bench.expectOneLane()
        try await bench.stop(lanyard)
    }
}

/// The same under load, with tokens that live for some seconds.
@Suite(.serialized, .enabled(if: PythonServer.isThere("authgent"), "needs deploy/peer-servers authgent"))
struct LongVariantTests {
    private static let tokenSeconds = 12
    /// How often each token is renewed under the load. Two minutes of 12-second tokens have room for 14 windows.
    private static let windows = LongSize.of(14, least: 4)
    private static let clients = 50

    private func load(_ bench: VariantBench, _ processes: [LanyardProcess], _ what: String) async throws {
        let loops = processes.flatMap { lanyard in
            VariantBench.audiences.keys.sorted().map {
                ClosedLoop(clients: Self.clients, lanyard.data, "/\($0)", pause: .milliseconds(500))
            }
        }
        let tallies = try await loops.run(
            untilEach: "renewal of each of three tokens", times: Self.windows, requests: loops.count * Self.clients
        ) { bench.callsByToken.values.map(\.count).min() ?? 0 }
        for tally in tallies {
            let logs = processes.map { $0.process.log(of: "session.") }.joined(separator: "\n\n")
            #expect(tally.failed == 0, "\(tally.failures.first ?? "")\n\(logs)\n\(bench.relay.calls)")
        }
        bench.expectOneLane()
        let tokens = bench.callsByToken
        #expect(tokens.count == 3, "\(tokens.keys)")
        // A token is not renewed before 65 % of its life have passed. Its times are whole seconds.
        for (token, calls) in tokens {
            for (before, after) in zip(calls, calls.dropFirst()) {
                let gap = after.arrivedAt - before.arrivedAt
                #expect(gap >= 0.65 * Double(Self.tokenSeconds) - 1, "\(token): a call \(gap) s after the one before")
            }
        }
        let requests = tallies.reduce(0) { $0 + $1.requests }
        print(
            "\(what): \(Self.windows) windows, \(requests) requests, \(bench.relay.calls.count) token calls in one lane"
        )
    }

    @Test("100 clients on two routes: every request carries the token of its own audience, and the calls make one lane")
    func oneProcess() async throws {
        let bench = try await VariantBench(lifetime: Self.tokenSeconds, delay: .milliseconds(300))
        let lanyard = try await bench.start()
        try await lanyard.untilReady()
        try await load(bench, [lanyard], "one process")
        try await bench.stop(lanyard)
    }

    @Test("two processes on one store make one lane, too: what one fetches the other takes over")
    func twoProcesses() async throws {
        let bench = try await VariantBench(lifetime: Self.tokenSeconds, delay: .milliseconds(300))
        let one = try await bench.start("one")
        try await one.untilReady()
        let two = try await bench.start("two")
        try await two.untilReady()
        try await load(bench, [one, two], "two processes")
        try await bench.stop(one, two)
    }
}
