import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// What the tokens of variants cost the session, and how that is ended (docs/reference/oauth-rules.md 2, docs/reference/oauth-variants.md
/// 4.2).
extension SessionCoordinator {
    // MARK: Scopes

    /// The scopes that a call with the refresh token asks for again; empty: none. Servers narrow a session to the scopes of its latest
    /// refresh, so a variant with scopes of its own would take the others away.
    var scopesToKeep: [String] {
        let isUsed =
            setup.variants.contains { !$0.named.variant.scopes.isEmpty }
            || storedSession?.tokens.others.keys.contains { !$0.scopes.isEmpty } == true
        return isUsed ? refreshToken.grantedScopes?.sorted() ?? [] : []
    }

    private var storedSession: StoredSession? { writes.unsaved?.session ?? knownRecord.user?.session }

    /// Compares the scopes of a new plain token with those that the login has granted.
    ///
    /// - Returns: the error that takes the place of the token; nil: it serves. A login that can be made without an operator brings all
    ///   scopes again, while the former token serves.
    mutating func narrowing(by grant: Grant, of operation: TokenOperation) -> IdentityError? {
        guard !operation.isFetch, operation.purpose == .own else { return nil }
        let error = plainNarrowing(by: grant, of: operation)
        if error == nil { variantCosts.acceptFewerScopes() }
        return error
    }

    private mutating func plainNarrowing(by grant: Grant, of operation: TokenOperation) -> IdentityError? {
        guard let granted = refreshToken.grantedScopes, let stated = grant.scopes else { return nil }
        let missing = granted.subtracting(stated)
        let causes = narrowingVariants(granted, stated)
        defer { refreshToken.missingScopes = missing }
        if missing.isEmpty { refreshToken.narrowedSince = nil }
        guard !missing.isEmpty else { return nil }
        if missing != refreshToken.missingScopes || !causes.isEmpty {
            logEvent(
                .scopesNarrowed, .error, reason: causes.isEmpty ? "service" : "variant",
                details: ["missing": VariantCosts.text(missing)])
        }
        let canLogIn = canLogInAnew
        // After a restart the variant is not fetched already.
        let isByVariant = !causes.isEmpty || variantCosts.blocks.values.contains(.narrowsSession)
        if isByVariant, !canLogIn { refreshToken.narrowedSince = refreshToken.narrowedSince ?? eventContext.wall }
        guard !causes.isEmpty else { return nil }
        if canLogIn, let token = grant.refreshToken ?? operation.refresh { refreshToken.orphan = (token, sessionID) }
        block(causes, .narrowsSession)
        guard canLogIn else { return nil }
        return IdentityError(
            .sessionDead, message: "the session has lost scopes by the fetch of an access token with token.scopes")
    }

    /// A fetch has asked for the granted scopes and has got fewer: another variant may have narrowed the session, or the audience has no
    /// more. The token is not used before a refresh of the plain one has shown which it is.
    mutating func doubtedScopes(of grant: Grant, _ operation: TokenOperation) -> IdentityError? {
        let variant = operation.call.variant
        guard operation.isFetch, variant.scopes.isEmpty, !operation.call.scopes.isEmpty,
            let granted = refreshToken.grantedScopes, let stated = grant.scopes, !granted.isSubset(of: stated),
            !narrowingVariants(granted, stated).isEmpty, variantCosts.doubtScopes(of: variant, by: operation.number)
        else { return nil }
        return IdentityError(
            .transient(retryAfter: nil),
            message: "the access token lacks scopes of the session; a refresh shows whether the session has lost them")
    }

    /// The variants that may have narrowed the session to the stated scopes: they ask for these, and not for all, and were fetched.
    private func narrowingVariants(_ granted: Set<String>, _ stated: Set<String>) -> Set<TokenVariant> {
        guard !stated.isEmpty, !granted.isSubset(of: stated) else { return [] }
        let fetched = Set(storedSession?.tokens.others.keys.map { $0 } ?? [])
            .union(variants.filter { $0.session.tokens != nil }.map(\.named.variant))
        return fetched.filter {
            !granted.isSubset(of: $0.scopes) && stated.isSubset(of: $0.scopes)
                && variantCosts.blocks[mark(of: $0)] == nil
        }
    }

