import COpenSSL
import Foundation
import LanyardEmulator
import TestSupport

/// A running emulator with an OAuth side: the client `lanyard` with a secret, the public client `device`, and the user alice.
struct OAuthFixture {
    static let deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"
    static let exchangeGrant = "urn:ietf:params:oauth:grant-type:token-exchange"
    static let callback = "http://127.0.0.1:4711/callback"
    static let verifier = String(repeating: "v", count: 43)
    static var challenge: String { sha256(verifier) }

    let emulator: Emulator
    var endpoint: RawEndpoint { .tcp(emulator.port) }
    var issuer: String { "http://\(endpoint)/oauth" }

    init(_ change: (inout EmulatorOptions) throws -> Void = { _ in }) async throws {
        var options = EmulatorOptions()
        var settings = OAuthSettings()
        settings.clients = [.init(id: "lanyard", secret: "s3cret"), .init(id: "device")]
        settings.scopes = ["openid", "profile", "email", "api", "read"]
        options.oauth = settings
        options.seed.users = [.init(email: "alice@example.com", password: "correct-horse")]
        try change(&options)
        emulator = try await Emulator.start(options)
    }

    static func sha256(_ text: String) -> String {
        var digest = [UInt8](repeating: 0, count: 32)
        let bytes = Array(text.utf8)
        SHA256(bytes, bytes.count, &digest)
        return ForeignTokenSigner.encode(digest)
    }

    static func basic(_ id: String, _ secret: String) -> String {
        "Basic " + Data("\(id):\(secret)".utf8).base64EncodedString()
    }

    /// A form of `name=value` texts, which are encoded here.
    func post(
        _ path: String, _ form: [(String, String)], authorization: String? = nil
    ) async throws -> RawMessage {
        var kept = CharacterSet.alphanumerics
        kept.insert(charactersIn: "-._~")
        let body = form.map { "\($0.0)=\($0.1.addingPercentEncoding(withAllowedCharacters: kept) ?? "")" }
            .joined(separator: "&")
        return try await raw("POST", path, body, authorization: authorization)
    }

    func raw(
        _ method: String, _ path: String, _ body: String? = nil, authorization: String? = nil
    ) async throws -> RawMessage {
        var fields = authorization.map { [("Authorization", $0)] } ?? []
        if body != nil { fields.append(("Content-Type", "application/x-www-form-urlencoded")) }
        return try await RawClient.ask(endpoint, method, path, fields: fields, body: body)
    }

    /// A call of the token endpoint by the client `lanyard`.
    func token(_ grant: String, _ form: [(String, String)] = []) async throws -> RawMessage {
        try await post(
            "/oauth/token", [("grant_type", grant)] + form, authorization: Self.basic("lanyard", "s3cret"))
    }

    func password(_ form: [(String, String)] = []) async throws -> JSON {
        try await token("password", [("username", "alice@example.com"), ("password", "correct-horse")] + form).json
    }

    func refresh(_ token: String?, _ form: [(String, String)] = []) async throws -> RawMessage {
        try await self.token("refresh_token", [("refresh_token", token ?? "")] + form)
    }

    func protected(_ token: String?) async throws -> RawMessage {
        try await raw("GET", "/protected/x", authorization: token.map { "Bearer " + $0 })
    }

    @discardableResult
    func control(_ method: String, _ path: String, _ body: String? = nil) async throws -> JSON {
        let response = try await RawClient.ask(endpoint, method, "/emulator" + path, body: body)
        guard (200..<300).contains(response.status) else {
            throw TestFailure("\(method) \(path): \(response.status) \(response.bodyText)")
        }
        return response.body.isEmpty ? .null : try response.json
    }

    /// The target of an authorization request with these further fields; an empty one takes a field away.
    static func authorization(_ form: [String: String] = [:]) -> String {
        let fields = [
            "response_type": "code", "client_id": "lanyard", "redirect_uri": callback, "state": "s t",
            "code_challenge": challenge, "code_challenge_method": "S256", "scope": "openid api", "nonce": "n-1",
        ].merging(form) { $1 }.filter { !$0.value.isEmpty }
        var kept = CharacterSet.alphanumerics
        kept.insert(charactersIn: "-._~")
        return "/oauth/authorize?"
            + fields.map { "\($0.key)=\($0.value.addingPercentEncoding(withAllowedCharacters: kept) ?? "")" }
            .joined(separator: "&")
    }

    /// The id in a login page.
    static func pageID(_ page: RawMessage) throws -> String {
        guard let id = page.bodyText.firstMatch(of: /name="id" value="([^"]+)"/)?.1 else {
            throw TestFailure("no login page: \(page.status) \(page.bodyText)")
        }
        return String(id)
    }

    /// The query of a redirect.
    static func query(_ response: RawMessage) throws -> [String: String] {
        guard let location = response["location"], let items = URLComponents(string: location)?.queryItems else {
            throw TestFailure("no redirect: \(response.status) \(response.bodyText)")
        }
        return Dictionary(items.map { ($0.name, $0.value ?? "") }) { first, _ in first }
    }

    /// Logs alice in at the login page. Returns the query of the redirect.
    func browse(_ form: [String: String] = [:]) async throws -> [String: String] {
        let id = try Self.pageID(try await raw("GET", Self.authorization(form)))
        let done = try await post(
            "/oauth/authorize",
            [("id", id), ("username", "alice@example.com"), ("password", "correct-horse"), ("action", "approve")])
        guard done.status == 303 else { throw TestFailure("\(done.status): \(done.bodyText)") }
        return try Self.query(done)
    }

    func redeem(_ code: String?, _ form: [(String, String)] = []) async throws -> RawMessage {
        var fields = [("code", code ?? ""), ("redirect_uri", Self.callback), ("code_verifier", Self.verifier)]
        for (name, value) in form {
            fields.removeAll { $0.0 == name }
            fields.append((name, value))
        }
        return try await token("authorization_code", fields)
    }

    /// Status and error code, in a shape that compares.
    static func error(_ response: RawMessage) throws -> String {
        "\(response.status) \(try response.json["error"].string ?? "-")"
    }
}
