import Foundation
import Glibc
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// "The folder with the secrets is on a network file system that has died."
@Suite(
    // A preloaded library comes before a sanitizer's runtime, which refuses that.
    .enabled("needs a program without sanitizer") { !Sanitizer.isOn }
)
struct HangingFilesTests {
    /// A Lanyard with three users and an admin API over TCP, each with a file of its own.
    private struct Bench {
        static let carol = "carol@example.com"
        static let adminToken = String(repeating: "a", count: 40)

        let clock: TestClock
        let emulator: EmulatorProcess
        /// Between Lanyard and alice's identity service.
        let gate: FaultGate
        let upstream: RawServer
        let lanyard: LanyardProcess
        let admin: RawEndpoint
        let folder: TemporaryFolder

        static func start() async throws -> Bench {
            let clock = try TestClock()
            let emulator = try await EmulatorProcess.start(tokens: "4s", under: clock)
            try await emulator.add(carol, password: "carol-secret-word")
            let gate = try FaultGate(before: emulator.endpoint)
            clock.watch(gate.threads)
            let folder = try TemporaryFolder()
            let password = try folder.write("carol.password", "carol-secret-word\n")
            let robot = try folder.write("robot.token", "robot-old-token")
            let admin = try folder.write("admin.token", adminToken)
            let upstream = try RawServer { .response(body: $0.message["Authorization"] ?? "none") }
            let lanyard = try await LanyardProcess.start(
                """
                identities:
                  demo: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(gate.endpoint)"}}
                  other: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(emulator.endpoint)"}}
                  fixed: {static: {token_file: \(robot)}}
                users:
                  alice:
                    identity: demo
                    login:
                      email_password: {email: \(EmulatorProcess.email), password_file: \(emulator.passwordFile)}
                  carol:
                    identity: other
                    login: {email_password: {email: \(carol), password_file: \(password)}}
                  robot: {identity: fixed}
                active_user: alice
                routes:
                  - {name: robot, match: {path: /robot}, user: robot, upstream: "http://\(upstream.endpoint)"}
                  - {name: carol, match: {path: /carol}, user: carol, upstream: "http://\(upstream.endpoint)"}
                  - {name: all, match: {path: /}, upstream: "http://\(upstream.endpoint)"}
                """, admin: "{address: \"127.0.0.1:0\", token_file: \(admin)}", under: clock,
                launcher: HangingFiles.launcher(under: clock))
            let bound = try await lanyard.process.event("listening") { $0["listener"].string == "admin" }
            let bench = Bench(
                clock: clock, emulator: emulator, gate: gate, upstream: upstream, lanyard: lanyard,
                admin: try RawEndpoint(bound["address"].string ?? ""), folder: folder)
            try await lanyard.untilReady()
            for path in ["/robot", "/carol", "/"] {
                try await eventually("\(path) has a token") { try await lanyard.get(path).status == 200 }
            }
            try await eventually("the admin token is known") { try await bench.adminStatus(adminToken) == 200 }
            return bench
        }

        func adminStatus(_ token: String) async throws -> Int {
            try await RawClient.ask(admin, "GET", "/v1/status", fields: [("Authorization", "Bearer \(token)")]).status
        }

        /// Every secret file hangs, and carol's session has ended: its login needs her password. The clock stands from now on.
        func hangAll() async throws {
            clock.stop()
            for name in ["carol.password", "robot.token", "admin.token"] { try HangingFiles.hang(folder.file(name)) }
            try await emulator.control("POST", "/sessions/revoke", #"{"user":"\#(Self.carol)"}"#)
            try await clock.pass(until: "carol's session ends") {
                lanyard.process.lines.contains { $0.event == "session.dead" && $0.json["user"].string == "carol" }
            }
        }

        func release() {
            for name in ["carol.password", "robot.token", "admin.token"] { HangingFiles.release(folder.file(name)) }
        }

        /// Refreshes that the service has answered.
        func refreshes() async throws -> Int { try await emulator.calls("refresh") }
    }

