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
}
