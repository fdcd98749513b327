import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// The identity service answers 200 with something that cannot be used: whatever session it has made is ended.
@Suite struct UnusableGrantTests {
    /// An App Services identity whose responses a test writes.
    private final class Service: Sendable {
        let server: RawServer

        /// - Parameters:
        ///   - login: the body of the n-th login's response, from 1.
        ///   - refresh: the same of refreshes.
        ///   - logout: the status of logouts.
        init(
            login: @escaping @Sendable (Int) -> String, refresh: @escaping @Sendable (Int) -> String = { _ in "{}" },
            logout: @escaping @Sendable () -> Int = { 204 }
        ) throws {
            let (logins, refreshes) = (Tally(), Tally())
            server = try RawServer { request in
                let json = [("Content-Type", "application/json"), ("Date", Self.date())]
                switch (request.message.method, request.message.target.split(separator: "/").last ?? "") {
                case (_, "location"): return .response(fields: json, body: #"{"hostname":""}"#)
                case (_, "login"):
                    logins.add()
                    return .response(fields: json, body: login(logins.value))
                case ("POST", _):
                    refreshes.add()
                    return .response(fields: json, body: refresh(refreshes.value))
                default:
                    let status = logout()
                    return .response(status, "Said", body: status == 204 ? "" : "no")
                }
            }
        }

        /// The time now as a field has it.
        private static func date() -> String {
            let format = DateFormatter()
            format.locale = Locale(identifier: "en_US_POSIX")
            format.timeZone = TimeZone(identifier: "GMT")
            format.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
            return format.string(from: .now)
        }

        func count(_ method: String, _ end: String) -> Int {
            server.requests.count { $0.method == method && $0.target.hasSuffix(end) }
        }

        /// The refresh tokens whose sessions were ended.
        var ended: [String] {
            server.requests.filter { $0.method == "DELETE" }.map {
                String(($0["Authorization"] ?? "").trimmingPrefix("Bearer "))
            }
        }

        /// The refresh tokens that refreshes have sent, in order.
        var refreshed: [String] {
            server.requests.filter { $0.method == "POST" && $0.target.hasSuffix("/session") }.map {
                String(($0["Authorization"] ?? "").trimmingPrefix("Bearer "))
            }
        }

        /// - Parameter endpoint: where Lanyard finds the service, if not at its own address.
        func configuration(
            _ folder: TemporaryFolder, login: String, rest: String = "", at endpoint: RawEndpoint? = nil
        ) throws -> String {
            try folder.write("password", "correct-horse\n")
            try folder.write("key", String(repeating: "k", count: 64))
            let kind =
                login == "anonymous"
                ? "anonymous: {}"
                : "email_password: {email: a@example.com, password_file: \(folder.file("password"))}"
            return """
                store: {path: \(folder.file("sessions")), key_file: \(folder.file("key"))}
                identities: {demo: {app_services: {app_id: demo-abcde, base_url: "http://\(endpoint ?? server.endpoint)"\(rest)}}}
                users: {alice: {identity: demo, login: {\(kind)}}}
                routes: [{name: all, upstream: "http://127.0.0.1:9"}]

                """
        }
    }

    /// - Parameters:
    ///   - seconds: until it ends.
    ///   - life: since it was issued; nil: it is issued now.
    private static func token(_ seconds: Int, life: Int? = nil) -> String {
        let end = Int(Date.now.timeIntervalSince1970) + seconds
        let parts = [#"{"alg":"none"}"#, #"{"iat":\#(end - (life ?? seconds)),"exp":\#(end)}"#, "signature"].map {
            Data($0.utf8).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing(
                "=", with: "")
        }
        return parts.joined(separator: ".")
    }

    /// From the failure to the next login.
    private static func delay(_ line: JSON) throws -> Double {
        try #require(Timestamps.seconds(line["next_at"])) - #require(Timestamps.seconds(line["time"]))
    }

    /// The refresh of the token of a minute brings a refresh token alone, which the next one sends: no session is lost.
    private func expectSuccessor(_ service: Service, _ lanyard: LanyardProcess, _ clock: TestClock) async throws {
        clock.watch(service.server.threads)
        try await lanyard.untilReady()
        try await clock.pass(until: "a further refresh", atMost: .seconds(120), grain: .seconds(1)) {
            service.refreshed.count > 1
        }
        clock.run()
        #expect(service.refreshed.prefix(2) == ["first-1", "rotated-1"])
        #expect(service.ended == [] && service.count("POST", "/login") == 1)
    }

    struct Response: Sendable, CustomTestStringConvertible {
        let name: String
        let members: String

        var testDescription: String { name }

