import TestSupport
import Testing

@testable import SystemTestSupport

@Suite struct PlainIdentityPortTests {
    @Test(
        "https at a port that speaks plain HTTP: a warning that says what to look at, and no request is forwarded without a token"
    )
    func plainPort() async throws {
        let gate = try FaultGate(before: .tcp(1), mode: .garbage(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8)))
        let upstream = try RawServer()
        let lanyard = try await LanyardProcess.start(
            """
            identities: {demo: {app_services: {app_id: demo-abcde, base_url: "https://\(gate.endpoint)"}}}
            users: {alice: {identity: demo, login: {anonymous: {}}}}
            routes: [{upstream: "http://\(upstream.endpoint)"}]

            """)
        let line = try await lanyard.process.event("session.login.failed")
        #expect(line["level"].string == "warning")
        let words = line["error"].string ?? ""
        #expect(words.contains("TLS could not be agreed"), "\(words)")
        #expect(words.contains("does it speak https at that port"), "\(words)")
        #expect(line["next_at"].string != nil)
        try await eventually("it is tried again") { gate.connectionCount >= 2 }
        #expect(try await lanyard.get("/").status == 503)
        #expect(upstream.connectionCount == 0)
        #expect(try await lanyard.process.terminate() == .code(143))
    }
}
