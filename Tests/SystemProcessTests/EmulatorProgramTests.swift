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
