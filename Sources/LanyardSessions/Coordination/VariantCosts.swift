import LanyardSessionInterface
import LanyardSettings

/// Variants whose fetches cost a user's sessions: which of them are not fetched any more, and which are suspected. It decides nothing about
/// the session.
struct VariantCosts: Sendable {
    /// Refused fetches after which the refresh token was refused, without a fetch of the variant in between that was successful. A
    /// refresh token may have ended by itself, so one such end of a session proves nothing.
    private static let endsMax = 2

    /// Variants that are not fetched, in this session and in the next ones.
    var blocks: [VariantMark: VariantBlock] = [:]
    /// The service has refused what their fetch asks for since it has last accepted the refresh token.
    private var refusedRequests: Set<TokenVariant> = []
    /// It has refused the refresh token in their fetch.
    private var refusedTokens: Set<TokenVariant> = []
    /// How often a session has ended so.
    private var ends: [TokenVariant: Int] = [:]

    /// The response to a fetch by the refresh token is an error.
    mutating func noteRefused(_ variant: TokenVariant, _ error: IdentityError) {
        guard error.status != nil else { return }
        switch error.verdict {
        case .clientRefused: refusedRequests.insert(variant)
        case .sessionDead, .credentialDoubted: refusedTokens.insert(variant)
        case .transient, .unknownOutcome, .credentialRefused, .gone, .unknownApp, .credentialUnavailable,
            .credentialDelayed, .accountInUse, .callRefused:
            break
        }
    }

    /// The refresh token was accepted, or another one has come.
    mutating func noteAccepted() { (refusedRequests, refusedTokens) = ([], []) }

    /// The variant's token has come.
    mutating func noteAccepted(_ variant: TokenVariant) { ends[variant] = nil }

    /// The refresh token is dead.
    ///
    /// - Returns: the variants whose refused fetch has ended the session.
    mutating func recordEnd() -> Set<TokenVariant> {
        var causes = refusedRequests
        for variant in refusedTokens {
            ends[variant, default: 0] += 1
            if ends[variant, default: 0] >= Self.endsMax { causes.insert(variant) }
        }
        noteAccepted()
        return causes
    }
}

/// The access tokens of a user's variants, and what is known of them beyond each.
struct VariantTokens: Sendable {
    /// In the order of the setup.
    var sessions: [VariantSession]
    /// The variant that the session's own logins ask for; nil: the plain token.
    var standIn: StandIn?
    /// What fetches have cost the user's sessions.
    var costs = VariantCosts()
    /// What upstreams' refusals say of the service's access tokens.
    var superseded = SupersededTokens()
}

extension SessionCoordinator {
    /// In the order of the setup.
    var variants: [VariantSession] {
        get { variantTokens.sessions }
        _modify { yield &variantTokens.sessions }
    }

    var standIn: StandIn? {
        get { variantTokens.standIn }
        set { variantTokens.standIn = newValue }
    }

    var variantCosts: VariantCosts {
        get { variantTokens.costs }
        set { variantTokens.costs = newValue }
    }

    var superseded: SupersededTokens {
        get { variantTokens.superseded }
        set { variantTokens.superseded = newValue }
    }
}
