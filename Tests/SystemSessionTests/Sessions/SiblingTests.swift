import TestSupport
import Testing

@testable import SystemTestSupport

/// "What an operator does at one Lanyard holds at the other one on the same store, too."
@Suite struct SiblingTests {
    /// The others' changes are looked for every 30 s.
    private static let look = Duration.seconds(31)

    @Test("a logout at one is noticed at the other, and so is the login after it, without a call of its own")
    func noticed() async throws {
        let clock = try TestClock()
        let emulator = try await EmulatorProcess.start(tokens: "1800s", under: clock)
        let device = try await Device.make(emulator, users: [Device.alice], under: clock)
        let one = try await device.start("one"), two = try await device.start("two")
        for running in [one, two] { try await running.untilReady() }
        let account = try #require(try await two.account(at: "/as/alice"))
        try await one.admin.call("POST", "/v1/users/alice/logout")
        // The service refuses the token by now; here it must not be used any more at all.
        try await clock.pass(Self.look)
        #expect(try await two.admin.status()["alice"]?.session == "logged_out")
        let response = try await RawClient.ask(two.data, "GET", "/as/alice")
        #expect(response.status == 503 && UsersBench.problem(response) == "login-required")
        try await one.admin.call("POST", "/v1/users/alice/login")
        try await clock.pass(Self.look)
        #expect(try await two.account(at: "/as/alice") == account)
        #expect(try await emulator.calls("login") == 2)
        #expect(try await emulator.calls("refresh") == 0)
        #expect(try await emulator.control("GET", "/ledger")["total"]["revocations"].int == 1)
        for running in [one, two] { #expect(try await running.process.terminate() == .code(143)) }
    }

    @Test("a name that one has given away is in use at the other, where its user is known from then on")
    func nameInUse() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s")
        let device = try await Device.make(emulator, users: [Device.alice])
        for name in ["bob", "carol"] {
            try await emulator.add("\(name)@example.com", password: "\(name)-secret-word")
        }
        let one = try await device.start("one"), two = try await device.start("two")
        for running in [one, two] { try await running.untilReady() }
        try await one.admin.call("POST", "/v1/users", Self.user("bob", as: "bob"))
        let refused = try await two.admin.ask("POST", "/v1/users", Self.user("bob", as: "carol"))
        #expect(refused.status == 409 && UsersBench.problem(refused) == "name-in-use")
        let statistics = try await emulator.control("GET", "/ledger")
        #expect(statistics["accounts"]["carol@example.com"]["logins"]["local-userpass"].int ?? 0 == 0)
        #expect(statistics["total"]["revocations"].int == 0)
        let known = try await two.admin.status()["bob"]
        let given = try await one.admin.status()["bob"]
        #expect(known?.accountID != nil && known?.accountID == given?.accountID)
        // It is the same session, not a second one.
        try await two.admin.call("POST", "/v1/users/bob/refresh")
        #expect(try await emulator.calls("login") == 2)
        for running in [one, two] { #expect(try await running.process.terminate() == .code(143)) }
    }

    @Test("a user whose credential was refused at one is served by the other no longer than to its next look")
    func refused() async throws {
        let clock = try TestClock()
        let emulator = try await EmulatorProcess.start(tokens: "1800s", under: clock)
        let device = try await Device.make(emulator, users: [Device.alice], under: clock)
        let one = try await device.start("one"), two = try await device.start("two")
        for running in [one, two] { try await running.untilReady() }
        try await emulator.control("POST", "/users/disable", #"{"user":"\#(Device.alice.email)"}"#)
        let refusal = try await one.admin.ask("POST", "/v1/users/alice/refresh")
        #expect(UsersBench.problem(refusal) == "credential-refused", "\(refusal.bodyText)")
        #expect(try await one.admin.status()["alice"]?.session == "refused")
        try await clock.pass(Self.look)
        #expect(try await two.admin.status()["alice"]?.session == "refused")
        let response = try await RawClient.ask(two.data, "GET", "/as/alice")
        #expect(response.status == 503 && UsersBench.problem(response) == "credential-refused")
        // The refused credential was not sent a second time.
        #expect(try await emulator.calls("login") == 2)
        for running in [one, two] { #expect(try await running.process.terminate() == .code(143)) }
    }

    @Test("an account in which a user is logged in at one is in use at the other, too")
    func accountInUse() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s")
        let device = try await Device.make(emulator, users: [Device.alice])
        try await emulator.add("dave@example.com", password: "dave-secret-word")
        let one = try await device.start("one"), two = try await device.start("two")
        for running in [one, two] { try await running.untilReady() }
        let first = try await one.admin.ask("POST", "/v1/users", Self.user("dave1", as: "dave"))
        #expect(first.status == 201)
        let second = try await two.admin.ask("POST", "/v1/users", Self.user("dave2", as: "dave"))
        #expect(second.status == 409 && UsersBench.problem(second) == "account-in-use", "\(second.bodyText)")
        #expect(second.bodyText.contains("dave1"))
        #expect(try await two.admin.status()["dave2"] == nil)
        try await eventually("the second session is revoked") {
            try await emulator.control("GET", "/ledger")["total"]["revocations"].int == 1
        }
        // The first one's is another, and lives.
        try await one.admin.call("POST", "/v1/users/dave1/refresh")
        // What the name of the one who was turned away is worth: it can be given to another user.
        try await emulator.add("erin@example.com", password: "erin-secret-word")
        #expect(try await two.admin.ask("POST", "/v1/users", Self.user("dave2", as: "erin")).status == 201)
        for running in [one, two] { #expect(try await running.process.terminate() == .code(143)) }

        let again = try await device.start()
        try await again.untilReady()
        let users = try await again.admin.status().users
        #expect(users.map(\.name) == ["alice", "dave1", "dave2"] && users.allSatisfy(\.isIn), "\(users)")
        #expect(Set(users.map(\.accountID)).count == 3)
        #expect(try await again.process.terminate() == .code(143))
    }

    @Test("once the user of an account is logged out at one, another may have it at the other")
    func accountLeft() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s")
        let device = try await Device.make(emulator, users: [Device.alice])
        try await emulator.add("dave@example.com", password: "dave-secret-word")
        let one = try await device.start("one"), two = try await device.start("two")
        for running in [one, two] { try await running.untilReady() }
        try await one.admin.call("POST", "/v1/users", Self.user("dave1", as: "dave"))
        try await one.admin.call("POST", "/v1/users/dave1/logout")
        try await two.admin.call("POST", "/v1/users", Self.user("dave2", as: "dave"))
        let refused = try await one.admin.ask(
            "POST", "/v1/users/dave1/login", AdminClient.password("dave@example.com", "dave-secret-word"))
        #expect(refused.status == 409 && UsersBench.problem(refused) == "account-in-use", "\(refused.bodyText)")
        #expect(try await one.admin.status()["dave1"]?.session == "logged_out")
        for running in [one, two] { #expect(try await running.process.terminate() == .code(143)) }
    }

    private static func user(_ name: String, as account: String) -> String {
        let credential = #"{"email_password":{"email":"\#(account)@example.com","password":"\#(account)-secret-word"}}"#
        return #"{"name":"\#(name)","identity":"demo","credential":\#(credential)}"#
    }
}
