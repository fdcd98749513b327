import LanyardFoundations

/// One change of the store. It is applied to what the file holds at that moment, under the store's lock. Changes of two
/// users by two processes are both kept. If two processes change one user, the later one learns of the earlier change.
package enum StoreChange: Sendable {
    /// A call is about to be made for a session at `base`.
    ///
    /// - isFirstLook: nothing was read before, so the change also checks that nothing stands in the way of the call: the
    ///   user is not logged out, has what the call sends, and no earlier call is open. Else the verdict is `overtaken`.
    /// - token: the refresh token that is about to be sent and works only once. A store whose file cannot be written marks
    ///   it in a block that exists: the change fails, and a restart finds the intent all the same.
    /// - isLastTry: the token is sent once more after an unknown outcome (refresh-outcomes.md 9). Unless it is still that of the
    ///   stored session, and has had no last try, the verdict is `overtaken`.
    case storeIntent(
        user: String, identity: StoredIdentity, StoredIntent, base: SessionVersion, isFirstLook: Bool = false,
        token: Secret? = nil, isLastTry: Bool = false)
    /// The intent's call has its result, which changed nothing. The intent causes no unknown outcome any more. A user
    /// of which the store knows nothing else is removed.
    ///
    /// - sent: the refresh token that the call has sent, if it works only once; nil: another one, or a login. The intent of another
    ///   token, which the store still holds, stays: that one was exchanged for this.
    /// - isOfLogin: the call was a login. What is open of a refresh stays: the store may not have taken the login's intent.
    case clearIntent(user: String, sent: SentToken? = nil, isOfLogin: Bool = false)
    /// The refresh token of the session at `base` is dead, or must not be sent again. The access token stays.
    case dropRefreshToken(user: String, base: SessionVersion)
    /// The tokens of a login or a refresh that began at `base`. The intent is removed; what they say of the configured credential
    /// takes the place of what was recorded of it. If the base has moved within one session, the higher generation is kept.
    case saveSession(user: String, StoredLogin, base: SessionVersion)
    /// The credential was definitely refused.
    ///
    /// - endedVersion: the session that ends with this refusal; its refresh token was dead before. A newer version
    ///   belongs to another process and stays.
    case recordRefusal(
        user: String, identity: StoredIdentity, CredentialFingerprint, endedVersion: SessionVersion? = nil)
    /// The session at `base` has ended without an operator: the tokens are erased, the user stays.
    case end(user: String, base: SessionVersion)
    /// An operator logged the user out: all tokens are erased, and the file keeps what the service must be told.
    case logOut(user: String, identity: StoredIdentity, SessionEnd)
    /// The user's account is about to be deleted at the service. From now on the user counts as logged out by an
    /// operator, so that no restart logs it in. The session of this id stays for `cancelDeletion`, and the version does
    /// not move. Another process's mark is not replaced.
    case beginDeletion(user: String, session: UInt64)
    /// The account was not deleted: the session continues. The generation grows, so that other processes notice.
    case cancelDeletion(user: String, session: UInt64)
    /// The user is forgotten, and the file keeps what the service must be told.
    case remove(user: String, SessionEnd)
    case activate(StoreContents.ActiveChoice)
    /// The service must be told of the end of a session that no user has.
    case addRevocation(StoredRevocation)
    /// The service was told of the end of the session with this token, or the revocation was given up.
    case removeRevocation(Secret)
    /// An authorization server has named its endpoints.
    case saveMetadata(StoredMetadata)

    /// A refresh token whose call has had its response.
    package struct SentToken: Sendable {
        package var token: Secret
        /// How many earlier calls with it had none.
        package var openCalls: Int

        package init(_ token: Secret, openCalls: Int) { (self.token, self.openCalls) = (token, openCalls) }
    }

    /// The session that an operator's logout or removal ends, as its process knows it. Another session in the file, or a
    /// newer version of this one, belongs to another process. It ends, too, and is revoked.
    package struct SessionEnd: Sendable {
        /// The session with its generation; `.absent`: no session is known.
        package var version: SessionVersion
        /// Of the session's refresh token, or of its access tokens if it has none.
        package var revocations: [StoredRevocation]
        /// The service can revoke an access token: what the store holds in the session's place is revoked by them, too, if
        /// it has no refresh token.
        package var includesAccessTokens = false
        /// The identity whose user the process has stored. A user of another one belongs to another process and stays: the
        /// verdict is then `overtaken`. nil: whatever user stands there ends.
        package var owner: StoredIdentity?
        /// The service has ended the session itself, because its account is deleted: no token of it is revoked.
        package var isDeleted = false
        /// Its process has given the refresh token up, perhaps because a call's outcome was unknown to it.
        package var hasGivenUpToken = false
        /// When the operator has asked for it, by the wall clock.
        package var at: WallTime
        /// The store could not take it before. The session of another process's login stays if an operator has asked for
        /// that login since `at`: the verdict is then `overtaken`.
        package var isRepeated = false

        package init(_ version: SessionVersion, revocations: [StoredRevocation], at: WallTime) {
            self.version = version
            self.revocations = revocations
            self.at = at
        }

        /// The end of whatever session the file holds.
        package static func ofUnknown(at: WallTime) -> SessionEnd { SessionEnd(.absent, revocations: [], at: at) }
    }

    /// The tokens of a login or a refresh, as they are stored.
    package struct StoredLogin: Sendable {
        /// The name of the user's identity.
        package var identity: String
        /// The session to store.
        package var session: StoredSession
        /// The service's id of the account.
        package var accountID: String?
        /// Of a login: `Grant.subject`.
        package var subject: String?
        /// nil after a refresh.
        package var provider: String?
        /// The admin API added the user.
        package var isAdded: Bool
        /// The lowest generation that may be stored, as this process counts. Earlier tokens may be unsaved, or an older
        /// file may have replaced a newer one.
        package var generationMin: Generation
        /// The fingerprint of the identity.
        package var fingerprint: IdentityFingerprint?
        /// The configured users. Only these and the users of the admin API keep an account to themselves.
        package var configured: Set<String>
        /// The configured credential, if it is still refused or has served its only login. It is not sent again until it changes.
        package var refused: CredentialFingerprint?
        /// A link has only replaced the access token. What the store knows of the refresh token stays.
        package var isLink: Bool
        /// No operator has asked for it. If the account is being deleted, the tokens of that session are stored and the
        /// user stays logged out. A login is not made then.
        package var keepsLogout: Bool
        /// A call with the refresh token has had no response yet: its mark stays (docs/reference/store.md).
        package var hasOpenCall = false

        /// The same after a cancelled deletion: the user is logged in again.
        package var endingDeletion: StoredLogin {
            var login = self
            login.keepsLogout = false
            return login
        }

        package init(
            identity: String, session: StoredSession, accountID: String?, provider: String?, isAdded: Bool,
            generationMin: Generation = .zero, fingerprint: IdentityFingerprint? = nil, configured: Set<String> = [],
            isLink: Bool = false, keepsLogout: Bool = false, refused: CredentialFingerprint? = nil
        ) {
            self.isLink = isLink
            self.keepsLogout = keepsLogout
            self.refused = refused
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

    /// The result of a change.
    package enum Verdict: Equatable, Sendable {
        /// The file holds the change, also after a crash. Carries the user as it is now, if the change was about one.
        case stored(StoredUser?)
        /// The same, and the change has ended a session that its process does not know. The file keeps the revocation;
        /// the process sends it.
        case storedEnding(StoredUser?, [StoredRevocation])
        /// The base has moved and nothing was written. Carries the user in the file; nil: the user is not known any
        /// more.
        case overtaken(by: StoredUser?)
        /// Another user is logged in to the login's account, and nothing was written.
        case inUse(by: String)
    }
}
