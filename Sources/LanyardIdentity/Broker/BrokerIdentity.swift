import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings
import Logging

/// Users whose sessions another Lanyard holds: each login asks its broker for the access token of a user there (fleet.md 2). There is no
/// refresh token, so the renewal of a session is its next login. A logout here ends nothing there.
///
/// All state belongs to the queue of the transport's loop, to which each call switches first.
package final class BrokerIdentity: TransportedIdentity {
    /// From the beginning of a call at an address to its response, if another address follows: 2 s more than a broker lets a request wait
    /// by default (`refresh.wait_max`). The last address has the time that is left.
    static let hangTimeout = Duration.seconds(7)
    /// Of a report, which waits for nothing there.
    static let reportTimeout = Duration.seconds(4)
    /// The other Lanyard hands out a refused token until it has begun to replace it, a moment after the report.
    static let repetitions: [Duration] = [.milliseconds(100), .milliseconds(300), .milliseconds(1000)]

    /// Time limits of its calls: an address that takes no connection within 2 s is given up.
    package static let defaultLimits: CurlLimits = {
        var limits = CurlLimits()
        limits.connectTimeout = .seconds(2)
        return limits
    }()

    /// One login or fetch.
    private struct Call {
        let key: BrokerTokens.Key
        let capability: Secret?
        let progress: CallProgress
        let deadline: Instant
        let reply: @Sendable (Result<Grant, IdentityError>) -> Void

        var secrets: [Secret] { [capability].compactMap(\.self) }
    }

    private typealias Address = IdentitySettings.OtherLanyard.Address

    private let name: String
    private let capabilityFile: String?
    package let fingerprint: IdentityFingerprint?
    private let fields: [String]
    private let files: FileReader
    let transport: IdentityTransport
    private let warning: SecretFileWarning
    private let logger: Logger
    private nonisolated(unsafe) var addresses: BrokerAddresses
    private nonisolated(unsafe) var tokens = BrokerTokens()

    /// Does nothing yet. The parameters are those of `AppServicesIdentity`.
    package init(
        _ identity: IdentitySettings, lanyard: IdentitySettings.OtherLanyard,
        tls: IdentityTLSContents = IdentityTLSContents(), version: String, by files: FileReader = .ofCredentials(),
        on loop: EventLoop, ownsLoop: Bool = false, limits: CurlLimits = BrokerIdentity.defaultLimits,
        warning: SecretFileWarning = SecretFileWarning(), logger: Logger = Logger(label: "lanyard.identity")
    ) {
        name = identity.name
        capabilityFile = lanyard.capabilityFile
        addresses = BrokerAddresses(lanyard.addresses)
        fields = ["Accept: application/json", "User-Agent: lanyard/\(version)"]
        self.files = files
        self.warning = warning
        self.logger = logger
        fingerprint = IdentityFingerprint(of: ["lanyard"] + lanyard.addresses.map(\.description))
        transport = IdentityTransport(
            of: identity, tls: tls, on: loop, ownsLoop: ownsLoop, limits: limits, logger: logger)
    }

    // MARK: Connecting

    /// Connects to the first address that takes a connection.
    package func connect(reply: @escaping @Sendable (Result<IdentityConnection, IdentityError>) -> Void) {
        transport.loop.post { [self] in
            connect(to: addresses.order(at: transport.loop.now)[...], by: transport.newDeadline, failure: nil, reply)
        }
    }

    private func connect(
        to rest: ArraySlice<Address>, by deadline: Instant, failure: IdentityError?,
        _ reply: @escaping @Sendable (Result<IdentityConnection, IdentityError>) -> Void
    ) {
        guard let address = rest.first else {
            return reply(.failure(failure ?? IdentityError(.transient(retryAfter: nil), message: "no address")))
        }
        var request = request(.get, at: address, "", by: deadline)
        request.onlyConnects = true
        transport.http.send(request) { [self] outcome in
            switch outcome {
            case .success(let response):
                reply(.success(response.connection ?? IdentityConnection(address: "", certificateEnd: nil)))
            case .failure(let error):
                let error = error.identityError(of: "the attempt to connect").explained(.lanyard)
                connect(to: rest.dropFirst(), by: deadline, failure: failure ?? error, reply)
            }
        }
    }

    /// The endpoint is configured.
    package func locate(reply: @escaping @Sendable (Result<Void, IdentityError>) -> Void) { reply(.success(())) }

    // MARK: Logins

    package func login(
        _ credential: Credential, guarded: LoginGuard?,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) { login(credential, guarded: guarded, progress: CallProgress(.login), reply: reply) }

    /// Nothing that is sent can be refused for good: no credential has a fingerprint here.
    package func login(
        _ credential: Credential, guarded: LoginGuard?, progress: CallProgress,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) { login(credential, for: .plain, progress, reply) }

    /// The other Lanyard gives the tokens that its own configuration names.
    package func fetch(
        _ variant: TokenVariant, by proof: VariantProof, progress: CallProgress,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) {
        switch proof {
        case .login(let credential, _): login(credential, for: variant, progress, reply)
        // A session of another identity cannot come here.
        case .refreshToken: refresh(SecretBuffer().seal(), reply: reply)
        }
    }

    private func login(
        _ credential: Credential, for variant: TokenVariant, _ progress: CallProgress,
        _ reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) {
        let reply: @Sendable (Result<Grant, IdentityError>) -> Void = { outcome in
            reply(outcome.mapError { $0.explained(.lanyard, credential) })
        }
        guard let user = Self.user(of: credential) else {
            return reply(.failure(.foreignKind(credential.provider, at: "an identity of kind lanyard", .lanyard)))
        }
        guard ConfiguredName.isValid(user) else {
            let message =
                "the user of a broker login is no name of 1 to 64 letters, digits, dots, dashes and underscores"
            return reply(.failure(IdentityError(.credentialUnavailable, message: message)))
        }
        transport.loop.post { [self] in
            let deadline = transport.deadline(of: progress)
            readCapability { [self] outcome in
                switch outcome {
                case .failure(let error): reply(.failure(error))
                case .success(let capability):
                    begin(
                        Call(
                            key: BrokerTokens.Key(user: user, variant: variant), capability: capability,
                            progress: progress, deadline: deadline, reply: reply))
                }
            }
        }
    }

    /// nil: a kind of another identity.
    private static func user(of credential: Credential) -> String? {
        guard credential.kind == .broker else { return nil }
        return switch credential {
        case .configured(let login): login.account
        case .given(let method): method.account
        }
    }

    private func readCapability(_ next: @escaping (Result<Secret?, IdentityError>) -> Void) {
        guard let path = capabilityFile else { return next(.success(nil)) }
        SettledRead.begin(path, by: files, on: transport.loop) { [self] outcome in
            switch outcome {
            case .failure(let error): next(.failure(Self.unreadable(path, error)))
            case .success(let content):
                if content.isWorldReadable { warning.warnOnce(path, identity: name, logger) }
                let secret = SecretText.token(in: content.secret)
                next(FieldSecret.error(of: secret).map { .failure(Self.unreadable(path, $0)) } ?? .success(secret))
            }
        }
    }

    private static func unreadable(_ path: String, _ error: SecretFile.ReadError) -> IdentityError {
        IdentityError(
            error.isTransient ? .credentialDelayed : .credentialUnavailable, message: error.message(path: path))
    }

    // MARK: One call: a report of the refused token if there is one, and the request for another

    private func begin(_ call: Call) {
        if let refused = call.progress.refusedToken { tokens.noteRefusal(of: refused, call.key) }
        guard let generation = tokens.refusedGeneration(call.key) else { return ask(call, hasReported: false) }
        report(generation, for: call) { [self] in ask(call, hasReported: true) }
    }

    /// - Parameters:
    ///   - hasReported: the other Lanyard was told of the refused token in this call.
    ///   - repetitions: when the request is made once more, if the token is still the refused one.
    private func ask(_ call: Call, hasReported: Bool, _ repetitions: ArraySlice<Duration> = repetitions[...]) {
        transport.loop.assertIsCurrent()
        let order = addresses.order(at: transport.loop.now)
        ask(call, at: order[...], failures: []) { [self] result in
            switch result {
            case .failure(let error): call.reply(.failure(error))
            case .success(let token):
                if tokens.accept(token.grant.accessToken, generation: token.generation, call.key) {
                    return call.reply(.success(token.grant))
                }
                guard hasReported else {
                    return report(token.generation, for: call) { [self] in ask(call, hasReported: true) }
                }
                guard let delay = repetitions.first, transport.loop.now + delay < call.deadline else {
                    return call.reply(.failure(Self.noNewerToken(call.key.user)))
                }
                Pause(of: delay, on: transport.loop) { [self] in
                    ask(call, hasReported: true, repetitions.dropFirst())
                }
            }
        }
    }

    private func ask(
        _ call: Call, at rest: ArraySlice<Address>, failures: [IdentityError],
        _ next: @escaping (Result<BrokerResponse.Token, IdentityError>) -> Void
    ) {
        guard let address = rest.first else { return next(.failure(Self.outcome(of: failures))) }
        var request = request(.get, at: address, "/v1/token?\(Self.query(call.key))", by: call.deadline, call)
        if rest.count > 1 { request.timeout = Self.hangTimeout }
        call.progress.wait(for: address.description)
        transport.http.send(request) { [self] outcome in
            let result = BrokerResponse.token(in: outcome, of: call.key.user, without: call.secrets, at: .now)
            if case .failure(let failure) = result, failure.leadsToNext {
                return ask(call, at: rest.dropFirst(), failures: failures + [failure.error], next)
            }
            addresses.recordResponse(of: address, at: transport.loop.now)
            next(result.mapError(\.error))
        }
    }

    /// What a Lanyard has said counts before a way that is broken, and the first address before the others.
    private static func outcome(of failures: [IdentityError]) -> IdentityError {
        failures.first(where: \.isServiceError) ?? failures.first(where: \.isAlarming) ?? failures.first
            ?? IdentityError(.transient(retryAfter: nil), message: "the identity has no address")
    }

    private static func noNewerToken(_ user: String) -> IdentityError {
        var error = IdentityError(
            .transient(retryAfter: nil),
            message:
                "the other Lanyard has no newer token of its user \(user) than the one that an upstream has refused")
        error.cause = .busy
        return error
    }

    /// Tells the other Lanyard that an upstream has refused its token. Whatever comes of it, the token is asked for next.
    private func report(_ generation: UInt64, for call: Call, _ next: @escaping () -> Void) {
        guard let body = Self.report(generation, call.key) else { return next() }
        report(body, for: call, at: addresses.order(at: transport.loop.now)[...], next)
    }

    private func report(
        _ body: Secret, for call: Call, at rest: ArraySlice<Address>, _ next: @escaping () -> Void
    ) {
        guard let address = rest.first else { return next() }
        var request = request(.post, at: address, "/v1/token/refused", by: call.deadline, call)
        request.fields.append("Content-Type: application/json")
        request.body = body
        request.timeout = Self.reportTimeout
        call.progress.wait(for: address.description)
        transport.http.send(request) { [self] outcome in
            guard case .success(let response) = outcome, response.status < 500 else {
                return report(body, for: call, at: rest.dropFirst(), next)
            }
            addresses.recordResponse(of: address, at: transport.loop.now)
            next()
        }
    }

    // MARK: Requests

    /// - Parameter call: whose it is; nil: one that only connects.
    private func request(
        _ method: CurlRequest.Method, at address: Address, _ target: String, by deadline: Instant, _ call: Call? = nil
    ) -> CurlRequest {
        let (base, socket): (String, String?) =
            switch address {
            case .unix(let path): ("http://localhost", path)
            case .url(let text): (text, nil)
            }
        var request = CurlRequest(
            method: method, url: base + target, fields: fields,
            kind: .login, deadline: deadline)
        request.unixSocket = socket
        request.cancellation = call?.progress.cancellation
        if let capability = call?.capability {
            request.secretFields = [.init(name: "Lanyard-Capability", value: capability)]
        }
        return request
    }

    private static func query(_ key: BrokerTokens.Key) -> String {
        var parts = [("user", key.user)]
        if let audience = key.variant.audience { parts.append(("audience", audience)) }
        parts += key.variant.resources.map { ("resource", $0) }
        if !key.variant.scopes.isEmpty { parts.append(("scope", key.variant.scopes.joined(separator: " "))) }
        return parts.map { "\($0.0)=\(encoded($0.1))" }.joined(separator: "&")
    }

    private static func encoded(_ text: String) -> String {
        var buffer = SecretBuffer(capacity: 3 * text.utf8.count + 1)
        FormBody.encode(text, into: &buffer)
        return buffer.withBytes { String(decoding: $0, as: UTF8.self) }
    }

    /// nil: a report has no words for a token of several audiences or resources.
    private static func report(_ generation: UInt64, _ key: BrokerTokens.Key) -> Secret? {
        // A broker takes a resource for an audience.
        let targets = [key.variant.audience].compactMap(\.self) + key.variant.resources
        guard targets.count <= 1 else { return nil }
        var json = JSONWriter(capacity: 256)
        json.beginObject()
        json.key("user")
        json.string(key.user)
        json.key("generation")
        json.number(generation)
        if let target = targets.first {
            json.key("audience")
            json.string(target)
        }
        if !key.variant.scopes.isEmpty {
            json.key("scope")
            json.string(key.variant.scopes.joined(separator: " "))
        }
        json.endObject()
        return json.bytes.withUnsafeBytes { Secret(copying: $0) }
    }

    // MARK: What such a session has not

    /// There are no refresh tokens: a session of another identity cannot come here.
    package func refresh(_ refreshToken: Secret, reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void) {
        reply(.failure(IdentityError(.sessionDead, message: "a broker gives no refresh tokens")))
    }

    /// The session is the other Lanyard's, where other programs use it.
    package func revoke(_ refreshToken: Secret, reply: @escaping @Sendable (Result<Void, IdentityError>) -> Void) {
        var error = IdentityError(.callRefused, message: "the session is another Lanyard's, and stays")
        error.isUnsupported = true
        reply(.failure(error))
    }
}

/// A wait of a call. Belongs to the loop's queue.
private final class Pause: Watcher, @unchecked Sendable {
    private let loop: EventLoop
    private let deadline = Deadline()
    private let act: () -> Void
    private var waiting: Pause?

    /// Begins at once. `act` is called once, on the loop's queue.
    @discardableResult
    init(of duration: Duration, on loop: EventLoop, act: @escaping () -> Void) {
        (self.loop, self.act) = (loop, act)
        super.init()
        deadline.owner = self
        waiting = self
        loop.set(deadline, at: loop.now + duration)
    }

    override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        waiting = nil
        act()
    }
}
