/// A session as the store keeps it. Each instant of the boot clock comes with the id of its boot.
package struct StoredSession: Equatable, Sendable {
    /// Random, never 0, new with each login: it distinguishes the sessions before and after a logout.
    package var id: UInt64
    package var access: Secret
    /// nil: dead; the next renewal is a login.
    package var refresh: Secret?
    /// The refresh token's own expiry, if it is known.
    package var refreshExpiry: WallTime?
    /// The wall clock before the request for the access token was sent (refresh.md 1).
    package var issuedAt: WallTime
    /// The boot clock at that time, with its boot. After a restart on the same boot the wall clock is not needed.
    package var issuedAtBoot: BootInstant
    /// How long the access token lives from `issuedAt`.
    package var lifetime: Duration

    package init(
        id: UInt64, access: Secret, refresh: Secret?, refreshExpiry: WallTime?, issuedAt: WallTime,
        issuedAtBoot: BootInstant, lifetime: Duration
    ) {
        self.id = id
        self.access = access
        self.refresh = refresh
        self.refreshExpiry = refreshExpiry
        self.issuedAt = issuedAt
        self.issuedAtBoot = issuedAtBoot
        self.lifetime = lifetime
    }
}
