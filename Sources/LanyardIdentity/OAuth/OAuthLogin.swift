import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// The grant of a login at a token endpoint: its form fields, and under which fingerprint a refusal of it is remembered.
struct OAuthLogin: Sendable {
    let kind: LoginKind
    /// The user name of a `password` login.
    private let account: String?
    /// What the login sends; nil for `clientCredentials`.
    let secret: Secret?
    /// The secret's file; nil: there is none, or an operator gave the secret.
    let path: String?
    /// Of who acts for the subject of a token exchange; nil: there is none.
    private let actorToken: Secret?
    private let tokenTypes: TokenTypes
    /// nil: Lanyard signs no assertion.
    private let assertion: AssertionSettings?
    /// What in the secret's text looks as if an editor had added it; nil: nothing. It is still sent.
    let finding: String?
    /// Of the login with what else its request says, which a refusal may be for. nil without a guard.
    private(set) var fingerprint: CredentialFingerprint?
    /// Of the login alone, whatever the client and the request say besides: what has been used stays so, and so does a refused
    /// password. nil without a guard.
    private var ownFingerprint: CredentialFingerprint?

    /// A refresh token from elsewhere is taken once: afterwards the session has its successor.
    var isOneUse: Bool { kind == .refreshToken }

    /// The renewal is the same grant again, so a refresh token that comes along is ignored (RFC 6749 §4.4.3).
    var keepsRefreshToken: Bool { kind != .clientCredentials }

    /// The scopes stand in the form.
    var hasScopeField: Bool { assertion?.scopePlace != .claim }

    /// Without an authentication of the client no `client_id` is sent: Google takes none beside an assertion of a service account.
    var isClientNamed: Bool { kind != .googleKey }

    /// No user takes part who could consent.
    var isMachineGrant: Bool {
        [.clientCredentials, .jwtBearer, .signedAssertion, .googleKey, .tokenExchange].contains(kind)
    }

    /// What it sends is used up or counted by no refusal: the client's own grant, or an assertion that Lanyard signs anew.
    var isRepeatable: Bool { isSigned || kind == .clientCredentials }

    /// The grant is an assertion with a time, which Lanyard signs.
    var isSigned: Bool { kind == .signedAssertion || kind == .googleKey }

    /// The failure is `credentialUnavailable` or `credentialDelayed` with the path and the remedy, or `credentialRefused` by the guard.
    ///
    /// - Parameters:
    ///   - contents: of the credential's files, by path.
    ///   - proof: the client's own secret, whose change makes another credential; nil: it has none.
    ///   - request: what the request says besides, such as scopes: a refusal is not remembered for a corrected one.
    static func prepare(
        _ credential: Credential, contents: [String: FileSnapshot.Outcome], guarded: LoginGuard?,
        at identity: IdentityFingerprint?, proof: Secret?, request: Secret
    ) -> Result<OAuthLogin, IdentityError> {
        Result { () throws(IdentityError) in
            var login = try OAuthLogin(credential, contents)
            guard login.kind.service == .oauth else {
                throw .foreignKind(login.kind.provider, at: "an oauth2 identity", .oauth)
            }
            guard let guarded else { return login }
            login.fingerprint = login.fingerprint(identity, proof, request, key: guarded.key)
            login.ownFingerprint = login.fingerprint(identity, nil, nil, key: guarded.key)
            guard let refused = guarded.refused else { return login }
            let isOwn = login.ownFingerprint?.isSame(as: refused) == true
            let isWhole = !refused.isSpent && login.fingerprint?.isSame(as: refused) == true
            guard isOwn || isWhole else { return login }
            throw login.rejected(by: refused)
        }
    }

