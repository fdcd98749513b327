/// One change of the store. It is applied to what the file holds at that moment, under the store's lock: two processes that change two
/// users lose neither, and of two that change one user the later learns of the earlier.
package enum StoreChange: Sendable {
    /// A call is about to be made on behalf of a session at `base`.
    case storeIntent(user: String, identity: StoredIdentity, StoredIntent, base: SessionVersion)
    /// The intent's call was answered, and changed nothing: no further call has an unknown outcome because of it.
    case settle(user: String)
    /// The refresh token of the session at `base` is dead, or must not be sent again: the access token alone stays.
    case dropRefreshToken(user: String, base: SessionVersion)
    /// A login or a refresh that began at `base` brought this; its intent and refusal go. Where the base has moved within one session, who is
    /// further on in it holds.
    case saveSession(user: String, StoredLogin, base: SessionVersion)
    /// The credential was definitely refused.
    ///
    /// - over: the session that came to its end by this, its refresh token dead before; what stands there beyond it is another's, and stays.
    case recordRefusal(
        user: String, identity: StoredIdentity, CredentialFingerprint, endedVersion: SessionVersion? = nil)
    /// The session at `base` is over without a person's doing: tokens are wiped, the user stays.
    case end(user: String, base: SessionVersion)
    /// A person logged the user out: tokens are wiped whatever they are; what the service must be told stays in `revocation`.
    case logOut(user: String, identity: StoredIdentity, revocation: StoredRevocation?)
    /// The user is forgotten; what the service must be told stays in `revocation`.
    case remove(user: String, revocation: StoredRevocation?)
    case activate(StoreContents.ActiveChoice)
    /// The service must be told of the end of a session that came to nobody.
    case addRevocation(StoredRevocation)
    /// The service was told of the end of the session with this refresh token, or it was given up.
    case revoked(Secret)

    /// What a login or a refresh leaves in the store.
    package struct StoredLogin: Sendable {
        package var identity: String
        package var session: StoredSession
        package var accountID: String?
        /// nil after a refresh.
        package var provider: String?
        package var isAdded: Bool
        /// The generation is no lower than this, which is what its process counts: there may be tokens before it that no store took, and an
        /// older file may have been put in the place of a newer one.
        package var generationMin: UInt64
        /// What the identity's name stands for.
        package var fingerprint: IdentityFingerprint?
        /// Users whom the configuration names: nobody else keeps an account to itself but those whom the admin API has made.
        package var configured: Set<String>

        package init(
            identity: String, session: StoredSession, accountID: String?, provider: String?, isAdded: Bool,
            generationMin: UInt64 = 0, fingerprint: IdentityFingerprint? = nil, configured: Set<String> = []
        ) {
            self.configured = configured
            self.generationMin = generationMin
            self.fingerprint = fingerprint
            self.identity = identity
            self.session = session
            self.accountID = accountID
            self.provider = provider
            self.isAdded = isAdded
        }
    }

    /// What became of it.
    package enum Verdict: Equatable, Sendable {
        /// The file holds it, and so it will after a crash. The user as it stands now, if the change was about one.
        case stored(StoredUser?)
        /// The base has moved: nothing was written. What is there instead; nil: the user is not known any more.
        case overtaken(by: StoredUser?)
        /// This user is logged in to the account in which the login has ended: nothing was written.
        case inUse(by: String)
    }
}
