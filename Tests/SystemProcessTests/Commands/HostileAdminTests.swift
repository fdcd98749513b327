import TestSupport
import Testing

@testable import SystemTestSupport

/// A server that responds to commands with texts for the terminal in place of names.
@Suite struct HostileAdminTests {
    /// What a terminal executes, or shows in another order or not at all: C0 and C1 controls, line ends, bidirectional controls, a tag.
    static let hostile =
        "a\u{1b}[31mb\u{9b}31mc\u{202e}d\u{2066}e\nf\rg\u{2028}h\u{7}i\u{200f}j\u{e0041}k\u{90}l\u{8}m\tn\u{85}o"
    static let commands: [[String]] = [
        ["status"], ["users"], ["use", "bob"], ["refresh", "bob"], ["logout", "bob"], ["remove", "bob"],
        ["token", "bob"],
        ["profile", "bob"], ["custom-data", "bob"], ["call", "sum", "1", "--user", "bob"], ["login", "bob"],
        ["link", "bob", "--anonymous"], ["api-keys", "list", "--user", "bob"],
        ["api-keys", "create", "k", "--user", "bob"], ["api-keys", "show", "1", "--user", "bob"],
        ["api-keys", "enable", "1", "--user", "bob"], ["api-keys", "disable", "1", "--user", "bob"],
        ["api-keys", "delete", "1", "--user", "bob"], ["reload"], ["log", "level"], ["log", "level", "debug"],
        ["shutdown"], ["refresh"], ["profile"], ["login"], ["api-keys", "list"],
        ["account", "send-reset-email", "--identity", "demo", "--email", "a@x"],
        ["account", "resend-confirmation", "--identity", "demo", "--email", "a@x"],
        ["account", "retry-custom-confirmation", "--identity", "demo", "--email", "a@x"],
        ["account", "delete", "bob", "--yes"],
    ]

    /// How the hostile text is written in JSON.
    enum Spelling: CaseIterable {
        /// All as escapes.
        case escaped
        /// What a JSON text may have is there as it is.
        case raw
        /// The document is no JSON.
        case notJSON

        func text(_ hostile: String) -> String {
            hostile.unicodeScalars.map { scalar in
                switch self {
                case .notJSON: String(scalar)
                case .raw where scalar.value >= 0x7f: String(scalar)
                case .raw, .escaped:
                    scalar.isASCII && scalar.value >= 0x20
                        ? String(scalar)
                        : scalar.utf16.map { "\\u" + String(String(Int($0) + 0x10000, radix: 16).dropFirst()) }.joined()
                }
            }.joined()
        }
    }

    /// Every member that a command reads, with a text wherever it reads one.
    private static func document(_ text: String) -> String {
        let user = """
            {"name":"bob","identity":"\(text)","user_id":"\(text)","state":"\(text)","session":"\(text)","last_error":"\(text)"}
            """
        let key = #"{"id":"\#(text)","name":"\#(text)","disabled":false}"#
        return """
            {"version":"\(text)","active_user":"\(text)","listeners":[{"listener":"\(text)","address":"\(text)"}],\
            "unverified_routes":["\(text)"],"users":[\(user)],"api_keys":[\(key)],"id":"\(text)","key":"\(text)",\
            "name":"\(text)","access_token":"\(text)","level":"\(text)","configured":"x\(text)","applied":["\(text)"],\
            "identities":[{"provider_type":"\(text)"}],"stored":false,"revoked":false,"removed":true,\
            "state":"\(text)","identity":"\(text)","session":"valid","user_id":"\(text)","\(text)":"\(text)"}
            """
    }