    private init(_ credential: Credential, _ contents: [String: FileSnapshot.Outcome]) throws(IdentityError) {
        let method: LoginMethod<Secret>
        switch credential {
        case .given(let given): (method, path) = (given, nil)
        case .configured(let login):
            for file in login.files {
                if case .failure(let error) = contents[file] ?? .failure(.delayed) {
                    throw IdentityError(
                        error.isTransient ? .credentialDelayed : .credentialUnavailable,
                        message: error.message(path: file))
                }
            }
            let empty = SecretBuffer().seal()
            method = login.map { (try? contents[$0]?.get().secret) ?? empty }
            path = login.secretFile
        }
        (kind, account) = (method.kind, method.account)
        (tokenTypes, assertion) = (method.tokenTypes, method.assertion)
        let form: SecretText.Form =
            switch method.kind {
            case .password: .any
            case .signedAssertion, .googleKey: .document
            default: .token
            }
        secret = method.secret.map { SecretText.content(of: $0, as: form) }
        actorToken = method.actorToken.map { SecretText.content(of: $0, as: .token) }
        finding = secret.flatMap { SecretText.finding(in: $0, as: form) }
        if [secret, actorToken].compactMap(\.self).contains(where: { $0.count == 0 }) {
            throw IdentityError(
                .credentialUnavailable,
                message: SecretFile.ReadError.empty.message(path: path ?? "the credential given"))
        }
    }

    /// The fields of the grant (RFC 6749 §4.3, §4.4, §6; RFC 7523 §2.1; RFC 8693 §2.1).
    ///
    /// - Throws: `credentialUnavailable`, if no assertion can be signed.
    func write(into form: inout FormBody, _ context: SignedAssertion.Context) throws(IdentityError) {
        switch kind {
        case .clientCredentials: form.append("grant_type", "client_credentials")
        case .password:
            form.append("grant_type", "password")
            form.append("username", account ?? "")
            if let secret { form.append("password", secret) }
        case .refreshToken:
            form.append("grant_type", "refresh_token")
            if let secret { form.append("refresh_token", secret) }
        case .jwtBearer:
            form.append("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer")
            if let secret { form.append("assertion", secret) }
        case .signedAssertion, .googleKey:
            form.append("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer")
            form.append("assertion", try signedAssertion(context))
        case .tokenExchange:
            form.append("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange")
            if let secret { form.append("subject_token", secret) }
            form.append("subject_token_type", tokenTypes.subject)
            if let actorToken {
                form.append("actor_token", actorToken)
                form.append("actor_token_type", tokenTypes.actor)
            }
            if let requested = tokenTypes.requested { form.append("requested_token_type", requested) }
        case .anonymous, .emailPassword, .apiKey, .function, .jwt, .facebook, .googleIDToken, .googleAuthCode, .apple,
            .gitHubApp, .broker, .device, .authorizationCode:
            preconditionFailure(
                "a login that sends no grant, or one of another kind of identity, at an oauth2 identity")
        }
    }

    private func signedAssertion(_ context: SignedAssertion.Context) throws(IdentityError) -> Secret {
        guard let secret, let assertion else {
            throw IdentityError(.credentialUnavailable, message: "the login has no key")
        }
        do throws(KeyFileError) {
            return try SignedAssertion.make(kind, assertion, key: secret, in: context)
        } catch {
            throw IdentityError(
                .credentialUnavailable,
                message: SecretFile.ReadError.unfit(error.message).message(path: path ?? "the key"))
        }
    }

    /// The account that the login itself names, whatever the response says; nil: none. What it is for an assertion that Lanyard signs
    /// stands in the key's file, too.
    func namedAccount(clientID: String) -> AccountFingerprint? {
        switch kind {
        case .password: account.map { .password(username: $0) }
        case .clientCredentials: .client(clientID)
        case .signedAssertion, .googleKey:
            secret.flatMap { key in
                assertion.flatMap { SignedAssertion.account(kind, $0, key: key, clientID: clientID) }
            }
        case .refreshToken, .jwtBearer, .tokenExchange, .device, .authorizationCode, .anonymous, .emailPassword,
            .apiKey, .function, .jwt, .facebook, .googleIDToken, .googleAuthCode, .apple, .gitHubApp, .broker:
            nil
        }
    }

    /// The account of an assertion or a subject token that another program has signed; nil: it is none, or no JWT.
    var assertedAccount: AccountFingerprint? {
        kind == .jwtBearer || kind == .tokenExchange ? secret.flatMap { .assertion($0) } : nil
    }

