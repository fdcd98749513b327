import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// The access tokens that an operator's call takes out of this process.
extension SessionCoordinator {
    /// Whether a token can be given out now.
    enum Issue: Sendable {
        case token(ShownTokens)
        /// None now; the next one may come soon.
        case awaited
        case refused(AccessToken.Refusal)
    }

    /// The index of the token that is asked for.
    ///
    /// - Parameter variant: nil: the session's own token.
    /// - Returns: nil: no route asks for such a token.
    func index(of variant: TokenVariant?) -> UserIndex? {
        guard let variant, variant != standIn?.named.variant else { return ownIndex }
        return variants.first { $0.named.variant == variant }?.index
    }

    /// What routes ask for beside the plain token, in words.
    var variantTexts: [String] {
        ((standIn.map { [$0.named] } ?? []) + variants.map(\.named)).map(\.variant.text)
    }

    /// - Parameters:
    ///   - index: of the token, by `index(of:)`.
    ///   - withOthers: the valid tokens of variants come with it.
    func issue(_ index: UserIndex, withOthers: Bool, at now: Instant) -> Issue {
        let place = index == ownIndex ? nil : variants.firstIndex { $0.index == index }
        let tokens = place.map { variants[$0].session.tokens } ?? session.tokens
        if let tokens, let token = tokens.issued(at: now) {
            return .token(ShownTokens(token, variants: withOthers ? issuedVariantTokens(at: now) : []))
        }
        switch place.map({ availability(ofVariantAt: $0, at: now) }) ?? ownAvailability(at: now) {
        case .token, .pending: return .awaited
        case .none(let refusal): return .refused(refusal)
        }
    }

    /// Until the start it is not known whether the user is logged in.
    private func ownAvailability(at now: Instant) -> AccessToken.Availability {
        if session.state == .loggedOut, session.reason == .loggingIn { return .pending }
        return session.availability(at: now, context)
    }

    private func availability(ofVariantAt place: Int, at now: Instant) -> AccessToken.Availability {
        guard session.tokens != nil else { return ownAvailability(at: now) }
        let variant = variants[place]
        if variant.isHeld { return variant.heldAvailability }
        // Its first fetch begins with the session.
        if variant.session.state == .loggedOut { return .pending }
        return variant.published(variant.session.availability(at: now, variant.context))
    }

    private func issuedVariantTokens(at now: Instant) -> [(named: NamedVariant, token: ShownTokens.Token)] {
        variants.compactMap { variant in
            variant.session.tokens?.issued(at: now).map { (variant.named, $0) }
        }
    }
}

extension SessionTokens {
    /// The access token as it is given out; nil: it has ended, or is about to end.
    fileprivate func issued(at now: Instant) -> ShownTokens.Token? {
        guard isUsable(at: now) else { return nil }
        guard usableUntil != .never else {
            return ShownTokens.Token(access, generation: generation, expiry: expiry, rest: nil)
        }
        let rest = usableUntil - now
        guard rest >= IssuedLifetime.restMin(lifetime: lifetime) else { return nil }
        return ShownTokens.Token(access, generation: generation, expiry: expiry, rest: rest)
    }
}
