import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// The variant whose token the session has in place of the plain one. Where each route of a user names a token, a plain one would be
/// fetched for no request. Its grant needs no refresh token (docs/reference/oauth-variants.md 4.2).
struct StandIn: Sendable {
    let named: NamedVariant
    /// The index that requests with the token have.
    let index: UserIndex

    init(_ variant: (named: NamedVariant, index: UserIndex)) { (named, index) = variant }

    init?(_ setup: SessionCoordinator.Setup) {
        guard let standIn = setup.standIn else { return nil }
        self.init(standIn)
    }

    /// What the shards are told of the session's token, under the index of the variant.
    func published(_ availability: AccessToken.Availability) -> AccessToken.Availability {
        switch availability {
        case .token(let token): .token(token.renamed(index))
        case .pending, .none: availability
        }
    }
}

extension SessionCoordinator {
    /// Routes ask for further tokens of the user.
    package var hasVariants: Bool { standIn != nil || !variants.isEmpty }

    /// The index that requests with the session's own token have.
    var ownIndex: UserIndex { standIn?.index ?? setup.index }

    /// Publishes the availability of the session's token. Under the user's own index there is none beside a stand-in: a request that asks
    /// for it has come with a reload, and waits for that.
    mutating func publishOwn(_ availability: AccessToken.Availability) {
        guard let standIn else { return emit(.publish(availability)) }
        if case .token = availability {
            emit(.publish(context.hasCredential ? .pending : .none(.loginRequired)))
        } else {
            emit(.publish(availability))
        }
        emit(.publishVariant(standIn.published(availability), standIn.index))
    }

    /// An event about the token of the stand-in is one about the session's.
    ///
    /// - Returns: false: it is about another token.
    mutating func handleOfStandIn(_ event: VariantEvent, of index: UserIndex) -> Bool {
        guard standIn?.index == index else { return false }
        switch event {
        case .tokenNeeded:
            waiting.isTokenWanted = true
            applyToSession(.tokenNeeded)
        case .tokenRefused(let generation):
            recordRefusal(of: session.tokens, .plain, generation)
            applyToSession(.tokenRefused(generation))
        case .freshTokenRefused(let generation): recordRefusal(of: session.tokens, .plain, generation)
        case .usesCounted(let uses): recordUses(of: .plain, uses)
        }
        return true
    }

    /// What a login asks for.
    func standIn(of call: SessionCall, by credentials: TokenOperation.Credentials) -> TokenVariant? {
        guard call.kind == .login, case .login(let credential) = credentials else { return nil }
        let isMachine =
            switch credential {
            case .configured(let login): login.kind.isRefresh
            case .given(let method): method.kind.isRefresh
            }
        return isMachine ? standIn?.named.variant : nil
    }

    /// The result of a login is one for the session as it is now. A reload may have changed which token that has.
    private func isAwaited(_ operation: TokenOperation) -> Bool {
        operation.purpose != .own || session.call?.number == operation.number
    }

    /// A login has brought a token. One of a stand-in that cannot serve is dropped.
    ///
    /// - Returns: false: the token is not the session's.
    mutating func acceptsStandIn(_ grant: Grant, of operation: TokenOperation) -> Bool {
        let asked = operation.call.standIn
        guard !operation.isFetch, asked != nil || standIn != nil else { return true }
        guard isAwaited(operation) else {
            if let token = grant.refreshToken { revoke(token) }
            close(with: .clearIntent)
            return false
        }
        // An operator has logged in with another credential.
        guard asked != nil else { return true }
        // The session of a grant that has a refresh token after all is none of this user's.
        if let token = grant.refreshToken { revoke(token) }
        guard asked == standIn?.named.variant, grant.refreshToken == nil else {
            logInWithoutStandIn(operation)
            return false
        }
        guard let mismatch = grant.audienceMismatch else { return true }
        let error = IdentityError(.clientRefused, code: IdentityError.audienceMismatch, message: mismatch)
        if let error = failStandIn(error, of: operation) { handleFailure(error) }
        return false
    }

    /// The plain token of a login is about to take the place of the session's own.
    mutating func replaceStandIn(after operation: TokenOperation) {
        guard operation.call.kind == .login, operation.call.standIn == nil, standIn != nil, isAwaited(operation) else {
            return
        }
        standIn = nil
        rebuildVariants()
    }

    /// The service does not give the token of the stand-in: that is the route's fault alone. While the present token serves, its renewal is
    /// refused like any other. At its end, and at a first login, the plain token proves the session.
    ///
    /// - Returns: the error that is the session's; nil: the login is made once more.
    mutating func failStandIn(_ error: IdentityError, of operation: TokenOperation) -> IdentityError? {
        guard operation.call.standIn != nil, error.verdict == .clientRefused,
            Self.isOfRequest(error) || error.isOfClient
        else { return error }
        guard !error.isOfClient else {
            // The plain token would be refused, too.
            var error = error
            error.verdict = .credentialRefused
            return error
        }
        if operation.purpose == .own {
            guard isAwaited(operation), session.tokens?.isUsable(at: eventContext.instant) != true else { return error }
        }
        logInWithoutStandIn(operation)
        return nil
    }

