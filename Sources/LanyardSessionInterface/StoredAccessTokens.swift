import LanyardFoundations
import LanyardSettings

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

    /// The token of a variant; nil: there is none. The plain one stays if it is set to nil.
    package subscript(variant: TokenVariant) -> StoredAccessToken? {
        get { variant == .plain ? plain : others[variant] }
        set {
            guard variant == .plain else { return others[variant] = newValue }
            plain = newValue ?? plain
        }
    }
}
