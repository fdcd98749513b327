import TestSupport
import Testing

/// "What a person does at one Lanyard holds at the other one on the same store, too."
@Suite(.timeLimit(.minutes(3))) struct SiblingTests {
    /// The others' changes are looked for every 30 s.
    private static let look = Duration.seconds(45)

    @Test("a logout at one is noticed at the other, and so is the login after it, without a call of its own")
    func noticed() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s")
        let device = try await Device.make(emulator, users: [Device.alice])
        let one = try await device.start("one"), two = try await device.start("two")
        for running in [one, two] { try await running.untilReady() }
        let account = try #require(try await two.account(at: "/as/alice"))
        try await one.admin.call("POST", "/v1/users/alice/logout")
        // The service refuses the token by now; here it must not be used any more at all.
        try await eventually("the other one has logged alice out", within: Self.look) {
            try await two.admin.status()["alice"]?.session == "logged_out"
        }
        let answer = try await RawClient.ask(two.data, "GET", "/as/alice")
        #expect(answer.status == 503 && UsersBench.problem(answer) == "login-required")
        try await one.admin.call("POST", "/v1/users/alice/login")
        try await eventually("the other one serves alice again", within: Self.look) {
            try await two.account(at: "/as/alice") == account
        }
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
        try await one.admin.call("POST", "/v1/users", Self.bob(as: "bob"))
        let refused = try await two.admin.ask("POST", "/v1/users", Self.bob(as: "carol"))
        #expect(refused.status == 409 && UsersBench.problem(refused) == "name-in-use")
        let ledger = try await emulator.control("GET", "/ledger")
        #expect(ledger["accounts"]["carol@example.com"]["logins"]["local-userpass"].int ?? 0 == 0)
        #expect(ledger["total"]["revocations"].int == 0)
        let known = try await two.admin.status()["bob"]
        let given = try await one.admin.status()["bob"]
        #expect(known?.accountID != nil && known?.accountID == given?.accountID)
        // It is the same session, not a second one.
        try await two.admin.call("POST", "/v1/users/bob/refresh")
        #expect(try await emulator.calls("login") == 2)
        for running in [one, two] { #expect(try await running.process.terminate() == .code(143)) }
    }

    private static func bob(as account: String) -> String {
        let credential = #"{"email_password":{"email":"\#(account)@example.com","password":"\#(account)-secret-word"}}"#
        return #"{"name":"bob","identity":"demo","credential":\#(credential)}"#
    }
}
