import Foundation
import Glibc
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// What `lanyard login` shows of a login that a user completes in a browser.
@Suite struct BrowserLoginCommandTests {
    private static let login = "POST /v1/users/phone/login"
    private static let users =
        #"{"users":[{"name":"phone","identity":"corp","state":"logged_out","session":"login_required"}]}"#

    private static func state(_ status: String, _ more: String = "") -> String {
        #"{"id":"0123456789abcdef","name":"phone","kind":"device","status":"\#(status)"\#(more)}"#
    }

    /// - Parameter secondsLeft: of the code.
    private static func pending(_ uri: String?, secondsLeft: Double) -> String {
        let end = Date(timeIntervalSinceNow: secondsLeft).formatted(
            Date.ISO8601FormatStyle(includingFractionalSeconds: true))
        return state(
            "pending",
            #","verification_uri":"https://i.example/device","user_code":"AB-CD","# + #""verification_uri_complete":"#
                + (uri.map { "\"\($0)\"" } ?? "null") + #","expires_at":"\#(end)","interval":1"#)
    }

    private static let done = state(
        "done", #","user":{"name":"phone","identity":"corp","state":"active","session":"valid","stored":true}"#)

    /// - Parameter states: what the calls about the login show, one after another.
    private static func admin(_ begun: String, then states: [String]) throws -> ScriptedAdmin {
        let count = Guarded(0)
        return try ScriptedAdmin { call in
            switch call {
            case "GET /v1/users": return ScriptedAdmin.json(users)
            case login: return ScriptedAdmin.json(begun, status: 202)
            case "GET /v1/users/phone/login/0123456789abcdef":
                let index = count.withLock { count in
                    defer { count += 1 }
                    return min(count, states.count - 1)
                }
                return ScriptedAdmin.json(states[index])
            default: return nil
            }
        }
    }

    /// Its standard error is the terminal.
    private static func start(_ admin: ScriptedAdmin, on terminal: PseudoTerminal) throws -> ServerProcess {
        try ServerProcess(
            "/bin/sh", ["-c", "exec \"$0\" \"$@\" 2>&1", Products.path("lanyard"), "login", "phone"] + admin.flags,
            environment: ["LD_LIBRARY_PATH": QRReader.libraries], input: .terminal(terminal, showsOutput: true))
    }

    @Test(
        "the time that is left is shown in minutes; at its end, and after the confirmation, the command says what it waits for"
    )
    func timeLeft() async throws {
        let ended = Self.pending(nil, secondsLeft: -1)
        let admin = try Self.admin(
            Self.pending(nil, secondsLeft: 90),
            then: [ended, ended, Self.state("finishing"), Self.state("finishing"), Self.done])
        let process = try ServerProcess("lanyard", ["login", "phone"] + admin.flags)
        #expect(try await process.waitForExit() == .code(0), "\(process.log)")
        #expect(
            process.lines.map(\.text).dropFirst(2) == [
                "waiting; 2 min left, Ctrl-C ends the login",
                "waiting; the time to open the address has ended, Ctrl-C ends the login",
                "confirmed; waiting for the session to begin",
            ], "\(process.log)")
        #expect(process.output.contains("phone is logged in"))
    }

    @Test(
        "a QR code on the terminal is read as the address, whatever its length",
        .enabled(if: QRReader.isThere, "needs deploy/peer-servers qr"), arguments: [27, 90, 300, 1000, 2000])
    func codes(_ count: Int) async throws {
        let uri = "https://i.example/d?c=AB-CD".padding(toLength: count, withPad: "AbC-019_~%2F&x=", startingAt: 0)
        let terminal = try PseudoTerminal()
        let admin = try Self.admin(Self.pending(uri, secondsLeft: 600), then: [Self.done])
        let process = try Self.start(admin, on: terminal)
        #expect(try await process.waitForExit() == .code(0), "\(terminal.screen)")
        try await terminal.shows("phone is logged in")
        #expect(admin.calls.first == "GET /v1/users")
        #expect(try await QRReader.read(terminal.screen) == uri)
    }

    @Test(
        "without a complete address the code has the one where the user types the code",
        .enabled(if: QRReader.isThere, "needs deploy/peer-servers qr"))
    func shortAddress() async throws {
        let terminal = try PseudoTerminal()
        let admin = try Self.admin(Self.pending(nil, secondsLeft: 600), then: [Self.done])
        let process = try Self.start(admin, on: terminal)
        #expect(try await process.waitForExit() == .code(0), "\(terminal.screen)")
        try await terminal.shows("phone is logged in")
        #expect(admin.calls.first == "GET /v1/users")
        #expect(try await QRReader.read(terminal.screen) == "https://i.example/device")
    }

    @Test(
        "a code that is wider than the terminal would be broken: it is left out, and the command says so",
        .enabled(if: QRReader.isThere, "needs deploy/peer-servers qr"), arguments: [(90, true), (1000, false)])
    func width(_ count: Int, _ isShown: Bool) async throws {
        let uri = "https://i.example/d?c=AB-CD".padding(toLength: count, withPad: "x", startingAt: 0)
        let terminal = try PseudoTerminal(columns: 80)
        let admin = try Self.admin(Self.pending(uri, secondsLeft: 600), then: [Self.done])
        let process = try Self.start(admin, on: terminal)
        #expect(try await process.waitForExit() == .code(0), "\(terminal.screen)")
        try await terminal.shows("phone is logged in")
        #expect(admin.calls.first == "GET /v1/users")
        #expect(QRReader.rows(terminal.screen).isEmpty != isShown)
        #expect(terminal.screen.contains("a QR code of it needs") != isShown, "\(terminal.screen)")
    }
}

/// What `lanyard login` does at its own address in a login by authorization code. A scripted admin API is Lanyard.
@Suite struct CodeLoginCommandTests {
    private static let uri = "https://i.example/authorize?state=s-1&nonce=n-1&code_challenge=c-1"
    private static let path = "/v1/users/phone/login/0123456789abcdef"
    private static let done =
        #"{"id":"0123456789abcdef","name":"phone","kind":"authorization_code","status":"done","#
        + #""user":{"name":"phone","identity":"corp","state":"active","session":"valid","stored":true}}"#

