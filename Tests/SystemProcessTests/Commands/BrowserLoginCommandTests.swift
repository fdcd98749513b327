import Foundation
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
