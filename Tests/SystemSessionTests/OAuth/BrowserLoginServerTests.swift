import Foundation
import Glibc
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// The built Lanyard and its command with users that log in with a browser at glewlwyd; a script is the browser.
@Suite(.enabled(if: GlewlwydServer.isThere, "needs deploy/peer-servers glewlwyd"))
struct BrowserLoginServerTests {
    /// A server, Lanyard with the users `phone` (device) and `browser` (authorization code), and its admin API.
    private struct Bench {
        let server: GlewlwydServer
        let lanyard: LanyardProcess
        let admin: AdminClient
        let folder: TemporaryFolder

        static func start() async throws -> Bench {
            let server = try await GlewlwydServer.start(lifetime: 3600)
            let folder = try TemporaryFolder()
            try folder.write("key", String(repeating: "k", count: 32))
            return try await Bench(server, folder)
        }

        init(_ server: GlewlwydServer, _ folder: TemporaryFolder) async throws {
            (self.server, self.folder) = (server, folder)
            let socket = folder.file("admin.sock")
            let yaml = """
                identities:
                  corp:
                    oauth2:
                      issuer: "\(server.issuer)"
                      client_id: lanyard
                      client_secret_file: \(try folder.write("secret", "s3cret"))
                      scopes: [openid, api]
                users:
                  phone: {identity: corp, login: {device: {}}}
                  browser: {identity: corp, login: {authorization_code: {}}}
                routes:
                  - {name: phone, match: {path: /phone}, upstream: "\(server.resource)", user: phone}
                  - {name: browser, match: {path: /browser}, upstream: "\(server.resource)", user: browser}
                store: {path: \(folder.file("sessions")), key_file: \(folder.file("key"))}

                """
            lanyard = try await LanyardProcess.start(yaml, admin: "{address: \"unix:\(socket)\"}")
            admin = AdminClient(endpoint: .unix(socket))
        }

        var flags: [String] { ["--admin", "unix:\(folder.file("admin.sock"))"] }

        func status(_ path: String) async throws -> Int {
            try await RawClient.ask(lanyard.data, "GET", path).status
        }

        /// Starts `lanyard login` and waits until it has shown what matches.
        func login(_ user: String, until pattern: Regex<(Substring, Substring)>) async throws -> (ServerProcess, String)
        {
            let process = try ServerProcess("lanyard", ["login", user, "--no-browser"] + flags)
            var found: String?
            try await eventually("the command shows where to log in; it said:\n\(process.log)") {
                found = process.log.firstMatch(of: pattern).map { String($0.1) }
                return found != nil
            }
            return (process, found!)
        }

        func browse(_ kind: String, _ value: String) async throws -> String {
            let script = Products.root + "/Tests/SystemSessionTests/OAuth/Peer/glewlwyd_browser.py"
            return try await PythonProcess.run(["-B", script, kind, "http://\(server.endpoint)", value])
        }

        func stop() async throws {
            try await lanyard.process.terminate()
            try await server.stop()
        }
    }

    @Test("a device login by command: code, confirmation, session, and the session after a restart")
    func deviceByCommand() async throws {
        let bench = try await Bench.start()
        #expect(try await bench.status("/phone") == 503)
        let (command, code) = try await bench.login("phone", until: /\ \ ([A-Z0-9]{4}-[A-Z0-9]{4})\n/)
        _ = try await bench.browse("device", code)
        #expect(try await command.waitForExit() == .code(0))
        #expect(command.output.contains("phone is logged in"))
        #expect(try await bench.status("/phone") == 200)
        try await bench.admin.call("POST", "/v1/users/phone/refresh")
        #expect(try await bench.status("/phone") == 200)
        try await bench.lanyard.process.terminate()
        let again = try await Bench(bench.server, bench.folder)
        try await eventually("the session is back") {
            try await again.admin.call("GET", "/v1/users/phone")["session"].string == "valid"
        }
        #expect(try await again.status("/phone") == 200)
        try await again.stop()
    }

