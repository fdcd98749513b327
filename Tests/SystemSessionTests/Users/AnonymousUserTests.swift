import TestSupport
import Testing

@testable import SystemTestSupport

/// "Guests come and go."
@Suite struct AnonymousUserTests {
    private static let anonymous = #"{"anonymous":{}}"#

    @Test("a second anonymous login is the first guest again, without a call and without a new name")
    func reuse() async throws {
        let bench = try await UsersBench.start()
        try await bench.untilAlice()
        #expect(try await bench.add("guest", Self.anonymous).status == 201)
        let guest = try await bench.account("guest")
        #expect(try await bench.call("POST", "/users/alice/activate").status == 200)
        let again = try await bench.add("other", Self.anonymous)
        #expect(again.status == 200)
        #expect(try again.json["name"].string == "guest")
        #expect(try again.json["state"].string == "active")
        #expect(try await bench.bearer() == guest)
        try await bench.lanyard.process.settle()
        // The audit names who it turned out to be; no user is called other.
        let audit = bench.lanyard.process.lines.last { $0.event == "admin.call" }?.json
        #expect(audit?["call"].string == "add" && audit?["user"].string == "guest", "\(audit ?? .null)")
        #expect(try await bench.emulator.calls("login") == 2)
        #expect(UsersBench.problem(try await bench.call("GET", "/users/other")) == "no-such-user")
    }

    @Test("a guest that is logged out is gone; the next one is another account")
    func removed() async throws {
        let bench = try await UsersBench.start()
        try await bench.untilAlice()
        #expect(try await bench.add("guest", Self.anonymous).status == 201)
        let first = try await bench.account("guest")
        let out = try await bench.call("POST", "/users/guest/logout").json
        #expect(
            out
                == .object([
                    "name": .string("guest"), "removed": .bool(true), "revocation": .string("confirmed"),
                    "revoked": .bool(true), "stored": .bool(true),
                ]))
        #expect(try await bench.users().contains { $0.hasPrefix("guest") } == false)
        #expect(try await bench.add("guest", Self.anonymous).status == 201)
        #expect(try await bench.account("guest") != first)
    }

    @Test("a configured guest logs in by itself, and is another account after logout and login")
    func configured() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s")
        let folder = try TemporaryFolder()
        let admin = RawEndpoint.unix(folder.file("admin.sock"))
        let lanyard = try await LanyardProcess.start(
            """
            identities: {demo: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(emulator.endpoint)"}}}
            users: {kiosk: {identity: demo, login: {anonymous: {}}}}
            routes: [{name: all, upstream: "http://\(emulator.endpoint)"}]

            """, admin: "{address: \"\(admin)\"}")
        try await lanyard.untilReady()
        let first = try await RawClient.ask(admin, "GET", "/v1/users/kiosk").json["user_id"].string
        #expect(try await RawClient.ask(admin, "POST", "/v1/users/kiosk/logout").json["removed"].bool == true)
        #expect(try await RawClient.ask(admin, "GET", "/v1/users").json["users"].array.isEmpty)
        #expect(try await lanyard.readiness().status == 503)
        let again = try await RawClient.ask(admin, "POST", "/v1/users/kiosk/login")
        #expect(again.status == 200)
        #expect(try again.json["user_id"].string != first)
        #expect(try await lanyard.readiness().status == 200)
    }

    @Test("a guest whose session is revoked is gone with it")
    func dead() async throws {
        let bench = try await UsersBench.start()
        try await bench.untilAlice()
        #expect(try await bench.add("guest", Self.anonymous).status == 201)
        let guest = try await bench.account("guest")
        try await bench.emulator.control("POST", "/sessions/revoke", #"{"user":"\#(guest)"}"#)
        #expect(UsersBench.problem(try await bench.call("POST", "/users/guest/refresh")) == "identity-error")
        try await eventually("the guest is gone") {
            try await bench.users().contains { $0.hasPrefix("guest") } == false
        }
        #expect(try await bench.bearer() == "no-active-user")
    }
}
