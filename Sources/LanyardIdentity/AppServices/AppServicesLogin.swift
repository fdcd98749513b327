import Glibc
import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// A login request's provider and body (appservices.md 2.1).
struct AppServicesLogin: Sendable {
    /// The provider's path segment.
    let provider: String
    let body: Secret
    /// A secret file that every user of the machine may read, which deserves a warning.
    let worldReadable: String?
    /// The fingerprint under which a refusal of this credential is remembered. nil without a guard, and for a credential without a secret,
    /// which cannot be locked out.
    let fingerprint: CredentialFingerprint?

    /// The configuration key and the path of the secret, for messages. nil if the credential has no secret, or came by the admin API.
    let secretLocation: String?

    /// The secret file of a configured credential, which is read at the time of the login; nil if there is none.
    static func file(of credential: Credential) -> String? {
        switch credential {
        case .given: nil
        case .configured(let login): CredentialFileWatch.file(of: login)
        }
    }

    /// The failure is `credentialUnavailable` or `credentialDelayed` with the path and the remedy, or `credentialRefused` by the guard.
    ///
    /// - Parameter content: of the credential's `file`; nil if it has none.
    static func prepare(
        _ credential: Credential, content: FileSnapshot.Outcome?, guarded: LoginGuard?,
        at identity: IdentityFingerprint?,
        device: AppServicesDevice
    ) -> Result<AppServicesLogin, IdentityError> {
        Result { () throws(IdentityError) in
            let login = try AppServicesLogin(credential, content, guarded, identity, device)
            guard let fingerprint = login.fingerprint, let refused = guarded?.refused, fingerprint.isSame(as: refused)
            else { return login }
            let what = login.secretLocation.map { "the credential in \($0)" } ?? "the credential"
            let code = refused.code.map { " (\($0))" } ?? ""
            throw IdentityError(
                .credentialRefused, code: refused.code,
                message: what
                    + " was refused before\(code); it is not tried again until it, its account, or app_id or base_url of the identity "
                    + "changes; correct it, or repair the account at the service and log the user in by the admin API",
                credential: refused)
        }
    }

    /// Adds the credential's fingerprint and source to an error of this login's call.
    func annotated(_ error: IdentityError) -> IdentityError {
        var error = error
        error.credential = fingerprint
        error.credential?.code = error.code
        switch error.verdict {
        case .credentialRefused, .credentialDoubted: error.message += secretLocation.map { " (\($0))" } ?? ""
        default: break
        }
        return error
    }

    private init(
        _ credential: Credential, _ content: FileSnapshot.Outcome?, _ guarded: LoginGuard?,
        _ identity: IdentityFingerprint?,
        _ device: AppServicesDevice
    ) throws(IdentityError) {
        let source = try Self.source(of: credential, content)
        worldReadable = source.worldReadable
        fingerprint = guarded.flatMap { Self.fingerprint(source.credential, identity, key: $0.key) }
        secretLocation = source.path.flatMap { path in Self.key(of: source.credential).map { "\($0) \(path)" } }
        var body = SecretBuffer(capacity: 1024)
        switch source.credential {
        case .anonymous:
            provider = "anon-user"
            body.append("{")
        case .emailPassword(let email, let password):
            provider = "local-userpass"
            body.append("{\"username\":")
            JSONText.write(email, into: &body)
            body.append(",\"password\":")
            try Self.write(password, from: source.path, into: &body)
            body.append(",")
        case .apiKey(let key):
            provider = "api-key"
            body.append("{\"key\":")
            try Self.write(key, from: source.path, into: &body)
            body.append(",")
        }
        body.append("\"provider\":\"\(provider)\",\"options\":{\"device\":")
        device.write(into: &body)
        body.append("}}")
        self.body = body.seal()
    }

    // MARK: Where the secret comes from

    private struct Source {
        var credential: GivenCredential
        /// The secret's file; nil if there is none, or if the credential came by the admin API.
        var path: String?
        var worldReadable: String?
    }

    private static func source(
        of credential: Credential, _ content: FileSnapshot.Outcome?
    ) throws(IdentityError) -> Source {
        switch credential {
        case .given(let given): return Source(credential: given)
        case .configured(.anonymous): return Source(credential: .anonymous)
        case .configured(.emailPassword(let email, let file)):
            return try source(file, content) { .emailPassword(email: email, password: $0) }
        case .configured(.apiKey(let file)): return try source(file, content) { .apiKey($0) }
        }
    }

    private static func source(
        _ path: String, _ content: FileSnapshot.Outcome?, as make: (Secret) -> GivenCredential
    ) throws(IdentityError) -> Source {
        switch content ?? .failure(.delayed) {
        case .success(let content):
            return Source(
                credential: make(content.secret), path: path, worldReadable: content.isWorldReadable ? path : nil)
        case .failure(let error):
            throw IdentityError(
                error.isTransient ? .credentialDelayed : .credentialUnavailable, message: error.message(path: path))
        }
    }

    /// Writes the secret as a JSON string.
    private static func write(
        _ secret: Secret, from path: String?, into body: inout SecretBuffer
    ) throws(IdentityError) {
        guard secret.withBytes({ JSONText.write($0, into: &body) }) else {
            let message = path.map { SecretFile.ReadError.unfit("is not UTF-8 text").message(path: $0) }
            throw IdentityError(.credentialUnavailable, message: message ?? "the credential given is not UTF-8 text")
        }
    }

    private static func key(of credential: GivenCredential) -> String? {
        switch credential {
        case .anonymous: nil
        case .emailPassword: "email_password.password_file"
        case .apiKey: "api_key.key_file"
        }
    }

    /// The fingerprint covers kind, account, secret and identity: a change of any of these makes another credential.
    private static func fingerprint(_ credential: GivenCredential, _ identity: IdentityFingerprint?, key: Secret)
        -> CredentialFingerprint?
    {
        let (account, secret): (String, Secret)
        switch credential {
        case .anonymous: return nil
        case .emailPassword(let email, let password): (account, secret) = (email, password)
        case .apiKey(let key): (account, secret) = ("", key)
        }
        var buffer = SecretBuffer()
        // The length separates account and secret.
        buffer.append("\(credential.provider) \(account.utf8.count) \(account)")
        secret.withBytes { buffer.append($0) }
        // Last, and of fixed length.
        for byte in identity?.bytes ?? [] { buffer.append(byte) }
        return CredentialFingerprint(bytes: buffer.withBytes { KeyedHash.sha256($0, key: key) })
    }
}

/// `options.device` of a login: the twelve members that core sends (appservices.md 2.2); unknown ones are empty.
struct AppServicesDevice: Sendable {
    let appID: String
    let version: String

    func write(into buffer: inout SecretBuffer) {
        var system = utsname()
        uname(&system)
        let members = [
            ("appId", appID), ("platform", Self.text(&system.sysname)), ("platformVersion", Self.text(&system.release)),
            ("sdk", "Lanyard"), ("sdkVersion", version), ("cpuArch", Self.text(&system.machine)), ("deviceName", ""),
            ("deviceVersion", ""), ("frameworkName", ""), ("frameworkVersion", ""), ("coreVersion", ""),
            ("bundleId", ""),
        ]
        for (index, (name, value)) in members.enumerated() {
            buffer.append(index == 0 ? "{" : ",")
            JSONText.write(name, into: &buffer)
            buffer.append(":")
            JSONText.write(value, into: &buffer)
        }
        buffer.append("}")
    }

    /// The C string in one of `utsname`'s arrays.
    private static func text<Array>(_ characters: inout Array) -> String {
        withUnsafeBytes(of: &characters) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }
}