    /// The configured credential begins another session without an operator, and is not used up by it.
    private var canLogInAnew: Bool {
        guard case .configured(let login)? = setup.credential, knownRecord.refused == nil else { return false }
        return login.kind != .refreshToken && login.kind != .googleAuthCode && !login.kind.isInteractive
    }

    // MARK: Tokens that end each other

    /// An upstream has refused a token. One that is not present any more says nothing.
    mutating func recordRefusal(of tokens: SessionTokens?, _ variant: TokenVariant, _ generation: Generation) {
        guard tokens?.generation == generation, superseded.recordRefusal(of: variant, generation) else { return }
        let place = variants.firstIndex { $0.named.variant == variant }
        emit(.countUses(place.map { variants[$0].index } ?? ownIndex))
    }

    /// How often the token was used until it came, or until an upstream has refused it.
    mutating func recordUses(of variant: TokenVariant, _ uses: TokenUses?) {
        guard superseded.recordUses(of: variant, uses, at: eventContext.wall) else { return }
        let error = IdentityError(.clientRefused, message: SupersededTokens.message)
        logEvent(.tokensSuperseded, .error, reason: "single_token", error: error)
    }

    // MARK: Variants that are not fetched

    /// The mark of a variant with what the identity asks for now.
    private func mark(of variant: TokenVariant) -> VariantMark {
        VariantMark(of: variant, request: setup.service.tokenRequest)
    }

    /// Those that are about present variants. Of others, and of another configuration, nothing is kept.
    var knownBlocks: [VariantMark: VariantBlock] {
        guard !variantCosts.blocks.isEmpty else { return [:] }
        let marks = Set(variants.map { mark(of: $0.named.variant) })
        return variantCosts.blocks.filter { marks.contains($0.key) }
    }

    /// The refresh token is dead. A refused fetch that came before has ended the session, unless refresh tokens stay what they are.
    mutating func blockRefusedFetches() {
        let causes = variantCosts.recordEnd()
        guard setup.refreshTokens.rotation != .none else { return }
        block(causes, .endsSession)
    }

    private mutating func block(_ causes: Set<TokenVariant>, _ block: VariantBlock) {
        for variant in causes { variantCosts.blocks[mark(of: variant)] = block }
        applyBlocks()
    }

    /// Variants take what is known of them. Those that must not be fetched are told to the shards and the log.
    mutating func applyBlocks() {
        for place in variants.indices {
            let block = variantCosts.blocks[mark(of: variants[place].named.variant)]
            guard variants[place].block != block else { continue }
            variants[place].end(at: eventContext)
            variants[place].block = block
            guard let block else { continue }
            logEvent(
                .variantRefused, .error, reason: SessionReason.variantRefused.rawValue,
                error: IdentityError(.clientRefused, message: block.message),
                details: [
                    "route": variants[place].named.name, "token": variants[place].named.variant.text,
                ])
            if session.tokens != nil {
                emit(.publishVariant(variants[place].heldAvailability, variants[place].index))
            }
        }
    }

    /// An operator has asked for this login: everything is tried again.
    func endsBlocks(_ operation: TokenOperation) -> Bool { operation.purpose == .operatorLogin && !operation.isLink }

    /// A login has begun another session.
    mutating func endBlocks(by operation: TokenOperation) {
        variantCosts.beginSession()
        guard endsBlocks(operation) else { return }
        variantCosts = VariantCosts()
        applyBlocks()
    }

    /// A call was successful. What a 410 to a call for another token holds up is called for now.
    mutating func endGone() {
        context.endGone()
        if session.retryState?.isGone == true {
            switch session {
            case .loggingIn: applyToSession(.logIn)
            case .stale, .unreachable: applyToSession(.refreshNow(.retry))
            case .loggedOut, .valid, .refreshing, .loginRequired, .refused: break
            }
        }
        for place in variants.indices {
            variants[place].context.endGone()
            guard variants[place].session.retryState?.isGone == true else { continue }
            switch variants[place].session {
            case .loggingIn: applyToVariant(at: place, .logIn)
            case .stale, .unreachable: applyToVariant(at: place, .refreshNow(.retry))
            case .loggedOut, .valid, .refreshing, .loginRequired, .refused: break
            }
        }
    }
}
