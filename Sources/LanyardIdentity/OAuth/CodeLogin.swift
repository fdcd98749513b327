import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// A login by authorization code with PKCE over a redirect to this machine (RFC 6749 §4.1, RFC 7636, RFC 8252).
/// It retains itself until its end.
///
/// The command that has the browser hands the response's query here: state, nonce and verifier never leave this process. All state belongs
/// to the queue of the identity's loop.
final class CodeLogin: Watcher, BrowserLogin, @unchecked Sendable {
    /// Until the browser has come back.
    static let lifetime = Duration.seconds(600)
    /// For so long a code that could not be sent is tried again. Codes live for some minutes at least (RFC 6749 §4.1.2: ten at most).
    private static let exchangeTimeout = Duration.seconds(20)
    private static let exchangeRetryInterval = Duration.seconds(1)
    private static let missingEndpoint =
        "the server names no authorization_endpoint; use another login, or add endpoints.authorization"
    private static let missingPushEndpoint =
        "the server requires pushed authorization requests and names no endpoint for them; add endpoints.pushed_authorization"

    private static let noCall = IdentityError(.transient(retryAfter: nil), message: "no call")

    private let identity: OAuthIdentity
    private let redirectURI: String
    private let reports: BrowserLoginReports
    private let key = ProofKey()
    private let state = ProofKey.randomText()
    private let nonce = ProofKey.randomText()
    private let timer = Deadline()
    private var retained: CodeLogin?
    /// What the server said when the login began: that counts when the browser comes back. nil: the endpoints are configured.
    private var metadata: OAuthMetadata?
    /// What the pushed request has sent. A client's assertion in it is another one than that beside the code.
    private var pushedSecrets: [Secret] = []
    /// The browser may come back.
    private var isWaiting = false
    /// A code that could not be sent yet; `timer` tries it again.
    private var unsentCode: Secret?
    private var exchangeDeadline = Instant.never
    /// No report comes any more.
    private var isEnded = false

    init(at identity: OAuthIdentity, redirectURI: String, _ reports: BrowserLoginReports) {
        self.identity = identity
        self.redirectURI = redirectURI
        self.reports = reports
        super.init()
        timer.owner = self
        retained = self
    }

    func start() { identity.loop.post { [self] in begin() } }

    func cancel() {
        identity.loop.post { [self] in
            isEnded = true
            identity.loop.drop(timer)
            retained = nil
        }
    }

    override func due(_ deadline: Deadline) {
        identity.loop.assertIsCurrent()
        if let code = unsentCode.take() { return exchange(code) }
        let message = "the browser has not come back within 10 minutes; run lanyard login again"
        end(.failure(IdentityError(.credentialRefused, code: "expired", message: message)))
    }

    // MARK: The request

    private func begin() {
        identity.discovery.find(\.authorization, nil, by: identity.transport.newDeadline) { [self] found in
            guard !isEnded else { return }
            switch found {
            case .failure(let error): end(.failure(error))
            case .success(let found):
                metadata = found.metadata
                guard let url = found.endpoints.authorization else {
                    return end(.failure(.missingEndpoint(Self.missingEndpoint)))
                }
                let isPushed =
                    identity.settings.endpoints.pushedAuthorization != nil
                    || metadata?.requiresPushedAuthorization == true
                if isPushed { return push(to: url) }
                var form = FormBody()
                write(into: &form)
                for parameter in identity.settings.parameters { form.append(parameter.name, parameter.value) }
                form.append("client_id", identity.settings.clientID)
                prompt(url, form)
            }
        }
    }

    /// The parameters of the request, but for the client.
    private func write(into form: inout FormBody) {
        form.append("response_type", "code")
        form.append("redirect_uri", redirectURI)
        let scopes = identity.settings.scopes
        if !scopes.isEmpty { form.append("scope", scopes.joined(separator: " ")) }
        form.append("state", state)
        if isOpenID { form.append("nonce", nonce) }
        form.append("code_challenge", key.challenge)
        form.append("code_challenge_method", ProofKey.method)
    }

    /// Only then an ID token comes, whose nonce shows that it belongs to this login.
    private var isOpenID: Bool { identity.settings.scopes.contains("openid") }

    /// RFC 9126: the browser carries a reference alone.
    private func push(to url: String) {
        let began = identity.loop.now
        identity.post(to: \.pushedAuthorization, missing: Self.missingPushEndpoint) { [self] form in
            write(into: &form)
        } reply: { [self] outcome, proof in
            guard !isEnded else { return }
            pushedSecrets = (try? proof.get().sent) ?? []
            switch pushed(outcome, proof) {
            case .failure(let error): end(.failure(error))
            case .success(let pushed):
                var form = FormBody()
                form.append("client_id", identity.settings.clientID)
                form.append("request_uri", pushed.uri)
                prompt(url, form, addressEnd: pushed.lifetime.map { began + $0 })
            }
        }
    }

