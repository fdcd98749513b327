import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// The commands `account`, `api-keys`, `call` and `link` through a running Lanyard to the emulator.
///
/// They cover what the service refuses, what cannot be sent, and `--json`.
@Suite struct AccountCommandTests {
    /// Lanyard with two identities that have logins, and one that has none.
    ///
    /// Alice is logged in at `demo`, carol is configured without a login, robot has a static token. `corp` confirms by mail.
    private final class Bench: Sendable {
        let emulator: EmulatorProcess
        let lanyard: LanyardProcess
        let folder: TemporaryFolder
        private let socket: String

        static func start() async throws -> Bench {
            let emulator = try await EmulatorProcess.start(tokens: "30m")
            try await emulator.add("bob@example.com", password: "correct-horse")
            try await emulator.control(
                "POST", "/apps",
                #"{"app_id":"corp-bcdef","providers":{"anon-user":{},"local-userpass":{"confirmation":"email"}}}"#)
            let folder = try TemporaryFolder()
            for (name, text) in [
                ("password", "correct-horse"), ("wrong", "wrong-horse"), ("short", "abc"), ("robot", "r"),
            ] {
                try folder.write(name, text)
            }
            let socket = folder.file("admin.sock")
            let lanyard = try await LanyardProcess.start(
                """
                identities:
                  demo: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(emulator.endpoint)"}}
                  corp: {app_services: {app_id: corp-bcdef, base_url: "http://\(emulator.endpoint)"}}
                  fixed: {static: {token_file: \(folder.file("robot"))}}
                users:
                  alice:
                    identity: demo
                    login: {email_password: {email: \(EmulatorProcess.email), password_file: \(emulator.passwordFile)}}
                  carol: {identity: demo}
                  robot: {identity: fixed}
                routes: [{name: all, upstream: "http://\(emulator.endpoint)"}]

                """, admin: "{address: \"unix:\(socket)\"}")
            let bench = Bench(emulator, lanyard, folder, socket)
            let admin = AdminClient(endpoint: .unix(socket))
            try await eventually("alice is logged in; \(lanyard.process.log)") {
                try await admin.call("GET", "/v1/users/alice")["session"].string == "valid"
            }
            return bench
        }

        private init(
            _ emulator: EmulatorProcess, _ lanyard: LanyardProcess, _ folder: TemporaryFolder, _ socket: String
        ) {
            self.emulator = emulator
            self.lanyard = lanyard
            self.folder = folder
            self.socket = socket
        }

        /// Runs a command line that names files of the folder as `@NAME`. With `--config` it names Lanyard by itself.
        func run(_ line: String) async throws -> CommandRun {
            let words = line.split(separator: " ").map { word in
                word.hasPrefix("@") ? folder.file(String(word.dropFirst())) : String(word)
            }
            let place = words.contains("--config") ? [] : ["--admin", "unix:\(socket)"]
            return try await CommandRun(words + place)
        }

        /// Runs a command that must fail: its exit code, and a part of the message, or of it and of the remedy.
        func expect(_ line: String, _ code: Int, _ parts: [String]) async throws {
            let run = try await run(line)
            #expect(run.exit == .code(code), "\(line): \(run.errors)")
            #expect(run.output.isEmpty != line.contains("--json"), "\(line): \(run.output)")
            #expect(run.errors.count == 2 && parts.count <= 2, "\(line): \(run.errors)")
            for (error, part) in zip(run.errors, parts) { #expect(error.contains(part), "\(line): \(error)") }
            #expect(
                run.errors.first?.hasPrefix("error: ") == true && !run.errors.joined().contains("-horse"), "\(line)")
            #expect(run.errors.dropFirst().allSatisfy { $0.hasPrefix("what to do: ") }, "\(line): \(run.errors)")
        }

        func calls(_ route: String) async throws -> Int { try await emulator.calls(route) }
    }