        static let all = [
            Response(name: "an access token that is no JWT", members: #""access_token":"junk","user_id":"u""#),
            Response(name: "an access token with a blank", members: #""access_token":"a b","user_id":"u""#),
            Response(name: "an access token that is a number", members: #""access_token":7,"user_id":"u""#),
            Response(name: "no access token", members: #""user_id":"u""#),
            Response(name: "no user", members: #""access_token":"TOKEN""#),
            Response(name: "a user that is an object", members: #""access_token":"TOKEN","user_id":{}"#),
            Response(name: "a life of one second", members: #""access_token":"TOKEN","user_id":"u","expires_in":1"#),
            Response(
                name: "an access token of 40 KB",
                members: #""access_token":"TOKEN\#(String(repeating: "a", count: 40 << 10))","user_id":"u""#),
            Response(name: "an access token that had ended", members: #""access_token":"PAST","user_id":"u""#),
            Response(name: "an empty user", members: #""access_token":"TOKEN","user_id":"""#),
            Response(name: "an access token with a line end", members: #""access_token":"a\n","user_id":"u""#),
            Response(
                name: "an error beside the tokens", members: #""access_token":"TOKEN","user_id":"u","error":"no""#),
        ]
    }

    @Test(
        "a login's response that cannot be used: its session is ended, and the next login comes at least 10 s later",
        arguments: Response.all, ["email_password", "anonymous"])
    func login(_ response: Response, _ kind: String) async throws {
        let members = response.members.replacing("TOKEN", with: Self.token(1800)).replacing(
            "PAST", with: Self.token(-60, life: 1800))
        let service = try Service { number in "{\(members),\"refresh_token\":\"refresh-\(number)\"}" }
        let folder = try TemporaryFolder()
        let clock = try TestClock()
        clock.watch(service.server.threads)
        let lanyard = try await LanyardProcess.start(try service.configuration(folder, login: kind), under: clock)
        let line = try await lanyard.process.event("session.login.failed")
        clock.stop()
        let delay = try Self.delay(line)
        #expect(delay > 10, "\(line)")
        try await eventually("the session is ended; \(lanyard.process.log)") { service.ended == ["refresh-1"] }
        // A request that wants a token does not bring the next login forward.
        let client = try RawClient(lanyard.data)
        try client.send("GET / HTTP/1.1\r\nHost: \(lanyard.data)\r\n\r\n")
        let next = try #require(Timestamps.seconds(line["next_at"]))
        try await clock.pass(.seconds(next - 1 - clock.now), grain: .milliseconds(500))
        #expect(service.count("POST", "/login") == 1)
        try await clock.pass(.seconds(2))
        #expect(service.count("POST", "/login") == 2)
        // A drain waits half a second for the next request of a client that stays.
        client.close()
        clock.run()
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test(
        "a refresh token that cannot be used still ends its session, if a field can carry it",
        arguments: [
            String(repeating: "r", count: 40 << 10), "with:colons|and$signs", "r\u{e9}fresh", "a b", "a\\nb", "",
            String(repeating: "r", count: 80 << 10),
        ])
    func refreshToken(_ token: String) async throws {
        let access = Self.token(1800)
        let service = try Service { _ in
            "{\"access_token\":\"\(access)\",\"user_id\":\"u\",\"refresh_token\":\"\(token)\"}"
        }
        let folder = try TemporaryFolder()
        let lanyard = try await LanyardProcess.start(try service.configuration(folder, login: "email_password"))
        let line = try await lanyard.process.event("session.login.failed")
        let delay = try Self.delay(line)
        #expect(delay > 10, "\(line)")
        let isSendable =
            !token.isEmpty && token.utf8.allSatisfy { 0x21..<0x7f ~= $0 } && token.utf8.count <= 64 << 10
            && !token.contains("\\")
        if isSendable {
            try await eventually("the session is ended; \(lanyard.process.log)") { service.ended == [token] }
        } else {
            #expect(line["error"].string?.contains("could end the session") == true, "\(line)")
        }
        #expect(try await lanyard.process.terminate() == .code(143))
        #expect(service.count("POST", "/login") == 1)
        #expect(service.ended.count == (isSendable ? 1 : 0))
    }

    @Test("what breaks off behind the refresh token is ended, too")
    func cutOff() async throws {
        let service = try Service { number in
            "{\"user_id\":\"u\",\"refresh_token\":\"refresh-\(number)\",\"access_token\":\"a"
        }
        let folder = try TemporaryFolder()
        let lanyard = try await LanyardProcess.start(try service.configuration(folder, login: "anonymous"))
        try await eventually("the session is ended; \(lanyard.process.log)") { service.ended == ["refresh-1"] }
    }

    @Test(
        "a response that is cut off or reset behind the refresh token, or is too large: the same",
        arguments: [FaultGate.Mode.tear(afterBytes: 1000, .close), .tear(afterBytes: 1000, .reset), .pass],
        ["email_password", "anonymous"])
    func torn(_ mode: FaultGate.Mode, _ kind: String) async throws {
        // Only this response has more bytes than pass.
        let isTooLarge = if case .pass = mode { true } else { false }
        let filler = String(repeating: "x", count: isTooLarge ? 2 << 20 : 4000)
        let service = try Service { number in
            "{\"user_id\":\"u\",\"refresh_token\":\"refresh-\(number)\",\"access_token\":\"\(filler)\"}"
        }
        let gate = try FaultGate(before: service.server.endpoint, mode: mode)
        let folder = try TemporaryFolder()
        let lanyard = try await LanyardProcess.start(
            try service.configuration(folder, login: kind, at: gate.endpoint))
        let line = try await lanyard.process.event("session.login.failed")
        let delay = try Self.delay(line)
        #expect(delay > 10, "\(line)")
        try await eventually("the session is ended; \(lanyard.process.log)") { service.ended == ["refresh-1"] }
        #expect(service.count("POST", "/login") == 1)
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test(
        "a login's response that names no token, or ends before one: the next login comes at least 10 s later",
        arguments: ["{}", "", #"{"access_tok"#])
    func empty(_ body: String) async throws {
        let service = try Service { _ in body }
        let folder = try TemporaryFolder()
        let lanyard = try await LanyardProcess.start(try service.configuration(folder, login: "anonymous"))
        let line = try await lanyard.process.event("session.login.failed")
        let delay = try Self.delay(line)
        #expect(delay > 10, "\(line)")
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("a page in place of the login's response has made no session: the next login comes soon")
    func page() async throws {
        let service = try Service { _ in "<html>sign in to this network</html>" }
        let folder = try TemporaryFolder()
        let lanyard = try await LanyardProcess.start(try service.configuration(folder, login: "anonymous"))
        let line = try await lanyard.process.event("session.login.failed")
        let delay = try Self.delay(line)
        #expect(delay < 5, "\(line)")
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("the end that could not be told is told by the next process")
    func outlivesRestart() async throws {
        let isUp = Tally()
        let service = try Service(
            login: { number in "{\"access_token\":\"junk\",\"refresh_token\":\"refresh-\(number)\",\"user_id\":\"u\"}"
            },
            logout: { isUp.value > 0 ? 204 : 503 })
        let folder = try TemporaryFolder()
        let yaml = try service.configuration(folder, login: "anonymous")
        let first = try await LanyardProcess.start(yaml)
        try await first.process.event("session.revoke.failed")
        first.process.signal(SIGKILL)
        try await first.process.waitForExit()
        isUp.add()
        let second = try await LanyardProcess.start(yaml)
        try await second.process.event("session.revoke.succeeded")
        #expect(service.ended.contains("refresh-1"))
    }

    @Test("a refresh whose response is cut off behind a new refresh token: the next one sends that")
    func tornRefresh() async throws {
        let clock = try TestClock()
        let (short, long) = (Self.token(60), Self.token(1800))
        let filler = String(repeating: "x", count: 8000)
        let service = try Service(
            login: { number in
                "{\"access_token\":\"\(number == 1 ? short : long)\",\"refresh_token\":\"first-\(number)\",\"user_id\":\"u\"}"
            },
            refresh: { number in "{\"refresh_token\":\"rotated-\(number)\",\"access_token\":\"\(filler)\"}" })
        let gate = try FaultGate(before: service.server.endpoint, mode: .tear(afterBytes: 4000, .close))
        let folder = try TemporaryFolder()
        let lanyard = try await LanyardProcess.start(
            try service.configuration(
                folder, login: "email_password", rest: ", rotation: one_use", at: gate.endpoint), under: clock)
        clock.watch(gate.threads)
        try await expectSuccessor(service, lanyard, clock)
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("a refresh whose response holds a new refresh token and no usable access token: the next one sends that")
    func rotated() async throws {
        let clock = try TestClock()
        let (short, long) = (Self.token(60), Self.token(1800))
        let service = try Service(
            login: { number in
                "{\"access_token\":\"\(number == 1 ? short : long)\",\"refresh_token\":\"first-\(number)\",\"user_id\":\"u\"}"
            },
            refresh: { number in "{\"access_token\":\"junk\",\"refresh_token\":\"rotated-\(number)\"}" })
        let folder = try TemporaryFolder()
        let lanyard = try await LanyardProcess.start(
            try service.configuration(folder, login: "email_password", rest: ", rotation: one_use"), under: clock)
        try await expectSuccessor(service, lanyard, clock)
        #expect(try await lanyard.process.terminate() == .code(143))
    }
}
