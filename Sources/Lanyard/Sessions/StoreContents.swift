/// Everything that outlives a restart: the users of this device, who is active, and what the service must still be told.
package struct StoreContents: Equatable, Sendable {
    /// Grows with each write: a file that is put back from a backup shows (threats.md T14).
    package var writes: UInt64 = 0
    /// Under this `CredentialFingerprint`s are made: 32 random bytes, made with the store.
    package var fingerprintKey: Secret
    /// In the order in which they came; names are unique.
    package var users: [StoredUser] = []
    package var active: ActiveChoice?
    package var revocations: [StoredRevocation] = []

    /// Who was made active, and what the configuration said then: it counts again when it says something else (architecture.md 5.6).
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
