import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// The access tokens of variants: one lane with the session's own calls, so that each refresh token is sent once and its
/// successor is stored before the next call (docs/reference/oauth-variants.md 4.2).
extension SessionCoordinator {
    /// What has happened to a variant.
    package enum VariantEvent: Sendable {
        /// A shard has no usable token of it.
        case tokenNeeded
        /// An upstream refused its token of this generation.
        case tokenRefused(Generation)
        /// An upstream has refused its token of this generation, with which a request was sent once more.
        case freshTokenRefused(Generation)
        /// The reply to `countUses`; nil: unknown.
        case usesCounted(TokenUses?)
    }

    mutating func handle(_ event: VariantEvent, of index: UserIndex) {
        guard !handleOfStandIn(event, of: index) else { return }
        guard let place = variants.firstIndex(where: { $0.index == index }) else {
            if index == setup.index, case .usesCounted(let uses) = event { recordUses(of: .plain, uses) }
            return
        }
        switch event {
        case .tokenNeeded:
            guard session.tokens != nil else {
                waiting.isTokenWanted = true
                return applyToSession(.tokenNeeded)
            }
            // Its token was not renewed, and has ended: it is fetched as at first, and requests wait for it.
            let hasEnded = variants[place].hasEnded(at: eventContext.instant)
            if hasEnded { variants[place].end(at: eventContext) }
            variants[place].use.isDemanded = true
            variants[place].renewal = .scheduled
            applyToVariant(at: place, hasEnded ? .logIn : .tokenNeeded)
        case .tokenRefused(let generation):
            variants[place].use.isDemanded = true
            recordRefusal(of: variants[place].session.tokens, variants[place].named.variant, generation)
            applyToVariant(at: place, .tokenRefused(generation))
        case .freshTokenRefused(let generation):
            recordRefusal(of: variants[place].session.tokens, variants[place].named.variant, generation)
        case .usesCounted(let uses):
            recordUses(of: variants[place].named.variant, uses)
            handleUses(uses?.responses, at: place)
        }
    }

    // MARK: The machines of the variants

    /// Sends an event to a variant. Publications and log events go out at once. A fetch waits for the lane.
    mutating func applyToVariant(at place: Int, _ event: Session.Event) {
        var variant = variants[place]
        if case .failed(let error, _) = event { variant.refusal = VariantSession.refusal(by: error) }
        if case .granted = event { (variant.refusal, variant.lostFetches) = (nil, VariantSession.LostFetches()) }
        if case .restored = event { (variant.refusal, variant.lostFetches) = (nil, VariantSession.LostFetches()) }
        variant.context.follow(context, account: session.tokens?.account)
        // What fetches a variant is the session's: its refresh token, if there is one.
        if session.tokens?.refresh != nil { variant.context.secondCalls.logins = context.secondCalls.refreshes }
        let actions = variant.session.handle(event, at: eventContext, &variant.context)
        context.countCalls(of: variant.context)
        variants[place] = variant
        for action in actions {
            switch action {
            case .login(let call):
                variants[place].waiting = call
                variants[place].waiting?.variant = variant.named.variant
            case .publish(let availability): emit(.publishVariant(variant.published(availability), variant.index))
            case .logEvent(let logEvent): log(logEvent, of: variant)
            case .refresh, .revoke: break
            }
        }
    }

    /// Of what a variant's machine notes, what an operator needs to know, in the words of variants.
    private mutating func log(_ logEvent: SessionLogEvent, of variant: VariantSession) {
        var logEvent = logEvent
        let names: [SessionLogEvent.Event: SessionLogEvent.Event] = [
            .loginSucceeded: .variantFetched, .loginFailed: variant.refusal == nil ? .variantFailed : .variantRefused,
            .refused: .variantRefused, .refreshForced: .refreshForced, .refreshDenied: .refreshDenied,
            .expired: .expired,
        ]
        guard let event = names[logEvent.event] else { return }
        logEvent.event = event
        if let refusal = variant.refusal, event == .variantRefused {
            logEvent.level = .error
            logEvent.reason = refusal.rawValue
        }
        logEvent.details["route"] = variant.named.name
        logEvent.details["token"] = variant.named.variant.text
        emit(.logEvent(logEvent))
    }