    private func pushed(
        _ outcome: Result<CurlResponse, CurlError>?, _ proof: Result<ClientProof, IdentityError>
    ) -> Result<PushedRequest, IdentityError> {
        classified(outcome, proof).flatMap { response in
            guard let pushed = response.body.withBytes({ PushedRequest($0) }) else {
                return .failure(OAuthVerdict.malformed(.login, response.status, "there is no request_uri", nil))
            }
            // The browser keeps it in its history. State and nonce it gets anyway.
            let secrets = (try? proof.get().sent)?.filter { $0 != state && $0 != nonce } ?? []
            guard !Array(pushed.uri.utf8).withUnsafeBytes({ SecretEcho(ofWhole: secrets).isIn($0) }) else {
                let reason = "its request_uri repeats a secret of the client"
                return .failure(OAuthVerdict.malformed(.login, response.status, reason, nil))
            }
            return .success(pushed)
        }
    }

    /// - Parameter addressEnd: until when the address can be opened; nil: as long as the login lasts. A user who has opened it in time may
    ///   need longer to log in, so the login does not end then.
    private func prompt(_ url: String, _ form: consuming FormBody, addressEnd: Instant? = nil) {
        let query = form.seal().withBytes { String(decoding: $0, as: UTF8.self) }
        isWaiting = true
        let now = identity.loop.now
        identity.loop.set(timer, at: now + Self.lifetime)
        let uri = url + (url.utf8.contains(UInt8(ascii: "?")) ? "&" : "?") + query
        reports.prompt(
            BrowserLoginPrompt(
                uri: uri, userCode: nil, completeURI: nil,
                expiresAt: .now + min(Self.lifetime, addressEnd.map { max(.zero, $0 - now) } ?? Self.lifetime),
                interval: .seconds(1)))
    }

    // MARK: The response

    func receive(query: Secret, reply: @escaping @Sendable (String?) -> Void) {
        identity.loop.post { [self] in
            guard isWaiting, !isEnded else { return reply("this login does not wait for the browser") }
            guard let response = AuthorizationResponse(query: query) else {
                return reply("the query is not that of an authorization response")
            }
            // Any page may send a browser here; only the server knows the state.
            guard response.hasState(state) else { return reply("its state is not that of this login") }
            isWaiting = false
            identity.loop.drop(timer)
            reply(nil)
            proceed(with: response)
        }
    }

    private func proceed(with response: AuthorizationResponse) {
        if let defect = issuerDefect(response) {
            var error = IdentityError(.credentialRefused, code: "wrong_issuer", message: defect)
            error.cause = .wrongIssuer
            return end(.failure(error))
        }
        if let error = response.error { return end(.failure(refusal(error, response))) }
        guard let code = response.code else {
            let message = "the browser came back without a code; run lanyard login again"
            return end(.failure(IdentityError(.credentialRefused, message: message)))
        }
        exchangeDeadline = identity.loop.now + Self.exchangeTimeout
        exchange(code)
    }

    /// The secrets of the login's own, and those of the request that the server has got already.
    private var ownSecrets: [Secret] { [state, nonce, key.verifier] + pushedSecrets }

    /// An error of the authorization endpoint (RFC 6749 §4.1.2.1): what it means is in the rows of the token endpoint.
    private func refusal(_ error: String, _ response: AuthorizationResponse) -> IdentityError {
        let secrets = ownSecrets + [response.code].compactMap(\.self)
        let words = response.errorDescription.flatMap { ServiceErrorText.shown($0, without: secrets) }
        guard error != "access_denied" else {
            var denied = DeviceLogin.denied(status: nil)
            denied.serviceText = words
            return denied
        }
        let isShown = !error.isEmpty && (OAuthErrorRow.isKnown(error) || !SecretEcho(of: secrets).isIn(name: error))
        let cause = OAuthVerdict.browserCause(error, profile: identity.settings.profile)
        var refusal = IdentityError(
            .credentialRefused, code: isShown ? error : nil,
            message: "the identity service has responded with \(isShown ? error : "an error") to the browser"
                + (cause == .request
                    ? "; check the client at the server, its redirect URIs and scopes"
                    : OAuthVerdict.meaning(
                        cause, OAuthVerdict.Subject(call: .login, profile: identity.settings.profile), 400)))
        refusal.serviceText = words
        refusal.cause = cause
        // The login has ended: who has begun it begins another one later.
        if [.user, .serviceFailure, .busy].contains(cause) { refusal.responsible = .user }
        return refusal
    }

    /// RFC 9207 §2.4: a response of another server would send the code of one server to another.
    private func issuerDefect(_ response: AuthorizationResponse) -> String? {
        guard let issuer = identity.settings.issuer else { return nil }
        if let stated = response.issuer {
            return stated == issuer
                ? nil : "the response to the browser names another issuer than \(issuer); run lanyard login again"
        }
        return metadata?.sendsIssuer == true
            ? "the response to the browser names no issuer, although the server says that each does" : nil
    }

