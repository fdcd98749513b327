/// Why an identity service did not grant what was asked (refresh.md 10).
package struct IdentityError: Error, Equatable, Sendable {
    /// What follows from it for the session.
    package enum Verdict: Equatable, Sendable {
        /// 5xx, 408, 425, 429, transport, malformed answers: ask again, not before `retryAfter`.
        case transient(retryAfter: Duration?)
        /// The request may have been carried out: it was sent and no answer came.
        case unknownOutcome
        /// The refresh token is dead (App Services: 401, or 403 with a JSON `error`, on the session call).
        case sessionDead
        /// The credential itself was refused.
        case credentialRefused
        /// A login was answered 401 without the service's own words: it may be the credential, or a gateway in between. Asked again; the second
        /// time, at least 30 s after the first, it is a refusal (refresh.md 10).
        case credentialDoubted
        /// 410: the service has gone; asked again every 5 minutes.
        case gone
        /// 404 "cannot find app".
        case unknownApp
        /// The credential's file cannot be read; the remedy is in `words`.
        case credentialUnavailable
        /// The credential's file has not been read in time, or is being written: asked again.
        case credentialDelayed
        /// The login ended in an account that another user of this device is logged in to (architecture.md 5.7). Not a service's verdict.
        case accountInUse
    }

    package var verdict: Verdict
    /// The HTTP status, if an answer came.
    package var status: Int?
    /// The service's `error_code`, scrubbed to `[A-Za-z0-9_]{1,64}`.
    package var code: String?
    /// Plain words for the log and `last_error`; no secret, no byte of an answer beyond `code`.
    package var message: String
    /// Of a login that was guarded: what to remember, should the credential be refused by it.
    package var credential: CredentialFingerprint?
    /// Worth an alert although it is tried again: somebody may stand between us and the service.
    package var isAlarming: Bool
    /// The refresh token in a success that cannot be used otherwise: the session behind it must be ended.
    package var unusedRefreshToken: Secret?
    /// A login has made a session at the service, perhaps an account as well, although it cannot be used.
    package var hasMadeSession = false

    package init(
        _ verdict: Verdict, status: Int? = nil, code: String? = nil, message: String,
        credential: CredentialFingerprint? = nil,
        isAlarming: Bool = false
    ) {
        self.verdict = verdict
        self.status = status
        self.code = code
        self.message = message
        self.credential = credential
        self.isAlarming = isAlarming
    }
}

extension IdentityError {
    /// Another call might do better.
    var isRetryable: Bool {
        switch verdict {
        case .transient, .unknownOutcome, .gone, .credentialDelayed: true
        case .sessionDead, .credentialRefused, .credentialDoubted, .unknownApp, .credentialUnavailable, .accountInUse:
            false
        }
    }
}

extension Result where Success == Grant, Failure == IdentityError {
    /// The refresh token that an answer brought, usable or not.
    var refreshToken: Secret? {
        switch self {
        case .success(let grant): grant.refreshToken
        case .failure(let error): error.unusedRefreshToken
        }
    }
}

extension IdentityError.Verdict {
    /// The labels of what logins meet.
    static let loginResultLabels = [
        Self.transient(retryAfter: nil), .credentialRefused, .credentialDoubted, .gone, .unknownApp,
        .credentialUnavailable, .credentialDelayed, .accountInUse,
    ].map(\.label)
    /// The labels of what refreshes meet.
    static let refreshResultLabels = [
        Self.transient(retryAfter: nil), .unknownOutcome, .sessionDead, .gone, .unknownApp,
    ].map(\.label)

    /// The word for it in metrics and log.
    package var label: String {
        switch self {
        case .transient: "transient"
        case .unknownOutcome: "unknown_outcome"
        case .sessionDead: "session_dead"
        case .credentialRefused: "credential_refused"
        case .credentialDoubted: "credential_doubted"
        case .gone: "gone"
        case .unknownApp: "unknown_app"
        case .credentialUnavailable: "credential_unavailable"
        case .credentialDelayed: "credential_delayed"
        case .accountInUse: "account_in_use"
        }
    }
}