    /// The service has refused what is asked for, or has given another token.
    private static func isOfRequest(_ error: IdentityError) -> Bool {
        !error.isOfClient && (error.status != nil || error.code == IdentityError.audienceMismatch)
    }

    /// The token of a stand-in whose renewal is refused has ended: the plain token proves the session from now on, so that the other
    /// routes do not depend on it.
    mutating func endRefusedStandIn() {
        guard standIn != nil, setup.standIn != nil, case .unreachable(_, let retryState) = session,
            retryState.call == nil,
            let error = retryState.error, error.verdict == .clientRefused, Self.isOfRequest(error)
        else { return }
        exchangeOwnToken(for: nil)
    }

    /// The login is made once more: for the plain token, or for that of the stand-in which a reload has named.
    private mutating func logInWithoutStandIn(_ operation: TokenOperation) {
        let isRefused = operation.call.standIn == standIn?.named.variant
        if operation.purpose == .operatorLogin {
            // The session keeps its token until the login has succeeded.
            var login = OperatorLogin(credentials: operation.credentials)
            login.isPlain = isRefused
            waiting.login = login
        } else if session.tokens != nil {
            exchangeOwnToken(for: nil)
        } else {
            if isRefused {
                standIn = nil
                rebuildVariants()
            }
            waiting.call = (operation.call, nil)
            waiting.call?.call.standIn = nil
        }
        close(with: .clearIntent)
    }

    // MARK: Another token as the session's own

    /// A reload may have changed which tokens routes ask for. Each token that a route still asks for serves.
    ///
    /// - Parameter isNew: the configuration names another stand-in than before, or has another credential.
    mutating func changeStandIn(_ isNew: Bool) {
        let next = nextStandIn(isNew)
        guard next?.index != standIn?.index else { return standIn = next }
        exchangeOwnToken(for: next)
    }

    private func nextStandIn(_ isNew: Bool) -> StandIn? {
        // Its refresh token renews the plain one.
        guard session.tokens?.refresh == nil else { return nil }
        let all = (setup.standIn.map { [$0] } ?? []) + setup.variants
        let present = standIn.flatMap { standIn in all.first { $0.index == standIn.index } }
        let usable = all.first { entry in
            variants.contains {
                $0.index == entry.index && $0.session.tokens?.isUsable(at: eventContext.instant) == true
            }
        }
        // Nothing can fetch the plain token.
        guard context.hasCredential || session.tokens == nil else {
            return standIn == nil ? nil : (present ?? usable).map { StandIn($0) }
        }
        guard let wanted = setup.standIn else { return nil }
        if let present { return StandIn(present) }
        // The service has not given it: the plain token is there in its place.
        if standIn == nil, !isNew { return nil }
        return StandIn(usable ?? wanted)
    }

    /// The session has the token of a variant as its own from now on; nil: the plain one. One that is not there is fetched. The former
    /// one continues as that of a variant, if a route asks for it.
    private mutating func exchangeOwnToken(for next: StandIn?) {
        let (former, replaced, latest) = (standIn, session.tokens, latestGeneration)
        let own = variants.first { $0.index == next?.index }?.session.tokens
        standIn = next
        rebuildVariants()
        context.generation = latest
        waiting.call = nil
        let place = variants.firstIndex { $0.index == former?.index }
        if let former, place == nil { publishUnnamed(former.named.variant, former.index) }
        guard let replaced else { return publish(session.availability(at: eventContext.instant, context)) }
        let now = eventContext.instant
        applyToSession(.exchanged(own.flatMap { $0.isUsable(at: now) ? $0 : nil } ?? replaced.withheld(at: now)))
        if former != nil, let place, session.tokens != nil, replaced.isUsable(at: now) {
            continueVariant(at: place, with: replaced)
        }
    }

    mutating func rebuildVariants() {
        let former = variants
        variants = Self.variants(of: setup, besides: standIn).map { new in
            if let known = former.first(where: { $0.index == new.index }) { return known }
            // Its token may have been the session's own.
            var new = new
            new.context.generation = max(new.context.generation, context.generation)
            return new
        }
        applyBlocks()
    }

    /// Continues with the token of a stored session; nil: it has none that can serve, and is renewed at once.
    func storedToken(_ stored: StoredSession) -> StoredAccessToken? {
        guard let standIn else { return stored.tokens.plain.token.count == 0 ? nil : stored.tokens.plain }
        return stored.tokens.others[standIn.named.variant]
    }
}

extension StoredAccessTokens {
    /// Of a session whose plain token is not fetched: a stand-in is among the others.
    static func withoutPlain(
        _ variant: TokenVariant, _ token: StoredAccessToken, others: [TokenVariant: StoredAccessToken]
    )
        -> StoredAccessTokens
    {
        var plain = token
        (plain.token, plain.lifetime) = (SecretBuffer().seal(), .zero)
        var others = others
        others[variant] = token
        return StoredAccessTokens(plain: plain, others: others)
    }
}
