import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// Logins that a user completes in a browser. Their tokens are held here until the session's own login takes them, so that such a login
/// has the same course as any other: locks, store, ownership of the account.
extension OAuthIdentity: BrowserLoginService {
    package func begin(
        _ request: BrowserLoginRequest, onPrompt: @escaping @Sendable (BrowserLoginPrompt) -> Void,
        onEnd: @escaping @Sendable (Result<LoginMethod<Secret>, IdentityError>) -> Void
    ) -> any BrowserLogin {
        let reports = BrowserLoginReports(prompt: onPrompt, end: onEnd)
        switch request {
        case .device:
            let login = DeviceLogin(at: self, reports)
            login.start()
            return login
        case .authorizationCode(let redirectURI):
            let login = CodeLogin(at: self, redirectURI: redirectURI, reports)
            login.start()
            return login
        }
    }

    package func discard(_ login: LoginMethod<Secret>) {
        guard let ticket = login.ticket, let grant = obtainedGrants.withLock({ $0.removeValue(forKey: ticket) })
        else { return }
        discard(grant)
    }

    /// Tokens that no session gets: they are revoked by the refresh token, or by the access token if there is none.
    func discard(_ grant: Grant) {
        if let token = grant.refreshToken {
            revoke(token) { _ in }
        } else {
            revoke(accessToken: grant.accessToken) { _ in }
        }
    }

    /// The refresh token of a response that cannot be used.
    func discard(_ refreshToken: Secret?) {
        if let refreshToken { revoke(refreshToken) { _ in } }
    }

    /// The grant that the response to a code brings. A success that cannot be used ends the login, because the code is used up. The
    /// refresh token that came along is revoked.
    func grant(
        from outcome: Result<CurlResponse, CurlError>, _ proof: ClientProof
    ) -> Result<Grant, IdentityError> {
        classified(.login, outcome, proof).flatMap { response in
            OAuthGrant.make(
                .login, response, keepsRefreshToken: true, lifetime: settings.tokenLifetime, profile: settings.profile,
                without: proof.sent
            )
            .mapError { $0.withRetryAfter(of: response) }
        }.map { grant in
            guard case .success(let response) = outcome else { return grant }
            binding.check(
                grant.accessToken, with: http.certificate, identity: name, logger,
                without: SecretEcho(of: proof.sent, and: response))
            var grant = grant
            grant.scopes =
                OAuthScopes.stated(in: grant, response, asked: settings.scopes, without: proof.sent)
                ?? OAuthScopes.requested(settings.scopes)
            return grant
        }.mapError { error in
            guard Self.hasUsedUpCode(error, outcome) else { return error }
            discard(error.unusedRefreshToken)
            var refusal = error
            (refusal.verdict, refusal.code) = (.credentialRefused, "unusable_response")
            refusal.message += "; run lanyard login again"
            return refusal
        }
    }

    /// The server has used up the code with a response that cannot be used. A page is a gateway's, and a connection that broke says
    /// nothing: the code may still be good.
    private static func hasUsedUpCode(_ error: IdentityError, _ outcome: Result<CurlResponse, CurlError>) -> Bool {
        if error.unusedRefreshToken != nil { return true }
        switch outcome {
        case .success(let response):
            return 200..<300 ~= response.status && !error.isServiceError
                && !response.body.withBytes { OAuthResponse($0) }.hasOtherContent
        case .failure(let failure): return failure.kind == .tooLarge && 200..<300 ~= failure.status ?? 0
        }
    }

    /// The ID token in a response, and what is wrong with it; nil: nothing.
    ///
    /// - Parameters:
    ///   - hasTenants: the metadata has `{tenantid}` in the issuer, or what it has is unknown.
    ///   - nonce: of the login; nil: it had none.
    ///   - sent: the secrets of the call. No text of the token shows one of them.
    func idToken(
        in response: CurlResponse, hasTenants: Bool, nonce: String?, without sent: [Secret]
    ) -> (token: IDToken?, defect: String?) {
        guard let token = response.body.withBytes({ OAuthResponse($0) }).idToken else {
            return (nil, "there is none, although scopes has openid")
        }
        guard let read = IDToken(token) else { return (nil, "it is not a JWT") }
        let issuer = settings.issuer.map { ExpectedIssuer($0, hasTenants: hasTenants) }
        let defect = read.defect(
            clientID: settings.clientID, issuer: issuer, nonce: nonce, now: clock.time(),
            without: SecretEcho(ofWhole: sent, and: response))
        return (read.named(without: SecretEcho(ofWhole: sent, and: response)), defect)
    }

    /// The login of the session that the tokens are for.
    func obtained(_ method: LoginMethod<Secret>) -> Result<Grant, IdentityError> {
        let grant = method.ticket.flatMap { ticket in obtainedGrants.withLock { $0.removeValue(forKey: ticket) } }
        if let grant { return .success(grant) }
        let message =
            "this login is completed in a browser, and its tokens are not here (any more); run lanyard login"
        return .failure(IdentityError(.credentialUnavailable, message: message))
    }

