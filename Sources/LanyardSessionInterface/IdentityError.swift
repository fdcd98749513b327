import LanyardFoundations
import LanyardSettings

/// The reason why an identity service did not grant a request (refresh-outcomes.md 10).
///
/// A type of its own, because its verdict decides what becomes of the session.
package struct IdentityError: Error, Equatable, Sendable {
    /// The consequence for the session.
    package enum Verdict: Equatable, Sendable {
        /// 5xx, 408, 425, 429, transport errors, malformed responses: ask again, not before `retryAfter`.
        case transient(retryAfter: Duration?)
        /// The request was sent and no response came. It may have been carried out.
        case unknownOutcome
        /// The refresh token is dead (App Services: 401, or 403 with a JSON `error`, on the session call).
        case sessionDead
        /// The credential itself was refused.
        case credentialRefused
        /// A login got 401 without the service's own error. The credential may be refused, or a gateway in between may
        /// have responded. It is asked again. The second 401, at least 30 s after the first, is a refusal
        /// (refresh-outcomes.md 10).
        case credentialDoubted
        /// 410: the service is gone; it is asked again every 5 minutes.
        case gone
        /// 404 "cannot find app".
        case unknownApp
        /// The credential's file cannot be read; the remedy is in `message`.
        case credentialUnavailable
        /// The credential's file was not read in time, or is being written: it is read again.
        case credentialDelayed
        /// The login ended in an account that another user of this device is logged in to (architecture-control.md 5.7). The
        /// service did not say so.
        case accountInUse
        /// The client, or what it asks for, was refused, and not the session: an operator corrects the configuration, the
        /// client at the service, or one of its files.
        case clientRefused
        /// The service refused a call about an account. That says nothing about the session.
        case callRefused
    }

    /// What the error means for the session.
    package var verdict: Verdict
    /// The HTTP status, if a response came.
    package var status: Int?
    /// It is of the request for the service's location or metadata. The call itself was not made, or its outcome is known.
    package var isOfPlace = false
    /// The service's `error_code`, scrubbed to `[A-Za-z0-9_]{1,64}`.
    package var code: String?
    /// A plain message for the log and for clients. It holds no secret, and no byte of a response except `code`.
    package var message: String
    /// What operators are told besides the message.
    private var explanation = Explanation()
    /// `message` with the service's own words, for operators: commands, admin API and status.
    package var operatorMessage: String {
        serviceText.map { "\(message); the service says: \"\($0)\"" } ?? message
    }
    /// The response was the service's own error: it had a JSON `error` or `error_code`. After another response, such as a
    /// gateway's page, it is unknown whether the service has seen the call.
    package var isServiceError = false
    /// Who must act, where the response says more than the verdict: the user, whom the service wants to log in or to consent, or the
    /// operator, if the call is tried again although the configuration is wrong. nil: the verdict decides.
    package var responsible: ResponsibleParty?
    private var refusal = Refusal()
    /// What came back of a call with a refresh token; nil: another call, or none was made.
    package var refreshResponse: RefreshResponse?
    /// The fingerprint of a guarded login's credential, to be kept if the credential is refused.
    package var credential: CredentialFingerprint?
    /// Worth an alert although the call is tried again: the connection to the service may be intercepted.
    package var isAlarming: Bool
    /// The refresh token of a success that is otherwise unusable. Its session must be revoked.
    package var unusedRefreshToken: Secret?
    /// A login has created a session at the service, and perhaps an account, although its response is unusable.
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
    /// What operators are told of an error besides its message.
    private struct Explanation: Equatable, Sendable {
        var serviceText: String?
        var cause: IdentityCause?
        var remedy: String?
    }

    /// What is refused, besides what the verdict says.
    private struct Refusal: Equatable, Sendable {
        var isUnsupported = false
        var isGrantRefused = false
        var isForeignKind = false
        var refusesRefresh = false
        var isOfClient = false
        var isOfStore = false
        var isDenied = false
        var passedOn: PassedProblem?
        var retryAfter: Duration?
    }

    /// What another Lanyard says of its user, as far as requests here get the same problem (fleet.md 2). It is asked again like a service
    /// that gives no token for now.
    package enum PassedProblem: Equatable, Sendable {
        /// `login-required`, or `no-active-user`: a user acts there.
        case loginRequired
        /// `credential-refused`: an operator acts there.
        case credentialRefused
    }

    /// How long the service wants no call (Retry-After), whatever its response means besides; nil: it names no time. Where the verdict
    /// leads to another call, that comes no sooner (refresh.md 3, 4).
    package var retryAfter: Duration? {
        get { if case .transient(let time?) = verdict { time } else { refusal.retryAfter } }
        set { refusal.retryAfter = newValue }
    }

    /// The service has no such call, and will have none later.
    package var isUnsupported: Bool {
        get { refusal.isUnsupported }
        set { refusal.isUnsupported = newValue }
    }
    /// The service refuses the kind of call to this client (RFC 6749 §5.2: `unauthorized_client`, `unsupported_grant_type`).
    /// Another kind may be allowed.
    package var isGrantRefused: Bool {
        get { refusal.isGrantRefused }
        set { refusal.isGrantRefused = newValue }
    }
    /// The identity has no login of the kind that was given: the call was wrong, and no credential was refused.
    package var isForeignKind: Bool {
        get { refusal.isForeignKind }
        set { refusal.isForeignKind = newValue }
    }
    /// The service has refused the refresh by a named error, and neither asks for another try later nor blames the client. Once the
    /// access token has ended, a configured login follows (refresh-outcomes.md 12).
    package var refusesRefresh: Bool {
        get { refusal.refusesRefresh }
        set { refusal.refusesRefresh = newValue }
    }
    /// The service refuses the client, and says nothing of what a login has sent besides (RFC 6749 §5.2: `invalid_client`).
    package var isOfClient: Bool {
        get { refusal.isOfClient }
        set { refusal.isOfClient = newValue }
    }
    /// No call was made: the store cannot be written, and the refresh token works only once.
    package var isOfStore: Bool {
        get { refusal.isOfStore }
        set { refusal.isOfStore = newValue }
    }

    /// The service denies what is asked for to this caller, whatever the session: it is asked again rarely.
    package var isDenied: Bool {
        get { refusal.isDenied }
        set { refusal.isDenied = newValue }
    }
    /// The problem that another Lanyard has responded with; nil: another error.
    package var passedOn: PassedProblem? {
        get { refusal.passedOn }
        set { refusal.passedOn = newValue }
    }

    /// The service's own words, for operators alone: shortened, printable ASCII without `"`, without a secret of the call. They are never
    /// logged, and no client gets them (security.md, T11).
    package var serviceText: String? {
        get { explanation.serviceText }
        set { explanation.serviceText = newValue }
    }
    /// What is at fault; nil: the verdict says all that is known.
    package var cause: IdentityCause? {
        get { explanation.cause }
        set { explanation.cause = newValue }
    }
    /// What to do, for operators: a sentence without its period, in which `NAME` stands for the user. nil: unknown.
    package var remedy: String? {
        get { explanation.remedy }
        set { explanation.remedy = newValue }
    }

    /// A credential of a kind that the identity does not have.
    ///
    /// - Parameter owner: whose kinds `service` has, with its article.
    package static func foreignKind(_ provider: String, at owner: String, _ service: LoginKind.Service) -> IdentityError
    {
        var error = IdentityError(
            .credentialUnavailable,
            message: "\(owner) has no login of the kind \(provider); use one of "
                + LoginKind.providers(of: service).joined(separator: ", "))
        error.isForeignKind = true
        return error
    }

    /// `code` of an access token that is for another audience than the one that was asked for. No service sends it.
    package static let audienceMismatch = "audience_mismatch"

    /// Whether another call might succeed.
    package var isRetryable: Bool {
        switch verdict {
        case .transient, .unknownOutcome, .gone, .credentialDelayed, .clientRefused: true
        case .sessionDead, .credentialRefused, .credentialDoubted, .unknownApp, .credentialUnavailable, .accountInUse,
            .callRefused:
            false
        }
    }
}

extension Result where Success == Grant, Failure == IdentityError {
    /// The refresh token of a response, usable or not.
    package var refreshToken: Secret? {
        switch self {
        case .success(let grant): grant.refreshToken
        case .failure(let error): error.unusedRefreshToken
        }
    }

    /// The configured credential of a login, if this response has used it up; nil: it has not, or that is unknown.
    package var spentCredential: CredentialFingerprint? {
        switch self {
        case .success(let grant): grant.spentCredential
        case .failure(let error): error.credential.flatMap { $0.isSpent ? $0 : nil }
        }
    }
}

extension IdentityError.Verdict {
    /// The labels of the errors that logins can have.
    package static let loginResultLabels = [
        Self.transient(retryAfter: nil), .credentialRefused, .credentialDoubted, .gone, .unknownApp,
        .credentialUnavailable, .credentialDelayed, .accountInUse,
    ].map(\.label)
    /// The labels of the errors that refreshes can have.
    package static let refreshResultLabels = [
        Self.transient(retryAfter: nil), .unknownOutcome, .sessionDead, .gone, .unknownApp, .clientRefused,
    ].map(\.label)

    /// The label in metrics and log.
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
        case .clientRefused: "client_refused"
        case .callRefused: "call_refused"
        }
    }
}
