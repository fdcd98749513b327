/// A session that a person ended while the service could not be told: the call is repeated for a while.
package struct StoredRevocation: Equatable, Sendable {
    package var identity: String
    package var refresh: Secret
    /// Since when; given up after a day.
    package var since: WallTime
    /// What the identity's name stood for; nil: any.
    package var fingerprint: IdentityFingerprint?

    package init(identity: String, refresh: Secret, since: WallTime, fingerprint: IdentityFingerprint? = nil) {
        self.identity = identity
        self.refresh = refresh
        self.since = since
        self.fingerprint = fingerprint
    }
}
