import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// "Link my guest to an account, show its profile, delete it." The binary, before a played service.
@Suite struct AccountTests {
    /// Lanyard with a store, and a service whose accounts the test plays.
    private final class Bench: Sendable {
        let service: PlayedService
        let folder: TemporaryFolder
        let admin: RawEndpoint
        private let yaml: String
        private let running = PlayedService.Box<LanyardProcess?>(nil)

        init() throws {
            service = try PlayedService()
            folder = try TemporaryFolder()
            admin = .unix(folder.file("admin.sock"))
            try folder.write("password", "s3cret-password")
            let key = try folder.write("key", String(repeating: "k", count: 32))
            yaml = """
                identities:
                  demo: {app_services: {app_id: \(PlayedService.app), base_url: "http://\(service.endpoint)"}}
                users:
                  alice:
                    identity: demo
                    login: {email_password: {email: alice@x, password_file: \(folder.file("password"))}}
                store: {path: \(folder.file("sessions")), key_file: \(key)}
                routes: [{name: all, upstream: "http://127.0.0.1:1"}]

                """
        }

        /// The bench keeps it running.
        @discardableResult
        func start() async throws -> LanyardProcess {
            let lanyard = try await LanyardProcess.start(
                yaml, admin: "{address: \"unix:\(folder.file("admin.sock"))\", expose_tokens: true}")
            running.with { $0 = lanyard }
            return lanyard
        }

        func kill() async throws {
            let process = running.with { $0?.process }
            process?.signal(SIGKILL)
            try await process?.waitForExit()
        }

        func ask(_ method: String, _ path: String, _ body: String? = nil) async throws -> RawMessage {
            try await RawClient.ask(admin, method, "/v1" + path, body: body)
        }

        func until(_ name: String, is session: String) async throws {
            try await eventually("\(name) is \(session)") {
                try await self.ask("GET", "/users/\(name)").json["session"].string == session
            }
        }

        func users() async throws -> [String] {
            try await ask("GET", "/users").json["users"].array.map {
                "\($0["name"].string ?? "-"):\($0["state"].string ?? "-")"
            }
        }
    }

    private static let guest = #"{"name":"guest","identity":"demo","credential":{"anonymous":{}}}"#
    private static let email = #"{"credential":{"email_password":{"email":"bob@x","password":"s3cret-password"}}}"#

    @Test("an anonymous user that is linked keeps its account, has a new token, and survives logout and restart")
    func link() async throws {
        let bench = try Bench()
        try await bench.start()
        try await bench.until("alice", is: "valid")
        let added = try await bench.ask("POST", "/users", Self.guest).json
        let before = try await bench.ask("GET", "/users/guest/token").json["access_token"].string
        let linked = try await bench.ask("POST", "/users/guest/link", Self.email)
        #expect(linked.status == 200, "\(linked.bodyText)")
        let json = try linked.json
        #expect(json["user_id"] == added["user_id"])
        #expect(json["identities"].array.map { $0["provider_type"].string } == ["anon-user", "local-userpass"])
        let after = try await bench.ask("GET", "/users/guest/token").json["access_token"].string
        #expect(after != before && after != nil)
        #expect(try await bench.ask("GET", "/users/guest").json["generation"].int == 2)
        // The profile was read with the new token.
        let profile = bench.service.server.requests.last { $0.target.hasSuffix("/profile") }
        #expect(profile?["Authorization"] == "Bearer \(after ?? "")")
        #expect(try await bench.ask("POST", "/users/guest/link", #"{"credential":{"anonymous":{}}}"#).status == 422)
        try await bench.kill()
        let again = try await bench.start()
        try await bench.until("guest", is: "valid")
        let other = try await bench.ask("POST", "/users", Self.guest.replacing("guest", with: "other"))
        #expect(other.status == 201)
        let out = try await bench.ask("POST", "/users/guest/logout").json
        #expect(out["removed"].bool == false)
        #expect(try await bench.users().contains("guest:logged_out"))
        #expect(!again.process.log.contains("s3cret-password"))
    }

