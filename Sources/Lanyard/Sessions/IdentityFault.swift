/// Why an identity service did not grant what was asked (refresh-policy rule 10).
package struct IdentityFault: Error, Equatable, Sendable {
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
        /// 410: the service has gone; asked again every 5 minutes.
        case gone
        /// 404 "cannot find app".
        case unknownApp
        /// The credential's file cannot be read; the remedy is in `words`.
        case credentialUnavailable
    }

    package var verdict: Verdict
    /// The HTTP status, if an answer came.
    package var status: Int?
    /// The service's `error_code`, scrubbed to `[A-Za-z0-9_]{1,64}`.
    package var code: String?
    /// Plain words for the log and `last_error`; no secret, no byte of an answer beyond `code`.
    package var words: String

    package init(_ verdict: Verdict, status: Int? = nil, code: String? = nil, words: String) {
        self.verdict = verdict
        self.status = status
        self.code = code
        self.words = words
    }
}

extension IdentityFault.Verdict {
    /// The word for it in metrics and log.
    package var label: String {
        switch self {
        case .transient: "transient"
        case .unknownOutcome: "unknown_outcome"
        case .sessionDead: "session_dead"
        case .credentialRefused: "credential_refused"
        case .gone: "gone"
        case .unknownApp: "unknown_app"
        case .credentialUnavailable: "credential_unavailable"
        }
    }
}
