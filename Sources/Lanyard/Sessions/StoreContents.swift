/// Everything that outlives a restart: the users of this device, the active user, and the pending revocations.
package struct StoreContents: Equatable, Sendable {
    /// Grows with each write, so that a restored backup is noticed (threats.md T14).
    package var writes: UInt64 = 0
    /// The key of each `CredentialFingerprint`: 32 random bytes, made with the store.
    package var fingerprintKey: Secret
    /// In the order in which they were added; names are unique.
    package var users: [StoredUser] = []
    package var active: ActiveChoice?
    package var revocations: [StoredRevocation] = []

    /// The user that was made active, and `active_user` at that time. The configured value applies again once it
    /// changes (architecture.md 5.6).
    package struct ActiveChoice: Equatable, Sendable {
        /// nil: none, after a logout.
        package var user: String?
        package var configured: String?

        package init(user: String?, configured: String?) {
            self.user = user
            self.configured = configured
        }
    }

    package init(fingerprintKey: Secret) { self.fingerprintKey = fingerprintKey }

    package subscript(name: String) -> StoredUser? {
        users.first { $0.name == name }
    }
}
