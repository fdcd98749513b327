import TestSupport
import Testing

/// The calls about an account that the admin API makes at the service, before the checks of the independent client.
@Suite(.timeLimit(.minutes(2)), .enabled(if: PythonProcess.isInstalled, "needs /usr/bin/python3"))
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

    private static let user = "/v1/users/alice"
    private static let app = "/app/\(AppServicesBench.app)"

    private static let account = [
        Call("GET", user + "/profile", 200, "GET /auth/profile"),
        Call("GET", user + "/custom-data", 200, "POST /auth/session"),
        Call("GET", user + "/api-keys", 200, "GET /auth/api_keys"),
        Call(
            "POST", user + "/functions/sum", 200, "POST \(app)/functions/call",
            body: #"[{"$numberInt":"1"},{"$numberInt":"2"}]"#),
        Call(
            "POST", user + "/link", 200, "POST \(app)/auth/providers/custom-function/login",
            body: #"{"credential":{"function":{"payload":{"realmCustomAuthFuncUserId":"linked"}}}}"#),
    ]

    private static func emailCalls() -> [Call] {
        let local = app + "/auth/providers/local-userpass"
        func call(_ name: String, _ body: String, _ status: Int?, _ path: String) -> Call {
            Call("POST", "/v1/identities/demo/email-password/" + name, status, "POST \(local)/\(path)", body: body)
        }
        let new = #""email":"new@example.com""#
        let pair = #""token":"junk","token_id":"junk""#
        return [
            call("register", #"{\#(new),"password":"correct-horse"}"#, 201, "register"),
            call("confirm", "{\(pair)}", nil, "confirm"),
            call("resend-confirmation", "{\(new)}", nil, "confirm/send"),
            call("retry-custom-confirmation", "{\(new)}", nil, "confirm/call"),
            call("send-reset-email", "{\(new)}", 200, "reset/send"),
            call("reset-password", #"{\#(pair),"password":"battery-staple"}"#, nil, "reset"),
            call("call-reset-function", #"{\#(new),"password":"battery-staple","arguments":[]}"#, nil, "reset/call"),
        ]
    }

    /// Makes a call; what it brought, or nil if this version has no such path.
    private static func make(_ call: Call, _ admin: AdminClient, _ recorder: RawEndpoint) async throws -> JSON? {
        let seen = try await AppServicesBench.report(of: recorder)["requests"].array.count
        let response = try await admin.ask(call.method, call.path, call.body)
        if UsersBench.problem(response) == "no-route" { return nil }
        #expect(call.status == nil || response.status == call.status, "\(call.path): \(response.bodyText)")
        let requests = try await AppServicesBench.report(of: recorder)["requests"].array.compactMap(\.string)
        #expect(requests.dropFirst(seen).contains(call.request), "\(call.path): \(requests.dropFirst(seen))")
        return response.body.isEmpty ? .null : try response.json
    }

    @Test("calls about an account are sent as core sends them")
    func sent() async throws {
        let bench = try await AppServicesBench.start()
        let (process, recorder) = try await bench.recorder()
        let socket = bench.folder.file("admin.sock")
        let lanyard = try await LanyardProcess.start(
            """
            identities:
              demo: {app_services: {app_id: \(AppServicesBench.app), base_url: "http://\(recorder)"}}
            users:
              alice:
                identity: demo
                login: {email_password: {email: alice@example.com, password_file: \(bench.folder.file("login-password"))}}
            routes:
              - {name: all, upstream: "http://\(recorder)"}

            """, admin: "{address: \"unix:\(socket)\"}")
        let admin = AdminClient(endpoint: .unix(socket))
        try await lanyard.untilReady()
        for call in Self.account {
            guard try await Self.make(call, admin, recorder) != nil else { return }
        }
        let keys = Self.user + "/api-keys"
        let created = Call("POST", keys, 201, "POST /auth/api_keys", body: #"{"name":"mine"}"#)
        let key = try await Self.make(created, admin, recorder)?["id"].string ?? "none"
        for call in [
            Call("GET", "\(keys)/\(key)", 200, "GET /auth/api_keys/\(key)"),
            Call("POST", "\(keys)/\(key)/disable", 200, "PUT /auth/api_keys/\(key)/disable"),
            Call("POST", "\(keys)/\(key)/enable", 200, "PUT /auth/api_keys/\(key)/enable"),
            Call("DELETE", "\(keys)/\(key)", 204, "DELETE /auth/api_keys/\(key)"),
        ] + Self.emailCalls() + [Call("DELETE", Self.user + "?account=delete", 204, "DELETE /auth/delete")] {
            _ = try await Self.make(call, admin, recorder)
        }
        for deviation in try await AppServicesBench.report(of: recorder)["deviations"].array {
            Issue.record("\(deviation.string ?? "")")
        }
        try await lanyard.process.terminate()
        try await process.terminate()
        try await bench.emulator.terminate()
    }
}
