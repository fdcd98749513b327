import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// What is shown of a runner.
extension SessionRunner {
    /// See `SessionCoordinator.isDrained`.
    var isDrained: Bool {
        environment.loop.assertIsCurrent()
        return !isRenewedHere || isWaiting || coordinator.isDrained
    }

    /// False: the user's token is read from a file, so there is no call and nothing to store.
    var isRenewedHere: Bool { if case .service = managedUser.source { true } else { false } }

    /// The response to a call may have the only copy of the next refresh token, or that is being stored.
    var isRotating: Bool { coordinator.isRotating }

    /// See `SessionCoordinator.hasUnsavedRefreshToken`.
    var hasUnsavedRefreshToken: Bool { coordinator.hasUnsavedRefreshToken }

    /// A change of the user is on its way into the store.
    var isWriting: Bool { coordinator.writes.isWriting }

    var isRefreshing: Bool {
        environment.loop.assertIsCurrent()
        guard let operation = coordinator.operation, operation.isAwaitingResult else { return false }
        return operation.call.kind == .refresh
    }

    /// The user as of now, for the report.
    package var status: SessionStatus {
        environment.loop.assertIsCurrent()
        return status(at: .now)
    }

    private func status(at eventContext: EventContext) -> SessionStatus {
        let coordinator = coordinator
        let (session, context) = (coordinator.session, coordinator.context)
        let tokens = session.tokens
        var action = session.reason.action(latest: context.lastError, canLogIn: context.hasCredential)
        if action == .nobody, let refused = coordinator.variants.first(where: { $0.refusal != nil || $0.block != nil })
        {
            action =
                refused.block != nil
                ? .operator : refused.refusal?.action(latest: refused.context.lastError, canLogIn: true) ?? .operator
        }
        let superseded = coordinator.superseded.since.map {
            SessionStatus.Failure(message: SupersededTokens.message, since: $0)
        }
        let narrowed = coordinator.refreshToken.narrowedSince.map { since in
            SessionStatus.Failure(
                message: VariantCosts.message(missing: coordinator.refreshToken.missingScopes),
                remedy: "give that route a user of its own, or leave out token.scopes, then run lanyard login \(name)",
                since: since)
        }
        if action == .nobody, superseded != nil || narrowed != nil { action = .operator }
        var status = SessionStatus(
            user: name, index: index, identity: managedUser.settings.identity,
            accountID: context.accountID ?? coordinator.subject,
            // Until its start it is not known whether the user is logged in: what the store holds decides.
            state: session.reason == .loggingIn ? .loggingIn : session.state, reason: session.reason,
            tokens: SessionStatus.Tokens(
                generation: context.generation, accessExpiry: tokens?.expiry,
                refreshExpiry: tokens?.refresh == nil ? nil : tokens?.refreshExpiry,
                usableUntil: tokens?.usableUntil ?? .past,
                variants: coordinator.variantStatus(at: eventContext)),
            nextRefreshAt: SessionLog.wall(of: session.nextCallAt, eventContext),
            failure: openCall.failure(context.lastError, of: name, at: eventContext.wall) ?? superseded ?? narrowed,
            action: action, hasEverBeenReady: context.hasEverBeenReady, provider: coordinator.provider,
            isStoreFailing: coordinator.storeError != nil, call: openCall.progress)
        status.canLogIn = context.hasCredential
        return status
    }
}
