import LanyardFoundations
import LanyardSessionInterface

/// One operator's call with a token of the user's session: which token it sends, and what follows a 401
/// (app-services-accounts.md 4.7). It decides; `AccountCallRunner` acts, and the simulation in its place.
///
/// A call is sent twice at most, and causes one renewal at most. A 401 therefore never leads to a loop, whatever it
/// means.
package struct AccountAttempt: Sendable {
    /// What to do next.
    package enum Step: Equatable {
        case send(Secret)
        /// Renew the access token; then `renewed`.
        case renew
        case fail(UserError)
    }

    /// The `error_code` values of a 401 that speak of the credential in the body and not of the token. Sending it again
    /// would count as another wrong guess.
    private static let credentialCodes: Set<String> = ["InvalidPassword", "AuthError", "UserDisabled"]

    private let authorization: AccountCall.Authorization
    /// The call carries a credential besides the token.
    private let isLink: Bool
    private var sent: Secret?
    private var isRepeated = false
    private var isRenewed = false
    /// The 401 that has caused the renewal.
    private var rejection: IdentityError?

    /// - Parameter isLink: the call carries a credential besides the token.
    package init(_ authorization: AccountCall.Authorization, isLink: Bool = false) {
        self.authorization = authorization
        self.isLink = isLink
    }

    /// The first step.
    ///
    /// - Parameter tokens: the current ones; nil: there is no session.
    package mutating func begin(_ tokens: SessionTokens?, at now: Instant) -> Step {
        guard let tokens else { return .fail(.notLoggedIn) }
        if let token = token(in: tokens, at: now) {
            sent = token
            return .send(token)
        }
        guard !isRenewed else { return .fail(.notLoggedIn) }
        isRenewed = true
        return .renew
    }

    /// The service has refused the call.
    package mutating func handleRefusal(_ error: IdentityError, _ tokens: SessionTokens?, at now: Instant) -> Step {
        guard error.status == 401, !isRepeated, !(isLink && Self.credentialCodes.contains(error.code ?? "")) else {
            return .fail(Self.failure(error))
        }
        // A renewal has come in between: the refused token was an older one.
        if let next = repetition(tokens, at: now) { return next }
        guard !isRenewed, tokens != nil else { return .fail(Self.failure(error)) }
        isRenewed = true
        rejection = error
        return .renew
    }

    /// The renewal has ended.
    ///
    /// - Parameter error: nil: the access token is new.
    package mutating func handleRenewal(_ error: UserError?, _ tokens: SessionTokens?, at now: Instant) -> Step {
        if let error {
            // A token that cannot be renewed leaves the refusal as it is.
            if error == .notSupported, let rejection { return .fail(Self.failure(rejection)) }
            return .fail(error)
        }
        guard let rejection else { return begin(tokens, at: now) }
        // The renewal has shown that the session lives. A refresh token that has not changed would be refused again.
        return repetition(tokens, at: now) ?? .fail(Self.failure(rejection))
    }

    private mutating func repetition(_ tokens: SessionTokens?, at now: Instant) -> Step? {
        guard let token = tokens.flatMap({ token(in: $0, at: now) }), token != sent else { return nil }
        isRepeated = true
        sent = token
        return .send(token)
    }

    private func token(in tokens: SessionTokens, at now: Instant) -> Secret? {
        switch authorization {
        case .none: nil
        case .accessToken: tokens.isUsable(at: now) ? tokens.access : nil
        case .refreshToken: tokens.refresh
        }
    }

    /// What an operator learns of an error of the service.
    static func failure(_ error: IdentityError) -> UserError {
        error.verdict == .unknownOutcome ? .serviceOutcomeUnknown(error) : .identity(error)
    }
}
