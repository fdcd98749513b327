import TestSupport
import Testing

@testable import SystemTestSupport

/// The commands that call the admin API, against a scripted one: the bytes of each call, and what is printed.
@Suite struct AdminCommandTests {
    @Test(
        "each command makes its call",
        arguments: [
            (["use", "bob"], #"POST /v1/users/bob/activate"#, "bob is active."),
            (["refresh"], "POST /v1/users/alice/refresh", "alice has a new access token"),
            (["logout", "bob"], "POST /v1/users/bob/logout", "bob is logged out."),
            (["remove", "bob"], "DELETE /v1/users/bob", "bob is removed."),
            (["profile", "bob"], "GET /v1/users/bob/profile", "{}"),
            (["custom-data"], "GET /v1/users/alice/custom-data", "{}"),
            (["call", "sum", "1", "-2"], nil, nil),
            (["call", "sum", "--", "-1"], "POST /v1/users/alice/functions/sum [-1]", "{}"),
            (
                ["call", "sum", "1", #"{"$numberLong": "2"}"#],
                #"POST /v1/users/alice/functions/sum [1,{"$numberLong": "2"}]"#, "{}"
            ),
            (["call", "a/b", "--user", "bob"], "POST /v1/users/bob/functions/a%2fb []", "{}"),
            (
                ["api-keys", "show", "65f", "--user", "bob"], "GET /v1/users/bob/api-keys/65f",
                "ID  NAME  STATE\n-   -     enabled"
            ),
            (["api-keys", "enable", "65f"], "POST /v1/users/alice/api-keys/65f/enable", "65f is enabled."),
            (["api-keys", "disable", "65f"], "POST /v1/users/alice/api-keys/65f/disable", "65f is disabled."),
            (["api-keys", "delete", "65f"], "DELETE /v1/users/alice/api-keys/65f", "65f is deleted."),
            (
                ["account", "resend-confirmation", "--identity", "demo", "--email", "a@x"],
                #"POST /v1/identities/demo/email-password/resend-confirmation {"email":"a@x"}"#,
                "The confirmation email to a@x is sent again."
            ),
            (
                ["account", "retry-custom-confirmation", "--identity", "demo", "--email", "a@x"],
                #"POST /v1/identities/demo/email-password/retry-custom-confirmation {"email":"a@x"}"#,
                "The confirmation function for a@x has run again."
            ),
            (
                ["account", "send-reset-email", "--identity", "demo", "--email", "a@x"],
                #"POST /v1/identities/demo/email-password/send-reset-email {"email":"a@x"}"#,
                "The email to a@x is sent; its link has what lanyard account reset-password asks for."
            ),
            (
                ["account", "delete", "bob", "--yes"], "DELETE /v1/users/bob?account=delete",
                "The account of bob is deleted."
            ),
            (["shutdown"], "POST /v1/shutdown", "Lanyard is stopping."),
            (["reload"], "POST /v1/reload", "The configuration is valid; nothing differs."),
            (["log", "level"], "GET /v1/log-level", ""),
            (["log", "level", "debug"], #"POST /v1/log-level {"level":"debug"}"#, ""),
        ] as [([String], String?, String?)])
    func call(_ arguments: [String], _ call: String?, _ output: String?) async throws {
        var responses: [String: RawResponse] = [:]
        if let call {
            responses[call.split(separator: " ").prefix(2).joined(separator: " ")] = ScriptedAdmin.json("{}")
        }
        let admin = try ScriptedAdmin(responses)
        let run = try await CommandRun([arguments[0]] + Self.placing(admin.flags, in: arguments))
        guard let call, let output else {
            #expect(run.exit == .code(64) && admin.calls.isEmpty)
            return
        }
        #expect(run.exit == .code(0), "\(run.errors)")
        #expect(run.output == output + "\n")
        #expect(admin.calls == [call])
        #expect(admin.server.requests.allSatisfy { $0["Host"] == "localhost" && $0["Connection"] == "close" })
    }

    /// The flags after the words of the command, the rest of the arguments after them.
    private static func placing(_ flags: [String], in arguments: [String]) -> [String] {
        let words = ["api-keys", "account", "log"].contains(arguments[0]) ? 2 : 1
        return arguments[1..<words] + flags + arguments[words...]
    }

    @Test(
        "secrets of standard input go into the body and nowhere else",
        arguments: [
            (
                ["link", "alice", "--email", "a@x"], "p\"w\n", "/v1/users/alice/link",
                #"{"credential":{"email_password":{"email":"a@x","password":"p\"w"}}}"#
            ),
            (
                ["link", "--api-key-file", "-"], "key", "/v1/users/alice/link",
                #"{"credential":{"api_key":{"key":"key"}}}"#
            ),
            (
                ["link", "--function-payload-file", "-"], #"{"a": 1}"#, "/v1/users/alice/link",
                #"{"credential":{"function":{"payload":{"a": 1}}}}"#
            ),
            (
                ["call", "f", "--arguments-file", "-"], #"["secret"]"#, "/v1/users/alice/functions/f", #"["secret"]"#
            ),
            (
                ["account", "register", "--identity", "demo", "--email", "a@x"], "pw\r\n",
                "/v1/identities/demo/email-password/register", #"{"email":"a@x","password":"pw"}"#
            ),
            (
                ["account", "confirm", "--identity", "demo", "--token-id", "7"], "tok",
                "/v1/identities/demo/email-password/confirm", #"{"token":"tok","token_id":"7"}"#
            ),
            (
                ["account", "call-reset-function", "--identity", "demo", "--email", "a@x", "1", "\"x\""], "pw",
                "/v1/identities/demo/email-password/call-reset-function",
                #"{"email":"a@x","password":"pw","arguments":[1,"x"]}"#
            ),
        ] as [([String], String, String, String)])
    func secrets(_ arguments: [String], _ input: String, _ path: String, _ body: String) async throws {
        let admin = try ScriptedAdmin(["POST \(path)": ScriptedAdmin.json("{}", status: 201)])
        let run = try await CommandRun([arguments[0]] + Self.placing(admin.flags, in: arguments), input: input)
        #expect(run.exit == .code(0), "\(run.errors)")
        #expect(admin.calls == ["POST \(path) \(body)"])
        #expect(admin.server.requests.last?["Content-Type"] == "application/json")
    }

    @Test("a reset takes two secrets, of which standard input gives one")
    func reset() async throws {
        let folder = try TemporaryFolder()
        let token = try folder.write("token", "tok\n")
        let path = "/v1/identities/demo/email-password/reset-password"
        let admin = try ScriptedAdmin(["POST \(path)": ScriptedAdmin.json("{}")])
        let arguments = ["account", "reset-password", "--identity", "demo", "--token-id", "7"] + admin.flags
        let run = try await CommandRun(arguments + ["--email-token-file", token], input: "new")
        #expect(run.exit == .code(0) && run.output == "The password is set.\n", "\(run.errors)")
        #expect(admin.calls == [#"POST \#(path) {"token":"tok","token_id":"7","password":"new"}"#])
        let both = try await CommandRun(arguments, input: "new")
        #expect(both.exit == .code(64) && both.errors[0].contains("standard input can give one secret"))
    }

    @Test("an access token and a new key are printed, and with --json the response as it is")
    func shown() async throws {
        let token = #"{"access_token":"ey.a/b","expires_at":"2026-11-23T12:00:00.000Z"}"#
        let key = #"{"id":"65f","name":"ci","disabled":false,"key":"k\"ey"}"#
        let admin = try ScriptedAdmin([
            "GET /v1/users/alice/token": ScriptedAdmin.json(token),
            "POST /v1/users/alice/api-keys": ScriptedAdmin.json(key, status: 201),
            "GET /v1/users/alice/api-keys": ScriptedAdmin.json(
                #"{"api_keys":[{"id":"65f","name":"ci","disabled":true},{"id":"66a","name":"cd","disabled":false}]}"#),
        ])
        #expect(try await CommandRun(["token"] + admin.flags).output == "ey.a/b\n")
        #expect(try await CommandRun(["token", "--json"] + admin.flags).output == token + "\n")
        let created = try await CommandRun(["api-keys", "create", "ci"] + admin.flags)
        #expect(created.output == "id:  65f\nkey: k\"ey\n" && created.errors.count == 1)
        #expect(try await CommandRun(["api-keys", "create", "ci", "--json"] + admin.flags).output == key + "\n")
        #expect(
            try await CommandRun(["api-keys", "list"] + admin.flags).output
                == "ID   NAME  STATE\n65f  ci    disabled\n66a  cd    enabled\n")
    }

    @Test("a Lanyard that does not know the call: its version, and what to do")
    func older() async throws {
        let admin = try ScriptedAdmin([:])
        let run = try await CommandRun(["profile", "alice"] + admin.flags)
        #expect(run.exit == .code(1))
        #expect(
            run.errors == [
                "error: the running Lanyard (version 0.0.9) does not know this call; this command is of version 0.1.0",
                "what to do: restart Lanyard with the version of this command",
            ])
    }

    @Test("problems: title, detail, the service's code, what to do, and exit codes 1 and 77")
    func problems() async throws {
        let admin = try ScriptedAdmin([
            "POST /v1/users/bob/refresh": ScriptedAdmin.problem(
                409, "not-logged-in", "Not logged in", "bob has no session.", more: #","user":"bob""#),
            "POST /v1/users/carol/refresh": ScriptedAdmin.problem(
                422, "credential-refused", "Credential refused", "invalid password.",
                more: #","error":"invalid password","error_code":"InvalidPassword""#),
            "POST /v1/users/dave/refresh": ScriptedAdmin.problem(
                404, "identity-error", "The identity service refused", "It said no.",
                more: #","error":"key not found","error_code":"APIKeyNotFound""#),
        ])
        let bob = try await CommandRun(["refresh", "bob"] + admin.flags)
        #expect(bob.exit == .code(1) && bob.output.isEmpty)
        #expect(
            bob.errors == ["error: Not logged in: bob has no session", "what to do: log in: lanyard login bob"])
        let carol = try await CommandRun(["refresh", "carol"] + admin.flags)
        #expect(carol.exit == .code(77))
        #expect(carol.errors[0] == "error: Credential refused: invalid password (InvalidPassword)")
        let dave = try await CommandRun(["refresh", "dave"] + admin.flags)
        #expect(dave.exit == .code(1))
        #expect(
            dave.errors == [
                "error: The identity service refused: It said no; the identity service: key not found (APIKeyNotFound)",
                "what to do: correct what the identity service names: the credential, the account or the app's settings",
            ])
    }

    @Test("with --json a failure without a response of the admin API is printed in the form of a problem")
    func problemsWithoutCall() async throws {
        let admin = try ScriptedAdmin(["GET /v1/users": ScriptedAdmin.json(#"{"users":[]}"#)])
        let folder = try TemporaryFolder()
        let nowhere = ["--admin", "unix:\(folder.path)/none.sock"]
        let cut = try ScriptedAdmin(["POST /v1/users/bob/refresh": RawResponse.close])
        for (arguments, code, name, status, words) in [
            (["login", "ghost"] + admin.flags, 64, "command-invalid", 400, "there is no user ghost"),
            (["refresh", "a b"] + admin.flags, 64, "command-invalid", 400, "is not a name"),
            (["refresh", "bob"] + nowhere, 69, "no-response", 503, "no Lanyard responds at"),
            (["status"] + nowhere, 69, "no-response", 503, "no Lanyard responds at"),
            (["refresh", "bob"] + cut.flags, 69, "no-response", 503, "no whole response from"),
            (["users", "--config", folder.path + "/none"], 78, "configuration-invalid", 422, "none"),
        ] {
            let run = try await CommandRun(arguments + ["--json"])
            #expect(run.exit == .code(code) && !run.errors.isEmpty, "\(arguments): \(run.errors)")
            let problem = try run.json
            #expect(problem["type"].string == "urn:lanyard:problem:\(name)", "\(arguments): \(run.output)")
            #expect(problem["status"].int == status && problem["action"].string == "operator", "\(run.output)")
            #expect(problem["detail"].string?.contains(words) == true && problem["message"] == problem["detail"])
            #expect(problem["remedy"].string?.isEmpty == false && problem["retryable"].bool == false)
            #expect(try await CommandRun(arguments).output.isEmpty)
        }
        // One problem alone: that of the response.
        let older = try await CommandRun(["profile", "alice", "--json"] + admin.flags)
        #expect(older.output.split(separator: "\n").count == 1, "\(older.output)")
    }

    @Test("what answers is no admin API: 69")
    func foreign() async throws {
        let server = try RawServer { _ in .response(200, "OK", body: "hello") }
        let folder = try TemporaryFolder()
        let file = try folder.write("token", String(repeating: "t", count: 32))
        let run = try await CommandRun(["users", "--admin", "\(server.endpoint)", "--token-file", file])
        #expect(run.exit == .code(69))
        #expect(run.errors[0] == "error: what responds at \(server.endpoint) is no admin API of Lanyard (status 200)")
        #expect(server.requests[0]["Authorization"] == "Bearer \(String(repeating: "t", count: 32))")
        #expect(server.requests[0]["Host"] == "\(server.endpoint)")
    }

    @Test("a response that ends early or never comes: 69, and the outcome is unknown")
    func torn() async throws {
        for response in [RawResponse.close, .reset, .text("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}").closing] {
            let admin = try ScriptedAdmin(["POST /v1/users/bob/refresh": response])
            let run = try await CommandRun(["refresh", "bob"] + admin.flags)
            #expect(run.exit == .code(69))
            #expect(run.errors[0].hasPrefix("error: no whole response from unix:"))
            #expect(run.errors[1] == "what to do: look at what has come of it: lanyard status")
        }
    }

    @Test("a new user needs an identity that the configuration names, or the command line")
    func identity() async throws {
        let admin = try ScriptedAdmin([
            "GET /v1/users": ScriptedAdmin.json(#"{"users":[]}"#),
            "POST /v1/users": ScriptedAdmin.json(#"{"name":"bob"}"#, status: 201),
        ])
        let folder = try TemporaryFolder()
        try folder.write("token", "t")
        let yaml = """
            admin: {address: "\(admin.flags[1])"}
            identities:
              demo: {app_services: {app_id: demo-abcde, base_url: "http://127.0.0.1:7490"}}
              fixed: {static: {token_file: token}}

            """
        let one = try folder.write("one.yaml", yaml)
        let two = try folder.write(
            "two.yaml", yaml + "  other: {app_services: {app_id: x, base_url: \"http://127.0.0.1:7490\"}}\n")
        let known = try await CommandRun(["login", "bob", "--config", one, "--anonymous"])
        #expect(known.exit == .code(0) && known.output == "bob is logged in.\n", "\(known.errors)")
        #expect(admin.calls.last == #"POST /v1/users {"name":"bob","identity":"demo","credential":{"anonymous":{}}}"#)
        let several = try await CommandRun(["login", "bob", "--config", two, "--anonymous"])
        #expect(several.exit == .code(64) && several.errors[1] == "what to do: give --identity with one of demo, other")
        let given = try await CommandRun(
            ["login", "bob", "--config", two, "--anonymous", "--identity", "other", "--no-activate"])
        #expect(given.exit == .code(0))
        #expect(
            admin.calls.last
                == #"POST /v1/users {"name":"bob","identity":"other","credential":{"anonymous":{}},"activate":false}"#)
        let environment = try await CommandRun(["login", "bob", "--anonymous"], environment: ["LANYARD_CONFIG": one])
        #expect(environment.exit == .code(0))
        let unknown = try await CommandRun(["login", "bob", "--anonymous"] + admin.flags)
        #expect(unknown.exit == .code(64) && unknown.errors[0] == "error: the identity is missing")
    }
}
