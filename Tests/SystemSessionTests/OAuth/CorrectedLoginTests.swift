import Foundation
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// The built Lanyard whose login an OAuth server has refused for what the configuration says.
@Suite struct CorrectedLoginTests {
    @Test(
        "a mistyped scope is refused once; the corrected one logs in, by a reload and by a restart",
        arguments: [true, false])
    func scope(_ isReload: Bool) async throws {
        // A fake, as each real server has its own words for a scope that it does not know.
        let server = try RawServer { request in
            let json = [("Content-Type", "application/json")]
            return request.message.bodyText.contains("scope=orders")
                ? .response(fields: json, body: #"{"access_token":"t","token_type":"Bearer","expires_in":3600}"#)
                : .response(400, "Bad Request", fields: json, body: #"{"error":"invalid_scope"}"#)
        }
        let (upstream, folder) = (try RawServer(), try TemporaryFolder())
        try folder.write("key", String(repeating: "k", count: 32))
        func yaml(_ scope: String) -> String {
            """
            identities:
              corp: {oauth2: {endpoints: {token: "http://\(server.endpoint)/token"}, client_id: c, scopes: [\(scope)]}}
            users: {robot: {identity: corp, login: {client_credentials: {}}}}
            routes: [{name: robot, upstream: "http://\(upstream.endpoint)", user: robot}]
            store: {path: \(folder.file("sessions")), key_file: \(folder.file("key"))}

            """
        }
        let first = try await LanyardProcess.start(yaml("odrers"))
        let refused = try await first.process.event("session.credential.refused")
        #expect(refused["error"].string?.contains("check scopes") == true, "\(refused)")
        #expect(try await first.get("/").status == 503 && server.requests.count == 1)
        var lanyard = first
        if isReload {
            let path = first.folder.file("lanyard.yaml")
            let text = try String(contentsOfFile: path, encoding: .utf8)
            try first.folder.write("lanyard.yaml", text.replacing("odrers", with: "orders"))
            first.process.signal(SIGHUP)
        } else {
            try await first.process.terminate()
            // The store remembers the refusal: the same request is not sent again.
            let second = try await LanyardProcess.start(yaml("odrers"))
            try await second.process.event("session.credential.refused")
            #expect(server.requests.count == 1)
            try await second.process.terminate()
            lanyard = try await LanyardProcess.start(yaml("orders"))
        }
        try await lanyard.untilReady()
        #expect(try await lanyard.get("/").status == 200)
        #expect(upstream.requests.last?["Authorization"] == "Bearer t" && server.requests.count == 2)
        try await lanyard.process.terminate()
    }
}
