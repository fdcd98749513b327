import Glibc
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// The built Lanyard at servers that name an error where others do not. They are fakes of Slack, lemonldap-ng and a server that does
/// not know a client yet.
@Suite struct NamedErrorServerTests {
    private struct Call {
        let at: Double
        let form: String
        var isRefresh: Bool { form.contains("grant_type=refresh_token") }
    }

    /// The calls so far.
    private final class Record: Sendable {
        private let state = Guarded([Call]())
        var calls: [Call] { state.withLock { $0 } }

        /// Returns the number of the call, from 1.
        func add(_ form: String, at time: Double) -> Int {
            state.withLock { calls in
                calls.append(Call(at: time, form: form))
                return calls.count
            }
        }
    }

    /// A token endpoint with a script, and the times and forms of its calls by the program's clock.
    private struct Endpoint {
        private let record = Record()
        let server: RawServer
        var calls: [Call] { record.calls }

        /// - Parameter script: the number of the call, from 1, and its form.
        init(_ clock: TestClock, _ script: @escaping @Sendable (Int, String) -> (Int, String)) throws {
            let record = self.record
            server = try RawServer { request in
                let form = request.message.bodyText
                let (status, body) = script(record.add(form, at: clock.now), form)
                return .response(status, "X", fields: [("Content-Type", "application/json")], body: body).closing
            }
        }
    }

    private static func grant(_ number: Int, lifetime: Int = 60, refresh: String? = nil) -> (Int, String) {
        let token = refresh.map { #","refresh_token":"\#($0)""# } ?? ""
        return (200, #"{"access_token":"t\#(number)","token_type":"Bearer","expires_in":\#(lifetime)\#(token)}"#)
    }

    private static func start(
        _ endpoint: Endpoint, _ login: String, rest: String = "", _ upstream: RawServer, _ folder: TemporaryFolder,
        _ clock: TestClock
    ) async throws -> LanyardProcess {
        try folder.write("key", String(repeating: "k", count: 32))
        try folder.write("secret", "s3cret")
        try folder.write("password", "p")
        let lanyard = try await LanyardProcess.start(
            """
            identities:
              corp:
                oauth2:
                  endpoints: {token: "http://\(endpoint.server.endpoint)/token"}
                  client_id: lanyard
                  client_secret_file: \(folder.file("secret"))
                  \(rest)
            users: {alice: {identity: corp, login: {\(login)}}}
            routes: [{upstream: "http://\(upstream.endpoint)", user: alice}]
            store: {path: \(folder.file("sessions")), key_file: \(folder.file("key"))}

            """, admin: "{address: \"unix:\(folder.file("admin.sock"))\"}", under: clock)
        clock.watch(endpoint.server.threads)
        clock.watch(upstream.threads)
        return lanyard
    }

    @Test("an error in a 200 to a refresh token that works once: the session continues, also over a restart")
    func errorInSuccess() async throws {
        let clock = try TestClock()
        let endpoint = try Endpoint(clock) { number, form in
            let sent = form.contains("refresh_token=r1") ? "r1" : "r0"
            return switch number {
            case 1: Self.grant(1, refresh: "r1")
            case 2, 3, 4:
                sent == "r1" ? (200, #"{"ok":false,"error":"ratelimited"}"#) : (400, #"{"error":"invalid_grant"}"#)
            default:
                sent == "r1" ? Self.grant(number, lifetime: 3600, refresh: "r2") : (400, #"{"error":"invalid_grant"}"#)
            }
        }
        let (upstream, folder) = (try RawServer(), try TemporaryFolder())
        try folder.write("token", "r0")
        let login = "refresh_token: {token_file: \(folder.file("token"))}"
        let first = try await Self.start(endpoint, login, rest: "rotation: one_use", upstream, folder, clock)
        try await clock.pass(until: "an error", atMost: .seconds(60)) { endpoint.calls.count >= 3 }
        #expect(try await first.get("/").status == 200)
        #expect(!first.process.lines.contains { $0.event == "session.login.required" })
        first.process.signal(SIGKILL)
        try await first.process.waitForExit()
        let second = try await Self.start(endpoint, login, rest: "rotation: one_use", upstream, folder, clock)
        try await clock.pass(until: "a token", atMost: .seconds(60)) { endpoint.calls.count >= 5 }
        try await clock.settle()
        #expect(try await second.get("/").status == 200)
        #expect(endpoint.calls.map(\.form).filter { $0.contains("refresh_token=r0") }.count == 1)
        #expect(!second.process.lines.contains { $0.event == "session.login.started" })
        try await second.process.terminate()
    }

    @Test("a server that says invalid_request of a dead refresh token: the login follows at the token's end")
    func deadByAnotherName() async throws {
        let clock = try TestClock()
        let endpoint = try Endpoint(clock) { number, form in
            form.contains("grant_type=refresh_token")
                ? (400, #"{"error":"invalid_request"}"#) : Self.grant(number, refresh: "r\(number)")
        }
        let (upstream, folder) = (try RawServer(), try TemporaryFolder())
        let login = "password: {username: alice, password_file: \(folder.file("password"))}"
        let lanyard = try await Self.start(endpoint, login, upstream, folder, clock)
        try await clock.pass(until: "a login", atMost: .seconds(60)) { endpoint.calls.count >= 1 }
        try await clock.settle()
        try await clock.pass(until: "another login", atMost: .seconds(90)) {
            endpoint.calls.filter { !$0.isRefresh }.count >= 2
        }
        try await clock.settle()
        let logins = endpoint.calls.filter { !$0.isRefresh }
        #expect(54...61 ~= logins[1].at - logins[0].at, "\(endpoint.calls)")
        #expect(try await lanyard.get("/").status == 200)
        let latest = upstream.requests.last?["Authorization"]
        #expect(latest != nil && latest != "Bearer t1")
        try await lanyard.process.terminate()
    }

    @Test("a client that the server does not know yet is tried again after 10 s and a minute, over a restart")
    func unknownClient() async throws {
        let clock = try TestClock()
        let endpoint = try Endpoint(clock) { number, _ in
            number < 3 ? (401, #"{"error":"invalid_client"}"#) : Self.grant(number, lifetime: 3600)
        }
        let (upstream, folder) = (try RawServer(), try TemporaryFolder())
        let first = try await Self.start(endpoint, "client_credentials: {}", upstream, folder, clock)
        try await clock.pass(until: "two refusals", atMost: .seconds(30)) { endpoint.calls.count >= 2 }
        try await clock.settle()
        let refused = try await first.get("/")
        #expect(refused.status == 503 && refused.bodyText.contains("credential-refused"), "\(refused.bodyText)")
        let status = try await AdminClient(endpoint: .unix(folder.file("admin.sock"))).call("GET", "/v1/users/alice")
        #expect(status["session"].string == "refused" && status["next_refresh_at"].string != nil, "\(status)")
        #expect(endpoint.calls.count == 2)
        try await first.process.terminate()
        let second = try await Self.start(endpoint, "client_credentials: {}", upstream, folder, clock)
        try await clock.pass(until: "a refusal", atMost: .seconds(10)) {
            second.process.lines.contains { $0.event == "session.credential.refused" }
        }
        #expect(endpoint.calls.count == 2)
        try await clock.pass(until: "a grant", atMost: .seconds(90), grain: .milliseconds(500)) {
            endpoint.calls.count >= 3
        }
        try await clock.settle()
        #expect(try await second.get("/").status == 200)
        let times = endpoint.calls.map(\.at)
        #expect(9.99...13 ~= times[1] - times[0] && 59.99...63 ~= times[2] - times[1], "\(times)")
        try await second.process.terminate()
    }
}
