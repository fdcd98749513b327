import LanyardFoundations
import LanyardIdentity
import LanyardSessionInterface
import LanyardSettings
import Logging
import TestSupport

/// An `OAuthIdentity` on a loop of its own, before a scripted server that records raw bytes.
final class OAuthBench: Sendable {
    /// What the server answers to one request; nil gives the response of a healthy server.
    typealias Script = @Sendable (_ request: RawMessage) -> RawResponse?

    let loop: EventLoop
    let server: RawServer
    let identity: OAuthIdentity
    let folder: TemporaryFolder
    private let client: IdentitySettings.OAuth

    /// - Parameters:
    ///   - certificateFile: a client with a certificate, which calls the aliases of RFC 8705 §5.
    ///   - change: changes the client's settings. The issuer is the scripted server.
    init(
        script: @escaping Script = { _ in nil }, tls: IdentityTLSContents = IdentityTLSContents(),
        proxy: IdentitySettings.Proxy = .none, certificateFile: String? = nil,
        logger: Logger = Logger(label: "test.oauth"),
        settings change: (inout IdentitySettings.OAuth, TemporaryFolder) throws -> Void = { _, _ in }
    ) throws {
        let own = Guarded("")
        server = try RawServer { request in
            script(request.message) ?? Self.healthy(request.message.target, own.withLock { $0 })
        }
        let issuer = "http://\(server.endpoint)"
        own.withLock { $0 = issuer }
        loop = try EventLoop(label: "test.oauth")
        loop.start()
        folder = try TemporaryFolder()
        var client = IdentitySettings.OAuth(clientID: "lan yard")
        client.issuer = issuer
        try change(&client, folder)
        self.client = client
        var settings = IdentitySettings(name: "corp", kind: .oauth(client))
        settings.proxy = proxy
        settings.certificateFile = certificateFile
        identity = OAuthIdentity(settings, oauth: client, tls: tls, version: "1.2.3", on: loop, logger: logger)
    }

    deinit {
        identity.stop()
        loop.stop()
    }

    var issuer: String { "http://\(server.endpoint)" }

    func login(_ login: UserSettings.Login, guarded: LoginGuard? = nil) async -> Result<Grant, IdentityError> {
        await self.login(.configured(login), guarded: guarded)
    }

    func login(_ credential: Credential, guarded: LoginGuard? = nil) async -> Result<Grant, IdentityError> {
        await settling { identity.login(credential, guarded: guarded, reply: $0) }
    }

    /// The login of the same client after a change of its configuration.
    func login(
        _ login: UserSettings.Login, guarded: LoginGuard, after change: (inout IdentitySettings.OAuth) -> Void
    ) async -> Result<Grant, IdentityError> {
        var client = client
        change(&client)
        let changed = OAuthIdentity(
            IdentitySettings(name: "corp", kind: .oauth(client)), oauth: client, version: "1.2.3", on: loop)
        defer { changed.stop() }
        return await settling { changed.login(.configured(login), guarded: guarded, reply: $0) }
    }

    func refresh(_ token: String = Tokens.refresh) async -> Result<Grant, IdentityError> {
        await settling { identity.refresh(Tokens.secret(token), reply: $0) }
    }

    /// A refresh whose body is held back by a gate.
    func refresh(_ token: String = Tokens.refresh, gate: SendGate) async -> Result<Grant, IdentityError> {
        await settling {
            identity.refresh(Tokens.secret(token), progress: CallProgress(.refresh, gate: gate), reply: $0)
        }
    }

    /// The fetch of a variant by a refresh token.
    func fetch(_ variant: TokenVariant) async -> Result<Grant, IdentityError> {
        await settling {
            identity.fetch(
                variant, by: .refreshToken(Tokens.secret(Tokens.refresh)), progress: CallProgress(.refresh), reply: $0)
        }
    }

    func revoke(_ token: String = Tokens.refresh) async -> Result<Void, IdentityError> {
        await settling { identity.revoke(Tokens.secret(token), reply: $0) }
    }

    func revoke(accessToken token: String) async -> Result<Void, IdentityError> {
        await settling { identity.revoke(accessToken: Tokens.secret(token), reply: $0) }
    }

    /// Time passes for each file that the call may read: a content counts when a second read has found the same.
    func settling<Value: Sendable>(
        _ call: (@escaping @Sendable (Result<Value, IdentityError>) -> Void) -> Void
    ) async -> Result<Value, IdentityError> {
        await withCheckedContinuation { done in
            call { done.resume(returning: $0) }
            for _ in 0..<4 { loop.pass(FileSettling.settlingDelay) }
        }
    }

    /// The bodies of requests to the token endpoint, as they came.
    var forms: [String] { server.requests.filter { $0.target == "/token" }.map(\.bodyText) }

    // MARK: A healthy server

    static func json(_ status: Int = 200, _ body: String, fields: [(String, String)] = []) -> RawResponse {
        .response(status, "X", fields: [("Content-Type", "application/json")] + fields, body: body).closing
    }

    static func metadata(_ issuer: String, more: String = "") -> RawResponse {
        json(
            200,
            #"{"issuer":"\#(issuer)","grant_types_supported":["implicit"],"token_endpoint":"\#(issuer)/token","#
                + #""revocation_endpoint":"\#(issuer)/revoke"\#(more)}"#)
    }

    private static func healthy(_ target: String, _ issuer: String) -> RawResponse {
        switch target {
        case "/.well-known/openid-configuration": metadata(issuer)
        case "/token":
            json(200, #"{"access_token":"a.b.c","token_type":"bearer","expires_in":20,"refresh_token":"r2"}"#)
        case "/revoke": .response(200, "OK", fields: [], body: "").closing
        default: json(404, "{}")
        }
    }
}
