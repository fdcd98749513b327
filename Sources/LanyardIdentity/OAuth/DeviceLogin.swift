import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// A device login in progress (RFC 8628): performs what `DeviceAuthorization` decides. It retains itself until its end.
///
/// All state belongs to the queue of the identity's loop.
final class DeviceLogin: Watcher, BrowserLogin, @unchecked Sendable {
    private static let missingEndpoint =
        "the server names no device_authorization_endpoint; use another login, or add endpoints.device_authorization"

    private let identity: OAuthIdentity
    private let reports: BrowserLoginReports
    private let key = ProofKey()
    /// What the request for the codes has sent. A client's assertion in it is another one than those of the polls.
    private var codesSecrets: [Secret] = []
    private var polling: (authorization: DeviceAuthorization, deviceCode: Secret)?
    /// Of the next poll; unset while one is in progress.
    let timer = Deadline()
    private var retained: DeviceLogin?
    /// No report comes any more.
    private var isEnded = false

    init(at identity: OAuthIdentity, _ reports: BrowserLoginReports) {
        self.identity = identity
        self.reports = reports
        super.init()
        timer.owner = self
        retained = self
    }

    func start() { identity.loop.post { [self] in requestCodes() } }

    func cancel() {
        identity.loop.post { [self] in
            isEnded = true
            identity.loop.drop(timer)
            retained = nil
        }
    }

    func receive(query: Secret, reply: @escaping @Sendable (String?) -> Void) {
        reply("a device login gets nothing from the browser")
    }

    override func due(_ deadline: Deadline) {
        identity.loop.assertIsCurrent()
        guard let polling else { return }
        perform(polling.authorization.handleDue(at: identity.loop.now))
    }

    // MARK: The codes

    private func requestCodes() {
        let began = identity.loop.now
        identity.post(to: \.deviceAuthorization, missing: Self.missingEndpoint) { [identity, key] form in
            let scopes = identity.settings.scopes
            if !scopes.isEmpty { form.append("scope", scopes.joined(separator: " ")) }
            // A server without PKCE for this grant ignores them; some demand them (Keycloak).
            form.append("code_challenge", key.challenge)
            form.append("code_challenge_method", ProofKey.method)
        } reply: { [self] outcome, proof in
            guard !isEnded else { return }
            codesSecrets = (try? proof.get().sent) ?? []
            switch codes(outcome, proof) {
            case .failure(let error): end(.failure(error))
            case .success(let response): begin(response, began)
            }
        }
    }

    private func codes(
        _ outcome: Result<CurlResponse, CurlError>?, _ proof: Result<ClientProof, IdentityError>
    ) -> Result<DeviceResponse, IdentityError> {
        classified(outcome, proof).flatMap { response -> Result<DeviceResponse, IdentityError> in
            let read = response.body.withBytes { bytes in
                Result { () throws(DeviceResponse.ResponseError) in try DeviceResponse(bytes) }
            }
            return read.flatMap { $0.checked(without: (try? proof.get().sent) ?? []) }.mapError {
                OAuthVerdict.malformed(.login, response.status, $0.reason, nil).withRetryAfter(of: response)
            }
        }
    }

    private func classified(
        _ outcome: Result<CurlResponse, CurlError>?, _ proof: Result<ClientProof, IdentityError>
    ) -> Result<CurlResponse, IdentityError> {
        proof.flatMap { proof in
            guard let outcome else { return .failure(IdentityError(.transient(retryAfter: nil), message: "no call")) }
            return identity.classified(.login, outcome, proof)
        }
    }

    private func begin(_ response: DeviceResponse, _ began: Instant) {
        let now = identity.loop.now
        let authorization = DeviceAuthorization(lifetime: response.lifetime, interval: response.interval, now: began)
        polling = (authorization, response.deviceCode)
        reports.prompt(
            BrowserLoginPrompt(
                uri: response.verificationURI, userCode: response.userCode, completeURI: response.completeURI,
                expiresAt: .now + (authorization.expiresAt - now), interval: response.interval))
        perform(authorization.begin(at: now))
    }

    // MARK: Polls

    private func perform(_ step: DeviceAuthorization.Step) {
        guard !isEnded else { return }
        switch step {
        case .wait(let until): identity.loop.set(timer, at: until)
        case .poll: poll()
        case .end(.granted): break
        case .end(.refused(let error)): end(.failure(error))
        case .end(.expired): end(.failure(Self.expired))
        }
    }

