import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// A second call beside one that has no response, while requests wait (refresh.md 17). It is part of the same operation: one lock, one
/// intent, one result.
extension SessionCoordinator {
    /// When an operation's call is repeated while it is open; nil: it is not.
    func secondCall(of operation: TokenOperation) -> TokenOperation.SecondCall? {
        guard let delay = context.settings.secondCallAfter, operation.purpose == .own, isRepeatable(operation),
            context.lastError?.asksForPause != true,
            context.notBefore <= eventContext.instant
        else { return nil }
        let instant = eventContext.instant + delay
        return TokenOperation.SecondCall(at: instant, earliest: instant)
    }

    private func isRepeatable(_ operation: TokenOperation) -> Bool {
        switch operation.credentials {
        case .refreshToken: setup.secondCalls.refreshes
        case .login(.configured(let login)): setup.service.allowsSecondCall && login.kind.isRepeatable
        case .login(.given(let method)): setup.service.allowsSecondCall && method.kind.isRepeatable
        case .obtained, .none: false
        }
    }

    /// When the second call is due; `.never`: it is not.
    var secondCallDue: Instant {
        guard let operation, case .calling = operation.stage, let next = operation.secondCall, !isDraining
        else { return .never }
        guard operation.isFetch else {
            // A logout leaves a call open that the session does not wait for.
            guard waiting.isTokenWanted, session.call?.number == operation.number else { return .never }
            return max(next.at, session.waitsFrom(context))
        }
        let variant = variants.first { $0.session.call?.number == operation.number }
        guard let variant, variant.use.isDemanded else { return .never }
        return max(next.at, variant.session.waitsFrom(variant.context))
    }

    mutating func performSecondCall() {
        let now = eventContext.instant
        guard let operation, let present = operation.secondCall, secondCallDue <= now else { return }
        let next = nextSecondCall
        self.operation?.secondCall = next
        emit(.secondCall(operation: operation.number, isReleased: present.isReleased))
    }

    /// The one after that which is made now.
    private var nextSecondCall: TokenOperation.SecondCall? {
        guard let delay = context.settings.secondCallAfter else { return nil }
        let now = eventContext.instant
        let responseTime = variants.map(\.context.responseTime).reduce(context.responseTime, max)
        let interval = context.policy.secondCallInterval(delay: delay, responseTime: responseTime)
        return TokenOperation.SecondCall(at: now + interval, earliest: now + delay)
    }

    /// A call has no response yet, and a second one is made or was made: the service may respond to another one at once.
    package var awaitsResponse: Bool { secondCallDue != .never }

    /// The service has responded to another session of the identity.
    mutating func releaseSecondCall(after delay: Duration) {
        let next = operation?.secondCall?.released(at: eventContext.instant + delay)
        operation?.secondCall = next
    }

    /// Another session of the identity has made its second call just now.
    mutating func postponeSecondCall(until instant: Instant, _ number: UInt64) {
        guard let operation, operation.number == number, operation.secondCall != nil else { return }
        let now = eventContext.instant
        self.operation?.secondCall = TokenOperation.SecondCall(at: instant, earliest: now)
    }
}

extension SessionCoordinator.Setup {
    /// Which renewals get a second call: nothing in the call works once, and the service counts no failed attempts of an account. `auto`
    /// does not say that refresh tokens stay.
    var secondCalls: SessionContext.SecondCalls {
        guard service.allowsSecondCall else { return SessionContext.SecondCalls() }
        let login = if case .configured(let login)? = credential { login.kind.isRepeatable } else { false }
        return SessionContext.SecondCalls(refreshes: refreshTokens.rotation == .none, logins: login)
    }
}

extension LoginKind {
    /// Two calls at once are two tokens of one client: the client's own grant, and assertions that Lanyard signs, each with an id of its
    /// own.
    fileprivate var isRepeatable: Bool {
        switch self {
        case .clientCredentials, .signedAssertion, .googleKey, .gitHubApp: true
        case .anonymous, .emailPassword, .apiKey, .function, .jwt, .facebook, .googleIDToken, .googleAuthCode, .apple,
            .password, .refreshToken, .jwtBearer, .tokenExchange, .device, .authorizationCode, .broker:
            false
        }
    }
}
