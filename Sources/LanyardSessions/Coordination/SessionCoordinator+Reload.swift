import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// How a reload changes the settings of a user that stays at its identity service (architecture-control.md 7.9).
extension SessionCoordinator {
    /// The parameters of an exchange may name another subject from now on.
    mutating func doubtExchangedAccount(_ setup: Setup) {
        if case .configured(let login)? = setup.credential, login.kind == .tokenExchange { context.doubtAccount() }
    }

    /// Takes new settings. An existing session continues as it is, as at a start. A user without one logs in with another
    /// credential at once.
    mutating func reconfigure(_ setup: Setup, isCredentialNew: Bool) {
        let former = self.setup.standIn?.index
        self.setup = setup
        context.settings = setup.refresh
        context.refreshTokens = setup.refreshTokens
        context.hasCredential = setup.credential != nil
        context.secondCalls = setup.secondCalls
        if isCredentialNew { variantCosts = VariantCosts() }
        superseded = SupersededTokens()
        reconfigureVariants()
        changeStandIn(isCredentialNew || former != setup.standIn?.index)
        guard isCredentialNew else { return }
        // A login in progress has the former credential: its refusal says nothing of the new one.
        if session.call?.kind == .login { context.noteChangedCredential() }
        switch session {
        case .refused, .loginRequired, .valid(_, .never): applyToSession(.credentialChanged)
        case .loggedOut where !wasLoggedOut, .loggingIn: applyToSession(.logIn)
        case .loggedOut: break
        case .valid, .refreshing: if let stored = knownRecord.user { compareLoginKinds(stored) }
        case .stale, .unreachable:
            if let stored = knownRecord.user { compareLoginKinds(stored) }
            // A refusal of the client may be mended.
            applyToSession(.credentialChanged)
        }
    }

    /// Renews the tokens of a request that a reload has changed, once the call in progress has its result and the service wants calls.
    /// They serve until then. A session that fails is renewed by its next call.
    mutating func renewFormerRequest() {
        guard waiting.renewsFormerRequest, !isOperating, session.call == nil, !isDraining,
            context.notBefore <= eventContext.instant
        else { return }
        waiting.renewsFormerRequest = false
        switch session {
        case .valid: applyToSession(.refreshNow(.requestChanged))
        case .loggedOut, .loggingIn, .refreshing, .stale, .unreachable, .loginRequired, .refused: break
        }
        for place in variants.indices {
            switch variants[place].session {
            case .valid: applyToVariant(at: place, .refreshNow(.requestChanged))
            case .loggedOut, .loggingIn, .refreshing, .stale, .unreachable, .loginRequired, .refused: break
            }
        }
    }

    /// After the start: tokens from the store serve. A call that the start has begun has the present request.
    var hasFormerTokens: Bool {
        session.tokens != nil && session.call == nil || variants.contains { $0.session.tokens != nil }
    }

    /// When the service wants calls again that a renewal of a changed request waits for; `.never`: it waits for none.
    var formerRequestDue: Instant {
        waiting.renewsFormerRequest && context.notBefore > eventContext.instant ? context.notBefore : .never
    }

    /// An operator has ended the session: no automatic login follows.
    private var wasLoggedOut: Bool {
        knownRecord.user?.isLoggedOut == true || writes.isTerminating || writes.hasUnsavedTermination
    }

    /// What was begun is stored, or was tried once more: another runner of the same user may begin.
    var mayBeReplaced: Bool { isDrained && !isAdopting && lock != .requested }
}

extension SessionCoordinator.Event {
    /// The operator's call that it is; nil: no operator waits for its result.
    package var operatorCall: SessionCoordinator.OperatorCall? {
        switch self {
        case .login, .obtained: .login
        case .refresh: .refresh
        case .terminate(_, let id): .termination(id)
        case .beginDeletion: .deletion
        case .begin, .due, .reconfigured, .session, .variant, .freshTokenRefused, .endDeletion, .drain, .retryUnsaved,
            .retryUnsavedEnd, .locked, .turnMissed, .begun, .read, .storeSnapshot, .committed, .callCompleted,
            .refreshPrepared,
            .claimed, .secondCallPostponed, .probe, .serviceReturned:
            nil
        }
    }
}
