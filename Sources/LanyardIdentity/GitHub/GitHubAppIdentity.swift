import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings
import Logging

/// An installation of a GitHub App: each login asks for an installation access token, signed for by the app's key. There is no refresh
/// token, so the renewal of a session is its next login.
///
/// All state belongs to the queue of the transport's loop, to which each call switches first.
package final class GitHubAppIdentity: TransportedIdentity {
    /// GitHub refuses requests without a User-Agent, and asks for the version of its API.
    private static let fields = [
        "Content-Type: application/json", "Accept: application/vnd.github+json", "X-GitHub-Api-Version: 2022-11-28",
        "User-Agent: lanyard",
    ]
    /// GitHub takes `iat` of the past alone, and an `exp` of at most ten minutes in the future.
    private static let issuedAtMargin: Int64 = 60
    private static let assertionLifetime: Int64 = 360

    private let name: String
    private let app: IdentitySettings.GitHubApp
    package let fingerprint: IdentityFingerprint?
    private let files: FileReader
    let transport: IdentityTransport
    private let warning: SecretFileWarning
    private let logger: Logger
    private nonisolated(unsafe) var clock = ServiceClock()

    /// Does nothing yet. The parameters are those of `AppServicesIdentity`.
    package init(
        _ identity: IdentitySettings, app: IdentitySettings.GitHubApp,
        tls: IdentityTLSContents = IdentityTLSContents(), by files: FileReader = .ofCredentials(), on loop: EventLoop,
        ownsLoop: Bool = false, limits: CurlLimits = CurlLimits(), warning: SecretFileWarning = SecretFileWarning(),
        logger: Logger = Logger(label: "lanyard.identity")
    ) {
        name = identity.name
        self.app = app
        self.files = files
        self.warning = warning
        self.logger = logger
        fingerprint = IdentityFingerprint(of: ["github_app", app.appID, app.installationID, app.baseURL])
        transport = IdentityTransport(
            of: identity, tls: tls, on: loop, ownsLoop: ownsLoop, limits: limits, logger: logger)
    }

    package func connect(reply: @escaping @Sendable (Result<IdentityConnection, IdentityError>) -> Void) {
        transport.connect(to: app.baseURL) { reply($0.mapError { $0.identityError(of: "the attempt to connect") }) }
    }

    /// The endpoint is configured.
    package func locate(reply: @escaping @Sendable (Result<Void, IdentityError>) -> Void) { reply(.success(())) }

    private var tokenURL: String { "\(app.baseURL)/app/installations/\(app.installationID)/access_tokens" }

    package func login(
        _ credential: Credential, guarded: LoginGuard?,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) { login(credential, guarded: guarded, progress: CallProgress(.login), reply: reply) }

    package func login(
        _ credential: Credential, guarded: LoginGuard?, progress: CallProgress,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) {
        let reply: @Sendable (Result<Grant, IdentityError>) -> Void = { outcome in
            reply(outcome.mapError { $0.explained(.gitHubApp, login: .gitHubApp) })
        }
        let provider = credential.provider
        guard provider == LoginKind.gitHubApp.provider else {
            return reply(.failure(.foreignKind(provider, at: "a github_app identity", .gitHubApp)))
        }
        transport.loop.post { [self] in
            let deadline = transport.deadline(of: progress)
            SettledRead.begin(app.keyFile, by: files, on: transport.loop) { [self] outcome in
                switch outcome {
                case .failure(let error):
                    reply(
                        .failure(
                            IdentityError(
                                error.isTransient ? .credentialDelayed : .credentialUnavailable,
                                message: error.message(path: app.keyFile))))
                case .success(let content):
                    if content.isWorldReadable { warning.warnOnce(app.keyFile, identity: name, logger) }
                    login(content.secret, guarded, progress, deadline, reply)
                }
            }
        }
    }

    private func login(
        _ key: Secret, _ guarded: LoginGuard?, _ progress: CallProgress, _ deadline: Instant,
        _ reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) {
        let fingerprint = guarded.map { credentialFingerprint(key, hashKey: $0.key) }
        if let refused = guarded?.refused, fingerprint?.isSame(as: refused) == true {
            let next =
                refused.clientTries == nil
                ? "it is not tried again until the file changes"
                : "it is tried again 10 s, 1, 5 and 15 minutes after one another, and at once when the file changes"
            let message =
                "the key in \(app.keyFile) was refused before; \(next); correct the app at GitHub or the configuration, and "
                + "run lanyard login"
            return reply(
                .failure(IdentityError(.credentialRefused, code: refused.code, message: message, credential: refused)))
        }
        send(key, by: clock, progress, deadline) { [app] outcome in
            reply(
                outcome.map { grant in
                    var grant = grant
                    grant.account = .installation(app.installationID, of: app.appID)
                    return grant
                }.mapError { error in
                    var error = error
                    error.credential = fingerprint
                    return error
                })
        }
    }

    /// - Parameters:
    ///   - time: the clock by which the key signs.
    ///   - isRepeated: a refusal is not asked once more.
    private func send(
        _ key: Secret, by time: ServiceClock, isRepeated: Bool = false, _ progress: CallProgress, _ deadline: Instant,
        _ reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) {
        transport.loop.assertIsCurrent()
        let assertion: Secret
        do throws(SigningKey.KeyError) {
            assertion = try signedAssertion(key, at: time.time())
        } catch {
            let message = SecretFile.ReadError.unfit(error.message).message(path: app.keyFile)
            return reply(.failure(IdentityError(.credentialUnavailable, message: message)))
        }
        var request = CurlRequest(
            method: .post, url: tokenURL, fields: Self.fields, bearer: assertion, body: body,
            kind: progress.isSecond ? .second : .login, deadline: deadline)
        request.cancellation = progress.cancellation
        progress.wait(for: tokenURL)
        transport.http.send(request) { [self] outcome in
            clock.update(from: outcome)
            let result = GitHubAppResponse.grant(in: outcome, without: [assertion], now: .now)
            guard case .failure(let error) = result, error.verdict == .credentialRefused, !isRepeated,
                let corrected = time.corrected(by: outcome)
            else { return reply(result) }
            send(key, by: corrected, isRepeated: true, progress, deadline, reply)
        }
    }

    private func signedAssertion(_ key: Secret, at now: WallTime) throws(SigningKey.KeyError) -> Secret {
        let signer = try SigningKey(key, for: .rs256)
        var token = JSONWebToken(issuer: app.appID, subject: nil, audience: nil)
        token.issuedAtMargin = Self.issuedAtMargin
        token.lifetime = Self.assertionLifetime
        guard let text = token.signed(by: signer, .rs256, keyID: nil, at: now) else { throw .notAKey }
        return text
    }

    private var body: Secret {
        var json = JSONWriter(capacity: 256)
        json.beginObject()
        if !app.repositories.isEmpty {
            json.key("repositories")
            json.beginArray()
            for name in app.repositories { json.string(name) }
            json.endArray()
        }
        if !app.permissions.isEmpty {
            json.key("permissions")
            json.beginObject()
            for (name, access) in app.permissions {
                json.key(name)
                json.string(access.rawValue)
            }
            json.endObject()
        }
        json.endObject()
        return json.bytes.withUnsafeBytes { Secret(copying: $0) }
    }

    private func credentialFingerprint(_ key: Secret, hashKey: Secret) -> CredentialFingerprint {
        var buffer = SecretBuffer(capacity: 4096)
        buffer.append("github_app \(key.count) ")
        key.withBytes { buffer.append($0) }
        body.withBytes { buffer.append($0) }
        for byte in fingerprint?.bytes ?? [] { buffer.append(byte) }
        return CredentialFingerprint(bytes: buffer.withBytes { KeyedHash.sha256($0, key: hashKey) })
    }

    package var allowsSecondCall: Bool { true }

    /// There are no refresh tokens: a session of another identity cannot come here.
    package func refresh(_ refreshToken: Secret, reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void) {
        reply(.failure(IdentityError(.sessionDead, message: "a GitHub App has no refresh tokens")))
    }

    /// A session of another identity cannot come here.
    package func revoke(_ refreshToken: Secret, reply: @escaping @Sendable (Result<Void, IdentityError>) -> Void) {
        var error = IdentityError(.callRefused, message: "a GitHub App has no refresh tokens")
        error.isUnsupported = true
        reply(.failure(error))
    }

    package var revokesAccessTokens: Bool { true }

    /// The token shows by itself which one is meant (GitHub's REST API, "Revoke an installation access token").
    package func revoke(accessToken: Secret, reply: @escaping @Sendable (Result<Void, IdentityError>) -> Void) {
        transport.loop.post { [self] in
            let progress = transport.watch.begin(.revocation)
            let url = "\(app.baseURL)/installation/token"
            progress.wait(for: url)
            let request = CurlRequest(
                method: .delete, url: url, fields: Self.fields, bearer: accessToken, deadline: transport.newDeadline)
            transport.http.send(request) { [self] outcome in
                clock.update(from: outcome)
                transport.watch.end(progress)
                reply(GitHubAppResponse.revocation(in: outcome, of: accessToken, now: .now))
            }
        }
    }
}