    /// Holds the tokens of a login that has succeeded.
    func hold(_ grant: Grant, of kind: LoginKind) -> LoginMethod<Secret> {
        var method: LoginMethod<Secret> = kind == .device ? .device : .authorizationCode
        method.ticket = obtainedGrants.withLock { grants in
            var ticket = UInt64.random(in: 1 ... .max)
            while grants[ticket] != nil { ticket = UInt64.random(in: 1 ... .max) }
            grants[ticket] = grant
            return ticket
        }
        return method
    }

    /// A POST of a form with the client's proof, to an endpoint that is found first. If nothing is at a remembered endpoint, it goes to
    /// the one that the server names now.
    ///
    /// - Parameters:
    ///   - place: of the endpoint.
    ///   - missing: what to say without such an endpoint.
    ///   - secrets: of the login so far. Metadata that are asked for before the request must not show one.
    ///   - write: writes the fields of the form, for each request.
    ///   - reply: with what the request carried. On the loop.
    func post(
        to place: KeyPath<OAuthEndpoints, String?>, missing: String, hiding secrets: [Secret] = [],
        _ write: @escaping (inout FormBody) throws(IdentityError) -> Void,
        reply: @escaping (Result<CurlResponse, CurlError>?, Result<ClientProof, IdentityError>) -> Void
    ) {
        loop.assertIsCurrent()
        let deadline = transport.newDeadline
        read([settings.authentication.file].compactMap(\.self) + fieldFiles) { [self] contents in
            let post = BrowserLoginPost(
                place: place, missing: missing, contents: contents, deadline: deadline, write: write, reply: reply)
            discovery.find(place, nil, by: deadline) { [self] found in
                switch found {
                case .failure(let error):
                    reply(nil, .failure(error.without(secrets + contents.values.compactMap { try? $0.get().secret })))
                case .success(let found): send(post, to: found)
                }
            }
        }
    }

    /// - Parameters:
    ///   - former: see `correctClock`.
    ///   - trial: see `ClientFieldMemory.update`.
    private func send(
        _ post: BrowserLoginPost, to found: FoundEndpoints, after former: ServiceClock? = nil,
        trying trial: WantedClientFields? = nil
    ) {
        guard let url = found.endpoints[keyPath: post.place] else {
            return post.reply(nil, .failure(.missingEndpoint(post.missing)))
        }
        let signed = clock
        let isNamed = (trial ?? wanted).id
        let made = request(to: url, of: found, post.contents, post.deadline, trying: trial) {
            form throws(IdentityError) in
            try post.write(&form)
            for parameter in settings.parameters { form.append(parameter.name, parameter.value) }
            // RFC 8628 §3.1, RFC 9126 §2: the client is named in the form, too, where Basic shows who it is.
            if case .basic = settings.authentication, !isNamed { form.append("client_id", settings.clientID) }
        }
        switch made {
        case .failure(let error): post.reply(nil, .failure(error))
        case .success((var request, let proof)):
            request.kind = .login
            let proof = proof.sending(post.sentBefore)
            http.send(request) { [self] outcome in
                clock.update(from: outcome)
                if let more = updateFieldMemory(
                    from: outcome, trying: trial, by: proof, .init(isSpendable: post.place == \.token))
                {
                    return send(post.repeated(after: proof), to: found, after: former, trying: more)
                }
                if mayBeClientsTime(outcome), let first = correctClock(by: outcome, signed: signed, after: former) {
                    return send(post.repeated(after: proof), to: found, after: first, trying: trial)
                }
                discovery.findMoved(post.place, of: found, outcome, nil, by: post.deadline) { [self] moved in
                    if let moved {
                        send(post.repeated(after: proof), to: moved)
                    } else {
                        post.reply(outcome, .success(proof))
                    }
                }
            }
        }
    }
}

extension IdentityError {
    /// The server names no endpoint for a login.
    static func missingEndpoint(_ message: String) -> IdentityError {
        var error = IdentityError(.clientRefused, message: message)
        error.cause = .noEndpoint
        return error
    }
}

extension Grant {
    /// Takes the account of an ID token that has no defect.
    mutating func name(by read: (token: IDToken?, defect: String?)) {
        guard read.defect == nil, let token = read.token else { return }
        (subject, account) = (token.subject, token.account)
    }
}

/// A call of a login in a browser whose files have been read.
private struct BrowserLoginPost {
    let place: KeyPath<OAuthEndpoints, String?>
    let missing: String
    let contents: [String: FileSnapshot.Outcome]
    let deadline: Instant
    let write: (inout FormBody) throws(IdentityError) -> Void
    let reply: (Result<CurlResponse, CurlError>?, Result<ClientProof, IdentityError>) -> Void
    /// The secrets of earlier requests of the call. A response to a later one may repeat them, too.
    var sentBefore: [Secret] = []

    /// The same call after a request with this proof.
    func repeated(after proof: ClientProof) -> BrowserLoginPost {
        var post = self
        post.sentBefore = proof.sent
        return post
    }
}

/// Who learns of a login in a browser.
struct BrowserLoginReports: Sendable {
    let prompt: @Sendable (BrowserLoginPrompt) -> Void
    let end: @Sendable (Result<LoginMethod<Secret>, IdentityError>) -> Void
}
