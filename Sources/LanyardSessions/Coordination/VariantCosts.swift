import LanyardSessionInterface
import LanyardSettings

/// Variants whose fetches cost a user's sessions: which of them are not fetched any more, and which are suspected. It decides nothing about
/// the session.
struct VariantCosts: Sendable {
    /// Refused fetches after which the refresh token was refused, without a fetch of the variant in between that was successful. A
    /// refresh token may have ended by itself, so one such end of a session proves nothing.
    private static let endsMax = 2

    /// What the status says of a session that only an operator's login can give its scopes again.
    static func message(missing: Set<String>) -> String {
        "the session has lost scopes by the fetch of an access token with token.scopes: \(text(missing))"
    }

    /// At most 16 scopes.
    static func text(_ scopes: Set<String>) -> String { scopes.sorted().prefix(16).joined(separator: " ") }

    /// Variants that are not fetched, in this session and in the next ones.
    var blocks: [VariantMark: VariantBlock] = [:]
    /// The service has refused what their fetch asks for since it has last accepted the refresh token.
    private var refusedRequests: Set<TokenVariant> = []
    /// It has refused the refresh token in their fetch.
    private var refusedTokens: Set<TokenVariant> = []
    /// How often a session has ended so.
    private var ends: [TokenVariant: Int] = [:]
    /// Variants whose latest token lacked scopes of the session. A refresh of the plain token is to show why.
    private var doubtedScopes: Set<TokenVariant> = []
    /// The fetch that has just brought such a token.
    private var doubt: Doubt?
    /// It was not the session that has lost them: the variant's audience has no more.
    private var fewerScopes: Set<TokenVariant> = []

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

    /// A login has begun another session.
    mutating func beginSession() {
        noteAccepted()
        (doubtedScopes, fewerScopes) = ([], [])
    }

    struct Doubt: Sendable {
        let operation: UInt64
        /// The fetch waits for the refresh of the plain token, and is made again at once. Later ones have a back-off.
        let isFirst: Bool
    }

    /// The variant's token lacks scopes of the session.
    ///
    /// - Returns: false: that is known to be so.
    mutating func doubtScopes(of variant: TokenVariant, by operation: UInt64) -> Bool {
        guard !fewerScopes.contains(variant) else { return false }
        doubt = Doubt(operation: operation, isFirst: doubtedScopes.insert(variant).inserted)
        return true
    }

    mutating func takeDoubt(of operation: UInt64) -> Doubt? {
        defer { doubt = nil }
        return doubt?.operation == operation ? doubt : nil
    }

    /// A refresh has shown that no variant has narrowed the session.
    mutating func acceptFewerScopes() {
        fewerScopes.formUnion(doubtedScopes)
        doubtedScopes = []
    }

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