    @Test("accounts: each refusal of the service is 1, with its code, what it means, and its own text")
    func account() async throws {
        let bench = try await Bench.start()
        let new = "--email new@example.com --password-file @password"
        for (line, parts) in [
            (
                "register --identity demo --email bob@example.com --password-file @password",
                "409 AccountNameInUse to the registration: there is an account with this email already; log in, or reset its "
                    + "password; the service says: \"name already in use\""
            ),
            (
                "register --identity demo --email new@example.com --password-file @short",
                "400 BadRequest to the registration: it does not accept a value of the call; error says which; the "
                    + "service says: \"password must be between 6 and 128 characters\""
            ),
            ("confirm --identity demo --token-id 7 --email-token-file @wrong", "400 BadRequest to the confirmation: "),
            (
                "resend-confirmation --identity corp --email nobody@example.com",
                "404 UserNotFound to the request for a confirmation mail: there is no account with this email"
            ),
            (
                "resend-confirmation --identity demo --email bob@example.com",
                "400 UserAlreadyConfirmed to the request for a confirmation mail: the account is confirmed already; log in"
            ),
            (
                "retry-custom-confirmation --identity corp --email nobody@example.com",
                "to the call of the confirmation function"
            ),
            (
                "send-reset-email --identity demo --email nobody@example.com",
                "404 UserNotFound to the request for a reset mail: there is no account with this email"
            ),
            (
                "reset-password --identity demo --token-id 7 --email-token-file @wrong --password-file @password",
                "400 BadRequest to the password reset: "
            ),
            (
                "call-reset-function --identity demo --email bob@example.com --password-file @password",
                "400 to the call of the reset function; the service says: \"please use reset password via email\""
            ),
        ] { try await bench.expect("account " + line, 1, [parts]) }

        // What is not sent, and what Lanyard refuses by itself.
        let registrations = try await bench.calls("register")
        try await bench.expect(
            "account register --identity nowhere \(new)", 1, ["No such identity: ", "below identities"])
        try await bench.expect("account register --identity fixed \(new)", 1, ["Not supported: ", "token_file"])
        try await bench.expect("account register \(new)", 64, ["the identity is missing", "give --identity"])
        try await bench.expect("account delete alice", 64, ["cannot be undone", "confirm it with --yes"])
        try await bench.expect("account delete carol --yes", 1, ["carol has no session", "lanyard login carol"])
        #expect(try await bench.calls("register") == registrations)
    }

    @Test("an account that is not confirmed yet: register, the refusal and the log say what to do")
    func pending() async throws {
        let bench = try await Bench.start()
        let new = "--identity corp --email new@example.com --password-file @password"
        let registered = try await bench.run("account register \(new)")
        #expect(registered.exit == .code(0), "\(registered.errors)")
        #expect(registered.output.contains("lanyard account confirm"), "\(registered.output)")
        let login = "login nina \(new)"
        let refused = try await bench.run(login)
        #expect(refused.exit == .code(77) && refused.output.isEmpty)
        let words = refused.errors.joined(separator: " ")
        #expect(words.contains("401 AuthError to the login: the account is not confirmed yet"), "\(words)")
        #expect(words.contains("lanyard account confirm") && !words.contains("its account was deleted"), "\(words)")
        let line = try await bench.lanyard.process.event("session.login.given_up")
        #expect(line["error_code"].string == "AuthError", "\(line)")
        // Another refusal keeps its own words.
        let wrong = try await bench.run("login nina --identity corp --email new@example.com --password-file @wrong")
        #expect(
            wrong.errors.joined().contains("InvalidPassword") && !wrong.errors.joined().contains("not confirmed yet"))
        let mail = try await bench.emulator.control("GET", "/mails?email=new@example.com").array.last
        try bench.folder.write("mailed", mail?["token"].string ?? "")
        let id = mail?["token_id"].string ?? ""
        let confirm = "account confirm --identity corp --token-id \(id) --email-token-file @mailed"
        #expect(try await bench.run(confirm).exit == .code(0))
        #expect(try await bench.run(login).exit == .code(0))
    }