    @Test("a refused link is repeated once after one refresh, and the session continues")
    func refusedLink() async throws {
        let bench = try Bench()
        let lanyard = try await bench.start()
        try await bench.until("alice", is: "valid")
        bench.service.plays { _, path in
            path.hasSuffix("link=true") ? PlayedService.error(401, "InvalidSession") : nil
        }
        let refused = try await bench.ask("POST", "/users/alice/link", Self.email)
        #expect(refused.status == 401)
        let json = try refused.json
        #expect(json["type"].string == "urn:lanyard:problem:identity-error")
        #expect(json["error_code"].string == "InvalidSession" && json["identity_status"].int == 401)
        #expect(
            bench.service.count("link=true") == 2
                && bench.service.count("POST \(PlayedService.client)/auth/session") == 1)
        bench.service.plays { _, path in
            path.hasSuffix("link=true") ? PlayedService.error(401, "InvalidPassword") : nil
        }
        #expect(try await bench.ask("POST", "/users/alice/link", Self.email).status == 401)
        #expect(bench.service.count("link=true") == 3)
        #expect(try await bench.ask("GET", "/users/alice").json["session"].string == "valid")
        #expect(!lanyard.process.log.contains("s3cret-password"))
    }

    @Test("profile, custom data, API keys and functions reach the service with the right token, and back")
    func calls() async throws {
        let bench = try Bench()
        let lanyard = try await bench.start()
        try await bench.until("alice", is: "valid")
        #expect(try await bench.ask("GET", "/users/alice/profile").json["user_id"].string == "alice")
        let first = try await bench.ask("GET", "/users/alice/custom-data").json["n"].int ?? 0
        let second = try await bench.ask("GET", "/users/alice/custom-data").json["n"].int ?? 0
        #expect(first > 0 && second > first)
        let created = try await bench.ask("POST", "/users/alice/api-keys", #"{"name":"n"}"#)
        #expect(created.status == 201)
        #expect(try created.json["key"].string == "s3cret-key")
        let key = bench.service.server.requests.last { $0.target.hasSuffix("/api_keys") }
        #expect(key?["Authorization"]?.contains("-refresh-") == true)
        bench.service.plays { request, path in
            path.hasSuffix("/functions/call") ? PlayedService.json(200, #"{"$numberLong":"15"}"#) : nil
        }
        let result = try await bench.ask("POST", "/users/alice/functions/a%20%22b%22", "[1, 2]")
        #expect(result.bodyText == #"{"$numberLong":"15"}"#)
        let call = try #require(bench.service.server.requests.last { $0.target.hasSuffix("/functions/call") })
        #expect(try call.json["name"].string == "a \"b\"" && call.bodyText.hasSuffix("\"arguments\":[1,2]}"))
        #expect(try await bench.ask("DELETE", "/users/alice/api-keys/k").status == 204)
        #expect(!lanyard.process.log.contains("s3cret") && !lanyard.process.log.contains("alice-access"))
    }

    @Test("an expired token at the service costs one refresh, and the call succeeds")
    func expired() async throws {
        let bench = try Bench()
        try await bench.start()
        try await bench.until("alice", is: "valid")
        bench.service.plays { request, path in
            path.hasSuffix("/profile") && request["Authorization"]?.hasSuffix("-access-1") == true
                ? PlayedService.error(401, "InvalidSession") : nil
        }
        #expect(try await bench.ask("GET", "/users/alice/profile").status == 200)
        #expect(bench.service.count("/profile") == 2)
        bench.service.plays { _, path in path.hasSuffix("/profile") ? PlayedService.error(401, "") : nil }
        #expect(try await bench.ask("GET", "/users/alice/profile").status == 401)
        #expect(bench.service.count("/profile") == 4)
        #expect(try await bench.users() == ["alice:active"])
    }

    @Test("a deleted account's configured user stays logged out, over a restart; one that was added is forgotten")
    func delete() async throws {
        let bench = try Bench()
        try await bench.start()
        try await bench.until("alice", is: "valid")
        _ = try await bench.ask("POST", "/users", Self.guest)
        #expect(try await bench.ask("DELETE", "/users/guest?account=delete").status == 204)
        #expect(try await bench.users() == ["alice:inactive"])
        #expect(try await bench.ask("DELETE", "/users/alice?account=delete").status == 204)
        #expect(try await bench.users() == ["alice:logged_out"])
        #expect(try await bench.ask("DELETE", "/users/alice?account=delete").status == 409)
        // The sessions of a deleted account have ended: none is revoked.
        #expect(bench.service.count("DELETE \(PlayedService.client)/auth/session") == 0)
        let logins = bench.service.count("/login")
        try await bench.kill()
        try await bench.start()
        #expect(try await bench.users() == ["alice:logged_out"])
        #expect(bench.service.count("/login") == logins)
        let refused = try await bench.ask("POST", "/users/alice/login")
        #expect(refused.status == 422)
    }

    @Test("a deletion that the service refuses changes nothing, and says so")
    func notDeleted() async throws {
        let bench = try Bench()
        try await bench.start()
        try await bench.until("alice", is: "valid")
        bench.service.plays { _, path in
            path.hasSuffix("/auth/delete") ? PlayedService.error(403, "DomainNotAllowed") : nil
        }
        let refused = try await bench.ask("DELETE", "/users/alice?account=delete")
        #expect(refused.status == 403)
        #expect(try refused.json["detail"].string?.hasSuffix("not deleted, and alice stays logged in.") == true)
        bench.service.plays { _, path in path.hasSuffix("/auth/delete") ? .close : nil }
        let unknown = try await bench.ask("DELETE", "/users/alice?account=delete")
        #expect(unknown.status == 503)
        #expect(try unknown.json["detail"].string?.contains("Whether the account was deleted is unknown") == true)
        #expect(try await bench.users() == ["alice:active"])
        #expect(try await bench.ask("POST", "/users/alice/refresh").status == 200)
        try await bench.kill()
        try await bench.start()
        try await bench.until("alice", is: "valid")
    }

    @Test("killed while the service deletes the account, Lanyard does not log in again by itself")
    func killed() async throws {
        let bench = try Bench()
        for deletes in [true, false] {
            bench.service.state.with { $0.deleted = [] }
            let lanyard = try await bench.start()
            if deletes {
                try await bench.until("alice", is: "valid")
            } else {
                #expect(try await bench.ask("POST", "/users/alice/login").status == 200)
            }
            let process = lanyard.process
            let state = bench.service.state
            bench.service.plays { request, path in
                guard path.hasSuffix("/auth/delete") else { return nil }
                if deletes { _ = state.with { $0.deleted.insert("alice") } }
                process.signal(SIGKILL)
                return .close
            }
            _ = try? await bench.ask("DELETE", "/users/alice?account=delete")
            bench.service.plays { _, _ in nil }
            let logins = bench.service.count("/login")
            let again = try await bench.start()
            _ = try await again.process.event("session.account.deletion_interrupted")
            #expect(try await bench.users() == ["alice:logged_out"])
            #expect(bench.service.count("/login") == logins)
            // What is left of the session is revoked.
            try await eventually("the session is revoked") {
                bench.service.calls.last == "DELETE \(PlayedService.client)/auth/session"
            }
            try await bench.kill()
        }
    }

    @Test("accounts with email and password: the service's refusals come with code and explanation")
    func emailPassword() async throws {
        let bench = try Bench()
        let lanyard = try await bench.start()
        try await bench.until("alice", is: "valid")
        let path = "/identities/demo/email-password/"
        let body = #"{"email":"new@x","password":"s3cret-new"}"#
        let registered = try await bench.ask("POST", path + "register", body)
        #expect(registered.status == 201)
        #expect(try registered.json == .object(["email": .string("new@x")]))
        bench.service.plays { _, path in
            path.hasSuffix("/register") ? PlayedService.error(409, "AccountNameInUse", "name already in use") : nil
        }
        let taken = try await bench.ask("POST", path + "register", body)
        #expect(taken.status == 409)
        #expect(try taken.json["error"].string == "name already in use")
        #expect(try taken.json["detail"].string?.contains("there is an account with this email already") == true)
        #expect(try await bench.ask("POST", "/identities/nowhere/email-password/register", body).status == 404)
        #expect(!lanyard.process.log.contains("s3cret") && !lanyard.process.log.contains("new@x"))
    }
}