    /// Publishes what the session has. Without a session the variants have the same.
    mutating func publish(_ availability: AccessToken.Availability) {
        publishOwn(availability)
        waiting.isTokenWanted = false
        guard session.tokens == nil else { return }
        for place in variants.indices {
            variants[place].end(at: eventContext)
            emit(.publishVariant(availability, variants[place].index))
        }
    }

    /// A session without the tokens of its variants has them fetched.
    mutating func beginFetches() {
        guard session.tokens != nil, !isDraining else { return }
        for place in variants.indices where variants[place].session.state == .loggedOut && !variants[place].isHeld {
            applyToVariant(at: place, .logIn)
        }
    }

    /// Another session has begun: the tokens of the former one are not served any more.
    mutating func restartVariants() {
        for place in variants.indices {
            variants[place].end(at: eventContext)
            guard variants[place].isHeld else { continue }
            emit(.publishVariant(variants[place].heldAvailability, variants[place].index))
        }
    }

    /// The refresh token of a fetch must not be sent again, and its outcome is unknown.
    mutating func recordLostFetch(_ call: SessionCall, _ error: IdentityError) {
        guard let (place, _) = fetch(of: call) else { return }
        variants[place].recordLostFetch(error, at: eventContext)
    }

    /// An event that concerns all tokens of the user.
    mutating func applyToVariants(_ event: Session.Event) {
        for place in variants.indices where variants[place].session.state != .loggedOut {
            applyToVariant(at: place, event)
        }
    }

    /// The service has asked, in the response to another call, not to be called for a while.
    mutating func limitVariants(by error: IdentityError, besides variant: TokenVariant = .plain) {
        for place in variants.indices where variants[place].named.variant != variant {
            applyToVariant(at: place, .limited(error))
        }
    }

    /// An operator wants new tokens, or the client may be accepted now: variants that fail are tried at once.
    mutating func retryVariants() {
        for place in variants.indices {
            variants[place].lostFetches.heldUntil = .past
            switch variants[place].session {
            case .refused, .loggingIn: applyToVariant(at: place, .logIn)
            case .stale, .unreachable: applyToVariant(at: place, .refreshNow(.asked))
            case .loggedOut, .valid, .refreshing, .loginRequired: break
            }
        }
    }

    /// A reload may name other variants.
    mutating func reconfigureVariants() {
        let former = variants
        variants = Self.variants(of: setup, besides: standIn).map { new in
            former.first { $0.index == new.index }?.renamed(to: new.named) ?? new
        }
        for variant in former where !variants.contains(where: { $0.index == variant.index }) {
            publishUnnamed(variant.named.variant, variant.index)
        }
        applyBlocks()
        guard session.tokens == nil else { return }
        let availability = session.availability(at: eventContext.instant, context)
        for variant in variants { emit(.publishVariant(availability, variant.index)) }
    }

    mutating func publishUnnamed(_ variant: TokenVariant, _ index: UserIndex) {
        let reason = "token (\(variant.text)) of a route before the reload: no route asks for it any more"
        emit(.publishVariant(.none(.variantRefused(because: reason)), index))
    }

    /// - Parameter standIn: the variant whose token the session has itself.
    static func variants(of setup: Setup, besides standIn: StandIn?) -> [VariantSession] {
        let all = (setup.standIn.map { [$0] } ?? []) + setup.variants
        return all.filter { $0.index != standIn?.index }.map {
            VariantSession($0.named, $0.index, setup.refresh, generation: setup.generation)
        }
    }

    // MARK: Use

    mutating func performDueOfVariants() {
        for place in variants.indices where variants[place].due <= eventContext.instant {
            variants[place].lostFetches.heldUntil = .past
            guard case .valid = variants[place].session else {
                applyToVariant(at: place, .due)
                continue
            }
            variants[place].renewal = .counting
            emit(.countUses(variants[place].index))
        }
    }

