import Foundation
import Glibc
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// The built program logs users in by each kind of login: the bytes of the requests, and files that change in that time.
@Suite struct LoginKindTests {
    private static func admin(_ folder: TemporaryFolder) -> (setting: String, client: AdminClient) {
        let path = folder.file("admin.sock")
        return ("{address: \"unix:\(path)\"}", AdminClient(endpoint: .unix(path)))
    }

    /// The problem of a request for a user that no login can help for now.
    private static func refusal(_ lanyard: LanyardProcess, _ user: String = "alice") async throws -> JSON {
        try await lanyard.process.event("session.credential.refused") { $0["user"].string == user }
        let response = try await lanyard.get("/as/\(user)")
        #expect(response.status == 503 && response["Retry-After"] == nil)
        let problem = try response.json
        #expect(problem["type"].string == "urn:lanyard:problem:credential-refused" && problem["user"].string == user)
        return problem
    }

    @Test("every kind logs in at the start, is counted by its name, and continues after a restart without a login")
    func allKinds() async throws {
        let service = try LoginService { login in
            (.granted, account: login.provider + (login.body.contains("authCode") ? "-code" : ""))
        }
        let (folder, upstream) = (try TemporaryFolder(), try RawServer())
        let jwt = LoginService.jwt("alice", expiresIn: 600)
        try folder.write("jwt", jwt + "\n")
        try folder.write("payload", #"{"user": "alice", "pin": {"$numberInt": "1234"}}"# + "\n")
        try folder.write("text", "canary-text\n")
        let users = [
            ("function", "function: {payload_file: \(folder.file("payload"))}"),
            ("jwt", "jwt: {token_file: \(folder.file("jwt"))}"),
            ("facebook", "facebook: {access_token_file: \(folder.file("text"))}"),
            ("google", "google: {id_token_file: \(folder.file("jwt"))}"),
            ("code", "google: {auth_code_file: \(folder.file("text"))}"),
            ("apple", "apple: {id_token_file: \(folder.file("jwt"))}"),
        ]
        let admin = Self.admin(folder)
        let yaml = try service.configuration(users, upstream: upstream.endpoint, store: folder)
        for start in 1...2 {
            let lanyard = try await LanyardProcess.start(yaml, admin: admin.setting)
            try await lanyard.untilReady()
            #expect(service.logins.count == users.count, "start \(start)")
            let page = try await RawClient.ask(lanyard.health, "GET", "/metrics")
            let metrics = try ExpositionReader(page.body, openMetrics: false)
            for (provider, count) in [("function", 1), ("jwt", 1), ("facebook", 1), ("google", 2), ("apple", 1)] {
                let labels = ["provider": provider, "result": "success"]
                #expect(metrics["lanyard_login_attempts_total", labels] == (start == 1 ? Double(count) : 0))
            }
            for (user, _) in users { #expect(try await lanyard.get("/as/\(user)").status == 200) }
            #expect(!lanyard.process.log.contains("canary-text") && !lanyard.process.log.contains(jwt))
            #expect(try await lanyard.process.terminate() == .code(143))
        }
        let bodies = Dictionary(grouping: service.logins, by: \.provider).mapValues { $0.map(\.body) }
        let options = #""options":{"device":{"appId":"demo-abcde","#
        #expect(
            bodies["custom-function"]?.first?.hasPrefix(
                #"{"user": "alice", "pin": {"$numberInt": "1234"},"# + options) == true)
        #expect(
            bodies["custom-token"]?.first?.hasPrefix(#"{"token":"\#(jwt)","provider":"custom-token","# + options)
                == true)
        #expect(
            bodies["oauth2-facebook"]?.first?.hasPrefix(
                #"{"accessToken":"canary-text","provider":"oauth2-facebook","# + options) == true)
        #expect(
            bodies["oauth2-apple"]?.first?.hasPrefix(#"{"id_token":"\#(jwt)","provider":"oauth2-apple","# + options)
                == true)
        let google = bodies["oauth2-google"] ?? []
        #expect(google.contains { $0.hasPrefix(#"{"id_token":"\#(jwt)","provider":"oauth2-google","# + options) })
        #expect(google.contains { $0.hasPrefix(#"{"authCode":"canary-text","provider":"oauth2-google","# + options) })
    }

    @Test(
        "a truncated JWT is not sent; the problem names the file and what the service would respond, until it is whole")
    func truncated() async throws {
        let clock = try TestClock()
        let service = try LoginService()
        clock.watch(service.server.threads)
        let (folder, upstream) = (try TemporaryFolder(), try RawServer())
        let whole = LoginService.jwt("alice", expiresIn: 600)
        let path = try folder.write("jwt", String(whole.prefix { $0 != "." }) + ".cGF5")
        let lanyard = try await LanyardProcess.start(
            try service.configuration([("alice", "jwt: {token_file: \(path)}")], upstream: upstream.endpoint),
            under: clock)
        #expect(
            try await Self.refusal(lanyard)["detail"].string
                == "Lanyard cannot log this user in: \(path) holds no JWT: it has 2 segments in place of 3, and the "
                + "service would respond with \"token contains an invalid number of segments\"; the file is wrong or "
                + "truncated: write the whole token into it, it is read again by itself.")
        #expect(service.server.requests.isEmpty && upstream.connectionCount == 0)
        try folder.write("jwt", whole)
        try await lanyard.untilReady(passing: clock)
        #expect(service.logins.count == 1)
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("an expired JWT is not sent; the problem says when it expired, until the file is renewed")
    func expired() async throws {
        let clock = try TestClock()
        let service = try LoginService()
        clock.watch(service.server.threads)
        let (folder, upstream) = (try TemporaryFolder(), try RawServer())
        let path = try folder.write("jwt", LoginService.jwt("alice", expiresIn: -60))
        let lanyard = try await LanyardProcess.start(
            try service.configuration([("alice", "jwt: {token_file: \(path)}")], upstream: upstream.endpoint),
            under: clock)
        let detail = try await Self.refusal(lanyard)["detail"].string ?? ""
        #expect(detail.contains("\(path) holds a JWT that expired at 20"), "\(detail)")
        #expect(detail.hasSuffix("; write a new one into the file, it is read again by itself."), "\(detail)")
        #expect(service.logins.isEmpty)
        try folder.write("jwt", LoginService.jwt("alice", expiresIn: 600))
        try await lanyard.untilReady(passing: clock)
        #expect(service.logins.count == 1)
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("a payload that is no object is not sent, and the problem says where it breaks")
    func unfitPayload() async throws {
        let clock = try TestClock()
        let service = try LoginService()
        clock.watch(service.server.threads)
        let (folder, upstream) = (try TemporaryFolder(), try RawServer())
        let path = try folder.write("payload", #"{"user":"canary","user":"x"}"#)
        let lanyard = try await LanyardProcess.start(
            try service.configuration([("alice", "function: {payload_file: \(path)}")], upstream: upstream.endpoint),
            under: clock)
        let detail = try await Self.refusal(lanyard)["detail"].string ?? ""
        #expect(detail.contains("\(path) holds no JSON: a duplicate key at byte 17"), "\(detail)")
        #expect(!lanyard.process.log.contains("canary") && service.server.requests.isEmpty)
        try folder.write("payload", "{}")
        try await lanyard.untilReady(passing: clock)
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test(
        "a login whose file changes during the call, and that is refused, is followed by one with the new content")
    func changesMeanwhile() async throws {
        let (clock, isReleased) = (try TestClock(), Milestone())
        let service = try LoginService(after: isReleased) { login in
            (login.body.contains("b2xk") || login.body.contains("old") ? .refused : .granted, account: login.provider)
        }
        let (folder, upstream) = (try TemporaryFolder(), try RawServer())
        let jwts = ["old", "new"].map { Tokens.jwt(#"{"sub":"a"}"#, signature: Tokens.base64URL($0 + "token")) }
        let payloads = ["old", "new"].map { #"{"pin":"\#($0)"}"# }
        try folder.write("jwt", jwts[0])
        try folder.write("payload", payloads[0])
        let lanyard = try await LanyardProcess.start(
            try service.configuration(
                [
                    ("alice", "jwt: {token_file: \(folder.file("jwt"))}"),
                    ("bob", "function: {payload_file: \(folder.file("payload"))}"),
                ], upstream: upstream.endpoint), under: clock)
        clock.watch(service.server.threads)
        try await eventually("both logins are in progress; \(lanyard.process.log)") { service.logins.count == 2 }
        clock.stop()
        try folder.write("jwt", jwts[1])
        try folder.write("payload", payloads[1])
        // Longer than the watch needs to find and confirm a change.
        try await clock.pass(.seconds(6))
        isReleased.set()
        clock.run()
        try await lanyard.untilReady()
        for provider in ["custom-token", "custom-function"] {
            let bodies = service.logins.filter { $0.provider == provider }.map(\.body)
            #expect(bodies.count == 2 && bodies.last?.contains("old") == false, "\(bodies)")
        }
        #expect(!lanyard.process.log.contains("session.credential.refused"), "\(lanyard.process.log)")
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test(
        "many requests wait for one login, whatever its kind",
        arguments: ["jwt: {token_file: FILE}", "function: {payload_file: FILE}"])
    func singleFlight(_ login: String) async throws {
        let isReleased = Milestone()
        let service = try LoginService(after: isReleased)
        let (folder, upstream) = (try TemporaryFolder(), try RawServer())
        let content = login.hasPrefix("jwt") ? LoginService.jwt("alice") : #"{"user":"alice"}"#
        let path = try folder.write("secret", content)
        let lanyard = try await LanyardProcess.start(
            try service.configuration([("alice", login.replacing("FILE", with: path))], upstream: upstream.endpoint))
        let served = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<30 { group.addTask { try await lanyard.get("/").status } }
            try await eventually("all wait") { try await lanyard.metric("lanyard_parked_requests") == 30 }
            isReleased.set()
            return try await group.reduce(into: [Int]()) { $0.append($1) }
        }
        #expect(served == [Int](repeating: 200, count: 30))
        #expect(service.logins.count == 1)
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("an authorization code is used once, over a crash as well; a new one in the file is taken")
    func authorizationCode() async throws {
        let clock = try TestClock()
        let service = try LoginService()
        clock.watch(service.server.threads)
        let (folder, upstream) = (try TemporaryFolder(), try RawServer())
        let path = try folder.write("code", "4/first")
        let admin = Self.admin(folder)
        let yaml = try service.configuration(
            [("alice", "google: {auth_code_file: \(path)}")], upstream: upstream.endpoint, store: folder)
        let first = try await LanyardProcess.start(yaml, admin: admin.setting, under: clock)
        try await first.untilReady()
        first.process.signal(SIGKILL)
        try await first.process.waitForExit()

        let second = try await LanyardProcess.start(yaml, admin: admin.setting, under: clock)
        try await second.untilReady()
        // A refresh leaves the session's mark.
        try await admin.client.call("POST", "/v1/users/alice/refresh")
        service.endSessions()
        #expect(try await admin.client.ask("POST", "/v1/users/alice/refresh").status != 200)
        let detail = try await Self.refusal(second)["detail"].string ?? ""
        #expect(
            detail.contains("the credential in google.auth_code_file \(path) has served its only login"), "\(detail)")
        #expect(service.logins.count == 1)
        second.process.signal(SIGKILL)
        try await second.process.waitForExit()

        let third = try await LanyardProcess.start(yaml, admin: admin.setting, under: clock)
        #expect(try await Self.refusal(third)["detail"].string?.contains("has served its only login") == true)
        #expect(service.logins.count == 1)
        try folder.write("code", "4/second")
        try await third.untilReady(passing: clock)
        #expect(service.logins.count == 2 && service.logins.last?.body.contains("4/second") == true)
        #expect(try await third.process.terminate() == .code(143))
    }

    @Test("an operator gives each kind by the admin API, and what cannot be sent gets 422")
    func given() async throws {
        let service = try LoginService { login in
            (login.body.contains("wrong") ? .refused : .granted, account: "\(login.provider)-\(login.body.count)")
        }
        let (folder, upstream) = (try TemporaryFolder(), try RawServer())
        let path = try folder.write("jwt", LoginService.jwt("first"))
        let admin = Self.admin(folder)
        let lanyard = try await LanyardProcess.start(
            try service.configuration([("alice", "jwt: {token_file: \(path)}")], upstream: upstream.endpoint),
            admin: admin.setting)
        try await lanyard.untilReady()
        func add(_ name: String, _ credential: String) async throws -> RawMessage {
            try await admin.client.ask(
                "POST", "/v1/users", #"{"name":"\#(name)","identity":"demo","credential":\#(credential)}"#)
        }
        let jwt = LoginService.jwt("second", expiresIn: 600)
        let credentials = [
            (#"{"function":{"payload":{"who": "bob"}}}"#, #"{"who": "bob","options":"#),
            (#"{"jwt":{"token":"\#(jwt)"}}"#, #"{"token":"\#(jwt)""#),
            (#"{"facebook":{"access_token":"fb"}}"#, #"{"accessToken":"fb""#),
            (#"{"google":{"id_token":"\#(jwt)"}}"#, #"{"id_token":"\#(jwt)""#),
            (#"{"google":{"auth_code":"4\/x"}}"#, #"{"authCode":"4/x""#),
            (#"{"apple":{"id_token":"\#(jwt)"}}"#, #"{"id_token":"\#(jwt)""#),
        ]
        for (number, (credential, body)) in credentials.enumerated() {
            let response = try await add("user\(number)", credential)
            #expect(response.status == 201, "\(response.bodyText)")
            #expect(service.logins.last?.body.hasPrefix(body) == true, "\(service.logins.last?.body ?? "")")
        }
        let sent = service.logins.count
        let expired = LoginService.jwt("late", expiresIn: -5)
        for (credential, status, name, detail) in [
            (
                #"{"jwt":{"token":"a.b"}}"#, 422, "credential-refused",
                "the credential given is no JWT: it has 2 segments"
            ),
            (#"{"apple":{"id_token":"\#(expired)"}}"#, 422, "credential-refused", "is a JWT that expired at"),
            (#"{"function":{"payload":{"options":1}}}"#, 422, "credential-refused", "a member options"),
            (#"{"function":{"payload":[]}}"#, 422, "invalid-value", "credential.function.payload is not an object"),
            (#"{"function":{"payload":{"a":1,"a":2}}}"#, 400, "malformed-request", "a duplicate key"),
            (#"{"google":{"id_token":"a","auth_code":"b"}}"#, 422, "invalid-value", "has both id_token and auth_code"),
        ] {
            let response = try await add("late", credential)
            let problem = try response.json
            #expect(response.status == status && problem["type"].string == "urn:lanyard:problem:\(name)")
            #expect(problem["detail"].string?.contains(detail) == true, "\(response.bodyText)")
        }
        #expect(service.logins.count == sent)
        let wrong = try await add("late", #"{"facebook":{"access_token":"wrong"}}"#)
        #expect(wrong.status == 422)
        #expect(try wrong.json["detail"].string?.contains("the access token may have expired") == true)
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("flags alone are enough for a JWT and a function", arguments: ["jwt", "function-payload"])
    func flags(_ flag: String) async throws {
        let service = try LoginService()
        let (folder, upstream) = (try TemporaryFolder(), try RawServer())
        let path = try folder.write("secret", flag == "jwt" ? LoginService.jwt("alice") : #"{"user":"alice"}"#)
        let process = try ServerProcess(
            "lanyard",
            [
                "run", "--listen", "127.0.0.1:0", "--health-address", "127.0.0.1:0", "--admin-address", "off",
                "--upstream", "http://\(upstream.endpoint)", "--app-id", "demo-abcde", "--base-url",
                "http://\(service.server.endpoint)", "--\(flag)-file", path,
            ])
        let health = try await process.event("listening") { $0["listener"].string == "health" }
        let probe = try RawEndpoint(health["address"].string ?? "")
        try await eventually("it is ready; it said:\n\(process.log)") {
            try await RawClient.ask(probe, "GET", "/readyz").status == 200
        }
        #expect(service.logins.map(\.provider) == [flag == "jwt" ? "custom-token" : "custom-function"])
        #expect(try await process.terminate() == .code(143))
    }
}
