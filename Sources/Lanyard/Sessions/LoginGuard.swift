/// Keeps a credential that was definitely refused from being sent again, which might lock the account (refresh.md 12).
package struct LoginGuard: Sendable {
    /// The store's key for `CredentialFingerprint`.
    package var key: Secret
    /// A login with this credential fails without a call, as `credentialRefused`; nil: none was refused, or an operator
    /// requested the login.
    package var refused: CredentialFingerprint?

    package init(key: Secret, refused: CredentialFingerprint?) {
        self.key = key
        self.refused = refused
    }
}
