import TestSupport
import Testing

@testable import SystemTestSupport

/// Rolling restarts under load.
@Suite struct LongReplacementTests {
    @Test("200 clients in a closed loop while the program is replaced 10 times by socket activation: no failed request")
    func crowd() async throws {
        let folder = try TemporaryFolder()
        let upstream = try RawServer(requestsKeptMax: 0)
        let path = try folder.write(
            "lanyard.yaml",
            """
            listeners: [{address: "systemd:data"}]
            identities: {fixed: {static: {token_file: \(try folder.write("token", "t"))}}}
            users: {alice: {identity: fixed}}
            routes: [{name: all, upstream: "http://\(upstream.endpoint)"}]
            store: {memory: true}
            health: off
            admin: off
            log: {access: false}

            """)
        try await Replacement.check(clients: 200, 10, ["run", "--config", path])
    }
}