    private mutating func handleUses(_ count: UInt64?, at place: Int) {
        if variants[place].use.awaitsCount {
            variants[place].use.awaitsCount = false
            variants[place].use.atIssue = count
            return
        }
        guard variants[place].renewal == .counting, case .valid(let tokens, _) = variants[place].session else { return }
        if variants[place].use.hasGrown(to: count) {
            variants[place].renewal = .scheduled
            // A demand counts for the token that it has brought, and not for those after it.
            variants[place].use.isDemanded = false
            return applyToVariant(at: place, .due)
        }
        variants[place].renewal = eventContext.instant < tokens.mandatoryFrom ? .postponed : .onDemand
    }

    /// The session has a new token of its own.
    mutating func noteIssueOfOwn() {
        superseded.recordIssue(of: .plain)
        emit(.countUses(ownIndex))
    }

    /// The variant has a new token.
    private mutating func noteIssue(at place: Int, isDemanded: Bool) {
        variants[place].renewal = .scheduled
        variants[place].use = VariantSession.Use(awaitsCount: true, isDemanded: isDemanded)
        emit(.countUses(variants[place].index))
    }

    // MARK: The lane

    /// The fetch that has waited longest; nil: none may be made. It proves the session by what that has now. A session
    /// that has lost its refresh token logs in first.
    mutating func nextFetch() -> TokenOperation? {
        guard let tokens = session.tokens else { return nil }
        for place in variants.indices where variants[place].waiting?.number != variants[place].session.call?.number {
            variants[place].waiting = nil
        }
        let places = variants.indices.filter { variants[$0].waiting != nil && variants[$0].block == nil }
        guard tokens.refresh != nil || mayFetchByLogin else {
            if session.call == nil { failFetches(at: places) }
            return nil
        }
        guard let place = places.min(by: { waitingNumber($0) < waitingNumber($1) }), var call = variants[place].waiting
        else { return nil }
        variants[place].waiting = nil
        call.kind = tokens.refresh == nil ? .login : .refresh
        let login = setup.credential.map { TokenOperation.Credentials.login($0) } ?? .none
        return TokenOperation(call, tokens.refresh.map { .refreshToken($0) } ?? login)
    }

    /// The login's grant fetches variants, also while the renewal of the plain token fails. Three cases are excepted: a credential that one
    /// login uses up, a session that has lost its refresh token, since its own login begins another one, and a user's credential in doubt.
    private var mayFetchByLogin: Bool {
        guard case .configured(let login)? = setup.credential else { return session.state == .valid }
        guard login.kind != .refreshToken, login.kind != .googleAuthCode else { return false }
        guard session.state != .valid else { return true }
        return !refreshToken.isGiven
            && (login.kind.isRefresh || session.retryState?.error?.verdict != .credentialDoubted)
    }

    /// Fetches that cannot be made now are not in progress: no request waits for them.
    private mutating func failFetches(at places: [Int]) {
        for place in places {
            guard var call = variants[place].waiting else { continue }
            variants[place].waiting = nil
            call.kind = .login
            let reason = context.lastError.map { ": \($0.message)" } ?? ""
            var error = IdentityError(
                .transient(retryAfter: nil),
                message: "the session has lost its refresh token, and logs in before further access tokens are fetched"
                    + reason)
            (error.responsible, error.cause) = (context.lastError?.responsible, context.lastError?.cause)
            // A credential that has served its only login, for example: the requests and the status name the same party.
            if context.lastError?.action(canLogIn: true) == .operator { error.responsible = .operator }
            // Nothing logs in. What a last try brings has the variant fetched; a login by the user is safer (refresh-outcomes.md 9).
            if !context.hasCredential, variants[place].session.tokens == nil {
                (error.verdict, error.responsible) = (.credentialUnavailable, .user)
                error.message =
                    "the session has lost its refresh token, and only a login brings further access tokens" + reason
            }
            applyToVariant(at: place, .failed(error, call))
            // It can do nothing before.
            guard session.nextCallAt != .never else { continue }
            let next = session.nextCallAt
            variants[place].session = variants[place].session.changingRetries { $0 = $0.waiting(notBefore: next) }
        }
    }

