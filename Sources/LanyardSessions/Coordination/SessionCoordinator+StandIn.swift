import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// The variant whose token the session has in place of the plain one. Where each route of a user names a token, a plain one would be
/// fetched for no request. Its grant needs no refresh token (docs/reference/oauth.md 4.2).
struct StandIn: Sendable {
    let named: NamedVariant
    /// The index that requests with the token have.
    let index: UserIndex

    init?(_ setup: SessionCoordinator.Setup) {
        guard let standIn = setup.standIn else { return nil }
        (named, index) = standIn
    }

    /// What the shards are told of the session's token, under the index of the variant.
    func published(_ availability: AccessToken.Availability) -> AccessToken.Availability {
        switch availability {
        case .token(let token):
            .token(
                AccessToken(
                    user: index, generation: token.generation, account: token.account, token: token.token,
                    waitsFrom: token.waitsFrom, usableUntil: token.usableUntil, renewal: token.renewal,
                    accountEpoch: token.accountEpoch))
        case .pending, .none: availability
        }
    }
}

extension SessionCoordinator {
    /// Routes ask for further tokens of the user.
    package var hasVariants: Bool { standIn != nil || !variants.isEmpty }

    /// Publishes the availability of the session's token. Under the user's own index there is none beside a stand-in: a request that asks
    /// for it has come with a reload, and waits for that.
    mutating func publishOwn(_ availability: AccessToken.Availability) {
        guard let standIn else { return emit(.publish(availability)) }
        if case .token = availability { emit(.publish(.pending)) } else { emit(.publish(availability)) }
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
        case .usesCounted: break
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

    /// A login has brought a token. One of a stand-in that cannot serve is dropped, and the plain token takes its place from now on.
    ///
    /// - Returns: false: the login is made once more.
    mutating func acceptsStandIn(_ grant: Grant, of operation: TokenOperation) -> Bool {
        guard operation.call.standIn != nil || standIn != nil, !operation.isFetch else { return true }
        if operation.call.standIn == standIn?.named.variant, grant.audienceMismatch == nil, grant.refreshToken == nil {
            return true
        }
        // An operator has logged in with another credential.
        guard operation.call.standIn != nil else {
            standIn = nil
            rebuildVariants()
            return true
        }
        dropStandIn(of: operation)
        // The session of a grant that has a refresh token after all is none of this user's.
        if let token = grant.refreshToken { revoke(token) }
        return false
    }

    /// The service does not give the token of the stand-in: that is the route's fault alone. The plain token proves the session.
    ///
    /// - Returns: false: the error is the session's.
    mutating func failStandIn(_ error: IdentityError, of operation: TokenOperation) -> Bool {
        guard operation.call.standIn != nil, error.verdict == .clientRefused, error.status != nil else { return false }
        dropStandIn(of: operation)
        return true
    }

    /// The plain token serves from now on, and the present login is made once more for it.
    private mutating func dropStandIn(of operation: TokenOperation) {
        if operation.call.standIn == standIn?.named.variant { standIn = nil }
        rebuildVariants()
        if operation.purpose == .operatorLogin {
            waiting.login = OperatorLogin(credentials: operation.credentials)
        } else if session.call?.number == operation.number {
            if session.tokens == nil { waiting.call = (operation.call, nil) } else { beginAnew() }
        }
        waiting.call?.call.standIn = nil
        close(with: .clearIntent)
    }

    /// A reload has changed which token the session has. The present one is not served for another one: the session begins anew.
    mutating func changeStandIn() {
        guard setup.standIn?.named.variant != standIn?.named.variant || setup.standIn?.index != standIn?.index else {
            return
        }
        standIn = StandIn(setup)
        rebuildVariants()
        guard session.tokens == nil else { return beginAnew() }
        publish(session.availability(at: eventContext.instant, context))
    }

    private mutating func beginAnew() {
        waiting.call = nil
        session = .loggedOut(.loggingIn)
        restartVariants()
        applyToSession(.logIn)
    }

    mutating func rebuildVariants() {
        let former = variants
        variants = Self.variants(of: setup, besides: standIn).map { new in
            former.first { $0.index == new.index } ?? new
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
