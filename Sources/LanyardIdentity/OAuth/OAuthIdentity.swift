import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings
import Logging

/// A client of an OAuth 2.0 authorization server: token calls of logins and refreshes (RFC 6749 §4, §6), and revocation (RFC 7009).
///
/// Where the endpoints are is asked for by the first call that needs one. All state belongs to the queue of `loop`. Before the first call
/// neither libcurl nor the network is used.
package final class OAuthIdentity: TransportedIdentity, MetadataOwner {
    let name: String
    let settings: IdentitySettings.OAuth
    /// Of kind, server and client: another one is another service.
    package let fingerprint: IdentityFingerprint?
    /// Of the head of each request; those with a form have its type as well.
    private let fields: [String]
    private let files: FileReader
    let transport: IdentityTransport
    private let warning: SecretFileWarning
    let logger: Logger
    let discovery: OAuthDiscovery
    /// Of what refused refresh tokens are remembered by.
    private let refusalKey = KeyedHash.newKey()
    /// Of the client; nil: none.
    private let certificateFile: String?
    /// What logins in a browser have obtained, until the session of each takes it.
    let obtainedGrants = Guarded<[UInt64: Grant]>([:])
    nonisolated(unsafe) var binding = CertificateBinding()
    nonisolated(unsafe) private var fieldMemory = ClientFieldMemory()
    /// What the server wants in each form besides the client's proof.
    var wanted: WantedClientFields { fieldMemory.wanted }
    /// What the server does with the scopes that a session's login has granted, in a refresh.
    private enum GrantedScopes {
        case unknown, taken
        /// It wants none: it has refused them, and has then given all of them without being asked.
        case unwanted
    }
    nonisolated(unsafe) private var grantedScopes = GrantedScopes.unknown
    nonisolated(unsafe) private var scopelessSessions = ScopelessSessions()
    /// The service's clock, by which assertions begin and end.
    var clock: ServiceClock {
        get { discovery.clock }
        set { discovery.clock = newValue }
    }

    /// Does nothing yet. The parameters are those of `AppServicesIdentity`.
    package init(
        _ identity: IdentitySettings, oauth settings: IdentitySettings.OAuth,
        tls: IdentityTLSContents = IdentityTLSContents(), version: String, by files: FileReader = .ofCredentials(),
        on loop: EventLoop,
        ownsLoop: Bool = false, limits: CurlLimits = CurlLimits(), warning: SecretFileWarning = SecretFileWarning(),
        logger: Logger = Logger(label: "lanyard.identity")
    ) {
        name = identity.name
        self.settings = settings
        fields = ["Accept: application/json", "User-Agent: lanyard/\(version)"]
        self.files = files
        self.warning = warning
        self.logger = logger
        certificateFile = identity.certificateFile
        fingerprint = IdentityFingerprint(of: ["oauth2", settings.clientID] + Self.servers(settings))
        transport = IdentityTransport(
            of: identity, tls: tls, on: loop, ownsLoop: ownsLoop, limits: limits, logger: logger)
        discovery = OAuthDiscovery(
            of: identity.name, settings, usesCertificate: identity.certificateFile != nil, fields: fields,
            over: transport, logger: logger)
    }

    /// What tells the server from others: the issuer, and the endpoints that get tokens or codes elsewhere than it says. A server has
    /// several issuers at one origin, so a token endpoint counts with its path.
    private static func servers(_ settings: IdentitySettings.OAuth) -> [String] {
        let (issuer, endpoints) = (settings.issuer, settings.endpoints)
        var servers = [issuer ?? endpoints.token ?? ""]
        if issuer != nil, let token = endpoints.token { servers.append("token \(token)") }
        let own = [issuer, endpoints.token].compactMap(\.self).compactMap(ServiceOrigin.init(base:))
        let others = [
            ("revocation", endpoints.revocation), ("device", endpoints.deviceAuthorization),
            ("authorization", endpoints.authorization), ("pushed", endpoints.pushedAuthorization),
        ]
        for (name, endpoint) in others {
            guard let endpoint, let origin = ServiceOrigin(base: endpoint), !own.contains(where: origin.hasSameOrigin)
            else { continue }
            servers.append("\(name) \(endpoint)")
        }
        return servers
    }

    package var browserLogins: (any BrowserLoginService)? { self }

    /// The scopes and `params`. A reload that changes them makes another service, and the present tokens are those of the former request.
    package var tokenRequest: IdentityFingerprint? {
        let fields = settings.parameters.map { "\($0.name)=\($0.value)" }
        return IdentityFingerprint(of: [settings.scopes.joined(separator: " ")] + fields)
    }

    var loop: EventLoop { transport.loop }
    var http: CurlMulti { transport.http }
    var watch: CallWatch { transport.watch }

    /// Connects to the issuer, or to the token endpoint.
    package func connect(reply: @escaping @Sendable (Result<IdentityConnection, IdentityError>) -> Void) {
        transport.connect(to: settings.endpoints.token ?? settings.issuerURL ?? settings.issuer ?? "") {
            reply($0.mapError { OAuthVerdict.error(.connection, $0) })
        }
    }

    /// Asks for the endpoints, as the first call of a session does.
    package func locate(reply: @escaping @Sendable (Result<Void, IdentityError>) -> Void) {
        loop.post { [self] in discovery.find(.known, nil, by: transport.newDeadline) { reply($0.map { _ in }) } }
    }

    // MARK: The three calls

    package func login(
        _ credential: Credential, guarded: LoginGuard?,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) { login(credential, guarded: guarded, progress: CallProgress(.login), reply: reply) }

    /// The files are read first, so that a missing one is reported although the service is down.
    package func login(
        _ credential: Credential, guarded: LoginGuard?, progress: CallProgress,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) { login(credential, guarded, for: .plain, progress, reply) }

    /// A fetch is the call of a login or a refresh with the fields of the variant (RFC 8707 §2.2).
    package func fetch(
        _ variant: TokenVariant, by proof: VariantProof, progress: CallProgress,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) {
        switch proof {
        case .refreshToken(let token, let scopes): refresh(token, for: variant, scopes, progress, reply)
        case .login(let credential, let guarded): login(credential, guarded, for: variant, progress, reply)
        }
    }

    private func login(
        _ credential: Credential, _ guarded: LoginGuard?, for variant: TokenVariant, _ progress: CallProgress,
        _ reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) {
        let reply: @Sendable (Result<Grant, IdentityError>) -> Void = { outcome in
            reply(outcome.mapError { $0.explained(.oauth, credential) })
        }
        if case .given(let method) = credential, method.kind.isInteractive {
            return reply(obtained(method))
        }
        loop.post { [self] in
            let deadline = transport.deadline(of: progress)
            let paths: [String] = if case .configured(let login) = credential { login.files } else { [] }
            read(paths + [proofFile].compactMap(\.self) + fieldFiles) { [self] contents in
                // A client whose own file cannot be read is reported when its proof is made.
                let proof = proofFile.flatMap { try? contents[$0]?.get().secret }
                let prepared = OAuthLogin.prepare(
                    credential, contents: contents, guarded: guarded, at: fingerprint, proof: proof,
                    request: requestMark(contents))
                switch prepared {
                case .failure(let error): reply(.failure(error))
                case .success(let login):
                    warn(login)
                    let scopes = variant.scopes.isEmpty ? settings.scopes : variant.scopes
                    let call = TokenCall(
                        kind: .login, variant: variant,
                        credential: login.fingerprint?.bytes, contents: contents,
                        keepsRefreshToken: login.keepsRefreshToken, isClientNamed: login.isClientNamed,
                        isGrantSigned: login.isSigned, isMachineGrant: login.isMachineGrant,
                        isSpendable: !login.isRepeatable,
                        scopes: login.hasScopeField ? scopes : [], requestedScopes: scopes,
                        account: { [self] response in account(of: login, response) }, progress: progress,
                        deadline: deadline,
                        write: { [self] form, found throws(IdentityError) in
                            try login.write(into: &form, assertionContext(found, scopes))
                        }, reply: { reply(login.annotated($0)) })
                    send(call)
                }
            }
        }
    }

    package func refresh(_ refreshToken: Secret, reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void) {
        refresh(refreshToken, progress: CallProgress(.refresh), reply: reply)
    }

    package func refresh(
        _ refreshToken: Secret, progress: CallProgress,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) { refresh(refreshToken, for: .plain, [], progress, reply) }

    package func refresh(
        _ refreshToken: Secret, scopes: [String], progress: CallProgress,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) { refresh(refreshToken, for: .plain, scopes, progress, reply) }

    /// RFC 6749 §6. Without `scope`, which then stays what it is, unless the variant names other ones or the session asks for those that
    /// its login has granted.
    private func refresh(
        _ refreshToken: Secret, for variant: TokenVariant, _ granted: [String], _ progress: CallProgress,
        _ reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) {
        let reply: @Sendable (Result<Grant, IdentityError>) -> Void = { outcome in
            reply(outcome.mapError { $0.explained(.oauth) })
        }
        loop.post { [self] in
            let deadline = transport.deadline(of: progress)
            read([settings.authentication.file].compactMap(\.self) + fieldFiles) { [self] contents in
                let credential = mark(of: refreshToken)
                let isScopeless = grantedScopes == .unwanted || scopelessSessions.contains(credential)
                let granted = isScopeless ? [] : granted
                send(
                    TokenCall(
                        kind: .refresh, variant: variant, credential: credential,
                        contents: contents,
                        keepsRefreshToken: true, isSpendable: settings.refreshTokens.rotation != .none,
                        scopes: variant.scopes.isEmpty ? granted : variant.scopes,
                        hasGrantedScopes: variant.scopes.isEmpty && !granted.isEmpty, refreshToken: refreshToken,
                        progress: progress,
                        deadline: deadline,
                        write: { form, _ in
                            form.append("grant_type", "refresh_token")
                            form.append("refresh_token", refreshToken)
                        }, reply: reply))
            }
        }
    }

    /// What a refresh token is remembered by.
    private func mark(of refreshToken: Secret) -> [UInt8] {
        refreshToken.withBytes { KeyedHash.sha256($0, key: refusalKey) }
    }

    package var revokesAccessTokens: Bool { true }
    package var asksBeforeSending: Bool { true }
    /// The client's assertion of another program may be one that the server takes once.
    package var allowsSecondCall: Bool { if case .assertion = settings.authentication { false } else { true } }

    package func revoke(_ refreshToken: Secret, reply: @escaping @Sendable (Result<Void, IdentityError>) -> Void) {
        revoke(refreshToken, hint: "refresh_token", reply)
    }

    package func revoke(accessToken: Secret, reply: @escaping @Sendable (Result<Void, IdentityError>) -> Void) {
        revoke(accessToken, hint: "access_token", reply)
    }

    /// RFC 7009. Without a revocation endpoint the error is one of `isUnsupported`.
    private func revoke(
        _ token: Secret, hint: String, _ reply: @escaping @Sendable (Result<Void, IdentityError>) -> Void
    ) {
        loop.post { [self] in
            let deadline = transport.newDeadline
            let progress = watch.begin(.revocation)
            let done: @Sendable (Result<Void, IdentityError>) -> Void = { [self] in
                watch.end(progress)
                reply($0)
            }
            read([settings.authentication.file].compactMap(\.self) + fieldFiles) { [self] contents in
                discovery.find(\.revocation, progress, by: deadline) { [self] found in
                    switch found {
                    case .failure(let error):
                        done(.failure(error.without([token] + contents.values.compactMap { try? $0.get().secret })))
                    case .success(let found): revoke(token, hint, at: found, contents, progress, deadline, done)
                    }
                }
            }
        }
    }

    private func revoke(
        _ token: Secret, _ hint: String, at found: FoundEndpoints, _ contents: [String: FileSnapshot.Outcome],
        _ progress: CallProgress, _ deadline: Instant, after former: ServiceClock? = nil,
        trying trial: WantedClientFields? = nil, _ reply: @escaping @Sendable (Result<Void, IdentityError>) -> Void
    ) {
        guard let url = found.endpoints.revocation else {
            let message = "the server names no revocation_endpoint; if it has one, add endpoints.revocation"
            var error = IdentityError(.callRefused, message: message)
            error.isUnsupported = true
            return reply(.failure(error))
        }
        progress.wait(for: url)
        let signed = clock
        let made = request(to: url, of: found, contents, deadline, isRevocation: true, trying: trial) { form in
            form.append("token", token)
            form.append("token_type_hint", hint)
        }
        switch made {
        case .failure(let error): reply(.failure(error))
        case .success((let request, let proof)):
            http.send(request) { [self] outcome in
                clock.update(from: outcome)
                if let more = updateFieldMemory(from: outcome, trying: trial, by: proof, .init(isRevocation: true)) {
                    return revoke(
                        token, hint, at: found, contents, progress, deadline, after: former, trying: more, reply)
                }
                if mayBeClientsTime(outcome), let first = correctClock(by: outcome, signed: signed, after: former) {
                    return revoke(
                        token, hint, at: found, contents, progress, deadline, after: first, trying: trial, reply)
                }
                discovery.findMoved(\.revocation, of: found, outcome, progress, by: deadline) { [self] moved in
                    if let moved { return revoke(token, hint, at: moved, contents, progress, deadline, reply) }
                    reply(
                        classified(.revocation, outcome, proof).flatMap {
                            OAuthVerdict.revocation($0, sent: proof.sent)
                        })
                }
            }
        }
    }

    // MARK: Token calls

    /// A login or a refresh whose files have been read.
    private struct TokenCall {
        let kind: OAuthVerdict.Call
        let variant: TokenVariant
        /// What tells the credential from others; nil: unknown.
        let credential: [UInt8]?
        let contents: [String: FileSnapshot.Outcome]
        let keepsRefreshToken: Bool
        var isClientNamed = true
        /// The grant has a time that Lanyard has signed.
        var isGrantSigned = false
        /// See `OAuthVerdict.Subject`.
        var isMachineGrant = false
        /// See `ClientFieldMemory.Call`.
        let isSpendable: Bool
        /// That the form asks for.
        var scopes: [String] = []
        /// They are those that the session's login has granted. A server that does not take them is asked once more without.
        var hasGrantedScopes = false
        /// Those that the server has refused, in the call without them.
        var refusedScopes: Set<String> = []
        /// That a login asks for, in the form or in its assertion.
        var requestedScopes: [String] = []
        /// Of a refresh.
        var refreshToken: Secret?
        /// The secrets of earlier requests of the call. A response to a later one may repeat them, too.
        var sentBefore: [Secret] = []
        /// Of a login, by its successful response; nil: unknown.
        var account: (CurlResponse) -> AccountFingerprint? = { _ in nil }
        let progress: CallProgress
        let deadline: Instant
        /// Writes the fields of the grant for the token endpoint.
        let write: (inout FormBody, FoundEndpoints) throws(IdentityError) -> Void
        let reply: (Result<Grant, IdentityError>) -> Void

        /// What the call is about to send. Metadata that are asked for before it must not show it.
        var secrets: [Secret] {
            contents.values.compactMap { try? $0.get().secret } + [refreshToken].compactMap(\.self)
        }

        /// What a response without `scope` has granted (RFC 6749 §5.1); nil: unknown.
        var impliedScopes: Set<String>? { OAuthScopes.requested(requestedScopes) }

        /// The same call after a request with this proof.
        func repeated(after proof: ClientProof) -> TokenCall {
            var call = self
            call.sentBefore = proof.sent
            return call
        }

        /// The same call, which asks for no scopes.
        var withoutScopes: TokenCall {
            var call = self
            (call.scopes, call.hasGrantedScopes, call.refusedScopes) = ([], false, Set(scopes))
            return call
        }
    }

    private func send(_ call: TokenCall) {
        let refusal = discovery.unconfirmedRefusal(of: call.credential)
        discovery.find(refusal == nil ? .known : .confirmed, call.progress, by: call.deadline) { [self] found in
            switch found {
            case .failure(let error):
                let error = error.without(call.secrets)
                call.reply(.failure((refusal.map { error.leavingUnconfirmed($0) } ?? error).ofPlace))
            case .success(let found): send(call, to: found)
            }
        }
    }

    /// - Parameters:
    ///   - former: the clock that a refusal was for, perhaps. The call is repeated with the service's; if that does not help, the former
    ///     one counts again.
    ///   - trial: see `ClientFieldMemory.update`.
    private func send(
        _ call: TokenCall, to found: FoundEndpoints, after former: ServiceClock? = nil,
        trying trial: WantedClientFields? = nil
    ) {
        let url = found.endpoints.token ?? ""
        let signed = clock
        let made = request(
            to: url, of: found, call.contents, call.deadline, isClientNamed: call.isClientNamed, trying: trial
        ) { form throws(IdentityError) in
            try call.write(&form, found)
            if !call.scopes.isEmpty { form.append("scope", call.scopes.joined(separator: " ")) }
            for parameter in parameters(for: call.variant) { form.append(parameter.name, parameter.value) }
        }
        switch made {
        case .failure(let error): call.reply(.failure(error))
        case .success((var request, let proof)):
            request.kind = call.progress.isSecond ? .second : call.kind == .login ? .login : .session
            request.gate = call.progress.gate
            request.cancellation = call.progress.cancellation
            call.progress.wait(for: url)
            let proof = proof.sending(call.sentBefore)
            let certificate = http.certificate
            http.send(request) { [self] outcome in
                clock.update(from: outcome)
                discovery.noteResponse(outcome)
                if let more = updateFieldMemory(
                    from: outcome, trying: trial, by: proof, .init(isSpendable: call.isSpendable))
                {
                    return send(call.repeated(after: proof), to: found, after: former, trying: more)
                }
                let result = Self.withoutEarlyRefusal(
                    of: outcome,
                    classified(
                        call.kind, outcome, proof, isFetch: call.variant != .plain,
                        isMachineGrant: call.isMachineGrant))
                if case .failure(let error) = result, mayBeTime(error, of: call),
                    let first = correctClock(by: outcome, signed: signed, after: former)
                {
                    return send(call.repeated(after: proof), to: found, after: first, trying: trial)
                }
                if call.hasGrantedScopes, case .failure(let error) = result, mayRefuseScopes(error) {
                    return send(call.repeated(after: proof).withoutScopes, to: found, trying: trial)
                }
                if found.areRemembered, case .failure(let error) = result, error.verdict.isForGood {
                    return confirm(error, of: call, from: url)
                }
                // Told again in minutes, or when a file changes: then perhaps by the server at its present place.
                if case .failure(let error) = result, error.verdict == .clientRefused { discovery.doubt() }
                call.reply(result.flatMap { grant(in: $0, of: call, proof.sent, certificate) })
            }
        }
    }

    /// The grant in a successful response. No text of it has a secret of the call.
    private func grant(
        in response: CurlResponse, of call: TokenCall, _ sent: [Secret], _ certificate: Secret?
    ) -> Result<Grant, IdentityError> {
        OAuthGrant.make(
            call.kind, response, keepsRefreshToken: call.keepsRefreshToken, lifetime: settings.tokenLifetime,
            profile: settings.profile, without: sent
        ).mapError { error in
            var error = error.withRetryAfter(of: response)
            error.refusesRefresh = error.refusesRefresh && call.variant == .plain
            return error
        }.map { grant in
            binding.check(
                grant.accessToken, with: certificate, identity: name, logger,
                without: SecretEcho(of: sent, and: response))
            var grant = grant
            grant.account = call.account(response)
            grant.scopes = OAuthScopes.stated(
                in: grant, response, asked: call.scopes + call.requestedScopes + settings.scopes, without: sent)
            noteGrantedScopes(call, grant.scopes, grant.refreshToken)
            grant.scopes = grant.scopes ?? call.impliedScopes
            return VariantAudience.checked(
                grant, for: call.variant, without: SecretEcho(of: sent, and: response))
        }
    }

    /// What a login proves of its account: a configured name, else its ID token, else its assertion (refresh-outcomes.md 11). An access
    /// token is for the upstream, and says nothing here.
    private func account(of login: OAuthLogin, _ response: CurlResponse) -> AccountFingerprint? {
        if let named = login.namedAccount(clientID: settings.clientID) { return named }
        // Nothing of it is shown.
        let (token, defect) = idToken(in: response, hasTenants: true, nonce: nil, without: [])
        return (defect == nil ? token?.account : nil) ?? login.assertedAccount
    }

    /// A response that came before the refresh token was sent may refuse the client. It says nothing of the token.
    private static func withoutEarlyRefusal(
        of outcome: Result<CurlResponse, CurlError>, _ result: Result<CurlResponse, IdentityError>
    ) -> Result<CurlResponse, IdentityError> {
        guard case .success(let response) = outcome, response.isEarly, case .failure(var error) = result,
            [.sessionDead, .credentialRefused, .credentialDoubted].contains(error.verdict)
        else { return result }
        error.verdict = .transient(retryAfter: error.retryAfter)
        error.message += ", before the refresh token was sent"
        return .failure(error)
    }

    /// Records what the server wants in the form besides: see `ClientFieldMemory.update`.
    func updateFieldMemory(
        from outcome: Result<CurlResponse, CurlError>, trying trial: WantedClientFields?, by proof: ClientProof,
        _ call: ClientFieldMemory.Call
    ) -> WantedClientFields? {
        fieldMemory.update(from: outcome, trying: trial, by: proof, of: settings, call)
    }

    /// A refresh was refused that has asked for the session's granted scopes, perhaps for these. A call without them is the one that
    /// RFC 6749 §6 has. `invalid_request` may say so as well, unless the server has taken them before.
    private func mayRefuseScopes(_ error: IdentityError) -> Bool {
        guard error.verdict == .clientRefused else { return false }
        return switch error.code {
        case "invalid_scope", "insufficient_scope": true
        case "invalid_request": grantedScopes == .unknown
        default: false
        }
    }

    /// Learns from a successful refresh whether the server wants the granted scopes. A session that has fewer of them says nothing: there
    /// they were refused because they are more than it has. Without `scope` in the response that may be so, too, and the session alone
    /// is asked for none from then on.
    private func noteGrantedScopes(_ call: TokenCall, _ stated: Set<String>?, _ successor: Secret?) {
        if call.hasGrantedScopes { grantedScopes = .taken }
        guard call.refreshToken != nil else { return }
        if !call.refusedScopes.isEmpty, stated?.isSuperset(of: call.refusedScopes) ?? true {
            if stated != nil, grantedScopes == .unknown { grantedScopes = .unwanted }
            scopelessSessions.insert(call.credential)
        }
        if scopelessSessions.contains(call.credential) { scopelessSessions.insert(successor.map(mark)) }
    }

    /// A signature whose times are wrong may get such a refusal. A password or a refresh token has no time of Lanyard's: refused, it is
    /// not sent again.
    private func mayBeTime(_ error: IdentityError, of call: TokenCall) -> Bool {
        guard [.credentialRefused, .credentialDoubted, .clientRefused].contains(error.verdict) else { return false }
        if call.isGrantSigned { return true }
        guard case .privateKeyJWT = settings.authentication else { return false }
        return error.code != "invalid_grant"
    }

    /// Whether the response refuses the client, whose own signature may have wrong times. A code or a token in the call has none.
    func mayBeClientsTime(_ outcome: Result<CurlResponse, CurlError>) -> Bool {
        guard case .privateKeyJWT = settings.authentication, case .success(let response) = outcome,
            400..<500 ~= response.status
        else { return false }
        let decoded = response.body.withBytes { OAuthResponse($0) }
        return OAuthErrorRow.match(decoded, status: response.status, profile: settings.profile) == .client
    }

    /// A refused signature may have wrong times: the call is repeated once by the service's clock. If that does not help, the former clock
    /// counts again, unless another call has learned more since.
    ///
    /// - Parameters:
    ///   - signed: the clock by which the call was signed. Another call may have corrected it since.
    ///   - former: the clock of the first call; nil: this was the first.
    /// - Returns: the clock of the first call, for the repetition; nil: there is none.
    func correctClock(
        by outcome: Result<CurlResponse, CurlError>, signed: ServiceClock, after former: ServiceClock?
    ) -> ServiceClock? {
        if let former {
            if clock == signed { clock = former }
            return nil
        }
        guard let corrected = signed.corrected(by: outcome) else { return nil }
        if clock.corrected(by: outcome) != nil { clock = corrected }
        return signed
    }

    /// What shows who the client is: its secret, key or certificate; nil: nothing.
    private var proofFile: String? {
        settings.authentication == .tls ? certificateFile : settings.authentication.file
    }

    /// What a login's request says besides its credential, for its fingerprint.
    private func requestMark(_ contents: [String: FileSnapshot.Outcome]) -> Secret {
        var mark = SecretBuffer(capacity: 512)
        let fields = settings.parameters.map { "\($0.name)=\($0.value)" }
        // The lengths separate the parts.
        for part in ["\(settings.authentication)", settings.scopes.joined(separator: " ")] + fields {
            mark.append("\(part.utf8.count) \(part) ")
        }
        for field in settings.tokenFields {
            mark.append("\(field.name) ")
            switch field.value {
            case .text(let text): mark.append("\(text.utf8.count) \(text) ")
            case .file(let path):
                let content = try? contents[path]?.get().secret
                mark.append("\(content?.count ?? 0) ")
                content?.withBytes { mark.append($0) }
            }
        }
        return mark.seal()
    }

    /// The configured fields, with the variant's in place of those with the same name.
    private func parameters(for variant: TokenVariant) -> [OAuthParameter] {
        var own = variant.resources.map { OAuthParameter("resource", $0) }
        if let audience = variant.audience { own.append(OAuthParameter("audience", audience)) }
        let names = Set(own.map(\.name))
        return settings.parameters.filter { !names.contains($0.name) } + own
    }

    /// Asks for the metadata once more before a session counts as dead, or a credential or client as refused, by what an endpoint said
    /// that was only remembered. A server that has moved may have left another one there, without its sessions. Without the metadata
    /// nothing is final for this credential, and nothing changes for others.
    private func confirm(_ error: IdentityError, of call: TokenCall, from url: String) {
        if let present = discovery.present, present.endpoints.token != url { return resend(call, to: present) }
        discovery.find(.confirmed, call.progress, by: call.deadline) { [self] found in
            switch found {
            case .failure(let metadataError):
                discovery.noteUnconfirmed(call.credential, error)
                call.reply(
                    .failure(metadataError.without(call.secrets).leavingUnconfirmed(error.message).ofPlace))
            case .success(let found):
                guard found.endpoints.token != url else { return call.reply(.failure(error)) }
                resend(call, to: found)
            }
        }
    }

    /// What the endpoint says then is final.
    private func resend(_ call: TokenCall, to found: FoundEndpoints) {
        send(
            call,
            to: FoundEndpoints(endpoints: found.endpoints, metadata: found.metadata, areRemembered: false))
    }

    /// A POST of a form with the client's proof. An assertion in it is for the issuer or the token endpoint, wherever it goes
    /// (RFC 7523 §3, RFC 9126 §2), unless the configuration says otherwise.
    func request(
        to url: String, of found: FoundEndpoints, _ contents: [String: FileSnapshot.Outcome], _ deadline: Instant,
        isClientNamed: Bool = true, isRevocation: Bool = false, trying trial: WantedClientFields? = nil,
        _ write: (inout FormBody) throws(IdentityError) -> Void
    ) -> Result<(CurlRequest, ClientProof), IdentityError> {
        Result { () throws(IdentityError) in
            let content = settings.authentication.file.flatMap { contents[$0] }
            var proof = try ClientProof(
                of: settings, content, for: url, tokenEndpoint: found.namedTokenEndpoint ?? url, at: clock.time(),
                isClientNamed: isClientNamed,
                wanted: trial
                    ?? WantedClientFields(id: wanted.id, emptySecret: isRevocation && wanted.emptySecret))
            var form = FormBody()
            try write(&form)
            proof.write(into: &form)
            let secrets = form.secrets
            var request = CurlRequest(
                method: .post, url: url, fields: [FormBody.contentType] + fields, body: form.seal(), deadline: deadline)
            request.secretFields = try tokenFields(contents) + (proof.field.map { [$0] } ?? [])
            proof.sent = secrets + request.secretFields.map(\.value)
            // Basic authentication has it in Base64, behind the client's name.
            switch settings.authentication {
            case .basic, .basicWithID: proof.sent += [proof.secret].compactMap(\.self)
            case .none, .post, .privateKeyJWT, .assertion, .tls: break
            }
            return (request, proof)
        }
    }

    private func assertionContext(_ found: FoundEndpoints, _ scopes: [String]) -> SignedAssertion.Context {
        SignedAssertion.Context(
            clientID: settings.clientID, issuer: settings.issuer, endpoint: found.endpoints.token ?? "",
            tokenEndpoint: found.namedTokenEndpoint ?? "", scopes: scopes, now: clock.time())
    }

    func classified(
        _ kind: OAuthVerdict.Call, _ outcome: Result<CurlResponse, CurlError>, _ proof: ClientProof,
        isFetch: Bool = false, isMachineGrant: Bool = false
    ) -> Result<CurlResponse, IdentityError> {
        switch outcome {
        case .failure(let failure): return .failure(OAuthVerdict.error(kind, failure, sent: proof.sent))
        case .success(let response):
            var subject = OAuthVerdict.Subject(
                call: kind, profile: settings.profile, secrets: proof.sent,
                clientHint: ClientProof.hint(settings, proof.secret))
            (subject.isFetch, subject.isMachineGrant) = (isFetch, isMachineGrant)
            return OAuthVerdict.error(subject, response, now: .now).map { .failure($0) } ?? .success(response)
        }
    }

    // MARK: Files

    var fieldFiles: [String] {
        settings.tokenFields.compactMap { field in if case .file(let path) = field.value { path } else { nil } }
    }

    /// Reads the files one after another: a call has a few.
    func read(
        _ paths: [String], into contents: [String: FileSnapshot.Outcome] = [:],
        then body: @escaping ([String: FileSnapshot.Outcome]) -> Void
    ) {
        loop.assertIsCurrent()
        guard let path = paths.first else { return body(contents) }
        SettledRead.begin(path, by: files, on: loop) { [self] outcome in
            var contents = contents
            contents[path] = outcome
            if case .success(let content) = outcome, content.isWorldReadable {
                warning.warnOnce(path, identity: name, logger)
            }
            read(Array(paths.dropFirst()), into: contents, then: body)
        }
    }

    private func warn(_ login: OAuthLogin) {
        if let path = login.path, let finding = login.finding {
            warning.warnOnce(path, finding, identity: name, logger)
        }
    }

    private func tokenFields(
        _ contents: [String: FileSnapshot.Outcome]
    ) throws(IdentityError) -> [CurlRequest.SecretField] {
        var fields: [CurlRequest.SecretField] = []
        for field in settings.tokenFields {
            switch field.value {
            case .text(let text):
                var value = SecretBuffer(capacity: text.utf8.count)
                value.append(text)
                fields.append(.init(name: field.name, value: value.seal()))
            case .file(let path):
                switch contents[path] ?? .failure(.delayed) {
                case .success(let content):
                    do throws(SecretFile.ReadError) {
                        let value = try FieldValueSecret.value(of: content.secret, as: .line)
                        fields.append(.init(name: field.name, value: value))
                    } catch {
                        throw IdentityError(.credentialUnavailable, message: error.message(path: path))
                    }
                case .failure(let error):
                    throw IdentityError(
                        error.isTransient ? .credentialDelayed : .credentialUnavailable,
                        message: error.message(path: path))
                }
            }
        }
        return fields
    }

    // MARK: Metadata

    package func keepMetadata(_ stored: [StoredMetadata], save: @escaping @Sendable (StoredMetadata) -> Void) {
        discovery.keep(stored, save: save)
    }
}
