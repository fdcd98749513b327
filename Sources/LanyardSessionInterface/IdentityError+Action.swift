import LanyardFoundations

extension IdentityError {
    /// Who must act, of this error alone. An alarming error, such as an untrusted certificate, is the operator's although
    /// the call is tried again; so is what only an operator changes, whatever became of the refresh token.
    ///
    /// - Parameter canLogIn: a configured credential can begin another session.
    package func action(canLogIn: Bool) -> ResponsibleParty {
        if isAlarming { return .operator }
        switch passedOn {
        case .loginRequired: return .user
        case .credentialRefused: return .operator
        case nil: break
        }
        return switch (responsible, verdict) {
        case (.operator, .transient), (.operator, .unknownOutcome): .operator
        case (_, .transient) where cause?.needsOperator == true: .operator
        case (_, .unknownOutcome) where cause?.needsOperator == true: .operator
        case (.user, .credentialRefused), (.user, .clientRefused): .user
        default: verdict.action(canLogIn: canLogIn)
        }
    }
}

extension IdentityError.Verdict {
    /// Who must act (errors.md 5).
    ///
    /// - Parameter canLogIn: a configured credential can begin another session.
    package func action(canLogIn: Bool) -> ResponsibleParty {
        switch self {
        case .transient, .credentialDoubted, .credentialDelayed: .nobody
        case .unknownOutcome, .sessionDead: canLogIn ? .nobody : .user
        case .credentialRefused, .gone, .unknownApp, .credentialUnavailable, .accountInUse, .clientRefused,
            .callRefused:
            .operator
        }
    }
}
