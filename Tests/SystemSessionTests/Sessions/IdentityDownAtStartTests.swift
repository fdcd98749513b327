import TestSupport
import Testing

@testable import SystemTestSupport

@Suite struct IdentityDownAtStartTests {
    @Test(
        "an identity service that is down at the start: Lanyard runs, says why it is not ready, and recovers by itself")
    func recovers() async throws {
        // Whose port is free then, and its own again.
        let first = try await EmulatorProcess.start(tokens: "30m")
        try await first.process.terminate()
        let upstream = try RawServer()
        let lanyard = try await LanyardProcess.start(first, upstream: upstream.endpoint)
        for path in ["/startupz", "/readyz", "/readyz/alice"] {
            try await eventually("\(path) says why") {
                let response = try await RawClient.ask(lanyard.health, "GET", path)
                #expect(response.status == 503)
                let session = try response.json["checks"].array.first { $0["name"].string == "session:alice" }
                #expect(session?["ok"].bool == false)
                return session?["reason"].string == "identity_unreachable"
            }
        }
        #expect(try await RawClient.ask(lanyard.health, "GET", "/livez").status == 200)
        let refused = try await lanyard.get("/")
        #expect(refused.status == 503)
        #expect(try refused.json["type"].string == "urn:lanyard:problem:identity-unreachable")
        #expect(refused["Retry-After"].flatMap { Int($0) } ?? 0 >= 1)
        #expect(upstream.connectionCount == 0)

        let second = try await EmulatorProcess.start(tokens: "30m", port: first.endpoint.port)
        try await lanyard.untilReady()
        #expect(try await RawClient.ask(lanyard.health, "GET", "/startupz").status == 200)
        #expect(try await lanyard.get("/").status == 200)
        #expect(upstream.requests.allSatisfy { $0["Authorization"]?.hasPrefix("Bearer ey") == true })
        #expect(try await second.issued().count == 1)
        #expect(try await lanyard.process.terminate() == .code(143))
    }
}