    @Test("several identities: the command asks for one by name, and an account of one is none of the other")
    func identities() async throws {
        let bench = try await Bench.start()
        let new = "--email new@example.com --password-file @password"
        let config = "--config " + bench.lanyard.folder.file("lanyard.yaml")
        try await bench.expect(
            "account register \(new) \(config)", 64,
            ["the identity is missing", "give --identity with one of demo, corp"])
        let registered = try await bench.run("account register --identity corp \(new) --json")
        #expect(registered.exit == .code(0), "\(registered.errors)")
        #expect(try registered.json == .object(["email": .string("new@example.com")]))
        // It is pending at corp, and unknown at demo.
        let pending = "login new --identity corp \(new)"
        try await bench.expect(pending, 77, ["error: Credential refused: ", "give the right credential"])
        try await bench.expect(
            "account send-reset-email --identity demo --email new@example.com", 1, ["404 UserNotFound"])
        let mails = try await bench.emulator.control("GET", "/mails?email=new@example.com").array
        let mail = try #require(mails.last)
        try bench.folder.write("token", mail["token"].string ?? "")
        let confirm = "account confirm --token-id \(mail["token_id"].string ?? "") --email-token-file @token --identity"
        try await bench.expect("\(confirm) demo", 1, ["to the confirmation"])
        let confirmed = try await bench.run("\(confirm) corp --json")
        #expect(confirmed.exit == .code(0) && confirmed.output == "{}\n", "\(confirmed.errors)")
        try await bench.expect("\(confirm) corp", 1, ["to the confirmation"])
        let login = try await bench.run(pending)
        #expect(login.exit == .code(0) && login.output.hasPrefix("new is logged in and active; "), "\(login.errors)")
        let delete = try await bench.run("account delete new --yes")
        #expect(delete.exit == .code(0) && delete.output == "The account of new is deleted.\n", "\(delete.errors)")
        try await bench.expect(pending, 77, ["error: Credential refused: ", "give the right credential"])
    }

