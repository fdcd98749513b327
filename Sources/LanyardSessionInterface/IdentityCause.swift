import LanyardFoundations
import LanyardSettings

/// What is at fault when a call to an identity service has failed. It decides the remedy that operators are told (errors.md 5.1), and what
/// requests are told without a token. The verdict decides what becomes of the session.
package enum IdentityCause: String, CaseIterable, Sendable {
    /// No response: an outage, or the way to the service.
    case noResponse = "no_response"
    /// 5xx, or an error that says the same.
    case serviceFailure = "service_failure"
    /// 408, 425, 429, or an error that says the same.
    case busy
    /// Nothing is there that takes the call: a redirect, 404, 405, 410, 421.
    case noEndpoint = "no_endpoint"
    /// The server's certificate is not trusted.
    case untrusted
    /// The TLS handshake failed for another reason.
    case tls
    /// The client certificate was refused, or is missing.
    case clientCertificate = "client_certificate"
    /// The address is one that is never called.
    case prohibited
    /// The server's metadata cannot be used, or is not there.
    case metadata
    /// What the login sent is wrong, has ended, or has been used.
    case credential
    /// The refresh token has ended.
    case session
    /// The client is unknown, or its authentication was refused.
    case client
    /// The client may not use this kind of login.
    case grant
    /// The scopes are refused.
    case scope
    /// The audience or resource is refused.
    case target
    /// Another part of the request is refused.
    case request
    /// The user must log in or consent.
    case user
    /// The server's policy denies a machine's login.
    case policy
    /// A refusal that does not say why, or by an error that Lanyard does not know.
    case unexplained
    /// A success whose access token cannot be used.
    case unusableToken = "unusable_token"
    /// Another response that cannot be used, such as a gateway's page.
    case unusableResponse = "unusable_response"
    /// The service knows no such application.
    case application
    /// A file cannot be read, or does not hold what it should.
    case file
    /// Two users have one account.
    case account
    /// The response to a login in a browser is of another issuer, or its ID token is not for this client.
    case wrongIssuer = "wrong_issuer"
    /// This machine lacks something, or Lanyard is stopping.
    case machine

    /// Of an error whose verdict is all that is known.
    package init(_ verdict: IdentityError.Verdict) {
        self =
            switch verdict {
            case .transient, .unknownOutcome: .noResponse
            case .sessionDead: .session
            case .credentialRefused: .credential
            case .credentialDoubted: .unexplained
            case .gone: .noEndpoint
            case .unknownApp: .application
            case .credentialUnavailable, .credentialDelayed: .file
            case .accountInUse: .account
            case .clientRefused: .client
            case .callRefused: .request
            }
    }

    /// Only an operator makes the next call succeed, although it is made by itself.
    package var needsOperator: Bool {
        switch self {
        case .noEndpoint, .untrusted, .clientCertificate, .prohibited, .metadata, .unusableToken: true
        case .noResponse, .serviceFailure, .busy, .tls, .credential, .session, .client, .grant, .scope, .target,
            .request, .user, .policy, .unexplained, .unusableResponse, .application, .file, .account, .wrongIssuer,
            .machine:
            false
        }
    }
}

extension IdentityError {
    /// The same with its cause and remedy for a kind of identity.
    ///
    /// - Parameters:
    ///   - service: the kind of identity; nil: `static`.
    ///   - login: the kind of login that has failed; nil: another call, or unknown.
    ///   - isGiven: an operator gave its credential.
    package func explained(
        _ service: LoginKind.Service?, login: LoginKind? = nil, isGiven: Bool = false
    ) -> IdentityError {
        var error = self
        let cause = error.cause ?? IdentityCause(verdict)
        error.cause = cause
        error.remedy = cause.remedy(service, login: login, isGiven: isGiven)
        return error
    }

    /// The same for the login with a credential.
    package func explained(_ service: LoginKind.Service, _ credential: Credential) -> IdentityError {
        let isGiven = if case .given = credential { true } else { false }
        return explained(service, login: credential.kind, isGiven: isGiven)
    }

    /// The remedy for a user, as a sentence without its period; nil: unknown.
    package func remedy(for user: String) -> String? { remedy?.replacing("NAME", with: user) }
}
