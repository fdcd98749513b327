import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings
import Logging

/// An App Services application with the calls that a session needs: location (app-services.md 1), login (app-services.md 2), refresh and
/// logout (app-services.md 3).
///
/// All state belongs to the queue of `loop`, to which each call switches first. Before the first call neither libcurl nor the
/// network is used.
package final class AppServicesIdentity: TransportedIdentity {
    /// A call that needs the service's origin.
    private struct PendingCall {
        let need: Need
        let progress: CallProgress?
        let proceed: (ServiceOrigin, _ isRemembered: Bool) -> Void
        let fail: (IdentityError) -> Void
    }

    /// What a call wants of the location.
    enum Need {
        /// The former origin serves if the location does not come now.
        case known
        /// Only what the location response says from now on.
        case confirmed
    }

    private static let redirectsMax = 3
    /// On every call but the location request, which has no content (app-services.md 6.1).
    static let fields = ["Content-Type: application/json;charset=utf-8", "Accept: application/json"]
    static let client = "/api/client/v2.0"

    private let name: String
    let appID: String
    private let baseURL: String
    let device: AppServicesDevice
    /// Of kind, app and base URL: another one is another service.
    package let fingerprint: IdentityFingerprint?
    package var accounts: (any AccountService)? { self }
    private let files: FileReader
    let transport: IdentityTransport
    private let warning: SecretFileWarning
    private let logger: Logger

    private nonisolated(unsafe) var place = AppServicesPlace()
    /// Of what refused refresh tokens are remembered by.
    private let refusalKey = KeyedHash.newKey()
    /// Calls that wait for the location request, which is then in flight.
    private nonisolated(unsafe) var waiting: [PendingCall] = []
    private let locationRequest: PlaceRequest<ServiceOrigin>
    /// The service's clock, by which a JWT has expired or not.
    nonisolated(unsafe) var clock = ServiceClock()

    /// Does nothing yet.
    ///
    /// - Parameters:
    ///   - tls: what the files of `settings` hold.
    ///   - version: Lanyard's version, for `options.device`.
    ///   - loop: of its calls. libcurl works on it, as fast as the service sends.
    ///   - ownsLoop: the loop is of this identity alone: `start` starts it, and it ends with the identity.
    ///   - limits: time limits; shorter ones are for tests.
    package init(
        _ settings: IdentitySettings, app: IdentitySettings.AppServices,
        tls: IdentityTLSContents = IdentityTLSContents(), version: String,
        by files: FileReader = .ofCredentials(), on loop: EventLoop,
        ownsLoop: Bool = false, limits: CurlLimits = CurlLimits(), warning: SecretFileWarning = SecretFileWarning(),
        logger: Logger = Logger(label: "lanyard.identity")
    ) {
        self.files = files
        self.warning = warning
        self.logger = logger
        name = settings.name
        appID = app.appID
        baseURL = app.baseURL
        fingerprint = IdentityFingerprint(of: [
            "app_services", app.appID, ServiceOrigin(base: app.baseURL)?.text ?? app.baseURL,
        ])
        device = AppServicesDevice(appID: app.appID, version: version)
        transport = IdentityTransport(
            of: settings, tls: tls, on: loop, ownsLoop: ownsLoop, limits: limits, logger: logger)
        locationRequest = PlaceRequest(over: transport)
    }

    var loop: EventLoop { transport.loop }
    var http: CurlMulti { transport.http }

    /// Connects to the configured origin.
    package func connect(reply: @escaping @Sendable (Result<IdentityConnection, IdentityError>) -> Void) {
        transport.connect(to: ServiceOrigin(baseURL)?.text ?? baseURL) {
            reply($0.mapError { AppServicesVerdict.error(.connection, $0) })
        }
    }

    /// Asks for the service's origin, as the first call of a session does. Fails if the service does not know the app.
    package func locate(reply: @escaping @Sendable (Result<Void, IdentityError>) -> Void) {
        begin(fail: { reply(.failure($0)) }) { _, _, _ in reply(.success(())) }
    }

    // MARK: The three calls

    /// The credential is read first, so that a missing file is reported although the service is down.
    package func login(
        _ credential: Credential, guarded: LoginGuard?,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) { login(credential, guarded: guarded, progress: CallProgress(.login), reply: reply) }

    package func login(
        _ credential: Credential, guarded: LoginGuard?, progress: CallProgress,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) {
        let reply: @Sendable (Result<Grant, IdentityError>) -> Void = { outcome in
            reply(outcome.mapError { $0.explained(.appServices, credential) })
        }
        loop.post { [self] in
            guard case .configured(let settings) = credential, let path = settings.secretFile else {
                return login(credential, nil, guarded, progress, reply)
            }
            SettledRead.begin(path, by: files, on: loop) { [self] in login(credential, $0, guarded, progress, reply) }
        }
    }

    private func login(
        _ credential: Credential, _ content: FileSnapshot.Outcome?, _ guarded: LoginGuard?, _ progress: CallProgress,
        _ reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) {
        switch AppServicesLogin.prepare(credential, content: content, guarded: guarded, at: fingerprint, device: device)
        {
        case .failure(let error): reply(.failure(error))
        case .success(let prepared):
            if let path = prepared.worldReadable { warning.warnOnce(path, identity: name, logger) }
            if let path = prepared.path, let finding = prepared.finding {
                warning.warnOnce(path, finding, identity: name, logger)
            }
            login(prepared, progress, reply)
        }
    }

    private func login(
        _ prepared: AppServicesLogin, _ progress: CallProgress,
        _ reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) {
        let path = "\(Self.client)/app/\(appID)/auth/providers/\(prepared.provider)/login"
        perform(
            OriginCall(
                kind: .login, secrets: prepared.secrets, credential: prepared.fingerprint?.bytes,
                login: prepared.kind, progress: progress,
                request: { [self] origin, deadline in
                    // Only now: the location response has shown the service's clock.
                    if let error = prepared.expiryError(at: clock.time()) { return .failure(error) }
                    return .success(
                        CurlRequest(
                            method: .post, url: origin.text + path, fields: Self.fields, body: prepared.body,
                            kind: .login, deadline: deadline))
                },
                fail: { reply(.failure($0)) },
                reply: { outcome in
                    reply(
                        prepared.annotated(
                            outcome.flatMap { AppServicesGrant.make(.login, $0, secrets: prepared.secrets) }))
                }))
    }

    /// One session call with the refresh token.
    package func refresh(_ refreshToken: Secret, reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void) {
        refresh(refreshToken, progress: CallProgress(.refresh), reply: reply)
    }

    package func refresh(
        _ refreshToken: Secret, progress: CallProgress,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) {
        let reply: @Sendable (Result<Grant, IdentityError>) -> Void = { outcome in
            reply(outcome.mapError { $0.explained(.appServices) })
        }
        perform(
            OriginCall(
                kind: .refresh, secrets: [refreshToken], credential: mark(of: refreshToken), progress: progress,
                request: { .success(Self.session(.post, refreshToken, $0, $1)) },
                fail: { reply(.failure($0)) },
                reply: { outcome in
                    reply(outcome.flatMap { AppServicesGrant.make(.refresh, $0, secrets: [refreshToken]) })
                }))
    }

    package var allowsSecondCall: Bool { true }

    /// A session that the service no longer knows gives `sessionDead`, which counts as revoked.
    package func revoke(_ refreshToken: Secret, reply: @escaping @Sendable (Result<Void, IdentityError>) -> Void) {
        let progress = transport.watch.begin(.revocation)
        let end: @Sendable (Result<Void, IdentityError>) -> Void = { [watch = transport.watch] result in
            watch.end(progress)
            reply(result)
        }
        perform(
            OriginCall(
                kind: .logout, secrets: [refreshToken], credential: mark(of: refreshToken), progress: progress,
                request: { .success(Self.session(.delete, refreshToken, $0, $1)) },
                fail: { end(.failure($0)) },
                reply: { end($0.flatMap { AppServicesVerdict.revocation($0) }) }))
    }

    private func mark(of refreshToken: Secret) -> [UInt8] {
        refreshToken.withBytes { KeyedHash.sha256($0, key: refusalKey) }
    }

    private static func session(
        _ method: CurlRequest.Method, _ token: Secret, _ origin: ServiceOrigin, _ deadline: Instant
    ) -> CurlRequest {
        CurlRequest(
            method: method, url: origin.text + client + "/auth/session", fields: fields, bearer: token,
            deadline: deadline)
    }

    /// Switches to the loop, asks for the service's origin if necessary, and continues. The time limit covers all of it.
    ///
    /// - Parameters:
    ///   - need: of the location.
    ///   - progress: is told when the location is waited for.
    ///   - deadline: of a call that has begun; nil: it begins now.
    ///   - proceed: gets the origin, the deadline, and whether the origin was known before.
    func begin(
        _ progress: CallProgress? = nil, _ need: Need = .known, by deadline: Instant? = nil,
        fail: @escaping @Sendable (IdentityError) -> Void,
        proceed: @escaping @Sendable (ServiceOrigin, Instant, _ isRemembered: Bool) -> Void
    ) {
        loop.post { [self] in findOrigin(progress, need, by: deadline, fail: fail, proceed: proceed) }
    }

    /// The same on the loop's queue, at once if the origin is known.
    private func findOrigin(
        _ progress: CallProgress?, _ need: Need, by deadline: Instant? = nil,
        fail: @escaping @Sendable (IdentityError) -> Void,
        proceed: @escaping @Sendable (ServiceOrigin, Instant, _ isRemembered: Bool) -> Void
    ) {
        loop.assertIsCurrent()
        let deadline = deadline ?? transport.newDeadline
        if need == .known, let origin = place.served(at: loop.now) { return proceed(origin, deadline, true) }
        progress?.wait(for: locationURL)
        waiting.append(
            PendingCall(need: need, progress: progress, proceed: { proceed($0, deadline, $1) }, fail: fail))
        // A call that the former origin can serve does not wait for a silent service as long as for its response.
        if waiting.count == 1 { locate(place.origin == nil ? deadline : min(deadline, transport.shortDeadline)) }
        locationRequest.repeatAfter(progress?.repeatsPlaceAfter)
    }

    /// A call of a session: sent to the service's origin, and perhaps once more to another one.
    private struct OriginCall: Sendable {
        let kind: AppServicesVerdict.Call
        let secrets: [Secret]
        /// What tells the credential from others; nil: unknown.
        var credential: [UInt8]?
        var login: AppServicesLoginKind?
        var progress: CallProgress?
        /// A login or a refresh: the others are not bound by the time of attempts.
        var isOfSession: Bool { kind == .login || kind == .refresh }
        /// The request at an origin, or why it is not sent.
        let request: @Sendable (ServiceOrigin, Instant) -> Result<CurlRequest, IdentityError>
        /// The call was not made, or its outcome is not confirmed.
        let fail: @Sendable (IdentityError) -> Void
        let reply: @Sendable (Result<CurlResponse, IdentityError>) -> Void
    }

    private func perform(_ call: OriginCall) {
        loop.post { [self] in
            let refusal = call.credential.flatMap { place.unconfirmed[$0] }
            findOrigin(
                call.progress, refusal == nil ? .known : .confirmed,
                by: call.isOfSession ? call.progress.map(transport.deadline(of:)) : nil,
                fail: { error in call.fail((refusal.map { error.leavingUnconfirmed($0) } ?? error).ofPlace) },
                proceed: { [self] in send(call, to: $0, $1, isRemembered: $2) })
        }
    }

    private func send(_ call: OriginCall, to origin: ServiceOrigin, _ deadline: Instant, isRemembered: Bool) {
        loop.assertIsCurrent()
        var request: CurlRequest
        switch call.request(origin, deadline) {
        case .failure(let error): return call.fail(error)
        case .success(let made): request = made
        }
        request.cancellation = call.progress?.cancellation
        if call.progress?.isSecond == true { request.kind = .second }
        call.progress?.wait(for: request.url)
        http.send(request) { [self] outcome in
            clock.update(from: outcome)
            noteLocation(outcome)
            let result = classified(call.kind, outcome, call.secrets, call.login)
            guard isRemembered, case .failure(let error) = result, error.verdict.isForGood else {
                return call.reply(result)
            }
            confirm(error, of: call, from: origin, deadline)
        }
    }

    /// Asks for the location once more before a session counts as dead, or a credential or app as refused, by what a remembered origin
    /// said. A service that has moved may have left another one there, without its sessions.
    private func confirm(
        _ error: IdentityError, of call: OriginCall, from former: ServiceOrigin, _ deadline: Instant
    ) {
        begin(
            call.progress, place.origin == former ? .confirmed : .known, by: deadline,
            fail: { [self] locationError in
                if let credential = call.credential { place.noteUnconfirmed(credential, error.message) }
                call.fail(locationError.leavingUnconfirmed(error.message).ofPlace)
            },
            proceed: { [self] origin, deadline, _ in
                guard origin != former else { return call.reply(.failure(error)) }
                send(call, to: origin, deadline, isRemembered: false)
            })
    }

    private func classified(
        _ call: AppServicesVerdict.Call, _ outcome: Result<CurlResponse, CurlError>, _ secrets: [Secret] = [],
        _ kind: AppServicesLoginKind? = nil
    ) -> Result<CurlResponse, IdentityError> {
        switch outcome {
        case .failure(let failure): .failure(AppServicesVerdict.error(call, failure))
        case .success(let response):
            AppServicesVerdict.error(call, response, secrets: secrets, appID: appID, login: kind, now: .now).map {
                .failure($0)
            } ?? .success(response)
        }
    }

    // MARK: Location

    private var locationURL: String {
        (ServiceOrigin(base: baseURL)?.text ?? baseURL) + "\(Self.client)/app/\(appID)/location"
    }

    /// Sends the location request for all waiting calls. Its failure fails only those that no former origin can serve.
    private func locate(_ deadline: Instant) {
        guard let base = ServiceOrigin(base: baseURL) else {
            let message = "base_url is not an http or https URL"
            return handleLocation(.failure(IdentityError(.transient(retryAfter: nil), message: message)))
        }
        let owner = PlaceRequest<ServiceOrigin>.Owner(
            ask: { [self] attempt, reply in
                var request = CurlRequest(
                    method: .get, url: locationURL, fields: ["Accept: application/json"], kind: attempt.kind,
                    deadline: attempt.deadline)
                request.cancellation = attempt.cancellation
                askLocation(request, base, hops: 0, reply)
            },
            isAwaited: { [self] in waiting.contains { $0.progress?.cancellation.isCancelled != true } },
            finish: { [self] in handleLocation($0) })
        locationRequest.begin(by: deadline, owner)
    }

    private func askLocation(
        _ request: CurlRequest, _ base: ServiceOrigin, hops: Int,
        _ reply: @escaping (Result<ServiceOrigin, IdentityError>) -> Void
    ) {
        http.send(request) { [self] outcome in
            clock.update(from: outcome)
            if case .success(let response) = outcome, [301, 302, 307, 308].contains(response.status),
                hops < Self.redirectsMax,
                let location = response.fields.location,
                let url = ServiceOrigin.redirect(from: request.url, to: location)
            {
                var next = request
                next.url = url
                for call in waiting { call.progress?.wait(for: url) }
                return askLocation(next, base, hops: hops + 1, reply)
            }
            reply(
                classified(.location, outcome).flatMap { response in
                    Self.origin(in: response, base).mapError { $0.withRetryAfter(of: response) }
                })
        }
    }

    private static func origin(in response: CurlResponse, _ base: ServiceOrigin) -> Result<ServiceOrigin, IdentityError>
    {
        let malformed = { AppServicesVerdict.malformed(.location, response.status, $0) }
        guard let decoded = response.body.withBytes({ try? TokenReader.read($0) }), let hostname = decoded.hostname
        else {
            return .failure(malformed("it names no hostname"))
        }
        // An empty hostname means the base URL (app-services.md 1.2).
        guard !hostname.isEmpty else { return .success(base) }
        guard let origin = ServiceOrigin(hostname) else {
            return .failure(malformed("its hostname is not an http or https origin"))
        }
        guard origin.isTLS || !base.isTLS else {
            return .failure(malformed("it leads from https to http, which would expose the tokens"))
        }
        // A service behind a proxy knows the host that clients use, but not the path that the proxy removes.
        return .success(base.hasSameOrigin(as: origin) ? base : origin)
    }

    private func handleLocation(_ outcome: Result<ServiceOrigin, IdentityError>) {
        let pendingCalls = waiting
        waiting = []
        switch outcome {
        case .failure(let error):
            place.recordFailure(at: loop.now)
            for pendingCall in pendingCalls {
                if pendingCall.need == .known, let origin = place.origin {
                    pendingCall.proceed(origin, true)
                } else {
                    pendingCall.fail(error)
                }
            }
        case .success(let found):
            place = AppServicesPlace(found)
            logger.info(
                "The identity service has named its origin.",
                metadata: ["event": "identity.located", "identity": "\(name)", "origin": "\(found.text)"])
            for pendingCall in pendingCalls { pendingCall.proceed(found, false) }
        }
    }

    /// Doubts the origin if the service may have moved since the location response: it redirects, it does not know the call or the app,
    /// it has gone, or it fails at an origin that is not the base URL. The next call then asks for the location.
    func noteLocation(_ outcome: Result<CurlResponse, CurlError>) {
        loop.assertIsCurrent()
        let isElsewhere = place.origin?.text != ServiceOrigin(base: baseURL)?.text
        let isWrong =
            switch outcome {
            case .success(let response):
                300..<400 ~= response.status || [404, 410, 421].contains(response.status)
                    || isElsewhere && 500..<600 ~= response.status
            case .failure: isElsewhere
            }
        if isWrong { place.doubt() }
    }
}
