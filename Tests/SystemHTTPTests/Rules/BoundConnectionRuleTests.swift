import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// http-connections.md 16.9: a connection that a client has authenticated belongs to this client.
@Suite struct BoundConnectionRuleTests {
    @Test(
        "16.9 A client without credentials is not served as the one that has authenticated a connection",
        arguments: ["per_user", "shared"])
    func owned(_ connections: String) async throws {
        let bench = try await HTTPBench.start { plan in
            plan.route = "inject: {header: X-Token, format: \"{token}\"}, connections: \(connections)"
            plan.shards = 1
        }
        let known = Guarded<Set<Int>>([])
        bench.script { request in
            if request.message["Authorization"] == "NTLM proof" { known.withLock { _ = $0.insert(request.connection) } }
            let isKnown = known.withLock { $0.contains(request.connection) }
            return isKnown
                ? .response(body: "secret")
                : .response(401, "Unauthorized", fields: [("WWW-Authenticate", "NTLM")], body: "")
        }
        let (alice, bob) = (try RawClient(bench.lanyard.data), try RawClient(bench.lanyard.data))
        #expect(try alice.exchange("GET", "/").status == 401)
        #expect(try alice.exchange("GET", "/", fields: [("Authorization", "NTLM proof")]).bodyText == "secret")
        #expect(try bob.exchange("GET", "/").status == 401)
        #expect(try alice.exchange("GET", "/").bodyText == "secret")
        alice.close()
        try await eventually("it ends with its client") { bench.upstream.openCount == 1 }
        #expect(try bob.exchange("GET", "/").status == 401)
        bob.close()
    }
}