    private func waitingNumber(_ place: Int) -> UInt64 { variants[place].waiting?.number ?? .max }

    /// The place of the variant that waits for the result of a call, and the call as its machine knows it; nil: it does not
    /// wait for it any more.
    private func fetch(of call: SessionCall) -> (place: Int, call: SessionCall)? {
        let place = variants.firstIndex {
            $0.named.variant == call.variant && $0.session.call?.number == call.number
        }
        var own = call
        own.kind = .login
        return place.map { ($0, own) }
    }

    /// The session as it is to be stored with the token of a fetch; nil: the store holds another user in its place.
    func login(fetching grant: Grant, by operation: TokenOperation) -> StoreChange.StoredLogin? {
        guard var stored = writes.unsaved?.session ?? knownRecord.user?.session else { return nil }
        if let token = grant.refreshToken { (stored.refresh, stored.refreshExpiry) = (token, grant.refreshTokenExpiry) }
        stored.hasRotated = refreshToken.hasRotated
        stored.blockedVariants = knownBlocks
        stored.hasMadeLastTry = refreshToken.hasMadeLastTry
        for (variant, token) in stored.tokens.others where token.issuedAt + token.lifetime <= eventContext.wall {
            stored.tokens[variant] = nil
        }
        if grant.audienceMismatch == nil, grant.unusable == nil {
            stored.tokens[operation.call.variant] = StoredAccessToken(
                grant.accessToken, issuedAt: operation.call.startedAtWall,
                issuedAtBoot: BootInstant(boot: setup.boot, instant: operation.call.startedAt), lifetime: grant.lifetime
            )
        }
        var login = StoreChange.StoredLogin(
            identity: setup.identity, session: stored, accountID: session.tokens?.accountID,
            provider: writes.unsaved?.provider, isAdded: setup.isAdded, generationMin: knownRecord.next,
            fingerprint: setup.service.fingerprint, configured: setup.configured, keepsLogout: true,
            refused: refusedCredential(after: grant))
        login.subject = writes.unsaved?.subject
        return login
    }

    /// The store has the result of a fetch, or has failed to take it.
    mutating func handleFetched(_ grant: Grant, by operation: TokenOperation) {
        if operation.call.kind == .refresh { applyToSession(.refreshTokenUsed(grant, operation.call)) }
        if let (place, call) = fetch(of: operation.call) {
            if let mismatch = grant.audienceMismatch {
                let error = IdentityError(.clientRefused, code: IdentityError.audienceMismatch, message: mismatch)
                applyToVariant(at: place, .failed(error, call))
            } else {
                let isDemanded = variants[place].use.isDemanded
                variantCosts.noteAccepted(variants[place].named.variant)
                var own = grant
                own.refreshToken = nil
                variants[place].context.expect(generation: knownRecord.current)
                superseded.recordIssue(of: operation.call.variant)
                applyToVariant(at: place, .granted(own, call))
                noteIssue(at: place, isDemanded: isDemanded)
            }
        }
        endGone()
        refreshToken.warnings.restart()
        finish()
    }

    /// The variant waits no more.
    mutating func failFetch(_ error: IdentityError, of operation: TokenOperation) {
        if let (place, call) = fetch(of: operation.call) { applyToVariant(at: place, .failed(error, call)) }
    }

