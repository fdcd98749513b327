import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// An identity service that takes calls and does not respond: status and log name the call long before its time limit.
@Suite struct HangingServiceTests {
    /// Alice's first login, before a service that never responds to calls with this end.
    private func lanyard(
        _ service: RawServer, _ folder: TemporaryFolder, under clock: TestClock
    ) async throws -> (lanyard: LanyardProcess, admin: RawEndpoint) {
        try folder.write("password", "correct-horse\n")
        let admin = "unix:\(folder.file("admin.sock"))"
        clock.watch(service.threads)
        let lanyard = try await LanyardProcess.start(
            """
            identities: {demo: {app_services: {app_id: demo-abcde, base_url: "http://\(service.endpoint)"}}}
            users:
              alice:
                identity: demo
                login: {email_password: {email: a@example.com, password_file: \(folder.file("password"))}}
            routes: [{name: all, upstream: "http://127.0.0.1:9"}]

            """, admin: "{address: \"\(admin)\"}", under: clock)
        return (lanyard, try RawEndpoint(admin))
    }

    @Test(
        "a call without a response is in the status with its URL and age from the 5th second on, and in the log",
        arguments: ["/location", "/login"])
    func slow(_ end: String) async throws {
        let released = Milestone()
        defer { released.set() }
        let service = try RawServer { request in
            let json = [("Content-Type", "application/json")]
            let hangs = request.message.target.hasSuffix(end)
            let response = RawResponse.response(fields: json, body: #"{"hostname":""}"#)
            return hangs ? response.after(released, "the test has ended") : response
        }
        let folder = try TemporaryFolder()
        let clock = try TestClock()
        let (lanyard, admin) = try await lanyard(service, folder, under: clock)
        try await eventually("the call has arrived") { service.requests.contains { $0.target.hasSuffix(end) } }
        clock.stop()
        func alice() async throws -> JSON {
            try await RawClient.ask(admin, "GET", "/v1/status").json["users"][0]
        }
        let before = try await alice()
        #expect(before["call"] == .null && before["last_error"] == .null)
        #expect(!lanyard.process.lines.contains { $0.event == "session.call.slow" })
        try await clock.pass(.seconds(7))
        let url = "http://\(service.endpoint)"
        let after = try await alice()
        #expect(after["call"]["kind"].string == "login")
        #expect(
            after["call"]["url"].string?.hasPrefix(url) == true && after["call"]["url"].string?.hasSuffix(end) == true)
        let age = try #require(after["call"]["age_seconds"].int)
        #expect(age >= 6 && age < 30)
        #expect(after["last_error"].string?.contains("no response of \(url)") == true, "\(after)")
        let line = try await lanyard.process.event("session.call.slow")
        #expect(line["user"].string == "alice" && line["level"].string == "warning")
        #expect(line["url"].string == after["call"]["url"].string)
        let table = try await CommandRun(["status", "--admin", "\(admin)"])
        #expect(
            table.output.hasPrefix(
                "NOT READY: user alice has no token yet, because its first login is in progress: the login ")
                && table.output.prefix { $0 != "\n" }.contains("the login has had no response of \(url)")
                && table.output.prefix { $0 != "\n" }.contains(
                    "; what to do: check the identity service \(url) and the way to it; the call ends by "
                        + "refresh.attempt_timeout and is made again"),
            "\(table.output)")
        // The time limit of the call brings the error.
        try await clock.pass(.seconds(25))
        try await lanyard.process.event("session.login.failed")
        let failed = try await alice()
        #expect(failed["last_error"].string?.contains("no response") == true)
        clock.run()
    }

    @Test(
        "revocations and calls about accounts are named likewise, with their identity",
        arguments: [
            ("revocation", "DELETE", "/session", "/v1/users/alice/logout", ""),
            (
                "registration", "POST", "/register", "/v1/identities/demo/email-password/register",
                #"{"email":"b@example.com","password":"correct-horse"}"#
            ),
            ("api_key_call", "GET", "/api_keys", "/v1/users/alice/api-keys", ""),
            ("profile", "GET", "/profile", "/v1/users/alice/profile", ""),
        ])
    func others(_ kind: String, _ method: String, _ end: String, _ call: String, _ body: String) async throws {
        let released = Milestone()
        defer { released.set() }
        let service = try RawServer { request in
            let json = [("Content-Type", "application/json")]
            let target = request.message.target
            if target.hasSuffix("/location") { return .response(fields: json, body: #"{"hostname":""}"#) }
            let grant =
                #"{"access_token":"\#(LoginService.jwt("alice", expiresIn: 1800))","refresh_token":"refresh","user_id":"alice"}"#
            let response = RawResponse.response(fields: json, body: grant)
            let hangs = target.hasSuffix(end) && request.message.method == method
            return hangs ? response.after(released, "the test has ended") : response
        }
        let (folder, clock) = (try TemporaryFolder(), try TestClock())
        let (lanyard, admin) = try await lanyard(service, folder, under: clock)
        try await lanyard.untilReady()
        clock.stop()
        let caller = Task {
            try await RawClient.ask(
                admin, method == "GET" ? "GET" : "POST", call, body: body.isEmpty ? nil : body)
        }
        try await eventually("the call has arrived") {
            service.requests.contains { $0.target.hasSuffix(end) && $0.method == method }
        }
        func slow() async throws -> [JSON] {
            try await RawClient.ask(admin, "GET", "/v1/status").json["slow_calls"].array
        }
        #expect(try await slow() == [])
        try await clock.pass(.seconds(7))
        let calls = try await slow()
        #expect(calls.map { $0["kind"].string } == [kind] && calls.map { $0["identity"].string } == ["demo"])
        #expect(calls.first?["url"].string?.hasSuffix(end) == true, "\(calls)")
        #expect((6..<30).contains(calls.first?["age_seconds"].int ?? 0), "\(calls)")
        let line = try await lanyard.process.event("identity.call.slow")
        #expect(line["call"].string == kind && line["identity"].string == "demo" && line["level"].string == "warning")
        let table = try await CommandRun(["status", "--admin", "\(admin)"])
        let words = "identity demo: the \(kind.replacing("_", with: " ")) has had no response of http://"
        #expect(table.output.contains(words), "\(table.output)")
        // The time limit of the call ends it.
        try await clock.pass(.seconds(25))
        try await eventually("it has ended") { try await slow() == [] }
        clock.run()
        released.set()
        _ = await caller.result
    }

    @Test(
        "a first token call without a response at the start: a request that waits gets a token by a second call after 2 s"
    )
    func secondCall() async throws {
        let released = Milestone()
        defer { released.set() }
        let service = try RawServer { request in
            guard request.message.target == "/token" else { return .response(body: "served") }
            let token = RawResponse.response(
                fields: [("Content-Type", "application/json")],
                body: #"{"access_token":"at-\#(request.connection)","token_type":"bearer","expires_in":3600}"#)
            return request.connection == 0 ? token.after(released, "the test has ended") : token
        }
        let folder = try TemporaryFolder()
        let clock = try TestClock()
        clock.watch(service.threads)
        let lanyard = try await LanyardProcess.start(
            """
            identities:
              corp:
                oauth2:
                  client_id: lanyard
                  client_secret_file: \(try folder.write("secret", "s3cret"))
                  endpoints: {token: "http://\(service.endpoint)/token"}
            users: {svc: {identity: corp, login: {client_credentials: {}}}}
            routes: [{name: all, upstream: "http://\(service.endpoint)"}]

            """, under: clock)
        try await eventually("the first call") { service.requests.contains { $0.target == "/token" } }
        clock.stop()
        let request = Task { try await RawClient.ask(lanyard.data, "GET", "/x") }
        try await clock.pass(.seconds(1))
        #expect(service.requests.count { $0.target == "/token" } == 1)
        try await clock.pass(.seconds(2))
        let response = try await request.value
        #expect(response.status == 200 && response.bodyText == "served", "\(response)")
        #expect(service.requests.count { $0.target == "/token" } == 2)
        let line = try await lanyard.process.event("session.call.second")
        #expect(line["user"].string == "svc" && line["call"].string == "login" && line["level"].string == "notice")
        clock.run()
        released.set()
    }

    @Test("a service that takes calls and responds to none: another second call every five seconds finds it back")
    func silence() async throws {
        let released = Milestone()
        defer { released.set() }
        let service = try RawServer { request in
            guard request.message.target == "/token" else { return .response(body: "served") }
            let token = RawResponse.response(
                fields: [("Content-Type", "application/json")],
                body: #"{"access_token":"at-\#(request.connection)","token_type":"bearer","expires_in":3600}"#)
            return request.connection < 3 ? token.after(released, "the test has ended") : token
        }
        let folder = try TemporaryFolder()
        let clock = try TestClock()
        clock.watch(service.threads)
        let lanyard = try await LanyardProcess.start(
            """
            identities:
              corp:
                oauth2:
                  client_id: lanyard
                  client_secret_file: \(try folder.write("secret", "s3cret"))
                  endpoints: {token: "http://\(service.endpoint)/token"}
            users: {svc: {identity: corp, login: {client_credentials: {}}}}
            routes: [{name: all, upstream: "http://\(service.endpoint)"}]

            """, under: clock)
        let count = { service.requests.count { $0.target == "/token" } }
        try await eventually("the first call") { count() == 1 }
        clock.stop()
        let request = Task { try await RawClient.ask(lanyard.data, "GET", "/x") }
        for (seconds, calls) in [(3, 2), (3, 2), (2, 3), (3, 3)] {
            try await clock.pass(.seconds(seconds))
            #expect(count() == calls)
        }
        #expect(try await request.value.status == 503)
        // The attempt is 12 s old, and its time limit is 30 s.
        try await clock.pass(.seconds(2))
        let response = try await RawClient.ask(lanyard.data, "GET", "/x")
        #expect(response.status == 200 && response.bodyText == "served", "\(response)")
        #expect(count() == 4)
        #expect(lanyard.process.lines.count { $0.event == "session.call.second" } == 3)
        #expect(!lanyard.process.lines.contains { $0.event == "session.login.failed" })
        clock.run()
        released.set()
    }

    @Test(
        "metadata or a location without a response at the start: a request that waits is served after 2 s, whatever the login",
        arguments: [true, false])
    func place(isOAuth: Bool) async throws {
        let released = Milestone()
        defer { released.set() }
        let service = try RawServer { request in
            let json = [("Content-Type", "application/json")]
            let (target, origin) = (request.message.target, "http://\(request.message["Host"] ?? "")")
            guard target.contains("/.well-known/") || target.hasSuffix("/location") else {
                let access = LoginService.jwt("alice", expiresIn: 1800)
                let tokens =
                    #"{"access_token":"\#(access)","refresh_token":"r","user_id":"alice","token_type":"bearer","expires_in":1800}"#
                return target == "/x" ? .response(body: "served") : .response(fields: json, body: tokens)
            }
            let place = RawResponse.response(
                fields: json,
                body: isOAuth ? #"{"issuer":"\#(origin)","token_endpoint":"\#(origin)/token"}"# : #"{"hostname":""}"#)
            return request.connection == 0 ? place.after(released, "the test has ended") : place
        }
        let folder = try TemporaryFolder()
        try folder.write("password", "correct-horse\n")
        let clock = try TestClock()
        clock.watch(service.threads)
        let identity =
            isOAuth
            ? "{oauth2: {client_id: lanyard, issuer: \"http://\(service.endpoint)\"}}"
            : "{app_services: {app_id: demo-abcde, base_url: \"http://\(service.endpoint)\"}}"
        let login = isOAuth ? "password: {username: alice, " : "email_password: {email: a@example.com, "
        let lanyard = try await LanyardProcess.start(
            """
            identities: {corp: \(identity)}
            users: {alice: {identity: corp, login: {\(login)password_file: \(folder.file("password"))}}}}
            routes: [{name: all, upstream: "http://\(service.endpoint)"}]

            """, under: clock)
        let count = {
            service.requests.count { $0.target.contains("/.well-known/") || $0.target.hasSuffix("/location") }
        }
        try await eventually("the first request") { count() == 1 }
        clock.stop()
        let request = Task { try await RawClient.ask(lanyard.data, "GET", "/x") }
        try await clock.pass(.seconds(1))
        #expect(count() == 1)
        try await clock.pass(.seconds(2))
        let response = try await request.value
        #expect(response.status == 200 && response.bodyText == "served", "\(response)")
        #expect(count() == 2)
        clock.run()
        released.set()
    }

    @Test("a call that gets its response in time is named nowhere")
    func quick() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "30m")
        let lanyard = try await LanyardProcess.start(emulator)
        try await lanyard.untilReady()
        #expect(!lanyard.process.lines.contains { $0.event == "session.call.slow" })
    }
}