    private static func pending(_ uri: String) -> String {
        #"{"id":"0123456789abcdef","name":"phone","kind":"authorization_code","status":"pending","#
            + #""authorization_uri":"\#(uri)","expires_at":"2099-01-01T00:00:00Z","interval":1}"#
    }

    private static func admin(_ uri: String = uri) throws -> ScriptedAdmin {
        try ScriptedAdmin { call in
            switch call {
            case "GET /v1/users":
                ScriptedAdmin.json(
                    #"{"users":[{"name":"phone","identity":"corp","state":"logged_out","session":"login_required"}]}"#)
            case "POST /v1/users/phone/login": ScriptedAdmin.json(pending(uri), status: 202)
            case "GET \(path)": ScriptedAdmin.json(pending(uri))
            case "POST \(path)": ScriptedAdmin.json(done)
            case "DELETE \(path)": .response(204, "No Content", fields: [], body: "")
            default: nil
            }
        }
    }

    /// A command that waits for its browser.
    private struct Login {
        let process: ServerProcess
        let admin: ScriptedAdmin
        /// What a browser opens.
        let begin: String
        let endpoint: RawEndpoint
        private let host: String

        init(_ flags: [String] = ["--no-browser"], environment: [String: String] = [:]) async throws {
            let made = try CodeLoginCommandTests.admin()
            let started = try ServerProcess(
                "lanyard", ["login", "phone", "--browser"] + flags + made.flags, environment: environment)
            (process, admin) = (started, made)
            var found: Substring?
            try await eventually("the command shows where to log in; it said:\n\(started.log)") {
                found = started.log.firstMatch(of: /\ \ (http:\/\/127\.0\.0\.1:\d+\/begin\/\S+)\n/)?.1
                return found != nil
            }
            let shown = try #require(found)
            let (host, target) = (shown.dropFirst(7).prefix { $0 != "/" }, shown.dropFirst(7).drop { $0 != "/" })
            (begin, self.host) = (String(target), String(host))
            endpoint = .tcp(try #require(host.split(separator: ":").last.flatMap { UInt16($0) }))
        }

        func ask(_ method: String, _ target: String, cookie: String? = nil) throws -> RawMessage {
            let client = try RawClient(endpoint)
            defer { client.close() }
            return try client.exchange(method, target, host: host, fields: cookie.map { [("Cookie", $0)] } ?? [])
        }

        /// The cookie of a browser that opens the address.
        func open() throws -> String {
            let redirect = try ask("GET", begin)
            #expect(redirect.status == 303 && redirect.values("Location") == [CodeLoginCommandTests.uri])
            return String(try #require(redirect.values("Set-Cookie").first).prefix { $0 != ";" })
        }

        /// The browser comes back, and the command ends.
        func complete(_ cookie: String) async throws {
            #expect(try ask("GET", "/callback?code=x&state=s-1", cookie: cookie).status == 200)
            #expect(try await process.waitForExit() == .code(0), "\(process.log)")
            #expect(admin.calls.contains(#"POST \#(path) {"query":"code=x&state=s-1"}"#), "\(admin.calls)")
        }
    }

    @Test("the browser's program gets an address without state, nonce and challenge; it leads to the service once")
    func processList() async throws {
        let folder = try TemporaryFolder()
        let seen = folder.file("seen")
        let program = try folder.write(
            "xdg-open", "#!/bin/sh\nprintf '%s' \"$*\" > \(seen).part\nmv \(seen).part \(seen)\n")
        #expect(chmod(program, 0o755) == 0)
        let login = try await Login(
            [], environment: ["DISPLAY": ":0", "PATH": "\(program.dropLast("/xdg-open".count)):/usr/bin:/bin"])
        try await eventually("the browser is started") { FileManager.default.fileExists(atPath: seen) }
        #expect(try String(contentsOfFile: seen, encoding: .utf8) == "http://\(login.endpoint)\(login.begin)")
        #expect(login.process.log.contains("leads to i.example."))
        let cookie = try login.open()
        #expect(try login.ask("GET", login.begin, cookie: cookie).status == 410)
        #expect(try login.ask("GET", "/callback?code=x&state=s-1").status == 400)
        #expect(login.process.exit == nil)
        try await login.complete(cookie)
        #expect(login.process.log.contains("the address was opened a second time"), "\(login.process.log)")
        #expect(login.process.log.contains("a browser that has not opened the address above came back"))
    }

    @Test("bytes that are no text in a callback are refused, and the login still waits for its browser")
    func strangeBytes() async throws {
        let login = try await Login()
        #expect(login.process.log.contains("Over SSH, forward that port first: ssh -L"), "\(login.process.log)")
        for cookie in [nil, try login.open()] {
            let client = try RawClient(login.endpoint)
            var head = Array("GET /callback?x=".utf8) + [0xff]
            head += Array(" HTTP/1.1\r\nHost: \(login.endpoint)\r\nCookie: \(cookie ?? "a=b")\r\n\r\n".utf8)
            try client.send(head)
            #expect(try client.response().status == 400)
            client.close()
            if let cookie {
                #expect(login.process.exit == nil)
                try await login.complete(cookie)
            }
        }
    }

    @Test("a registered port is bound again at once, and a second command at the same time is told that it is taken")
    func samePort() async throws {
        let first = try await Login()
        guard case .tcp(let port) = first.endpoint else { return }
        let flags = ["--no-browser", "--redirect-port", "\(port)"]
        let taken = try await CommandRun(["login", "phone", "--browser"] + flags + first.admin.flags)
        #expect(taken.exit == .code(64) && taken.errors.first?.contains("cannot be bound") == true, "\(taken.errors)")
        try await first.complete(try first.open())
        for _ in 0..<2 {
            let next = try await Login(flags)
            try await next.complete(try next.open())
        }
    }

    @Test("two logins at once have one browser, whose cookies all ports get")
    func two() async throws {
        let (first, second) = (try await Login(), try await Login())
        let cookies = [try first.open(), try second.open()].joined(separator: "; ")
        try await second.complete(cookies)
        try await first.complete(cookies)
    }

    @Test(
        "an address that is no http or https URL is not opened, and ends the login",
        arguments: ["javascript:alert(1)", "file:///etc/passwd", "slack://open?x", "https://good@evil.example/"])
    func otherSchemes(_ uri: String) async throws {
        let admin = try Self.admin(uri)
        let run = try await CommandRun(["login", "phone", "--browser", "--no-browser"] + admin.flags)
        #expect(run.exit == .code(1) && run.errors.first?.contains("no http or https URL") == true, "\(run.errors)")
        #expect(!run.errors.contains { $0.contains(uri) })
        #expect(admin.calls.last == "DELETE \(Self.path)")
    }

    @Test("a redirect port is a number", arguments: ["8765/cb", "/cb", "127.0.0.1:8765", "65536", "-1"])
    func portText(_ text: String) async throws {
        let run = try await CommandRun(["login", "phone", "--browser", "--redirect-port", text])
        #expect(run.exit == .code(64), "\(run.errors)")
    }
}

/// zxing-cpp, which shares no line with what makes the codes (deploy/peer-servers gets both).
private enum QRReader {
    private static let root = Products.root + "/.build/peer-servers/qr"
    static let isThere = FileManager.default.fileExists(atPath: root + "/ready")
    /// Where libqrencode is, unless it is the machine's.
    static let libraries = ["x86_64", "aarch64"].map { "\(root)/root/usr/lib/\($0)-linux-gnu" }.joined(separator: ":")

    /// The lines of a screen that are blocks alone.
    static func rows(_ screen: String) -> [Substring] {
        screen.split(whereSeparator: \.isNewline).filter { line in
            line.count >= 29 && line.allSatisfy { " \u{2580}\u{2584}\u{2588}".contains($0) }
        }
    }

    /// The text of the one QR code that a screen shows, with light text on a dark ground.
    static func read(_ screen: String) async throws -> String {
        let folder = try TemporaryFolder()
        let file = try folder.write("screen", rows(screen).joined(separator: "\n"))
        let reader = try ServerProcess(root + "/bin/python", ["-B", "-c", script, file])
        guard try await reader.waitForExit() == .code(0) else { throw TestFailure("\(reader.log)\n\(screen)") }
        return reader.output
    }

    /// Draws the screen with dark ground around it.
    private static let script = """
        import sys, zxingcpp
        side, margin = 4, 8
        pixels = []
        lines = open(sys.argv[1], encoding="utf-8").read().split("\\n")
        width = (max(map(len, lines)) + 2 * margin) * side
        dark = [bytes(width)] * (margin * side)
        for line in lines:
            for blocks in ("\\u2580\\u2588", "\\u2584\\u2588"):
                row = b"".join((b"\\xff" if c in blocks else b"\\0") * side for c in line)
                pixels += [bytes(margin * side) + row + bytes(width - margin * side - len(row))] * side
        pixels = dark + pixels + dark
        image = memoryview(b"".join(pixels)).cast("B", (len(pixels), width))
        found = zxingcpp.read_barcodes(image)
        assert [code.format for code in found] == [zxingcpp.BarcodeFormat.QRCode], found
        sys.stdout.write(found[0].text)
        """
}
