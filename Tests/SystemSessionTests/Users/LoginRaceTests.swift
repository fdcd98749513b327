import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// Events that meet: a credential's file that is half written when its session ends, and a link beside refreshes.
@Suite struct LoginRaceTests {
    // MARK: Files

    @Test(
        "a login sends the file as it was; nothing of a half-written file is sent, and the next login sends the whole")
    func rewritten() async throws {
        let (clock, isReleased) = (try TestClock(), Milestone())
        let service = try LoginService(after: isReleased)
        clock.watch(service.server.threads)
        let (folder, upstream) = (try TemporaryFolder(), try RawServer())
        let socket = folder.file("admin.sock")
        let contents = [
            ("jwt", "custom-token", ["old", "new"].map { LoginService.jwt($0, expiresIn: 600) }),
            ("payload", "custom-function", ["old", "new"].map { #"{"user":"alice","note":"\#($0)"}"# }),
        ]
        for (file, _, content) in contents { try folder.write(file, content[0]) }
        let lanyard = try await LanyardProcess.start(
            try service.configuration(
                [
                    ("jwt", "jwt: {token_file: \(folder.file("jwt"))}"),
                    ("payload", "function: {payload_file: \(folder.file("payload"))}"),
                ], upstream: upstream.endpoint), admin: "{address: \"unix:\(socket)\"}", under: clock)
        let admin = AdminClient(endpoint: .unix(socket))
        try await eventually("both logins are in progress; \(lanyard.process.log)") { service.logins.count == 2 }
        for (file, _, content) in contents {
            try Self.overwrite(folder.file(file), with: String(content[1].prefix(content[1].count / 2)))
        }
        isReleased.set()
        try await lanyard.untilReady()

        service.endSessions()
        for (user, _, _) in contents {
            #expect(try await admin.ask("POST", "/v1/users/\(user)/refresh").status != 200)
            try await lanyard.process.event("session.credential.refused") { $0["user"].string == user }
        }
        #expect(service.logins.count == 2)

        for (file, _, content) in contents { try Self.overwrite(folder.file(file), with: content[1]) }
        try await clock.pass(until: "the files are read", atMost: .seconds(20), grain: .milliseconds(500)) {
            try await lanyard.readiness().status == 200
        }
        for (user, provider, content) in contents {
            let bodies = service.logins.filter { $0.provider == provider }.map(\.body)
            #expect(bodies.count == 2, "\(user): \(bodies)")
            for (body, content) in zip(bodies, content) {
                let sent = user == "jwt" ? #"{"token":"\#(content)","# : String(content.dropLast()) + ","
                #expect(body.hasPrefix(sent), "\(body)")
            }
        }
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    /// Replaces the content in place, as an editor without a temporary file does.
    private static func overwrite(_ path: String, with text: String) throws {
        let file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
        try file.truncate(atOffset: 0)
        try file.write(contentsOf: Data(text.utf8))
        try file.close()
    }

    // MARK: Links

    /// A guest at an emulator with a rotation, and an account that can be linked. Time stands but for the emulator's delays.
    private struct Bench {
        let clock: TestClock
        let emulator: EmulatorProcess
        let running: DeviceProcess

        static func start(_ rotation: String) async throws -> Bench {
            let clock = try TestClock()
            let emulator = try await EmulatorProcess.start(
                tokens: "30m", under: clock, arguments: ["--rotation", rotation])
            let device = try await Device.make(emulator, users: [Device.alice], rotation: rotation, under: clock)
            let running = try await device.start()
            try await running.untilReady()
            clock.stop()
            return Bench(clock: clock, emulator: emulator, running: running)
        }

        func terminate() async throws -> ServerProcess.Exit {
            clock.run()
            return try await running.process.terminate()
        }

        static let password = "guest-password"

        /// An account that no user has: the emulator's control would make its user as well.
        func register(_ email: String) async throws {
            try await running.admin.call(
                "POST", "/v1/identities/demo/email-password/register",
                #"{"email":"\#(email)","password":"\#(Self.password)"}"#)
        }

        /// A new anonymous user.
        func addGuest(_ name: String) async throws {
            try await running.admin.call(
                "POST", "/v1/users", #"{"name":"\#(name)","identity":"demo","credential":{"anonymous":{}}}"#)
        }

        /// Sends an admin call; its response comes later.
        private func send(_ path: String, _ body: String) throws -> RawClient {
            let client = try RawClient(running.admin.endpoint)
            let head = "POST /v1/users/\(path) HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(body.utf8.count)"
            try client.send("\(head)\r\n\r\n\(body)")
            return client
        }

        func sendLink(_ name: String, _ email: String, _ password: String) throws -> RawClient {
            try send("\(name)/link", AdminClient.password(email, password))
        }

        /// Three refreshes at once.
        func sendRefreshes(_ name: String) throws -> [RawClient] {
            try (0..<3).map { _ in try send("\(name)/refresh", "") }
        }

        /// Passes the delays until every call has its response.
        func responses(_ calls: [RawClient]) async throws -> [RawMessage] {
            try await clock.pass(until: "every call has its response", atMost: .seconds(60)) {
                calls.allSatisfy(\.hasInput)
            }
            defer { calls.forEach { $0.close() } }
            return try calls.map { try $0.response(to: "POST") }
        }

        func refresh(_ name: String) async throws -> Int {
            try await running.admin.ask("POST", "/v1/users/\(name)/refresh").status
        }

        func inFlight(_ route: String) async throws -> Int {
            try await emulator.control("GET", "/counts")["routes"][route]["in_flight"].int ?? 0
        }

        func delay(_ route: String, _ milliseconds: Int, before: Bool) async throws {
            try await emulator.control(
                "POST", "/delays", #"{"route":"\#(route)","milliseconds":\#(milliseconds),"before":\#(before)}"#)
        }

        /// No refresh token came twice, and no session came to an end.
        func expectHarmless(_ what: String) async throws {
            let total = try await emulator.control("GET", "/ledger")["total"]
            for count in ["repeats_within_grace", "repeats_after_grace", "family_kills", "calls_of_dead_sessions"] {
                #expect(total[count].int == 0, "\(what): \(count)")
            }
            let sessions = try await emulator.control("GET", "/sessions").array
            #expect(sessions.allSatisfy { $0["live"].bool == true }, "\(what): \(sessions)")
            #expect(!running.process.log.contains("session.credential.refused"), "\(what)")
        }

        /// A user's session serves, and is renewed.
        func expectValid(_ name: String, _ what: String) async throws {
            let user = try await running.admin.call("GET", "/v1/users/\(name)")
            #expect(user["session"].string == "valid", "\(what): \(user)")
            #expect(try await refresh(name) == 200, "\(what)")
            #expect(try await running.account(at: "/") == user["user_id"].string, "\(what)")
        }
    }

    /// The call that is held back, and the side of its effect on which it is.
    private static let orders = [("link", true), ("link", false), ("refresh", true), ("refresh", false)]

    @Test(
        "a link beside refreshes of the same user: both succeed in either order, and no refresh token is sent twice",
        arguments: ["none", "grace", "one_use"])
    func link(rotation: String) async throws {
        let bench = try await Bench.start(rotation)
        for (number, (slow, isBefore)) in Self.orders.enumerated() {
            let what = "\(rotation), \(slow) slow, before \(isBefore)"
            let (name, email) = ("guest\(number)", "guest\(number)@example.com")
            try await bench.addGuest(name)
            try await bench.register(email)
            try await bench.delay(slow, 700, before: isBefore)
            let link = { [try bench.sendLink(name, email, Bench.password)] }
            var calls = slow == "link" ? try link() : try bench.sendRefreshes(name)
            try await bench.clock.settle()
            #expect(try await bench.inFlight(slow) == 1, "\(what)")
            calls += slow == "link" ? try bench.sendRefreshes(name) : try link()
            let responses = try await bench.responses(calls)
            let linked = try #require(slow == "link" ? responses.first : responses.last)
            #expect(responses.map(\.status) == [200, 200, 200, 200], "\(what): \(responses.map(\.bodyText))")
            let identities = try linked.json["identities"].array.map { $0["provider_type"].string }
            #expect(identities == ["anon-user", "local-userpass"], "\(what)")
            try await bench.delay(slow, 0, before: isBefore)
            try await bench.expectValid(name, what)
            try await bench.expectHarmless(what)
        }
        #expect(try await bench.terminate() == .code(143))
    }

    @Test(
        "a link that the service refuses with 401 InvalidSession, beside refreshes, is no dead session",
        arguments: ["none", "grace", "one_use"])
    func refused(rotation: String) async throws {
        let bench = try await Bench.start(rotation)
        try await bench.addGuest("guest")
        for (slow, isBefore) in Self.orders {
            let what = "\(rotation), \(slow) slow, before \(isBefore)"
            let links = try await bench.emulator.calls("link")
            try await bench.delay(slow, 700, before: isBefore)
            // The account is alice's.
            let calls =
                try bench.sendRefreshes("guest")
                + [bench.sendLink("guest", Device.alice.email, Device.alice.password)]
            let responses = try await bench.responses(calls)
            let (refreshed, refused) = (responses.dropLast().map(\.status), try #require(responses.last))
            #expect(refused.status == 401, "\(what): \(refused.bodyText)")
            #expect(try refused.json["error_code"].string == "InvalidSession", "\(what)")
            #expect(refreshed == [200, 200, 200], "\(what)")
            #expect(try await bench.emulator.calls("link") - links <= 2, "\(what)")
            try await bench.delay(slow, 0, before: isBefore)
            try await bench.expectValid("guest", what)
            try await bench.expectHarmless(what)
        }
        #expect(try await bench.terminate() == .code(143))
    }
}
