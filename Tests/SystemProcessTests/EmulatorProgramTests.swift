import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// `lanyard-emulator` as a program: its subcommand, its configuration, its snapshot.
@Suite struct EmulatorProgramTests {
    private static let confirm = "/api/client/v2.0/app/demo-abcde/auth/providers/local-userpass/"

    private static func start(_ arguments: [String]) async throws -> (ServerProcess, RawEndpoint) {
        let process = try ServerProcess("lanyard-emulator", ["--listen", "127.0.0.1:0"] + arguments)
        let address = try await process.event("listening")["address"].string ?? ""
        return (process, try RawEndpoint(address))
    }

    private static func mail(_ arguments: [String]) async throws -> ServerProcess {
        let process = try ServerProcess("lanyard-emulator", ["mail"] + arguments)
        try await process.waitForExit()
        return process
    }

    @Test("mail prints the tokens of the newest mail, as lines or as JSON, and they confirm the account")
    func mail() async throws {
        let folder = try TemporaryFolder()
        let seed = try folder.write(
            "seed.yaml", "apps: [{app_id: demo-abcde, providers: {local-userpass: {confirmation: email}}}]")
        let (emulator, endpoint) = try await Self.start(["--seed", seed])
        let url = "http://\(endpoint)"
        let none = try await Self.mail(["bob@example.com", "--emulator", url])
        #expect(none.exit == .code(1) && none.log.contains("there is no mail to bob@example.com"))
        let account = #"{"email":"bob@example.com","password":"123456"}"#
        #expect(try await RawClient.ask(endpoint, "POST", Self.confirm + "register", body: account).status == 201)
        let lines = try await Self.mail(["bob@example.com", "--emulator", url])
        #expect(lines.exit == .code(0), "\(lines.log)")
        let fields = lines.output.split(separator: "\n").map {
            $0.split(separator: ": ", maxSplits: 1).map(String.init)
        }
        #expect(fields.map { $0[0] } == ["kind", "token", "tokenId", "url"])
        let json = try JSON(text: try await Self.mail(["bob@example.com", "--emulator", url, "--json"]).output)
        #expect(json["token"].string == fields[1][1] && json["tokenId"].string == fields[2][1])
        let pair = #"{"token":"\#(fields[1][1])","tokenId":"\#(fields[2][1])"}"#
        #expect(try await RawClient.ask(endpoint, "POST", Self.confirm + "confirm", body: pair).status == 200)
        try await emulator.terminate()
        let gone = try await Self.mail(["bob@example.com", "--emulator", url])
        #expect(gone.exit == .code(69) && gone.log.contains("cannot be reached"))
        #expect(try await Self.mail(["bob@example.com", "--emulator", "ftp://x"]).exit == .code(64))
    }

    @Test("mail reaches an emulator at a unix socket")
    func unixSocket() async throws {
        let folder = try TemporaryFolder()
        let path = "unix:" + folder.file("emulator")
        let process = try ServerProcess("lanyard-emulator", ["--listen", path])
        try await process.event("listening")
        let none = try await Self.mail(["bob@example.com", "--emulator", path, "--app", "demo-abcde"])
        #expect(none.exit == .code(1), "\(none.log)")
        #expect(try await Self.mail(["bob@example.com", "--emulator", path, "--app", "x"]).exit == .code(70))
    }

    @Test("SIGTERM writes the snapshot, and the next start reads it", arguments: [SIGTERM, SIGINT])
    func snapshot(signal: CInt) async throws {
        let folder = try TemporaryFolder()
        let arguments = ["--demo", "--snapshot", folder.file("state")]
        let (first, endpoint) = try await Self.start(arguments)
        let login = "/api/client/v2.0/app/demo-abcde/auth/providers/anon-user/login"
        let user = try await RawClient.ask(endpoint, "POST", login, body: "{}").json
        first.signal(signal)
        #expect(try await first.waitForExit() == .signal(Int(signal)))
        let (second, again) = try await Self.start(arguments)
        let refresh = try await RawClient.ask(
            again, "POST", "/api/client/v2.0/auth/session",
            fields: [("Authorization", "Bearer \(user["refresh_token"].string ?? "")")])
        #expect(refresh.status == 201)
        try await second.terminate()
    }