    private func poll() {
        guard let deviceCode = polling?.deviceCode else { return }
        identity.post(
            to: \.token, missing: Self.missingEndpoint, hiding: codesSecrets + [deviceCode, key.verifier]
        ) { [key] form in
            form.append("grant_type", "urn:ietf:params:oauth:grant-type:device_code")
            form.append("device_code", deviceCode)
            form.append("code_verifier", key.verifier)
        } reply: { [self] outcome, proof in
            let (poll, grant) = self.result(outcome, proof)
            guard !isEnded else {
                if let grant { identity.discard(grant) }
                return
            }
            if let grant { return end(.success(identity.hold(grant, of: .device))) }
            guard let step = polling?.authorization.handle(poll, at: identity.loop.now) else { return }
            perform(step)
        }
    }

    /// - Returns: what the poll has shown, with the tokens of a grant.
    private func result(
        _ outcome: Result<CurlResponse, CurlError>?, _ proof: Result<ClientProof, IdentityError>
    ) -> (DeviceAuthorization.Poll, Grant?) {
        switch proof {
        // The client's own file is being replaced, or the server does not respond.
        case .failure(let error) where error.isRetryable && error.verdict != .clientRefused:
            return (.unreachable(retryAfter: error.retryAfter), nil)
        case .failure(let error): return (.refused(error), nil)
        case .success(let proof):
            let proof = proof.sending(codesSecrets)
            guard let outcome else { return (.unreachable(retryAfter: nil), nil) }
            if case .success(let response) = outcome, let poll = Self.pending(response, proof) { return (poll, nil) }
            switch identity.grant(from: outcome, proof) {
            case .success(var grant):
                // A token that is not valid is as good as none: then nothing names the account.
                if case .success(let response) = outcome {
                    grant.name(
                        by: identity.idToken(in: response, hasTenants: true, nonce: nil, without: proof.sent))
                }
                return (.granted, grant)
            case .failure(let error): return (poll(error, outcome), nil)
            }
        }
    }

    /// What the grant's own errors mean (RFC 8628 §3.5); nil: another response.
    private static func pending(_ response: CurlResponse, _ proof: ClientProof) -> DeviceAuthorization.Poll? {
        switch response.body.withBytes({ OAuthResponse($0, sent: proof.sent) }).deviceError {
        case "authorization_pending": .pending(retryAfter: response.retryAfter(now: .now))
        case "slow_down": .slowDown(retryAfter: response.retryAfter(now: .now))
        case "expired_token": .refused(expired)
        // The second one is Entra's.
        case "access_denied", "authorization_declined":
            .refused(denied(status: response.status).with(wordsOf: response, without: proof.sent))
        default: nil
        }
    }

    private func poll(
        _ error: IdentityError, _ outcome: Result<CurlResponse, CurlError>
    ) -> DeviceAuthorization.Poll {
        if case .success(let response) = outcome, endsLogin(response) {
            var refusal = error
            refusal.verdict = .credentialRefused
            refusal.message += ", which ends the login; check the client at the server, then run lanyard login again"
            return .refused(refusal)
        }
        return switch error.verdict {
        case .transient, .unknownOutcome, .credentialDoubted, .credentialDelayed:
            .unreachable(retryAfter: error.retryAfter)
        default: .refused(error)
        }
    }

    /// RFC 8628 §3.5: every error code but those that say to wait or to come later. An `error` that is no text is not of this protocol.
    private func endsLogin(_ response: CurlResponse) -> Bool {
        guard 200..<300 ~= response.status || 400..<500 ~= response.status,
            ![408, 425, 429].contains(response.status)
        else { return false }
        let decoded = response.body.withBytes { OAuthResponse($0) }
        return decoded.error(at: "/error") != nil
            && OAuthErrorRow.match(decoded, status: response.status, profile: identity.settings.profile) == nil
    }

    private static var expired: IdentityError {
        var error = IdentityError(
            .credentialRefused, code: "expired_token",
            message: "the code has expired before the user has confirmed it; run lanyard login again")
        error.responsible = .user
        return error
    }

    static func denied(status: Int?) -> IdentityError {
        var error = IdentityError(
            .credentialRefused, status: status, code: "access_denied",
            message: "the user, or the identity service, has denied the login; run lanyard login again to ask once more"
        )
        error.responsible = .user
        return error
    }

    private func end(_ result: Result<LoginMethod<Secret>, IdentityError>) {
        guard !isEnded else { return }
        isEnded = true
        identity.loop.drop(timer)
        retained = nil
        reports.end(result.mapError { $0.explained(.oauth, login: .device) })
    }
}