    private static func isHarmless(_ text: String) -> Bool {
        text.unicodeScalars.allSatisfy { scalar in
            if scalar == "\n" { return true }
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator: return false
            default: return true
            }
        }
    }

    /// Runs commands at a server that gives this response to all of them.
    ///
    /// - Parameter forms: flags of output.
    static func check(_ response: RawResponse, _ commands: [[String]] = commands, forms: [[String]]) async throws {
        let folder = try TemporaryFolder()
        let server = try RawServer(at: .unix(folder.file("admin.sock"))) { _ in response }
        defer { server.stop() }
        for arguments in commands {
            let words = ["api-keys", "account", "log"].contains(arguments[0]) ? 2 : 1
            for form in forms {
                let flags = ["--admin", "unix:\(folder.file("admin.sock"))"] + form
                let run = try await CommandRun(arguments[..<words] + flags + arguments[words...])
                let printed = run.output + run.errors.joined(separator: "\n")
                #expect(isHarmless(printed), "\(arguments + form): \(printed.debugDescription)")
                // No line end of a text begins a line.
                let begins = printed.split(separator: "\n").contains { $0.hasPrefix("f") && !$0.hasPrefix("failing") }
                #expect(!begins, "\(arguments + form): \(printed)")
            }
        }
    }

    static func response(_ spelling: Spelling) -> RawResponse {
        ScriptedAdmin.json(document(spelling.text(hostile)))
    }

    static func problem(_ spelling: Spelling) -> RawResponse {
        let text = spelling.text(hostile)
        let more = #","user":"\#(text)","error":"\#(text)","error_code":"\#(text)""#
        return ScriptedAdmin.problem(409, text, text, text, more: more)
    }

    @Test("no byte of a response reaches the terminal as a control, whatever the command")
    func responses() async throws {
        try await Self.check(Self.response(.raw), forms: [[]])
    }

    @Test("no byte of a problem does, and none of a response to --json", arguments: Spelling.allCases)
    func problems(_ spelling: Spelling) async throws {
        let commands = [["refresh", "bob"], ["status"]]
        try await Self.check(Self.problem(spelling), commands, forms: [[]])
        try await Self.check(Self.response(spelling), commands, forms: [["--json"]])
    }

    @Test("a health page that is none is one line")
    func health() async throws {
        for body in [
            Self.hostile, #"{"checks":[{"ok":false,"name":"session:\#(Spelling.escaped.text(Self.hostile))"}]}"#,
        ] {
            let server = try RawServer { _ in .response(503, "X", body: body) }
            for command in [["health"], ["wait", "--max", "1ms"]] {
                let run = try await CommandRun(command + ["--health", "\(server.endpoint)"])
                #expect(run.exit != .code(0) && Self.isHarmless(run.output + run.errors.joined()), "\(run.errors)")
            }
        }
    }

    @Test("a token and a key are printed byte by byte, or not at all")
    func credentials() async throws {
        for (token, isFine) in [
            ("eyJ.-_~+/=", true), ("a b", false), ("a\\u001b[31m", false), ("", false), ("ä", false),
        ] {
            let body = #"{"access_token":"\#(token)","id":"65f","key":"\#(token)"}"#
            let admin = try ScriptedAdmin([
                "GET /v1/users/bob/token": ScriptedAdmin.json(body),
                "POST /v1/users/bob/api-keys": ScriptedAdmin.json(body),
            ])
            let printed = try await CommandRun(["token"] + admin.flags + ["bob"])
            #expect(printed.exit == .code(isFine ? 0 : 69) && printed.output == (isFine ? token + "\n" : ""))
            let created = try await CommandRun(["api-keys", "create"] + admin.flags + ["k", "--user", "bob"])
            #expect(created.exit == .code(isFine ? 0 : 69))
            #expect(created.output == (isFine ? "id:  65f\nkey: \(token)\n" : ""))
        }
    }

    @Test("the JSON that is printed means the same")
    func sameJSON() async throws {
        let text = Spelling.raw.text(Self.hostile)
        let admin = try ScriptedAdmin(["GET /v1/users": ScriptedAdmin.json("{\r\n \"users\":\t[\"\(text)\"]}")])
        let run = try await CommandRun(["users"] + admin.flags + ["--json"])
        #expect(try run.json["users"].array.first?.string == Self.hostile)
    }
}

/// Every command, response and form of output.
@Suite struct LongHostileAdminTests {
    @Test(
        "no byte of a response or a problem reaches the terminal as a control",
        arguments: HostileAdminTests.Spelling.allCases)
    func all(_ spelling: HostileAdminTests.Spelling) async throws {
        for response in [HostileAdminTests.response(spelling), HostileAdminTests.problem(spelling)] {
            try await HostileAdminTests.check(response, forms: [[], ["--json"]])
        }
    }
}