    @Test("a word that is no command ends the start with 64 and the names of the commands", arguments: ["mial", ""])
    func unknownCommand(_ word: String) async throws {
        let process = try ServerProcess("lanyard-emulator", [word, "bob@example.com"])
        #expect(try await process.waitForExit() == .code(64))
        #expect(
            process.log.contains("There is no command '\(word)'. The commands are serve, mail, help."), "\(process.log)"
        )
    }

    @Test("--oauth has the client demo and a user; a client, a scope and a user may be named without a file of YAML")
    func oauth() async throws {
        let folder = try TemporaryFolder()
        let secret = try folder.write("secret", "s3cret\n"), password = try folder.write("password", "wonderland\n")
        let form = [("Content-Type", "application/x-www-form-urlencoded")]
        func status(_ endpoint: RawEndpoint, _ body: String) async throws -> Int {
            try await RawClient.ask(endpoint, "POST", "/oauth/token", fields: form, body: body).status
        }
        let own = "grant_type=client_credentials&client_id="
        let login = "grant_type=password&client_id=open&username=bob&password="
        let (first, endpoint) = try await Self.start(["--oauth"])
        #expect(try await status(endpoint, own + "demo&client_secret=demo-secret") == 200)
        let alice = "grant_type=password&client_id=demo&username=alice%40example.com&password=correct-horse"
        #expect(try await status(endpoint, alice) == 200)
        try await first.terminate()
        let (second, again) = try await Self.start([
            "--oauth", "--oauth-client", "mine:\(secret)", "--oauth-client", "open", "--user", "bob:\(password)",
            "--oauth-scope", "api", "--access-token-lifetime", "20s",
        ])
        #expect(try await status(again, own + "mine&client_secret=s3cret&scope=api") == 200)
        #expect(try await status(again, own + "mine&client_secret=s3cret&scope=other") == 400)
        #expect(try await status(again, own + "demo&client_secret=demo-secret") == 401)
        #expect(try await status(again, login + "wonderland") == 200)
        #expect(try await status(again, login + "x") == 400)
        try await second.terminate()
    }

    @Test(
        "flags of the OAuth side that cannot be used end the start with 64 and the reason",
        arguments: [
            (["--oauth-client", "a"], "need --oauth"), (["--oauth-scope", "a"], "need --oauth"),
            (["--oauth", "--oauth-client", ""], "printable ASCII"),
            (["--oauth", "--oauth-client", "a:/nowhere"], "/nowhere: cannot be read"),
            (["--oauth", "--oauth-client", "a", "--oauth-client", "a"], "client a is there twice"),
            (["--oauth", "--oauth-scope", "a b"], "a b is no scope"),
            (["--oauth", "--device-code-lifetime", "soon"], "soon"),
        ])
    func badOAuthFlags(_ flags: [String], _ reason: String) async throws {
        let process = try ServerProcess("lanyard-emulator", ["--listen", "127.0.0.1:0"] + flags)
        #expect(try await process.waitForExit() == .code(64))
        #expect(process.log.contains(reason), "\(process.log)")
    }

    @Test("a client's secret is not empty")
    func emptySecret() async throws {
        let folder = try TemporaryFolder()
        let file = try folder.write("secret", "\n")
        let process = try ServerProcess("lanyard-emulator", ["--oauth", "--oauth-client", "a:\(file)"])
        #expect(try await process.waitForExit() == .code(64))
        #expect(process.log.contains("\(file): a secret is printable ASCII, and not empty"), "\(process.log)")
    }

    @Test("a snapshot keeps sessions and the key of the OAuth side across starts")
    func oauthSnapshot() async throws {
        let folder = try TemporaryFolder()
        let arguments = ["--oauth", "--snapshot", folder.file("state")]
        let form = [("Content-Type", "application/x-www-form-urlencoded")]
        let (first, endpoint) = try await Self.start(arguments)
        let login = "grant_type=password&client_id=demo&username=alice%40example.com&password=correct-horse"
        let tokens = try await RawClient.ask(endpoint, "POST", "/oauth/token", fields: form, body: login).json
        first.signal(SIGTERM)
        try await first.waitForExit()
        let (second, again) = try await Self.start(arguments)
        let access = [("Authorization", "Bearer \(tokens["access_token"].string ?? "")")]
        #expect(try await RawClient.ask(again, "GET", "/protected/", fields: access).status == 200)
        let refresh = "grant_type=refresh_token&client_id=demo&refresh_token=\(tokens["refresh_token"].string ?? "")"
        #expect(try await RawClient.ask(again, "POST", "/oauth/token", fields: form, body: refresh).status == 200)
        try await second.terminate()
    }

    @Test("a configuration that cannot be used ends the start with 64 and the line")
    func badConfiguration() async throws {
        let folder = try TemporaryFolder()
        let seed = try folder.write("seed.yaml", "apps:\n  - {app_id: a, colour: blue}")
        let process = try ServerProcess("lanyard-emulator", ["--seed", seed])
        #expect(try await process.waitForExit() == .code(64))
        #expect(process.log.contains("\(seed): line 2: unknown key colour"), "\(process.log)")
        let both = try ServerProcess("lanyard-emulator", ["--seed", seed, "--demo"])
        #expect(try await both.waitForExit() == .code(64))
    }
}