    @Test("health answers and other users refresh while secret files hang; what they hold afterwards counts")
    func servesOn() async throws {
        let bench = try await Bench.start()
        let lanyard = bench.lanyard
        try await bench.hangAll()
        let clock = bench.clock
        // Carol's refresh has failed; the others are alice's.
        let before = try await bench.refreshes()
        // The clock stands during each request: nothing waits for a time limit.
        try await clock.pass(until: "alice's token is refreshed four times", grain: .milliseconds(100)) {
            for path in ["/livez", "/readyz"] {
                let status = try await RawClient.ask(lanyard.health, "GET", path).status
                #expect(path == "/readyz" || status == 200)
            }
            return try await bench.refreshes() >= before + 4
        }
        #expect(try await bench.adminStatus(Bench.adminToken) == 200)
        #expect(try await lanyard.get("/robot").bodyText == "Bearer robot-old-token")
        let late = try await lanyard.process.event("session.login.failed") { $0["user"].string == "carol" }
        #expect(late["error"].string?.contains("carol.password has not been read within 5 s") == true, "\(late)")
        #expect(late["next_at"].string != nil)
        try await lanyard.process.event("file.delayed") { $0["path"].string?.hasSuffix("robot.token") == true }
        try bench.folder.write("robot.token", "robot-new-token")
        let newAdminToken = String(repeating: "b", count: 40)
        try bench.folder.write("admin.token", newAdminToken)
        bench.release()
        try await clock.pass(.seconds(3))
        #expect(try await lanyard.get("/robot").bodyText == "Bearer robot-new-token")
        // The refusal of a wrong token is delayed.
        clock.run()
        try await eventually("the new admin token counts") { try await bench.adminStatus(newAdminToken) == 200 }
        #expect(try await bench.adminStatus(Bench.adminToken) == 401)
        // Carol is logged in again: her first login was generation 1.
        try await lanyard.process.event("session.login.succeeded") {
            $0["user"].string == "carol" && ($0["generation"].int ?? 0) > 1
        }
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("a login that waits for its file for longer than its access token lives still succeeds")
    func longWait() async throws {
        let bench = try await Bench.start()
        let process = bench.lanyard.process
        try await bench.hangAll()
        // The login began with the end of the session. It waits at most 5 s; its token lives for 4 s.
        try await bench.clock.pass(.milliseconds(4400))
        bench.release()
        try await bench.clock.pass(.milliseconds(500))
        try await process.settle()
        #expect(
            process.lines.contains {
                $0.event == "session.login.succeeded" && $0.json["user"].string == "carol"
                    && ($0.json["generation"].int ?? 0) > 1
            }, "\(process.log(of: "session."))")
        let failures = process.lines.drop { $0.event != "session.dead" }.count { $0.event == "session.login.failed" }
        #expect(failures == 0)
        bench.clock.run()
        #expect(try await process.terminate() == .code(143))
    }

    @Test("the stop waits for no file that hangs")
    func stops() async throws {
        let bench = try await Bench.start()
        try await bench.hangAll()
        // Each watch has begun a look by now, carol's login too.
        let process = bench.lanyard.process
        try await bench.clock.pass(until: "the admin token's file hangs") {
            process.lines.contains {
                $0.event == "file.delayed" && $0.json["path"].string?.hasSuffix("admin.token") == true
            }
        }
        // A login with that password would be waited for 5 s, and 10 s more for a client of the admin API.
        process.signal(SIGTERM)
        try await bench.clock.pass(until: "it ends", atMost: .seconds(4)) { process.exit != nil }
        #expect(process.exit == .code(143))
    }

