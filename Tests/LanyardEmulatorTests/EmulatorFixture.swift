import Foundation
import LanyardEmulator
import TestSupport

/// A running emulator with one user, spoken to in raw HTTP.
struct EmulatorFixture {
    static let key = String(repeating: "k", count: 64)
    static let app = "/api/client/v2.0/app/demo-abcde"
    static let session = "/api/client/v2.0/auth/session"
    static let profile = "/api/client/v2.0/auth/profile"

    let emulator: Emulator
    var endpoint: RawEndpoint { .tcp(emulator.port) }

    init(_ change: (inout EmulatorOptions) -> Void = { _ in }) async throws {
        var options = EmulatorOptions()
        options.seed.users = [.init(email: "alice@example.com", password: "correct-horse")]
        options.seed.keys = [.init(name: "ci", key: Self.key)]
        change(&options)
        emulator = try await Emulator.start(options)
    }

    /// An emulator with the apps of a configuration.
    init(yaml: String, _ change: (inout EmulatorOptions) -> Void = { _ in }) async throws {
        var options = EmulatorOptions()
        options.seed = try SeedReader.parse(yaml)
        change(&options)
        emulator = try await Emulator.start(options)
    }

    /// One app, whose configuration is `body`, indented by four spaces.
    static func app(_ body: String) -> String { "apps:\n  - app_id: demo-abcde\n" + body }

    /// A call of the email/password provider: `register`, `confirm/send`, ….
    func email(_ path: String, _ body: String) async throws -> RawMessage {
        try await call("POST", Self.app + "/auth/providers/local-userpass/" + path, body)
    }

    func login(email: String, _ password: String) async throws -> RawMessage {
        try await login("local-userpass", #"{"username":"\#(email)","password":"\#(password)"}"#)
    }

    /// An anonymous login.
    func anonymous() async throws -> JSON { try await login("anon-user", "{}").json }

    func profile(_ token: String?) async throws -> JSON { try await call("GET", Self.profile, bearer: token).json }

    /// A call of a function; `arguments` are JSON.
    func function(_ name: String, _ arguments: String = "[]", bearer: String?) async throws -> RawMessage {
        let body = #"{"name":"\#(name)","arguments":\#(arguments)}"#
        return try await call("POST", Self.app + "/functions/call", bearer: bearer, body)
    }

    /// The newest mail to an email.
    func mail(_ email: String) async throws -> JSON {
        guard let mail = try await control("GET", "/mails?email=\(email)").array.last else {
            throw TestFailure("no mail to \(email)")
        }
        return mail
    }

    func call(_ method: String, _ path: String, bearer: String? = nil, _ body: String? = nil) async throws -> RawMessage
    {
        let fields = bearer.map { [("Authorization", "Bearer \($0)")] } ?? []
        return try await RawClient.ask(endpoint, method, path, fields: fields, body: body)
    }

    func login(_ provider: String = "local-userpass", _ body: String? = nil) async throws -> RawMessage {
        try await call(
            "POST", Self.app + "/auth/providers/\(provider)/login",
            body ?? #"{"username":"alice@example.com","password":"correct-horse"}"#)
    }

    /// Logs alice in.
    func tokens() async throws -> (access: String, refresh: String) {
        let response = try await login().json
        return (response["access_token"].string!, response["refresh_token"].string!)
    }

    func refresh(_ token: String) async throws -> RawMessage { try await call("POST", Self.session, bearer: token) }
    func protected(_ token: String?) async throws -> RawMessage { try await call("GET", "/protected/", bearer: token) }

    /// A control call that must succeed.
    @discardableResult
    func control(_ method: String, _ path: String, _ body: String? = nil) async throws -> JSON {
        let response = try await call(method, "/emulator" + path, body)
        guard (200..<300).contains(response.status) else {
            throw TestFailure("\(method) \(path): \(response.bodyText)")
        }
        return response.body.isEmpty ? .null : try response.json
    }

    /// Status, code and text of an error, in a shape that compares.
    static func error(_ response: RawMessage) throws -> [String] {
        let body = try response.json
        return [String(response.status), body["error_code"].string ?? "-", body["error"].string ?? "-"]
    }

    /// The claims of a JWT.
    static func claims(_ token: String) throws -> JSON {
        try JSON(Base64URL.decode(String(token.split(separator: ".")[1])))
    }
}

enum Base64URL {
    static func decode(_ text: String) throws -> [UInt8] {
        var plain = text.replacing("-", with: "+").replacing("_", with: "/")
        plain += String(repeating: "=", count: (4 - plain.utf8.count % 4) % 4)
        guard let data = Data(base64Encoded: plain) else { throw TestFailure("no base64url: \(text)") }
        return [UInt8](data)
    }
}
