import Foundation
import LanyardFoundations
import LanyardIdentity
import LanyardSessionInterface
import LanyardSettings
import TestSupport

/// An `AppServicesIdentity` on a loop of its own, before a scripted server that records raw bytes.
package final class IdentityBench: Sendable {
    /// What the server answers to one request, by method and path; nil gives the response of a healthy service.
    package typealias Script = @Sendable (_ request: RawMessage, _ path: String) -> RawResponse?

    package static let appPath = "/api/client/v2.0/app/demo-abcde"
    package static let sessionPath = "/api/client/v2.0/auth/session"

    package let loop: EventLoop
    package let server: RawServer
    package let identity: AppServicesIdentity
    package let folder: TemporaryFolder
    package let log = LogRecorder()

    /// - Parameters:
    ///   - baseURL: the scripted server's own address unless given.
    ///   - tls: what the identity's TLS files hold.
    ///   - change: changes the identity's settings before its client is made.
    package init(
        baseURL: String? = nil, limits: CurlLimits = CurlLimits(), tls: IdentityTLSContents = IdentityTLSContents(),
        script: @escaping Script = { _, _ in nil },
        settings change: (inout IdentitySettings) -> Void = { _ in }
    ) throws {
        let own = Guarded("")
        server = try RawServer { request in
            let path = request.message.target
            return script(request.message, path) ?? Self.healthyResponse(path, hostname: own.withLock { $0 })
        }
        let origin = "http://\(server.endpoint)"
        own.withLock { $0 = origin }
        loop = try EventLoop(label: "test.identity")
        loop.start()
        folder = try TemporaryFolder()
        let app = IdentitySettings.AppServices(appID: "demo-abcde", baseURL: baseURL ?? origin)
        var settings = IdentitySettings(name: "demo", kind: .appServices(app))
        change(&settings)
        identity = AppServicesIdentity(
            settings, app: app, tls: tls, version: "1.2.3", on: loop, limits: limits, logger: log.logger)
    }

    deinit {
        identity.stop()
        loop.stop()
    }

    package var origin: String { "http://\(server.endpoint)" }

    package func login(_ login: UserSettings.Login = .anonymous) async -> Result<Grant, IdentityError> {
        await self.login(.configured(login), guarded: nil)
    }

    package func login(_ credential: Credential, guarded: LoginGuard?) async -> Result<Grant, IdentityError> {
        await withCheckedContinuation { done in
            identity.login(credential, guarded: guarded) { done.resume(returning: $0) }
            // The file of a credential counts when a second read has found the same.
            if case .configured(let login) = credential, login.secretFile != nil {
                loop.pass(FileSettling.settlingDelay)
            }
        }
    }

    package func refresh(_ token: String = Tokens.refresh) async -> Result<Grant, IdentityError> {
        let secret = Tokens.secret(token)
        return await withCheckedContinuation { done in identity.refresh(secret) { done.resume(returning: $0) } }
    }

    package func revoke(_ token: String = Tokens.refresh) async -> Result<Void, IdentityError> {
        let secret = Tokens.secret(token)
        return await withCheckedContinuation { done in identity.revoke(secret) { done.resume(returning: $0) } }
    }

    // MARK: A healthy service

    package static func json(_ status: Int = 200, _ body: String, fields: [(String, String)] = []) -> RawResponse {
        .response(status, "X", fields: [("Content-Type", "application/json")] + fields, body: body).closing
    }

    package static func location(_ hostname: String) -> RawResponse {
        json(200, #"{"deployment_model":"LOCAL","location":"US-VA","hostname":"\#(hostname)","ws_hostname":"ws://x"}"#)
    }

    private static func healthyResponse(_ path: String, hostname: String) -> RawResponse {
        switch path {
        case appPath + "/location": location(hostname)
        case sessionPath: json(201, #"{"access_token":"\#(Tokens.access())"}"#)
        case _ where path.hasSuffix("/login"):
            json(
                200,
                #"""
                {"access_token":"\#(Tokens.access())","refresh_token":"\#(Tokens.refresh)",\#
                "user_id":"0123456789abcdef01234567","device_id":"000000000000000000000000"}
                """#
            )
        default: json(404, "{}")
        }
    }
}