    @Test("a second SIGTERM ends a stop that waits for a call, at once, while files hang")
    func secondSignal() async throws {
        let bench = try await Bench.start()
        let process = bench.lanyard.process
        for name in ["robot.token", "admin.token"] { try HangingFiles.hang(bench.folder.file(name)) }
        bench.clock.stop()
        try await bench.clock.pass(until: "both files hang") {
            ["robot.token", "admin.token"].allSatisfy { name in
                process.lines.contains {
                    $0.event == "file.delayed" && $0.json["path"].string?.hasSuffix(name) == true
                }
            }
        }
        try bench.gate.set(.silence)
        let connections = bench.gate.connectionCount
        try await bench.clock.pass(until: "a refresh of alice gets no response") {
            bench.gate.connectionCount > connections
        }
        process.signal(SIGTERM)
        try await bench.clock.pass(until: "the requests have ended", atMost: .seconds(4)) {
            process.lines.contains { $0.event == "shutdown.finished" }
        }
        // The stop now waits for the refresh, for 5 s.
        try await bench.clock.pass(.milliseconds(500))
        #expect(process.exit == nil)
        process.signal(SIGTERM)
        // At once, but for the thread that writes the log, which looks each 2 ms for lines.
        try await bench.clock.pass(until: "it ends", atMost: .milliseconds(500)) { process.exit != nil }
        try await process.event("shutdown.forced")
    }

    @Test("while the store's disk hangs, health answers, and a second SIGTERM ends the stop at once")
    func store() async throws {
        let clock = try TestClock()
        let emulator = try await EmulatorProcess.start(tokens: "4s", under: clock)
        let upstream = try RawServer()
        let folder = try TemporaryFolder()
        let store = folder.file("sessions")
        let key = try folder.write("key", String(repeating: "k", count: 64))
        let lanyard = try await LanyardProcess.start(
            """
            identities:
              demo: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(emulator.endpoint)"}}
            users:
              alice:
                identity: demo
                login: {email_password: {email: \(EmulatorProcess.email), password_file: \(emulator.passwordFile)}}
            routes: [{name: all, upstream: "http://\(upstream.endpoint)"}]
            store: {path: \(store), key_file: \(key)}
            """, under: clock, launcher: HangingFiles.launcher(under: clock))
        try await lanyard.untilReady()
        clock.stop()
        let before = try await emulator.calls("refresh")
        // The store opens its files by their names in its folder.
        try HangingFiles.hang(store)
        // Time for three refreshes. The first one begins with a read of the store, and hangs there.
        try await clock.pass(.seconds(9), grain: .milliseconds(100)) {
            #expect(try await RawClient.ask(lanyard.health, "GET", "/livez").status == 200)
            _ = try await lanyard.readiness()
        }
        #expect(try await emulator.calls("refresh") == before)
        let process = lanyard.process
        process.signal(SIGTERM)
        try await clock.pass(until: "the requests have ended", atMost: .seconds(2)) {
            process.lines.contains { $0.event == "shutdown.finished" }
        }
        // The stop now waits for the store, for 2 s. Within 100 ms a second signal would be the first one's.
        try await clock.pass(.milliseconds(200))
        #expect(process.exit == nil)
        process.signal(SIGTERM)
        try await clock.pass(until: "it ends", atMost: .seconds(1.5)) { process.exit != nil }
        try await lanyard.process.event("shutdown.forced")
        HangingFiles.release(store)
    }

