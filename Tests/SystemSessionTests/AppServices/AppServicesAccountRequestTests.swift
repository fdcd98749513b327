import TestSupport
import Testing

@testable import SystemTestSupport

/// The calls about an account that the admin API makes at the service, before the checks of the independent client.
@Suite(
    .enabled(if: PythonProcess.isInstalled, "needs /usr/bin/python3"),
    .enabled(if: AppServicesBench.hasAccountCalls, "the admin API has no calls about accounts"))
struct AppServicesAccountRequestTests {
    /// One call of the admin API, and the request that the service must get.
    private struct Call: Sendable {
        let method: String
        let path: String
        let body: String?
        let status: Int?
        let request: String

        /// - Parameters:
        ///   - status: nil: the service refuses it, and the shape of the request alone counts.
        ///   - request: its method and path, below the API's prefix.
        init(_ method: String, _ path: String, _ status: Int?, _ request: String, body: String? = nil) {
            self.method = method
            self.path = path
            self.body = body
            self.status = status
            self.request = request.replacing(" /", with: " /api/client/v2.0/")
        }
    }

    /// Lanyard before the recorder; alice is active, and guest is logged in beside her.
    private final class Bench: Sendable {
        let services: AppServicesBench
        let recorder: (process: ServerProcess, endpoint: RawEndpoint)
        let lanyard: LanyardProcess
        let admin: AdminClient

        init() async throws {
            services = try await .start()
            recorder = try await services.recorder()
            let socket = services.folder.file("admin.sock")
            let password = services.folder.file("login-password")
            lanyard = try await LanyardProcess.start(
                """
                identities:
                  demo: {app_services: {app_id: \(AppServicesBench.app), base_url: "http://\(recorder.endpoint)"}}
                users:
                  alice: {identity: demo, login: {email_password: {email: alice@example.com, password_file: \(password)}}}
                  guest: {identity: demo, login: {anonymous: {}}}
                active_user: alice
                routes:
                  - {name: all, upstream: "http://\(recorder.endpoint)"}

                """, admin: "{address: \"unix:\(socket)\"}")
            admin = AdminClient(endpoint: .unix(socket))
            for name in ["alice", "guest"] {
                try await eventually("\(name) is logged in; it said:\n\(lanyard.process.log)") {
                    try await admin.call("GET", "/v1/users/\(name)")["session"].string == "valid"
                }
            }
        }

        func requests() async throws -> [String] {
            try await AppServicesBench.report(of: recorder.endpoint)["requests"].array.compactMap(\.string)
        }

        /// Makes a call whose request must reach the service; what it brought.
        @discardableResult
        func make(_ call: Call) async throws -> JSON {
            let seen = try await requests().count
            let response = try await admin.ask(call.method, call.path, call.body)
            #expect(call.status == nil || response.status == call.status, "\(call.path): \(response.bodyText)")
            let new = try await requests().dropFirst(seen)
            #expect(new.contains(call.request), "\(call.path): \(new), \(response.bodyText)")
            return response.body.isEmpty ? .null : try response.json
        }

        /// Makes a call that Lanyard refuses by itself.
        func refuse(_ method: String, _ path: String, _ body: String? = nil) async throws {
            let seen = try await requests().count
            let response = try await admin.ask(method, path, body)
            #expect(response.status >= 400, "\(path): \(response.bodyText)")
            #expect(try await requests().count == seen, "\(path)")
        }

        func end() async throws {
            for deviation in try await AppServicesBench.report(of: recorder.endpoint)["deviations"].array {
                Issue.record("\(deviation.string ?? "")")
            }
            try await lanyard.process.terminate()
            try await recorder.process.terminate()
            try await services.emulator.terminate()
        }
    }

    private static let app = "/app/\(AppServicesBench.app)"
    private static let local = app + "/auth/providers/local-userpass"

    @Test("calls as a user are sent as core sends them, each with the token of its user")
    func account() async throws {
        let bench = try await Bench()
        let alice = "/v1/users/alice"
        let profile = try await bench.make(Call("GET", alice + "/profile", 200, "GET /auth/profile"))
        #expect(profile["data"]["email"].string == "alice@example.com")
        #expect(try await bench.make(Call("GET", alice + "/custom-data", 200, "POST /auth/session")) == .object([:]))
        let sum = try await bench.make(
            Call(
                "POST", alice + "/functions/sum", 200, "POST \(Self.app)/functions/call",
                body: #"[{"$numberInt":"1"},{"$numberInt":"2"}]"#))
        #expect(sum["$numberLong"].string == "3")
        let keys = alice + "/api-keys"
        let created = Call("POST", keys, 201, "POST /auth/api_keys", body: #"{"name":"mine"}"#)
        let key = try await bench.make(created)["id"].string ?? "none"
        for call in [
            Call("GET", keys, 200, "GET /auth/api_keys"),
            Call("GET", "\(keys)/\(key)", 200, "GET /auth/api_keys/\(key)"),
            Call("POST", "\(keys)/\(key)/disable", 200, "PUT /auth/api_keys/\(key)/disable"),
            Call("POST", "\(keys)/\(key)/enable", 200, "PUT /auth/api_keys/\(key)/enable"),
            Call("DELETE", "\(keys)/\(key)", 204, "DELETE /auth/api_keys/\(key)"),
        ] { try await bench.make(call) }
        // The link is guest's although alice is active.
        let credential = #"{"credential":{"email_password":{"email":"new@example.com","password":"correct-horse"}}}"#
        try await bench.make(
            Call(
                "POST", "/v1/identities/demo/email-password/register", 201, "POST \(Self.local)/register",
                body: #"{"email":"new@example.com","password":"correct-horse"}"#))
        let linked = try await bench.make(
            Call("POST", "/v1/users/guest/link", 200, "POST \(Self.local)/login", body: credential))
        #expect(linked["identities"].array.map { $0["provider_type"].string } == ["anon-user", "local-userpass"])
        try await bench.refuse("POST", alice + "/link", #"{"credential":{"anonymous":{}}}"#)
        try await bench.make(Call("DELETE", alice + "?account=delete", 204, "DELETE /auth/delete"))
        try await bench.refuse("DELETE", alice + "?account=delete")
        try await bench.end()
    }

    @Test("calls with email and password are sent as core sends them")
    func emailPassword() async throws {
        let bench = try await Bench()
        func call(_ name: String, _ status: Int?, _ path: String, _ body: String) async throws {
            let place = "/v1/identities/demo/email-password/" + name
            try await bench.make(Call("POST", place, status, "POST \(Self.local)/\(path)", body: body))
        }
        let new = #""email":"new@example.com""#
        let pair = #""token":"junk","token_id":"junk""#
        try await call("register", 201, "register", #"{\#(new),"password":"correct-horse"}"#)
        try await call("confirm", nil, "confirm", "{\(pair)}")
        try await call("resend-confirmation", nil, "confirm/send", "{\(new)}")
        try await call("retry-custom-confirmation", nil, "confirm/call", "{\(new)}")
        try await call("send-reset-email", 200, "reset/send", "{\(new)}")
        try await call("reset-password", nil, "reset", #"{\#(pair),"password":"battery-staple"}"#)
        try await call(
            "call-reset-function", nil, "reset/call", #"{\#(new),"password":"battery-staple","arguments":[]}"#)
        try await bench.end()
    }
}