    /// Errors of the variant stay with it. Whether the refresh token or the credential has ended is the session's to find out: a
    /// server may have refused what the route asks for.
    mutating func handleFetchFailure(_ error: IdentityError, of operation: TokenOperation) {
        let isSent = !operation.isAwaitingLock && !operation.isPreparing
        if operation.call.kind == .refresh, isSent {
            if error.verdict == .unknownOutcome, rotation == .oneUse || rotation == .grace && !isWithinGrace {
                return abandon(operation.call, error)
            }
            if error.verdict != .unknownOutcome {
                refreshToken.triesWithoutResponse = max(refreshToken.triesWithoutResponse - 1, 0)
            }
            variantCosts.noteRefused(operation.call.variant, error)
        }
        if !operation.isAwaitingLock, refusesProof(error, operation) {
            var refusal = error
            refusal.verdict = .clientRefused
            failFetch(refusal, of: operation)
            applyToSession(.refreshNow(.fetchRefused))
            return isSent ? close(with: .clearIntent) : finish()
        }
        failFetch(error, of: operation)
        applyToSession(.limited(error))
        limitVariants(by: error, besides: operation.call.variant)
        guard isSent, error.verdict != .unknownOutcome || operation.call.kind == .login else { return finish() }
        close(with: .clearIntent)
    }

    /// The login of a fetch is one of the session's account: the credential's file may have changed since the session began.
    func continuesAccount(_ grant: Grant) -> Bool { context.continuesAccount(grant, isExplicit: false) }

    /// A fetch has logged in to another account than the session's. The session follows, and the variant is fetched for its new account.
    mutating func refuseAnotherAccount(of operation: TokenOperation) {
        failFetch(
            IdentityError(.transient(retryAfter: nil), message: "the credential is another account's by now"),
            of: operation)
        applyToSession(.refreshNow(.fetchRefused))
        close(with: .clearIntent)
    }

    /// The service does not accept what proves the user: the refresh token or the credential. A doubtful refusal counts when it is
    /// repeated.
    private func refusesProof(_ error: IdentityError, _ operation: TokenOperation) -> Bool {
        switch error.verdict {
        case .sessionDead, .credentialRefused: true
        case .credentialDoubted:
            fetch(of: operation.call).map { place, _ in
                let retryState = variants[place].session.retryState
                return retryState?.confirmsDoubt(by: context.policy, at: eventContext.instant) ?? false
            } ?? false
        case .transient, .unknownOutcome, .gone, .unknownApp, .credentialUnavailable, .credentialDelayed, .accountInUse,
            .clientRefused, .callRefused:
            false
        }
    }

    /// The operation of a fetch has ended without a result for its variant: the session has changed in between. The
    /// fetch waits for the lane again.
    mutating func repeatFetch(_ call: SessionCall) {
        if !isDraining, let (place, _) = fetch(of: call) { variants[place].waiting = call }
    }

    // MARK: The store

    /// Continues with the stored tokens of the variants, and with those that another process has fetched.
    mutating func restoreVariants(_ stored: StoredSession, _ how: Session.Restoration) {
        guard let account = session.tokens?.account else { return }
        for place in variants.indices where variants[place].block == nil {
            guard let token = stored.tokens.others[variants[place].named.variant] else {
                // The session of the store has none, so what is served here was that of another session.
                if how.isAdopted { variants[place].end(at: eventContext) }
                continue
            }
            guard !how.isAdopted || variants[place].session.tokens?.isSame(as: token) != true else { continue }
            let generation = variants[place].context.generation.next(atLeast: knownRecord.current)
            let tokens = SessionTokens(
                token, (nil, nil), generation: generation, accountID: context.accountID, account: account,
                boot: setup.boot, at: eventContext, skew: context.skew ?? .zero, settings: context.settings)
            var how = how
            how.isUrgent = false
            continueVariant(at: place, with: tokens, how)
        }
    }

    /// The variant has a token from the store, or the former one of the session itself.
    mutating func continueVariant(
        at place: Int, with tokens: SessionTokens,
        _ how: Session.Restoration = Session.Restoration(isTrusted: true, isUrgent: false, spread: 0, isAdopted: true)
    ) {
        guard variants[place].block == nil else { return }
        variants[place].context.generation = max(variants[place].context.generation, tokens.generation)
        applyToVariant(at: place, .restored(tokens, how))
        noteIssue(at: place, isDemanded: false)
    }
}
