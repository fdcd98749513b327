import Glibc
import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// A login request's provider and body (app-services.md 2.1).
struct AppServicesLogin: Sendable {
    /// A JWT that ends sooner is not sent: it might be over when the service reads it.
    private static let lifetimeMin: Int64 = 10

    let kind: AppServicesLoginKind
    /// The provider's path segment.
    var provider: String { kind.provider }
    let body: Secret
    /// The credential's secret; none if it has none.
    let secrets: [Secret]
    /// A secret file that every user of the machine may read, which deserves a warning.
    let worldReadable: String?
    /// What in the secret's text looks as if an editor had added it (`SecretText`); nil: nothing. It is still sent.
    let finding: String?
    /// The fingerprint under which a refusal of this credential is remembered. nil without a guard, and for a credential without a secret,
    /// which cannot be locked out.
    let fingerprint: CredentialFingerprint?
    /// The secret's file; nil if there is none, or if the credential came by the admin API.
    let path: String?
    /// `exp` of a JWT, in seconds since 1970; nil: it states none, or the credential is no JWT.
    private let expiry: Int64?

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
            guard let fingerprint = login.fingerprint, let refused = guarded?.refused, fingerprint.isSame(as: refused),
                !login.mayWaitForConfirmation(refused)
            else { return login }
            throw login.rejected(by: refused)
        }
    }

    /// The service refused an account that was not confirmed then. It may be now: the same credential is sent again, which locks nothing.
    private func mayWaitForConfirmation(_ refused: CredentialFingerprint) -> Bool {
        kind.hasPendingAccounts && !refused.isSpent && refused.code == "AuthError"
    }

    /// The error of a login that the guard prevents.
    private func rejected(by refused: CredentialFingerprint) -> IdentityError {
        let what = secretLocation.map { "the credential in \($0)" } ?? "the credential"
        guard !refused.isSpent else {
            return IdentityError(
                .credentialRefused,
                message: what
                    + " has served its only login and is not sent again; write a new one into the file, or log the user in "
                    + "by the admin API",
                credential: refused)
        }
        let code = refused.code.map { " (\($0))" } ?? ""
        return IdentityError(
            .credentialRefused, code: refused.code,
            message: what
                + " was refused before\(code); it is not tried again until it, its account, or app_id or base_url of the identity "
                + "changes; correct it, or repair the account at the service and log the user in by the admin API",
            credential: refused)
    }

    /// The error of a JWT that has expired, or is about to; nil: it can be sent.
    ///
    /// - Parameter now: by the service's clock.
    func expiryError(at now: WallTime) -> IdentityError? {
        guard let expiry, now.seconds > expiry.clampedDifference(Self.lifetimeMin) else { return nil }
        let end = Timestamp.text(WallTime(seconds: max(expiry, 0)))
        let reason =
            now.seconds >= expiry
            ? "a JWT that expired at \(end)" : "a JWT that expires at \(end), in less than \(Self.lifetimeMin) s"
        return Self.unfit(CredentialFormat.Defect(reason: reason, remedy: "write a new one into the file"), path)
    }

    /// Adds the credential's fingerprint and source to the result of this login's call.
    func annotated(_ outcome: Result<Grant, IdentityError>) -> Result<Grant, IdentityError> {
        switch outcome {
        case .success(var grant):
            grant.spentCredential = kind.isOneUse ? fingerprint?.spent : nil
            return .success(grant)
        case .failure(let error): return .failure(annotated(error))
        }
    }

    func annotated(_ error: IdentityError) -> IdentityError {
        var error = error
        error.credential = fingerprint
        error.credential?.code = error.code
        // The service has taken the credential, although its response is unusable.
        if kind.isOneUse, error.hasMadeSession {
            error.verdict = .credentialRefused
            error.credential = fingerprint?.spent
        }
        if error.mayBeOfCredential {
            let subject = path == nil ? "the credential given" : "the file"
            let notes = [secretLocation, finding.map { "\(subject) \($0)" }, kind.refusalHint].compactMap(\.self)
            if !notes.isEmpty { error.message += " (\(notes.joined(separator: "; ")))" }
        }
        return error
    }

    private init(
        _ credential: Credential, _ content: FileSnapshot.Outcome?, _ guarded: LoginGuard?,
        _ identity: IdentityFingerprint?,
        _ device: AppServicesDevice
    ) throws(IdentityError) {
        var source = try Self.source(of: credential, content)
        guard let kind = AppServicesLoginKind(of: source.credential.kind) else {
            throw .foreignKind(source.credential.provider, at: "App Services", .appServices)
        }
        let form = kind.format.form
        source.credential = source.credential.map { SecretText.content(of: $0, as: form) }
        finding = source.credential.secret.flatMap { SecretText.finding(in: $0, as: form) } ?? source.finding
        if let secret = source.credential.secret, let defect = kind.format.defect(of: secret) {
            throw Self.unfit(defect, source.path, finding)
        }
        self.kind = kind
        worldReadable = source.worldReadable
        path = source.path
        fingerprint = guarded.flatMap { Self.fingerprint(source.credential, kind, identity, key: $0.key) }
        expiry = kind.format == .jwt ? source.credential.secret.flatMap { JWTClaims(of: $0)?.expiry } : nil
        secrets = source.credential.secret.map { [$0] } ?? []
        body = try Self.body(of: source, kind, device)
    }

    private static func body(
        of source: Source, _ kind: AppServicesLoginKind, _ device: AppServicesDevice
    ) throws(IdentityError) -> Secret {
        let secret = source.credential.secret
        var body = SecretBuffer(capacity: (secret?.count ?? 0) + 1024)
        body.append("{")
        if let email = source.credential.account {
            body.append("\"username\":")
            JSONText.write(email, into: &body)
            body.append(",")
        }
        if let secret, let member = kind.member {
            body.append("\"\(member)\":")
            try write(secret, from: source.path, into: &body)
            body.append(",")
        } else if let secret {
            appendMembers(of: secret, to: &body)
        }
        // Core names the provider in every body but a function's, which is the function's argument.
        if kind.format != .document { body.append("\"provider\":\"\(kind.provider)\",") }
        body.append("\"options\":{\"device\":")
        device.write(into: &body)
        body.append("}}")
        return body.seal()
    }

    /// The document's bytes are kept as they are: extended JSON stays what it was.
    private static func appendMembers(of document: Secret, to body: inout SecretBuffer) {
        document.withBytes { bytes in
            guard case .members(let range) = CredentialFormat.document(bytes), !range.isEmpty else { return }
            body.append(UnsafeRawBufferPointer(rebasing: bytes[range]))
            body.append(",")
        }
    }

    private static func unfit(
        _ defect: CredentialFormat.Defect, _ path: String?, _ finding: String? = nil
    ) -> IdentityError {
        let note = finding.map { " (\(path == nil ? "it" : "the file") \($0))" } ?? ""
        return IdentityError(.credentialUnavailable, message: defect.message(path: path) + note)
    }

    // MARK: Where the secret comes from

    /// The configuration key and the path of the secret, for messages. nil if the credential has no secret, or came by the admin API.
    private var secretLocation: String? {
        path.flatMap { path in kind.key.map { "\($0) \(path)" } }
    }

    private struct Source {
        var credential: LoginMethod<Secret>
        /// The secret's file; nil if there is none, or if the credential came by the admin API.
        var path: String?
        var worldReadable: String?
        /// Of what was skipped, where it may have been meant.
        var finding: String?
    }

    private static func source(
        of credential: Credential, _ content: FileSnapshot.Outcome?
    ) throws(IdentityError) -> Source {
        switch credential {
        case .given(let given): return Source(credential: given)
        case .configured(let login):
            guard let path = login.secretFile else { return Source(credential: .anonymous) }
            return try source(login, path, content)
        }
    }

    private static func source(
        _ login: UserSettings.Login, _ path: String, _ content: FileSnapshot.Outcome?
    ) throws(IdentityError) -> Source {
        switch content ?? .failure(.delayed) {
        case .success(let content):
            return Source(
                credential: login.map { _ in content.secret }, path: path,
                worldReadable: content.isWorldReadable ? path : nil,
                finding: content.hasByteOrderMark && login.kind == .emailPassword
                    ? "begins with a byte order mark, which is skipped" : nil)
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
            let message = path.map {
                SecretFile.ReadError.unfit(CredentialFormat.encodingDefect).message(path: $0)
            }
            throw IdentityError(.credentialUnavailable, message: message ?? "the credential given is not UTF-8 text")
        }
    }

    /// The fingerprint covers kind, account, secret and identity: a change of any of these makes another credential.
    private static func fingerprint(
        _ credential: LoginMethod<Secret>, _ kind: AppServicesLoginKind, _ identity: IdentityFingerprint?, key: Secret
    ) -> CredentialFingerprint? {
        guard let secret = credential.secret else { return nil }
        let account: String =
            switch credential.kind {
            case .emailPassword: credential.account ?? ""
            // A text that was refused as one of the two may be the other.
            case .googleIDToken, .googleAuthCode: kind.member ?? ""
            default: ""
            }
        var buffer = SecretBuffer(capacity: secret.count + 256)
        // The length separates account and secret.
        buffer.append("\(credential.provider) \(account.utf8.count) \(account)")
        secret.withBytes { buffer.append($0) }
        // Last, and of fixed length.
        for byte in identity?.bytes ?? [] { buffer.append(byte) }
        return CredentialFingerprint(bytes: buffer.withBytes { KeyedHash.sha256($0, key: key) })
    }
}

/// `options.device` of a login: the twelve members that core sends (app-services.md 2.2); unknown ones are empty.
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
