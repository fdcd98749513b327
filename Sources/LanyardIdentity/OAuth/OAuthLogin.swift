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
    /// What in the secret's text looks as if an editor had added it; nil: nothing. It is sent all the same.
    let finding: String?
    /// nil without a guard.
    private(set) var fingerprint: CredentialFingerprint?

    /// A refresh token from elsewhere is taken once: afterwards the session has its successor.
    var isOneUse: Bool { kind == .refreshToken }

    /// The renewal is the same grant again, so a refresh token that comes along is ignored (RFC 6749 §4.4.3).
    var keepsRefreshToken: Bool { kind != .clientCredentials }

    /// The failure is `credentialUnavailable` or `credentialDelayed` with the path and the remedy, or `credentialRefused` by the guard.
    ///
    /// - Parameters:
    ///   - content: of the credential's `file`; nil if it has none.
    ///   - proof: the client's own secret, whose change makes another credential; nil: it has none.
    static func prepare(
        _ credential: Credential, content: FileSnapshot.Outcome?, guarded: LoginGuard?,
        at identity: IdentityFingerprint?,
        proof: Secret?
    ) -> Result<OAuthLogin, IdentityError> {
        Result { () throws(IdentityError) in
            var login = try OAuthLogin(credential, content)
            guard login.kind.service == .oauth else {
                throw IdentityError(
                    .credentialUnavailable,
                    message: "an oauth2 identity has no login of the kind \(login.kind.provider); use one of "
                        + LoginKind.providers(of: .oauth).joined(separator: ", "))
            }
            login.fingerprint = guarded.map { login.fingerprint(identity, proof, key: $0.key) }
            guard let refused = guarded?.refused, login.fingerprint?.isSame(as: refused) == true else { return login }
            throw login.rejected(by: refused)
        }
    }

    private init(_ credential: Credential, _ content: FileSnapshot.Outcome?) throws(IdentityError) {
        let method: LoginMethod<Secret>
        switch credential {
        case .given(let given): (method, path) = (given, nil)
        case .configured(let login):
            guard let file = login.secretFile else {
                guard let bare = LoginMethod<Secret>(login.kind, account: login.account, secret: nil) else {
                    throw IdentityError(.credentialUnavailable, message: "the login has no secret file")
                }
                (method, path) = (bare, nil)
                break
            }
            switch content ?? .failure(.delayed) {
            case .success(let content):
                method = login.map { _ in content.secret }
                path = file
            case .failure(let error):
                throw IdentityError(
                    error.isTransient ? .credentialDelayed : .credentialUnavailable, message: error.message(path: file))
            }
        }
        (kind, account) = (method.kind, method.account)
        let form: SecretText.Form = method.kind == .password ? .any : .token
        secret = method.secret.map { SecretText.content(of: $0, as: form) }
        finding = secret.flatMap { SecretText.finding(in: $0, as: form) }
        if let secret, secret.count == 0 {
            throw IdentityError(
                .credentialUnavailable,
                message: SecretFile.ReadError.empty.message(path: path ?? "the credential given"))
        }
    }

    /// The fields of the grant (RFC 6749 §4.3, §4.4, §6; RFC 7523 §2.1; RFC 8693 §2.1).
    func write(into form: inout FormBody) {
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
        case .tokenExchange:
            form.append("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange")
            if let secret { form.append("subject_token", secret) }
            form.append("subject_token_type", "urn:ietf:params:oauth:token-type:access_token")
        case .anonymous, .emailPassword, .apiKey, .function, .jwt, .facebook, .googleIDToken, .googleAuthCode, .apple:
            preconditionFailure("a login of App Services at an oauth2 identity")
        }
    }

    /// Adds the credential's fingerprint and source to the result of this login's call.
    func annotated(_ outcome: Result<Grant, IdentityError>) -> Result<Grant, IdentityError> {
        switch outcome {
        case .success(var grant):
            grant.spentCredential = isOneUse ? fingerprint?.spent : nil
            // A server without rotation sends none: the session keeps the one that was sent.
            if isOneUse, grant.refreshToken == nil { grant.refreshToken = secret }
            return .success(grant)
        case .failure(let error): return .failure(annotated(error))
        }
    }

    private func annotated(_ error: IdentityError) -> IdentityError {
        var error = error
        error.credential = fingerprint
        error.credential?.code = error.code
        if isOneUse, error.hasMadeSession {
            error.verdict = .credentialRefused
            error.credential = fingerprint?.spent
        }
        if error.verdict == .credentialRefused || error.verdict == .credentialDoubted {
            let notes = [secretLocation, finding.map { "the file \($0)" }].compactMap(\.self)
            if !notes.isEmpty { error.message += " (\(notes.joined(separator: "; ")))" }
        }
        return error
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
        return IdentityError(
            .credentialRefused, code: refused.code,
            message: what
                + " was refused before\(code); it is not tried again until it or a file of the client changes; "
                + "correct it, or repair the client at the service and run lanyard login",
            credential: refused)
    }

    /// The configuration key and the path of the secret, for messages; nil: no secret of its own, or it came by the admin API.
    private var secretLocation: String? {
        guard let path, let name = kind.secretName else { return nil }
        return "\(kind.provider).\(name)_file \(path)"
    }

    /// The fingerprint covers kind, account, secret, the client's own secret, and the identity: a change of any of these makes another
    /// credential.
    private func fingerprint(
        _ identity: IdentityFingerprint?, _ proof: Secret?, key: Secret
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
        return CredentialFingerprint(bytes: buffer.withBytes { KeyedHash.sha256($0, key: key) })
    }
}
