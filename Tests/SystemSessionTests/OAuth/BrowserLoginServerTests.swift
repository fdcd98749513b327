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

        static func start(isPushed: Bool = false) async throws -> Bench {
            let server = try await GlewlwydServer.start(lifetime: 3600, isPushed: isPushed)
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

    /// The address that the command shows.
    private static var begin: Regex<(Substring, Substring)> {
        /\ \ (http:\/\/127\.0\.0\.1:\d+\/begin\/[0-9a-f]{64})\n/
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
        let (command, uri) = try await bench.login("browser", until: Self.begin)
        #expect(command.log.contains("leads to \(bench.server.endpoint)."), "\(command.log)")
        #expect(!command.log.contains("state=") && !command.log.contains("nonce="), "\(command.log)")
        let page = try await bench.browse("code", uri)
        #expect(page.hasPrefix("200 The login continues in the terminal."), "\(page)")
        #expect(try await command.waitForExit() == .code(0), "\(command.log)")
        #expect(try await bench.status("/browser") == 200)
        let account = try await bench.admin.call("GET", "/v1/users/browser")["user_id"].string
        #expect(account?.isEmpty == false, "the sub of the ID token")
        try await bench.admin.call("POST", "/v1/users/browser/refresh")
        try await bench.stop()
    }

    @Test("a server that requires pushed requests: the browser gets a reference, the session begins (RFC 9126)")
    func pushed() async throws {
        let bench = try await Bench.start(isPushed: true)
        let program = try RawServer()
        let back = "http://\(program.endpoint)/callback"
        _ = try await bench.browse("register", back)
        let path = "/v1/users/browser/login"
        let login = try await bench.admin.call("POST", path, #"{"redirect_uri":"\#(back)"}"#)
        let uri = try #require(login["authorization_uri"].string)
        #expect(uri.contains("request_uri=urn%3Aietf%3Aparams%3Aoauth%3Arequest_uri%3A"), "\(uri)")
        #expect(!uri.contains("redirect_uri=") && !uri.contains("code_challenge"), "\(uri)")
        #expect(try await bench.browse("code", uri).hasPrefix("200 "))
        let target = try #require(program.requests.first?.target)
        let query = try #require(target.split(separator: "?", maxSplits: 1).last)
        let done = try await bench.admin.call(
            "POST", path + "/" + (login["id"].string ?? ""), #"{"query":"\#(query)"}"#)
        try await eventually("the login is done; it was \(done)") {
            try await bench.admin.call("GET", path + "/" + (login["id"].string ?? ""))["status"].string == "done"
        }
        #expect(try await bench.status("/browser") == 200)
        try await bench.stop()
    }

    @Test("strangers at the address where the browser comes back: 404, and the login still waits for its browser")
    func strangers() async throws {
        let bench = try await Bench.start()
        let (command, uri) = try await bench.login("browser", until: Self.begin)
        let port = try #require(uri.firstMatch(of: /127\.0\.0\.1:(\d+)\/begin/)?.1)
        let endpoint = RawEndpoint.tcp(try #require(UInt16(port)))
        let silent = try RawClient(endpoint)
        let slow = try RawClient(endpoint)
        try slow.send("GET /callback?code=x HTTP/1.1\r\nHost: 127.")
        let own = "127.0.0.1:\(port)"
        for (head, status) in [
            ("GET /callback?code=x&state=y HTTP/1.1\r\nHost: evil.example\r\n\r\n", 404),
            ("GET /callback?code=x&state=y HTTP/1.1\r\nHost: evil.example\r\nX: Host: \(own)\r\n\r\n", 404),
            ("GET /favicon.ico HTTP/1.1\r\nHost: \(own)\r\n\r\n", 404),
            ("POST /callback?code=x HTTP/1.1\r\nHost: \(own)\r\nContent-Length: 0\r\n\r\n", 404),
            ("GET /callback?code=x&state=y HTTP/1.1\r\nHost: \(own)\r\n\r\n", 400),
            ("GET /callback?" + String(repeating: "x", count: 21 << 10), 404),
        ] {
            let client = try RawClient(endpoint)
            try client.send(head)
            #expect(try client.response().status == status, "\(head.prefix(80))")
            client.close()
        }
        #expect(command.exit == nil)
        #expect(try await bench.browse("code", uri).hasPrefix("200 "))
        #expect(try await command.waitForExit() == .code(0), "\(command.log)")
        #expect(try await bench.status("/browser") == 200)
        // A client that sends nothing does not keep Ctrl-C waiting either.
        let (second, again) = try await bench.login("browser", until: Self.begin)
        let next = try #require(again.firstMatch(of: /127\.0\.0\.1:(\d+)\/begin/)?.1)
        let other = try RawClient(.tcp(try #require(UInt16(next))))
        second.signal(SIGINT)
        #expect(try await second.waitForExit() == .code(130))
        [silent, slow, other].forEach { $0.close() }
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
