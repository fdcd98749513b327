import LanyardFoundations

/// What an access token was asked for, beside its user: the audience, the resources and the scopes.
package struct TokenVariant: Hashable, Comparable, Sendable {
    /// The parameter `audience`; nil: not asked for.
    package let audience: String?
    /// The parameters `resource` (RFC 8707), in order and each once.
    package let resources: [String]
    /// The scopes (RFC 6749 3.3), in order and each once.
    package let scopes: [String]

    /// The token that a login and a refresh bring by themselves.
    package static let plain = TokenVariant()

    package init(audience: String? = nil, resources: Set<String> = [], scopes: Set<String> = []) {
        self.audience = audience
        self.resources = resources.sorted()
        self.scopes = scopes.sorted()
    }

    package static func < (one: TokenVariant, other: TokenVariant) -> Bool {
        one.order.lexicographicallyPrecedes(other.order)
    }

    /// One order for all, so that a store has one text.
    private var order: [String] {
        [audience == nil ? "0" : "1", audience ?? ""] + resources.flatMap { ["1", $0] } + ["0"]
            + scopes.flatMap { ["1", $0] } + ["0"]
    }
}

/// An access token as the store keeps it, with what its expiry follows from. The instant of the boot clock comes with
/// the id of its boot.
package struct StoredAccessToken: Equatable, Sendable {
    /// The token.
    package var token: Secret
    /// The wall clock before its request was sent (refresh.md 1).
    package var issuedAt: WallTime
    /// The boot clock at that time, with its boot. After a restart on the same boot the wall clock is not needed.
    package var issuedAtBoot: BootInstant
    /// How long it lives from `issuedAt`.
    package var lifetime: Duration

    package init(_ token: Secret, issuedAt: WallTime, issuedAtBoot: BootInstant, lifetime: Duration) {
        self.token = token
        self.issuedAt = issuedAt
        self.issuedAtBoot = issuedAtBoot
        self.lifetime = lifetime
    }
}

/// The access tokens of one session, each with its variant. There is always a plain one.
package struct StoredAccessTokens: Equatable, Sendable {
    /// The token without a variant of its own.
    package var plain: StoredAccessToken
    /// The tokens of other variants.
    package private(set) var others: [TokenVariant: StoredAccessToken]

    /// - Parameter others: a plain one among them is left out.
    package init(plain: StoredAccessToken, others: [TokenVariant: StoredAccessToken] = [:]) {
        self.plain = plain
        self.others = others.filter { $0.key != .plain }
    }

    /// The token of a variant; nil: there is none.
    package subscript(variant: TokenVariant) -> StoredAccessToken? {
        variant == .plain ? plain : others[variant]
    }
}
