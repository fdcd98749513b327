/// A session that has ended here and of which the service is not told yet. The call is repeated for a day.
package struct StoredRevocation: Equatable, Sendable {
    package var identity: String
    package var refresh: Secret
    /// The time of the end.
    package var since: WallTime
    /// The fingerprint of the identity; nil: any.
    package var fingerprint: IdentityFingerprint?

    package init(identity: String, refresh: Secret, since: WallTime, fingerprint: IdentityFingerprint? = nil) {
        self.identity = identity
        self.refresh = refresh
        self.since = since
        self.fingerprint = fingerprint
    }
}