    /// Adds the credential's fingerprint and source to the result of this login's call.
    func annotated(_ outcome: Result<Grant, IdentityError>) -> Result<Grant, IdentityError> {
        switch outcome {
        case .success(var grant):
            grant.credential = ownFingerprint
            grant.spentCredential = isOneUse ? ownFingerprint?.spent : nil
            // A server without rotation sends none: the session keeps the one that was sent.
            if isOneUse, grant.refreshToken == nil { grant.refreshToken = secret }
            grant.hasRotated = isOneUse && grant.refreshToken != secret
            return .success(grant)
        case .failure(let error): return .failure(annotated(error))
        }
    }

    private func annotated(_ error: IdentityError) -> IdentityError {
        var error = error
        error.credential = isOfSecret(error) ? ownFingerprint : fingerprint
        error.credential?.code = error.code
        if isOneUse, error.hasMadeSession {
            error.verdict = .credentialRefused
            error.credential = ownFingerprint?.spent
        }
        if error.mayBeOfCredential {
            let notes = [secretLocation, finding.map { "the file \($0)" }].compactMap(\.self)
            if !notes.isEmpty { error.message += " (\(notes.joined(separator: "; ")))" }
        }
        return error
    }

    /// The server has refused the password or the refresh token itself. A file of the client that changes by itself, such as a
    /// projected token, must not have it sent again: that locks accounts and raises alarms of reuse.
    private func isOfSecret(_ error: IdentityError) -> Bool {
        (kind == .password || isOneUse) && error.verdict == .credentialRefused && error.code == "invalid_grant"
    }

    /// The error of a login that the guard prevents.
    private func rejected(by refused: CredentialFingerprint) -> IdentityError {
        let what = secretLocation.map { "the credential in \($0)" } ?? "the credential"
        guard !refused.isSpent else {
            return IdentityError(
                .credentialRefused,
                message: what
                    + " has served its only login and is not sent again; write a new one into the file, or log "
                    + "the user in by the admin API",
                credential: refused)
        }
        let code = refused.code.map { " (\($0))" } ?? ""
        guard refused.clientTries == nil else {
            return IdentityError(
                .credentialRefused, code: refused.code,
                message:
                    "the server has refused the client\(code) at the login with \(what) before; the login is made again "
                    + "10 s, 1, 5 and 15 minutes after one another, and at once when the identity's configuration or a file of the "
                    + "client changes; check client_id and client_authentication, or run lanyard login",
                credential: refused)
        }
        return IdentityError(
            .credentialRefused, code: refused.code,
            message: what
                + " was refused before\(code); it is not tried again until it"
                + (ownFingerprint?.isSame(as: refused) == true
                    ? " changes" : ", the identity's configuration or a file of the client changes")
                + "; correct it, or repair the client at the service and run lanyard login",
            credential: refused)
    }

    /// The configuration key and the path of the secret, for messages; nil: no secret of its own, or it came by the admin API.
    private var secretLocation: String? {
        guard let path, let key = kind.fileKey else { return nil }
        return "\(kind.provider).\(key) \(path)"
    }

    /// The fingerprint covers kind, account, secret, the client's own secret, the identity, and what the request says besides: a change
    /// of any of these makes another credential.
    private func fingerprint(
        _ identity: IdentityFingerprint?, _ proof: Secret?, _ request: Secret?, key: Secret
    ) -> CredentialFingerprint {
        var buffer = SecretBuffer(capacity: 512)
        let account = account ?? ""
        // The lengths separate the parts.
        buffer.append("\(kind.provider) \(account.utf8.count) \(account)")
        for part in [secret, proof] {
            buffer.append(" \(part?.count ?? 0) ")
            part?.withBytes { buffer.append($0) }
        }
        for byte in identity?.bytes ?? [] { buffer.append(byte) }
        // What a login says besides its secret. Kinds without it keep the fingerprints that a store holds.
        if let assertion { buffer.append(" \(assertion)") }
        if let actorToken {
            buffer.append(" \(actorToken.count) ")
            actorToken.withBytes { buffer.append($0) }
        }
        if tokenTypes != TokenTypes() { buffer.append(" \(tokenTypes)") }
        if let request {
            buffer.append(" ")
            request.withBytes { buffer.append($0) }
        }
        return CredentialFingerprint(bytes: buffer.withBytes { KeyedHash.sha256($0, key: key) })
    }
}
