/// A session as the store keeps it: no instant of a clock that ends with the machine's uptime stands alone.
package struct StoredSession: Equatable, Sendable {
    /// Random, never 0, new with each login: tells a session from the one that came after a logout.
    package var id: UInt64
    package var access: Secret
    /// nil: dead; the next renewal is a login.
    package var refresh: Secret?
    /// The refresh token's own end, if it is known.
    package var refreshExpiry: WallTime?
    /// The wall clock before the request was sent that brought the access token (refresh.md 1).
    package var issuedAt: WallTime
    /// The boot clock then, and which boot that was: after a restart on the same boot the wall clock is not needed.
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
