/// Keeps a credential that was definitely refused from being tried again, which may lock the account (refresh.md 12).
package struct LoginGuard: Sendable {
    /// The store's key for `CredentialFingerprint`s.
    package var key: Secret
    /// A login with this one fails without a call, as `credentialRefused`; nil: none was refused, or a person asked for the login.
    package var refused: CredentialFingerprint?

    package init(key: Secret, refused: CredentialFingerprint?) {
        self.key = key
        self.refused = refused
    }
}