    @Test("functions: what one throws and what is not known is 1; arguments that are no JSON are 64 and not sent")
    func call() async throws {
        let bench = try await Bench.start()
        let sum = try await bench.run("call sum 1 2 --json")
        #expect(sum.exit == .code(0) && sum.output == #"{"$numberLong":"3"}"# + "\n", "\(sum.errors)")
        try await bench.expect(
            "call nothing", 1, ["404 FunctionNotFound to the function call: the app has no function of this name"])
        for json in ["", " --json"] {
            try await bench.expect(
                #"call fail "boom""# + json, 1,
                [
                    "400 FunctionExecutionError to the function call: the function has thrown an error; the service says: \"boom\""
                ]
            )
        }
        try await bench.expect("call sum 1 --user carol", 1, ["carol has no session", "lanyard login carol"])
        try await bench.expect("call sum 1 --user robot", 1, ["Not supported: ", "token_file"])
        try await bench.expect("call sum 1 --user zoe", 1, ["No such user: ", "lanyard users"])
        // `--json` prints the problem, too: its words and who must act.
        for (command, name, action, code) in [
            ("call sum 1 --user zoe", "no-such-user", "operator", 1), ("refresh carol", "not-logged-in", "user", 1),
            ("call nothing", "identity-error", "operator", 1), ("use zoe", "no-such-user", "operator", 1),
            ("logout zoe", "no-such-user", "operator", 1), ("token zoe", "token-not-exposed", "operator", 1),
        ] {
            let run = try await bench.run(command + " --json")
            #expect(run.exit == .code(code) && !run.errors.isEmpty, "\(command): \(run.errors)")
            let problem = try run.json
            #expect(problem["type"].string == "urn:lanyard:problem:\(name)", "\(command): \(run.output)")
            #expect(problem["action"].string == action, "\(command): \(run.output)")
            #expect(problem["message"].string == problem["detail"].string, "\(command): \(run.output)")
        }
        let calls = try await bench.calls("function")
        let noJSON = try await bench.run("call sum one")
        #expect(
            noJSON.exit == .code(64) && noJSON.errors.joined().contains("argument 1 is not JSON"), "\(noJSON.errors)")
        #expect(try await bench.calls("function") == calls)
    }

    @Test("API keys: taken names, unknown ids and disabled keys; a user who may have none")
    func apiKeys() async throws {
        let bench = try await Bench.start()
        let created = try await bench.run("api-keys create ci --json")
        #expect(created.exit == .code(0) && created.errors.isEmpty, "\(created.errors)")
        let id = try created.json["id"].string ?? "", key = try created.json["key"].string ?? ""
        #expect(!id.isEmpty && !key.isEmpty)
        let list = try await bench.run("api-keys list --json")
        #expect(try list.json["api_keys"].array.map { $0["id"].string } == [id] && !list.output.contains(key))
        for (line, part) in [
            (
                "create ci",
                "409 APIKeyAlreadyExists to the creation of the API key: the user has an API key of this name already"
            ),
            ("create a.b", "400 InvalidParameter to the creation of the API key"),
            (
                "show 65f0c3a1e1b2c3d4e5f60718",
                "404 APIKeyNotFound to the request for the API key: the user has no API key with this id"
            ),
            ("enable 65f0c3a1e1b2c3d4e5f60718", "404 APIKeyNotFound"),
            ("delete 65f0c3a1e1b2c3d4e5f60718", "404 APIKeyNotFound"),
        ] { try await bench.expect("api-keys " + line, 1, [part]) }
        try await bench.expect("api-keys list --user carol", 1, ["carol has no session", "lanyard login carol"])

        try bench.folder.write("key", key)
        let login = "login other --identity demo --api-key-file @key"
        // The key is alice's.
        try await bench.expect(login, 1, ["Account in use: ", "lanyard use alice"])
        #expect(try await bench.run("api-keys disable \(id)").output == "\(id) is disabled.\n")
        try await bench.expect(login, 77, ["401 AuthError to the login", "give the right credential"])
        let disabled = try await bench.run("api-keys show \(id) --json").json
        #expect(disabled["disabled"].bool == true && disabled["key"] == .null)
        #expect(try await bench.run("api-keys enable \(id)").output == "\(id) is enabled.\n")
        #expect(try await bench.run("api-keys delete \(id)").output == "\(id) is deleted.\n")
        try await bench.expect("api-keys delete \(id)", 1, ["404 APIKeyNotFound"])

        #expect(try await bench.run("login guest --identity demo --anonymous").exit == .code(0))
        try await bench.expect("api-keys create k", 1, ["403 to the creation of the API key"])
        #expect(!bench.lanyard.process.log.contains(key))
    }

    @Test("links: a wrong password, another account's credential and a second email are 1, and the session continues")
    func link() async throws {
        let bench = try await Bench.start()
        let bob = "--email bob@example.com --password-file"
        try await bench.expect(
            "link alice \(bob) @wrong", 1,
            ["401 InvalidPassword to the link request: the password is wrong, or there is no account with this email"])
        #expect(try await bench.run("login guest --identity demo --anonymous").exit == .code(0))
        try await bench.expect(
            "link guest --email \(EmulatorProcess.email) --password-file @password", 1,
            ["401 InvalidSession to the link request: the credential belongs to another account"])
        let links = try await bench.calls("link")
        try await bench.expect("link alice --anonymous", 1, ["credential.anonymous cannot be linked"])
        try await bench.expect("link carol \(bob) @password", 1, ["carol has no session", "lanyard login carol"])
        try await bench.expect("link robot \(bob) @password", 1, ["Not supported: ", "token_file"])
        #expect(try await bench.calls("link") == links)

        for email in ["one@example.com", "two@example.com"] {
            let registered = try await bench.run(
                "account register --identity demo --email \(email) --password-file @password")
            #expect(registered.exit == .code(0), "\(registered.errors)")
        }
        let linked = try await bench.run("link guest --email one@example.com --password-file @password --json")
        #expect(linked.exit == .code(0), "\(linked.errors)")
        #expect(
            try linked.json["identities"].array.map { $0["provider_type"].string } == ["anon-user", "local-userpass"])
        try await bench.expect(
            "link guest --email two@example.com --password-file @password", 1,
            ["500 to the link request: the account may have a login with email and password already"])
        let profile = try await bench.run("profile guest --json")
        #expect(try profile.exit == .code(0) && profile.json["identities"].array.count == 2, "\(profile.errors)")
        #expect(!bench.lanyard.process.log.contains("session.credential.refused"))
    }

    @Test("a service in maintenance or out of reach: each command is 1, says so, and when to repeat it")
    func unreachable() async throws {
        let bench = try await Bench.start()
        let commands = [
            ("call sum 1", "function call"), ("api-keys list", "API keys"),
            ("link alice --email bob@example.com --password-file @password", "link request"),
            ("account register --identity demo --email new@example.com --password-file @password", "registration"),
        ]
        try await bench.emulator.control("POST", "/faults", #"{"route":"*","fault":"maintenance"}"#)
        for (line, subject) in commands {
            try await bench.expect(line, 1, ["500 MaintenanceInProgress to the ", "repeat the command in "])
            let run = try await bench.run(line)
            #expect(
                run.errors.first?.contains("\(subject): the app is in maintenance; try again later") == true,
                "\(run.errors)")
        }
        try await bench.emulator.control("DELETE", "/faults")
        #expect(try await bench.run("call sum 1").exit == .code(0))
        try await bench.emulator.process.terminate()
        for (line, _) in commands {
            try await bench.expect(line, 1, ["Identity service unreachable: no response", "repeat the command in "])
        }
    }
}
