import LanyardEmulator
import TestSupport
import Testing

/// Registration, confirmation and reset, in every mode.
@Suite struct EmailPasswordTests {
    typealias Fixture = EmulatorFixture

    private static let byEmail = Fixture.app(
        """
            users:
              - {email: alice@example.com, password: correct-horse}
            providers:
              local-userpass: {confirmation: email, confirmation_url: "http://localhost/confirm?x=1", reset: email}
        """)
    private static let byFunction = Fixture.app(
        """
            users:
              - {email: alice@example.com, password: correct-horse}
            providers:
              local-userpass:
                {confirmation: function, confirmation_function: confirm, reset: function, reset_function: reset}
            functions:
              confirm:
                cases:
                  - {contains: {username: auto}, result: {status: success}}
                  - {contains: {username: pending}, times: 1, result: {status: pending}}
                  - {contains: {username: pending}, result: {status: success}}
                  - {contains: {username: throws}, error: thrown}
                  - {result: {status: fail}}
              reset:
                cases:
                  - {equals: {currentPasswordValid: true}, error: the same password}
                  - {contains: {password: do_reset}, result: {status: success}}
                  - {contains: {password: later}, result: {status: pending}}
                  - {result: {status: fail}}
        """)

    private static let oldToken = String(repeating: "0f", count: 64)
    private static let oldID = String(repeating: "a1", count: 12)