    private func exchange(_ code: Secret) {
        identity.post(to: \.token, missing: Self.missingEndpoint, hiding: ownSecrets + [code]) {
            [key, redirectURI] form in
            form.append("grant_type", "authorization_code")
            form.append("code", code)
            form.append("redirect_uri", redirectURI)
            form.append("code_verifier", key.verifier)
        } reply: { [self] outcome, proof in
            if Self.isUnsent(outcome, proof), !isEnded, identity.loop.now < exchangeDeadline {
                unsentCode = code
                return identity.loop.set(timer, at: identity.loop.now + Self.exchangeRetryInterval)
            }
            switch granted(outcome, proof) {
            case .failure(let error): end(.failure(error))
            case .success(let grant) where isEnded: identity.discard(grant)
            case .success(let grant): end(.success(identity.hold(grant, of: .authorizationCode)))
            }
        }
    }

    /// The server has not seen the code, and may at another time.
    private static func isUnsent(
        _ outcome: Result<CurlResponse, CurlError>?, _ proof: Result<ClientProof, IdentityError>
    ) -> Bool {
        if case .failure(let error) = proof {
            return error.isRetryable && error.verdict != .clientRefused && error.responsible == nil
        }
        guard case .failure(let failure)? = outcome else { return false }
        return switch failure.kind {
        case .unreachable, .timedOut, .handshake, .broken: !failure.wasRequestSent
        case .untrusted, .certificateRefused, .prohibited, .tooLarge, .late, .stopped, .local: false
        }
    }

    private func granted(
        _ outcome: Result<CurlResponse, CurlError>?, _ proof: Result<ClientProof, IdentityError>
    ) -> Result<Grant, IdentityError> {
        proof.flatMap { proof in
            guard let outcome else { return .failure(Self.noCall) }
            let proof = proof.sending(ownSecrets)
            return identity.grant(from: outcome, proof).flatMap { checked($0, outcome, proof.sent) }
        }
    }

    /// The grant if the ID token belongs to this login. Else its tokens are revoked. An ID token that was not asked for names the
    /// account if it is valid.
    private func checked(
        _ grant: Grant, _ outcome: Result<CurlResponse, CurlError>, _ sent: [Secret]
    ) -> Result<Grant, IdentityError> {
        guard case .success(let response) = outcome else { return .success(grant) }
        let read = identity.idToken(
            in: response, hasTenants: metadata?.hasTenants ?? true,
            nonce: isOpenID ? nonce.withBytes { String(decoding: $0, as: UTF8.self) } : nil, without: sent)
        guard isOpenID, let defect = read.defect else {
            var grant = grant
            grant.name(by: read)
            return .success(grant)
        }
        identity.discard(grant)
        var error = IdentityError(
            .credentialRefused, status: response.status, code: "wrong_id_token",
            message: "the ID token of the login cannot be used: \(defect)")
        error.cause = .wrongIssuer
        return .failure(error)
    }

    private func classified(
        _ outcome: Result<CurlResponse, CurlError>?, _ proof: Result<ClientProof, IdentityError>
    ) -> Result<CurlResponse, IdentityError> {
        proof.flatMap { proof in
            guard let outcome else { return .failure(Self.noCall) }
            return identity.classified(.login, outcome, proof)
        }
    }

    private func end(_ result: Result<LoginMethod<Secret>, IdentityError>) {
        guard !isEnded else { return }
        isEnded = true
        identity.loop.drop(timer)
        retained = nil
        reports.end(result.mapError { $0.explained(.oauth, login: .authorizationCode) })
    }
}

/// What a pushed authorization request endpoint responds (RFC 9126 §2.2).
struct PushedRequest {
    private static let uriBytesMax = 2048
    private static let lifetimeMax: Int64 = 86_400

    private(set) var uri = ""
    /// Of the reference; nil: the server does not say.
    private(set) var lifetime: Duration?

    /// nil: there is no `request_uri`.
    init?(_ bytes: UnsafeRawBufferPointer) {
        var reader = JSONReader(bytes)
        do throws(JSONError) {
            guard try reader.next() == .objectStart else { return nil }
            while case .name(let name) = try reader.next() { try readMember(name, &reader, bytes) }
        } catch {
            // What came before the byte that is no JSON counts.
        }
        if uri.isEmpty { return nil }
    }

    private mutating func readMember(
        _ name: JSONReader.Text, _ reader: inout JSONReader, _ bytes: UnsafeRawBufferPointer
    ) throws(JSONError) {
        let (isURI, isLifetime) = (
            JSONText.matches(name, of: bytes, "request_uri"), JSONText.matches(name, of: bytes, "expires_in")
        )
        guard isURI || isLifetime else { return try reader.skipValue() }
        let token = try reader.next()
        switch token {
        case .objectStart, .arrayStart: try OAuthResponse.skipRest(of: &reader)
        case .string(let text) where isURI:
            var characters: [UInt8] = []
            JSONText.decode(text, of: bytes) { if characters.count <= Self.uriBytesMax { characters.append($0) } }
            guard 1...Self.uriBytesMax ~= characters.count, characters.allSatisfy({ 0x21..<0x7f ~= $0 }) else { return }
            uri = String(decoding: characters, as: UTF8.self)
        default:
            guard isLifetime, let seconds = OAuthResponse.integer(token, bytes), seconds > 0 else { return }
            lifetime = .seconds(min(seconds, Self.lifetimeMax))
        }
    }
}
