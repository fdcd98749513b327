import Testing

@testable import LanyardAdmin
@testable import LanyardRequestPath

/// Which method and path mean which call.
@Suite struct AdminCallTests {
    private static func read(_ method: RequestHead.Method, _ path: String) -> AdminCall.Parsed {
        Array(path.utf8).withUnsafeBufferPointer { AdminCall.read(method, $0) }
    }

    @Test(
        "each call has its method and path",
        arguments: [
            (.get, "/v1/status", .status(AdminPage())), (.head, "/v1/status", .status(AdminPage())),
            (.get, "/v1/users", .users(AdminPage())),
            (.post, "/v1/users", .addUser), (.get, "/v1/users/alice", .user("alice")),
            (.delete, "/v1/users/a.b_c-1", .remove("a.b_c-1")), (.post, "/v1/users/alice/login", .logIn("alice")),
            (.get, "/v1/users/bob/login/0123456789abcdef", .loginResult("bob", id: "0123456789abcdef")),
            (.post, "/v1/users/bob/login/0123456789abcdef", .completeLogin("bob", id: "0123456789abcdef")),
            (.delete, "/v1/users/bob/login/0123456789abcdef", .cancelLogin("bob", id: "0123456789abcdef")),
            (.post, "/v1/users/alice/activate", .activate("alice")),
            (.post, "/v1/users/alice/refresh", .refresh("alice")),
            (.post, "/v1/users/alice/logout", .logOut("alice")), (.post, "/v1/shutdown", .shutdown),
            (.post, "/v1/reload", .reload), (.get, "/v1/log-level", .logLevel),
            (.get, "/v1/log/orders", .log(route: "orders")),
            (.post, "/v1/log-level", .setLogLevel),
        ] as [(RequestHead.Method, String, AdminCall)])
    func calls(_ method: RequestHead.Method, _ path: String, _ call: AdminCall) {
        #expect(Self.read(method, path) == .call(call))
    }

    @Test("no state is changed by GET: another method is told which there are")
    func methods() {
        #expect(Self.read(.get, "/v1/users/alice/logout") == .methodNotAllowed(allow: "POST"))
        #expect(Self.read(.get, "/v1/shutdown") == .methodNotAllowed(allow: "POST"))
        #expect(Self.read(.get, "/v1/reload") == .methodNotAllowed(allow: "POST"))
        #expect(Self.read(.put, "/v1/users/alice") == .methodNotAllowed(allow: "GET, HEAD, DELETE"))
        #expect(Self.read(.delete, "/v1/users") == .methodNotAllowed(allow: "GET, HEAD, POST"))
        #expect(Self.read(.options, "/v1/status") == .methodNotAllowed(allow: "GET, HEAD"))
    }

    @Test(
        "other paths are none of ours",
        arguments: [
            "/", "/v1", "/v1/", "/v2/status", "/v1/status/", "/v1/users/alice/", "/v1/users/alice/fly", "//v1/status",
            "/v1/users/alice/login/0123456789abcdef/now", "/V1/status", "/v1/users/alice/api-keys/1/rename", "/metrics",
            "/v1/users/alice/functions", "/v1/identities/demo", "/v1/identities/demo/email-password/change",
        ])
    func noRoute(_ path: String) { #expect(Self.read(.get, path) == .unreadable(.noRoute)) }

    @Test(
        "what cannot be a name belongs to no user",
        arguments: [
            "/v1/users/", "/v1/users/%61lice", "/v1/users/a%2fb", "/v1/users/ä",
            "/v1/users/" + String(repeating: "a", count: 65),
        ])
    func noUser(_ path: String) { #expect(Self.read(.get, path) == .unreadable(.noSuchUser)) }
}