    @Test("a device login by the admin API: 202, pending, done; a later one takes its place; one that is ended is gone")
    func deviceByAPI() async throws {
        let bench = try await Bench.start()
        let first = try await bench.admin.call("POST", "/v1/users/phone/login")
        #expect(first["status"].string == "pending" && first["kind"].string == "device")
        let second = try await bench.admin.call("POST", "/v1/users/phone/login", #"{"credential":{"device":{}}}"#)
        let id = try #require(second["id"].string)
        let path = "/v1/users/phone/login/"
        let replaced = try await bench.admin.ask("GET", path + (first["id"].string ?? ""))
        #expect(replaced.status == 404 && replaced.bodyText.contains("no-such-login"))
        #expect(second["verification_uri"].string == bench.server.issuer + "/device")
        #expect((second["interval"].int ?? 0) == 2 && second["expires_at"].string != nil)
        _ = try await bench.browse("device", try #require(second["user_code"].string))
        try await eventually("the login is done") {
            try await bench.admin.call("GET", path + id)["status"].string == "done"
        }
        let done = try await bench.admin.call("GET", path + id)
        #expect(done["user"]["session"].string == "valid" && done["user"]["stored"].bool == true)
        #expect(try await bench.status("/phone") == 200)
        let third = try await bench.admin.call("POST", "/v1/users/phone/login")
        let other = path + (third["id"].string ?? "")
        #expect(try await bench.admin.ask("DELETE", other).status == 204)
        #expect(try await bench.admin.ask("GET", other).status == 404)
        // The session that was there is as it was.
        #expect(try await bench.status("/phone") == 200)
        try await bench.stop()
    }

    @Test("an interrupted command ends the login: Lanyard knows it no more")
    func interrupted() async throws {
        let bench = try await Bench.start()
        let (command, _) = try await bench.login("phone", until: /\ \ ([A-Z0-9]{4}-[A-Z0-9]{4})\n/)
        command.signal(SIGINT)
        #expect(try await command.waitForExit() == .code(130))
        #expect(command.log.contains("the login was ended"))
        let ended = try await bench.lanyard.process.event("admin.call") { $0["call"].string == "cancel_login" }
        #expect(ended["result"].string == "ok")
        try await bench.stop()
    }

    @Test("Lanyard that has restarted does not know the login: the command says so")
    func restarted() async throws {
        let bench = try await Bench.start()
        let (command, _) = try await bench.login("phone", until: /\ \ ([A-Z0-9]{4}-[A-Z0-9]{4})\n/)
        try await bench.lanyard.process.terminate()
        let again = try await Bench(bench.server, bench.folder)
        let exit = try await command.waitForExit()
        #expect([.code(1), .code(69)].contains(exit), "\(command.log)")
        #expect(
            command.log.contains("lanyard login phone") || command.log.contains("no Lanyard responds"), "\(command.log)"
        )
        try await again.stop()
    }

    @Test(
        "an authorization code by command: the browser comes back to the command, the session begins; the page shows nothing"
    )
    func code() async throws {
        let bench = try await Bench.start()
        let (command, uri) = try await bench.login("browser", until: /\ \ (http:\/\/\S+response_type=code\S+)\n/)
        #expect(uri.contains("code_challenge_method=S256") && uri.contains("nonce="))
        let page = try await bench.browse("code", uri)
        #expect(page.hasPrefix("200 The login continues in the terminal."), "\(page)")
        #expect(try await command.waitForExit() == .code(0), "\(command.log)")
        #expect(try await bench.status("/browser") == 200)
        try await bench.admin.call("POST", "/v1/users/browser/refresh")
        try await bench.stop()
    }

    @Test("a login by browser needs an address to come back to")
    func redirect() async throws {
        let bench = try await Bench.start()
        let missing = try await bench.admin.ask("POST", "/v1/users/browser/login")
        #expect(missing.status == 422 && missing.bodyText.contains("redirect-needed"))
        let foreign = try await bench.admin.ask(
            "POST", "/v1/users/browser/login", #"{"redirect_uri":"http://evil.example:1/cb"}"#)
        #expect(foreign.status == 422 && foreign.bodyText.contains("redirect_uri is not"))
        try await bench.stop()
    }
}
