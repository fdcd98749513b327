import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// A second call beside one that has no response, while requests wait (refresh.md 17). It is part of the same operation: one lock, one
/// intent, one result.
extension SessionCoordinator {
    /// Whether an operation's call may be repeated while it is open, and from when on.
    func secondCall(of operation: TokenOperation) -> TokenOperation.SecondCall {
        guard let delay = context.settings.secondCallAfter, operation.purpose == .own, setup.service.allowsSecondCall,
            isRepeatable(operation), context.lastError?.asksForPause != true,
            context.notBefore <= eventContext.instant
        else { return .none }
        return .possible(from: eventContext.instant + delay)
    }

    /// Nothing in the call works once, and the service counts no failed attempts of an account. `auto` does not say that refresh tokens
    /// stay.
    private func isRepeatable(_ operation: TokenOperation) -> Bool {
        switch operation.credentials {
        case .refreshToken: setup.refreshTokens.rotation == .none
        case .login(.configured(let login)): login.kind.isRepeatable
        case .login(.given(let method)): method.kind.isRepeatable
        case .obtained, .none: false
        }
    }

    /// When the second call is due; `.never`: it is not.
    var secondCallDue: Instant {
        guard let operation, case .calling = operation.stage, case .possible(let from) = operation.secondCall,
            !isDraining
        else { return .never }
        guard operation.isFetch else {
            // A logout leaves a call open that the session does not wait for.
            guard waiting.isTokenWanted, session.call?.number == operation.number else { return .never }
            return max(from, session.waitsFrom)
        }
        let variant = variants.first { $0.session.call?.number == operation.number }
        guard let variant, variant.use.isDemanded else { return .never }
        return max(from, variant.session.waitsFrom)
    }

    mutating func performSecondCall() {
        guard let operation, secondCallDue <= eventContext.instant else { return }
        self.operation?.secondCall = .begun
        emit(.secondCall(operation: operation.number))
    }

    /// Another session of the identity has made its second call just now.
    mutating func postponeSecondCall(until instant: Instant, _ number: UInt64) {
        guard let operation, operation.number == number, operation.secondCall == .begun else { return }
        self.operation?.secondCall = .possible(from: instant)
    }
}

extension LoginKind {
    /// Two calls at once are two tokens of one client: the client's own grant, and assertions that Lanyard signs, each with an id of its
    /// own.
    fileprivate var isRepeatable: Bool {
        switch self {
        case .clientCredentials, .signedAssertion, .googleKey, .gitHubApp: true
        case .anonymous, .emailPassword, .apiKey, .function, .jwt, .facebook, .googleIDToken, .googleAuthCode, .apple,
            .password, .refreshToken, .jwtBearer, .tokenExchange, .device, .authorizationCode:
            false
        }
    }
}
