import Foundation
import Glibc
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// The built Lanyard at a server whose refresh tokens work once and whose family ends at a repeat: a full disk, and lost responses.
/// The server is a fake: it counts.
@Suite struct OneUseTokenTests {
    /// What the server has been asked for.
    private final class Ledger: Sendable {
        struct Sent: Equatable {
            var token: String
            /// By the programs' clock, in seconds.
            var at: Double
        }

        struct State {
            var logins = 0
            var issuedAt = 0.0
            var sent: [Sent] = []
            /// The refresh token that works.
            var present = 0
            /// The session has ended, because a token was repeated.
            var isDead = false
            /// How the next refresh ends.
            var loses = Loss.none
        }

        enum Loss: Sendable { case none, request, response }

        let state = Guarded(State())
        var logins: Int { state.withLock { $0.logins } }
        var sent: [String] { state.withLock { $0.sent.map(\.token) } }
        var isDead: Bool { state.withLock { $0.isDead } }

        func lose(_ loss: Loss) { state.withLock { $0.loses = loss } }
    }

    private static let lifetime = 40.0

    private let clock: TestClock
    private let ledger = Ledger()
    private let server: RawServer
    private let upstream: RawServer
    private let folder: TemporaryFolder

    init() throws {
        let (clock, ledger) = (try TestClock(), ledger)
        self.clock = clock
        server = try RawServer { request in
            let json = [("Content-Type", "application/json")]
            return ledger.state.withLock { state -> RawResponse in
                let form = request.message.bodyText
                if form.contains("grant_type=password") {
                    state.logins += 1
                    state.isDead = false
                } else {
                    let field = form.split(separator: "&").first { $0.hasPrefix("refresh_token=") } ?? ""
                    let token = String(field.dropFirst("refresh_token=".count))
                    state.sent.append(Ledger.Sent(token: token, at: clock.now))
                    let loss = state.loses
                    state.loses = .none
                    if loss == .request { return .close }
                    guard token == "r\(state.present)", !state.isDead else {
                        state.isDead = true
                        return .response(400, "Bad Request", fields: json, body: #"{"error":"invalid_grant"}"#)
                    }
                    state.present += 1
                    if loss == .response { return .close }
                }
                state.issuedAt = clock.now
                let rest =
                    #""token_type":"Bearer","expires_in":\#(Int(Self.lifetime)),"refresh_token":"r\#(state.present)""#
                let token = "a\(state.present)\(Self.tail)"
                return .response(fields: json, body: #"{"access_token":"\#(token)",\#(rest)}"#)
            }
        }
        upstream = try RawServer()
        clock.watch(server.threads)
        clock.watch(upstream.threads)
        folder = try TemporaryFolder()
        try folder.write("key", String(repeating: "k", count: 32))
        try folder.write("password", "p")
        try FileManager.default.createDirectory(
            atPath: storeFolder, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    }

    private var storeFolder: String { folder.file("state") }
    private var admin: AdminClient { AdminClient(endpoint: .unix(folder.file("admin.sock"))) }

    /// - Parameter login: of alice; nil: an operator logs her in.
    private func start(
        hasLogin: Bool = true, oauth: String = "", rest: String = "", launcher: [String] = []
    ) async throws -> LanyardProcess {
        let password = "{password: {username: alice, password_file: \(folder.file("password"))}}"
        return try await LanyardProcess.start(
            """
            identities:
              corp:
                oauth2:
                  endpoints: {token: "http://\(server.endpoint)/token"}
                  client_id: lanyard
                  rotation: one_use
                  \(oauth)
            users: {alice: {identity: corp\(hasLogin ? ", login: \(password)" : "")}}
            routes: [{upstream: "http://\(upstream.endpoint)"}]
            store: {path: \(storeFolder)/sessions, key_file: \(folder.file("key"))}
            \(rest)

            """, admin: "{address: \"unix:\(folder.file("admin.sock"))\"}", under: clock, launcher: launcher)
    }

    private func logIn() async throws {
        try await admin.call(
            "POST", "/v1/users/alice/login", #"{"credential":{"password":{"username":"alice","password":"p"}}}"#)
    }

    private func alice() async throws -> JSON { try await admin.call("GET", "/v1/users/alice") }

    // MARK: Last try

    /// Alice's first refresh is lost, and Lanyard has no login for her.
    private func lost(_ loss: Ledger.Loss, oauth: String = "") async throws -> LanyardProcess {
        let lanyard = try await start(hasLogin: false, oauth: oauth)
        try await logIn()
        clock.stop()
        ledger.lose(loss)
        try await clock.pass(until: "the first refresh") { ledger.sent == ["r0"] }
        try await lanyard.process.event("session.refresh.outcome_unknown")
        return lanyard
    }

    @Test(
        "a call that never reached the server: the session serves to the token's end, and continues without an operator"
    )
    func lastTry() async throws {
        let lanyard = try await lost(.request)
        #expect(try await lanyard.get("/").status == 200)
        let issuedAt = ledger.state.withLock { $0.issuedAt }
        let shown = try await alice()
        #expect(shown["session"].string == "stale" && shown["action"].string == "user", "\(shown)")
        try await clock.pass(until: "it is unreachable", grain: .milliseconds(100)) {
            try await alice()["session"].string == "unreachable"
        }
        try await lanyard.process.event("session.expired") { $0["reason"].string == "outcome_unknown" }
        let refused = try await lanyard.get("/")
        #expect(refused.status == 503 && refused.bodyText.contains("identity-unreachable"))
        #expect(ledger.sent == ["r0"] && clock.now < issuedAt + Self.lifetime)
        try await clock.pass(until: "the last try") { ledger.sent.count == 2 }
        let sentAt = ledger.state.withLock { $0.sent[1].at }
        #expect(ledger.sent == ["r0", "r0"] && sentAt >= issuedAt + Self.lifetime && ledger.logins == 1)
        try await lanyard.process.event("session.refresh.last_try")
        try await lanyard.process.event("session.refresh.succeeded") { $0["reason"].string == "last_try" }
        clock.run()
        #expect(try await lanyard.get("/").status == 200)
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("the response to a call was lost: the last try ends the session, and is not repeated by a restart")
    func lastTryFails() async throws {
        let lanyard = try await lost(.response)
        let issuedAt = ledger.state.withLock { $0.issuedAt }
        try await clock.pass(until: "the last try") { ledger.sent.count == 2 }
        #expect(ledger.state.withLock { $0.sent[1].at } >= issuedAt + Self.lifetime)
        try await lanyard.process.event("session.login.required") { $0["reason"].string == "outcome_unknown" }
        let shown = try await alice()
        #expect(shown["session"].string == "login_required" && shown["action"].string == "user", "\(shown)")
        clock.run()
        #expect(try await lanyard.process.terminate() == .code(143))
        let again = try await start(hasLogin: false)
        try await again.process.event("session.login.required")
        #expect(ledger.sent == ["r0", "r0"] && ledger.logins == 1)
        #expect(try await again.process.terminate() == .code(143))
    }

    @Test("last_try: false ends the session at once")
    func noLastTry() async throws {
        let lanyard = try await lost(.request, oauth: "last_try: false")
        try await lanyard.process.event("session.login.required") { $0["reason"].string == "outcome_unknown" }
        #expect(try await alice()["session"].string == "login_required")
        try await clock.pass(.seconds(60))
        #expect(ledger.sent == ["r0"])
        clock.run()
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("killed while the last try is awaited, and in the middle of it: it is made once in all")
    func killed() async throws {
        var lanyard = try await lost(.request)
        clock.run()
        lanyard.process.signal(SIGKILL)
        try await lanyard.process.waitForExit()
        lanyard = try await start(hasLogin: false)
        clock.stop()
        ledger.lose(.request)
        try await clock.pass(until: "the last try") { ledger.sent.count == 2 }
        clock.run()
        lanyard.process.signal(SIGKILL)
        try await lanyard.process.waitForExit()
        lanyard = try await start(hasLogin: false)
        try await lanyard.process.event("session.login.required")
        #expect(ledger.sent == ["r0", "r0"] && ledger.logins == 1)
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    // MARK: A full disk

    /// A record with such a token never fits into the last block of the store's file, which needs no room on a full disk.
    private static let tail = String(repeating: "a", count: 4096)

    /// A small file system in a namespace of its own, which outlives the program: another process holds it.
    private func mount() async throws -> (filler: String, holder: ServerProcess, launcher: [String]) {
        let script = "mount -t tmpfs -o size=64k,mode=700 tmpfs \(storeFolder) && echo mounted && exec sleep 1000"
        let holder = try ServerProcess("/usr/bin/unshare", ["-m", "/bin/sh", "-c", script])
        try await eventually("the file system is mounted") { holder.output == "mounted\n" }
        let enter = ["/usr/bin/nsenter", "--mount=/proc/\(holder.pid)/ns/mnt"]
        return ("/proc/\(holder.pid)/root\(storeFolder)/filler", holder, Launcher.moving(enter, under: clock))
    }

    private func fill(_ path: String) throws {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw TestFailure("\(path): errno \(errno)") }
        defer { close(descriptor) }
        let page = [UInt8](repeating: 0, count: 4096)
        while write(descriptor, page, page.count) > 0 {}
        guard errno == ENOSPC else { throw TestFailure("\(path): errno \(errno)") }
    }

    @Test(
        "full disk: the token is sent in the mandatory zone only, is marked as used, and no start sends it again after a kill",
        .enabled(if: MountNamespace.isPossible, "needs root and mount namespaces"))
    func fullDisk() async throws {
        let (filler, holder, launcher) = try await mount()
        defer { holder.signal(SIGKILL) }
        var lanyard = try await start(launcher: launcher)
        try await lanyard.untilReady()
        clock.stop()
        try fill(filler)
        let issuedAt = ledger.state.withLock { $0.issuedAt }
        try await clock.pass(until: "the refresh", grain: .milliseconds(100)) { ledger.sent == ["r0"] }
        // The server's clock begins with its response, the token's life with the request.
        #expect(ledger.state.withLock { $0.sent[0].at } >= issuedAt + Self.lifetime * 0.75 - 1)
        let failed = try await lanyard.process.event("session.refresh.failed")
        #expect(
            failed["error"].string?.contains("No space left") == true && failed["action"].string == "operator",
            "\(failed)")
        try await lanyard.process.event("store.use_marked")
        try await lanyard.process.event("store.failing")
        clock.run()
        lanyard.process.signal(SIGKILL)
        try await lanyard.process.waitForExit()
        for count in 2...3 {
            lanyard = try await start(launcher: launcher)
            try await lanyard.untilReady()
            try await eventually("the configured login follows") { ledger.logins == count }
            #expect(ledger.sent == ["r0"] && !ledger.isDead, "\(lanyard.process.log)")
            lanyard.process.signal(SIGKILL)
            try await lanyard.process.waitForExit()
        }
        #expect(unlink(filler) == 0)
    }

    @Test(
        "full disk: a stop waits for room while only the process has the newest token, and stores it",
        .enabled(if: MountNamespace.isPossible, "needs root and mount namespaces"))
    func stopWaits() async throws {
        let (filler, holder, launcher) = try await mount()
        defer { holder.signal(SIGKILL) }
        let lanyard = try await start(rest: "shutdown: {drain_max: 20s}", launcher: launcher)
        try await lanyard.untilReady()
        clock.stop()
        try fill(filler)
        try await clock.pass(until: "the refresh", grain: .milliseconds(100)) { ledger.sent == ["r0"] }
        try await lanyard.process.event("store.failing")
        lanyard.process.signal(SIGTERM)
        try await clock.pass(until: "the stop waits", grain: .milliseconds(100)) {
            lanyard.process.lines.contains { $0.event == "store.stop_waiting" }
        }
        try await clock.pass(.seconds(12))
        #expect(lanyard.process.exit == nil)
        #expect(unlink(filler) == 0)
        clock.run()
        #expect(try await lanyard.process.waitForExit() == .code(143))
        #expect(!lanyard.process.lines.contains { $0.event == "store.unsaved" }, "\(lanyard.process.log)")
        let again = try await start(launcher: launcher)
        try await again.untilReady()
        try await admin.call("POST", "/v1/users/alice/refresh")
        #expect(ledger.sent == ["r0", "r1"] && ledger.logins == 1 && !ledger.isDead)
        #expect(try await again.process.terminate() == .code(143))
    }

    @Test(
        "full disk: a stop ends at drain_max, and says what is lost; a second signal ends it at once",
        .enabled(if: MountNamespace.isPossible, "needs root and mount namespaces"), arguments: [false, true])
    func stopEnds(isForced: Bool) async throws {
        let (filler, holder, launcher) = try await mount()
        defer { holder.signal(SIGKILL) }
        let lanyard = try await start(rest: "shutdown: {drain_max: 20s}", launcher: launcher)
        try await lanyard.untilReady()
        clock.stop()
        try fill(filler)
        try await clock.pass(until: "the refresh", grain: .milliseconds(100)) { ledger.sent == ["r0"] }
        try await lanyard.process.event("store.failing")
        let begun = clock.now
        lanyard.process.signal(SIGTERM)
        try await clock.pass(until: "the stop waits", grain: .milliseconds(100)) {
            lanyard.process.lines.contains { $0.event == "store.stop_waiting" }
        }
        try await clock.pass(.milliseconds(200), grain: .milliseconds(100))
        if isForced { lanyard.process.signal(SIGTERM) }
        try await clock.pass(until: "the end", grain: .milliseconds(100)) { lanyard.process.exit != nil }
        #expect(isForced ? clock.now < begun + 15 : clock.now >= begun + 20)
        #expect(lanyard.process.lines.contains { $0.event == "store.unsaved" }, "\(lanyard.process.log)")
        #expect(unlink(filler) == 0)
    }
}