    @Test("a changed capability counts while the token files of 64 users hang")
    func capability() async throws {
        let folder = try TemporaryFolder()
        let clock = try TestClock()
        let (former, changed) = (String(repeating: "c", count: 40), String(repeating: "d", count: 40))
        let file = try folder.write("capability", former)
        let names = (0..<64).map { "u\($0)" }
        for name in names { try folder.write(name, "token-of-\(name)") }
        let identities = names.map { "  \($0): {static: {token_file: \(folder.file($0))}}\n" }.joined()
        let users = names.map { "  \($0): {identity: \($0)}\n" }.joined()
        let upstream = try RawServer()
        let lanyard = try await LanyardProcess.start(
            """
            identities:
            \(identities)users:
            \(users)active_user: u0
            routes: [{name: all, upstream: "http://\(upstream.endpoint)"}]
            """, listener: "address: \"127.0.0.1:0\", capability_file: \(file)", under: clock,
            launcher: HangingFiles.launcher(under: clock))
        try await lanyard.untilReady()
        func status(_ capability: String) async throws -> Int {
            let fields = [("Lanyard-Capability", capability)]
            return try await RawClient.ask(lanyard.data, "GET", "/", fields: fields).status
        }
        try await eventually("the first capability counts") { try await status(former) == 200 }
        clock.stop()
        for name in names { try HangingFiles.hang(folder.file(name)) }
        try await clock.pass(until: "each of the 64 files is being read", grain: .milliseconds(100)) {
            lanyard.process.lines.count { $0.event == "file.delayed" } == names.count
        }
        try folder.write("capability", changed)
        try await clock.pass(until: "the changed capability counts", grain: .milliseconds(100)) {
            try await status(changed) == 200
        }
        #expect(try await status(former) == 403)
        for name in names { HangingFiles.release(folder.file(name)) }
        clock.run()
        #expect(try await lanyard.process.terminate() == .code(143))
    }
}

/// Commands whose files hang.
@Suite(
    // A preloaded library comes before a sanitizer's runtime, which refuses that.
    .enabled("needs a program without sanitizer") { !Sanitizer.isOn }
)
struct HangingCommandTests {
    /// A command, and the file that it hangs in.
    struct Case: CustomTestStringConvertible, Sendable {
        let words: [String]
        let file: String
        var testDescription: String { words[0] }

        static let all = [
            Case(words: ["check", "--config", "lanyard.yaml"], file: "lanyard.yaml"),
            Case(words: ["check", "--config", "lanyard.yaml"], file: "key"),
            Case(words: ["check", "--print-store-path", "--config", "lanyard.yaml"], file: "lanyard.yaml"),
            Case(words: ["health", "--config", "lanyard.yaml"], file: "lanyard.yaml"),
            Case(words: ["status", "--admin", "127.0.0.1:1", "--token-file", "token"], file: "token"),
        ]
    }

    @Test("a command says after 5 s which file it waits for, and continues when that can be read", arguments: Case.all)
    func waits(_ waiting: Case) async throws {
        let clock = try TestClock()
        let folder = try TemporaryFolder()
        try folder.write("token", String(repeating: "t", count: 40))
        try folder.write("key", String(repeating: "k", count: 64))
        try folder.write(
            "lanyard.yaml",
            """
            listeners: [{address: "127.0.0.1:0"}]
            health: {address: "127.0.0.1:0"}
            identities: {demo: {static: {token_file: token}}}
            users: {alice: {identity: demo}}
            routes: [{upstream: "http://127.0.0.1:9000"}]
            store: {path: state/sessions, key_file: key}

            """)
        clock.stop()
        try HangingFiles.hang(folder.file(waiting.file))
        let arguments = waiting.words.map { word in
            ["lanyard.yaml", "token"].contains(word) ? folder.file(word) : word
        }
        let launcher = try HangingFiles.launcher(under: clock)
        let process = try ServerProcess(
            launcher[0], Array(launcher.dropFirst()) + [try Products.path("lanyard")] + arguments, under: clock)
        let says = { process.lines.contains { $0.text.contains("\(waiting.file) has not been read within 5 s") } }
        try await eventually("it says so") {
            // It may still be on its way to the file.
            try await clock.pass(.seconds(1))
            return says()
        }
        #expect(process.exit == nil)
        HangingFiles.release(folder.file(waiting.file))
        clock.run()
        _ = try await process.waitForExit()
        #expect(process.lines.count { $0.text.contains("has not been read within 5 s") } == 1, "\(process.log)")
    }
}