    @Test(
        "calls that fail say so in the service's words",
        arguments: [
            (
                "register", #"{"email":"alice@example.com","password":"123456"}"#,
                ["409", "AccountNameInUse", "name already in use"]
            ),
            (
                "register", #"{"email":"b@example.com","password":"12345"}"#,
                ["400", "BadRequest", "password must be between 6 and 128 characters"]
            ),
            (
                "register", #"{"email":"b@example.com","password":"\#(String(repeating: "p", count: 129))"}"#,
                ["400", "BadRequest", "password must be between 6 and 128 characters"]
            ),
            ("register", #"{"email":"","password":"123456"}"#, ["400", "BadRequest", "email invalid"]),
            ("confirm", #"{"token":"e30=","tokenId":"some-token-id"}"#, ["400", "BadRequest", "invalid token data"]),
            (
                "reset", #"{"token":"x","tokenId":"y","password":"123456"}"#,
                ["400", "BadRequest", "invalid token data"]
            ),
            (
                "confirm", #"{"token":"\#(oldToken)","tokenId":"\#(oldID)"}"#,
                ["400", "UserpassTokenInvalid", "userpass token is expired or invalid"]
            ),
            (
                "reset", #"{"token":"\#(oldToken)","tokenId":"\#(oldID)","password":"123456"}"#,
                ["400", "UserpassTokenInvalid", "userpass token is expired or invalid"]
            ),
            ("confirm/send", #"{"email":"alice@example.com"}"#, ["400", "UserAlreadyConfirmed", "already confirmed"]),
            ("confirm/send", #"{"email":"none@example.com"}"#, ["404", "UserNotFound", "user not found"]),
            ("reset/send", #"{"email":"none@example.com"}"#, ["404", "UserNotFound", "user not found"]),
            (
                "reset/call", #"{"email":"none@example.com","password":"123456","arguments":[]}"#,
                ["404", "UserNotFound", "user not found"]
            ),
            (
                "confirm/call", #"{"email":"none@example.com"}"#,
                ["400", "-", "cannot run confirmation for none@example.com: automatic confirmation is enabled"]
            ),
        ])
    func refused(path: String, body: String, expected: [String]) async throws {
        let it = try await Fixture()
        let response = try await it.email(path, body)
        #expect(try Fixture.error(response) == expected)
        #expect(response.values("content-type") == ["application/json"])
        #expect(try response.json["link"].string?.contains("http://\(it.endpoint)/groups/") == true)
        await it.emulator.stop()
    }

    @Test("an account waits for the tokens of its mail, which serve once; a second mail serves, too")
    func confirmationByEmail() async throws {
        let it = try await Fixture(yaml: Self.byEmail)
        let account = #"{"email":"bob@example.com","password":"123456"}"#
        #expect(try await it.email("register", account).status == 201)
        #expect(
            try await Fixture.error(it.login(email: "bob@example.com", "123456")) == [
                "401", "AuthError", "unauthorized",
            ])
        #expect(
            try await Fixture.error(it.login(email: "bob@example.com", "wrong-1"))
                == ["401", "InvalidPassword", "unauthorized"])
        let first = try await it.mail("bob@example.com")
        #expect(first["kind"].string == "confirmation" && first["sent_by"].string == "email")
        #expect(
            first["url"].string?.hasPrefix("http://localhost/confirm?x=1&token=\(first["token"].string!)&tokenId=")
                == true)
        #expect(try await it.email("confirm/send", #"{"email":"bob@example.com"}"#).status == 200)
        let second = try await it.mail("bob@example.com")
        #expect(second["token"] != first["token"])
        let unknown = try await it.email("confirm/call", #"{"email":"bob@example.com"}"#)
        #expect(unknown.status == 400)
        #expect(try await it.email("confirm", Self.pair(first)).status == 200)
        #expect(try await it.login(email: "bob@example.com", "123456").status == 200)
        #expect(
            try await Fixture.error(it.email("confirm", Self.pair(first)))
                == ["400", "UserpassTokenInvalid", "userpass token is expired or invalid"])
        #expect(
            try await Fixture.error(it.email("confirm", Self.pair(second))) == [
                "400", "UserAlreadyConfirmed", "already confirmed",
            ])
        await it.emulator.stop()
    }

    @Test("the tokens of a mail expire")
    func expiredPair() async throws {
        let it = try await Fixture(yaml: Self.byEmail)
        _ = try await it.email("register", #"{"email":"bob@example.com","password":"123456"}"#)
        let mail = try await it.mail("bob@example.com")
        #expect(mail["expires_at"].double! - mail["sent_at"].double! == 1800)
        try await it.control("PUT", "/settings", #"{"clock_offset_seconds":1801}"#)
        #expect(
            try await Fixture.error(it.email("confirm", Self.pair(mail)))
                == ["400", "UserpassTokenInvalid", "userpass token is expired or invalid"])
        await it.emulator.stop()
    }

    @Test("a function confirms, refuses, or leaves the account pending until it is called again")
    func confirmationByFunction() async throws {
        let it = try await Fixture(yaml: Self.byFunction)
        func register(_ name: String) async throws -> RawMessage {
            try await it.email("register", #"{"email":"\#(name)@example.com","password":"123456"}"#)
        }
        #expect(try await register("auto").status == 201)
        #expect(try await it.login(email: "auto@example.com", "123456").status == 200)
        for name in ["other", "throws"] {
            #expect(
                try await Fixture.error(register(name))
                    == ["400", "BadRequest", "failed to confirm user \"\(name)@example.com\""])
            let call = try await it.email("confirm/call", #"{"email":"\#(name)@example.com"}"#)
            #expect(try Fixture.error(call) == ["404", "UserNotFound", "user not found"])
        }
        #expect(try await register("pending").status == 201)
        #expect(try await Fixture.error(it.login(email: "pending@example.com", "123456"))[1] == "AuthError")
        #expect(try await it.email("confirm/call", #"{"email":"pending@example.com"}"#).status == 200)
        #expect(try await it.login(email: "pending@example.com", "123456").status == 200)
        #expect(
            try await Fixture.error(it.email("confirm/call", #"{"email":"pending@example.com"}"#))
                == ["400", "UserAlreadyConfirmed", "already confirmed"])
        await it.emulator.stop()
    }

    @Test("a pending account is confirmed with the pair that the function got")
    func pairOfFunction() async throws {
        let it = try await Fixture(yaml: Self.byFunction)
        _ = try await it.email("register", #"{"email":"pending@example.com","password":"123456"}"#)
        let pair = try await it.mail("pending@example.com")
        #expect(pair["sent_by"].string == "function" && pair["url"] == .null)
        #expect(try await it.email("confirm", Self.pair(pair)).status == 200)
        #expect(try await it.login(email: "pending@example.com", "123456").status == 200)
        await it.emulator.stop()
    }

    @Test("a mail resets a password once; the old one is dead")
    func resetByEmail() async throws {
        let it = try await Fixture(yaml: Self.byEmail)
        #expect(try await it.email("reset/send", #"{"email":"alice@example.com"}"#).status == 200)
        let mail = try await it.mail("alice@example.com")
        #expect(mail["kind"].string == "reset")
        #expect(
            try await Fixture.error(it.email("reset", Self.pair(mail, password: "short")))[2]
                == "password must be between 6 and 128 characters")
        #expect(try await it.email("reset", Self.pair(mail, password: "new-password")).status == 200)
        #expect(try await it.login(email: "alice@example.com", "new-password").status == 200)
        #expect(try await Fixture.error(it.login(email: "alice@example.com", "correct-horse"))[1] == "InvalidPassword")
        #expect(try await it.email("reset", Self.pair(mail, password: "other-password")).status == 400)
        let call = try await it.email("reset/call", #"{"email":"alice@example.com","password":"123456"}"#)
        #expect(try Fixture.error(call) == ["400", "-", "please use reset password via email"])
        await it.emulator.stop()
    }

    @Test("a reset function accepts, refuses, or waits for the pair")
    func resetByFunction() async throws {
        let it = try await Fixture(yaml: Self.byFunction)
        #expect(
            try await Fixture.error(it.email("reset/send", #"{"email":"alice@example.com"}"#))
                == ["400", "-", "please use reset password via function"])
        func reset(_ password: String) async throws -> RawMessage {
            try await it.email(
                "reset/call",
                #"{"email":"alice@example.com","password":"\#(password)","arguments":["x",{"$numberInt":"1"}]}"#)
        }
        let refused = ["400", "-", "failed to reset password for user \"alice@example.com\""]
        #expect(try await Fixture.error(reset("nothing")) == refused)
        #expect(try await Fixture.error(reset("correct-horse")) == refused)
        #expect(try await reset("do_reset").status == 200)
        #expect(try await it.login(email: "alice@example.com", "do_reset").status == 200)
        #expect(try await it.login(email: "alice@example.com", "correct-horse").status == 401)
        #expect(try await reset("later-1").status == 200)
        #expect(try await it.login(email: "alice@example.com", "do_reset").status == 200)
        #expect(try await Fixture.error(it.login(email: "alice@example.com", "later-1"))[1] == "InvalidPassword")
        let pair = try await it.mail("alice@example.com")
        #expect(try await it.email("reset", Self.pair(pair, password: "later-on")).status == 200)
        #expect(try await it.login(email: "alice@example.com", "later-on").status == 200)
        let runs = try await it.control("GET", "/functions").array
        #expect(runs.last?["name"].string == "reset" && runs.last?["arguments"][1].string == "x")
        #expect(runs.allSatisfy { $0["arguments"][0]["password"].string == "***" })
        await it.emulator.stop()
    }

    @Test("a bearer token on these calls is not looked at, and emails can be compared without case")
    func strayTokenAndCase() async throws {
        let it = try await Fixture(
            yaml: Fixture.app("    providers: {local-userpass: {emails_case_sensitive: false}}\n"))
        let path = Fixture.app + "/auth/providers/local-userpass/register"
        let body = #"{"email":"Bob@Example.com","password":"123456"}"#
        #expect(try await it.call("POST", path, bearer: "junk", body).status == 201)
        #expect(try await it.login(email: "bob@example.com", "123456").status == 200)
        #expect(try await it.email("register", body.lowercased()).status == 409)
        await it.emulator.stop()
    }

    static func pair(_ mail: JSON, password: String? = nil) -> String {
        let members = [
            ("token", mail["token"].string), ("tokenId", mail["token_id"].string), ("password", password),
        ]
        let texts = members.compactMap { name, value in value.map { #""\#(name)":"\#($0)""# } }
        return "{" + texts.joined(separator: ",") + "}"
    }
}
