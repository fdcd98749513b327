import LanyardFoundations
import LanyardSessionInterface

/// What a stored user is to what this process knows of it. The first that is true of it, in the order of the cases. The
/// names are those of docs/design/stored-relations.md.
enum StoredRelation: String, CaseIterable, Sendable {
    /// It belongs to another identity.
    case foreign = "another identity's user"
    /// The version that is known here, with a session that can be renewed.
    case same = "the known version"
    /// The known version, whose refresh token has been dropped: it is dead. That does not move the version.
    case sameWithoutRefreshToken = "the known version, without its refresh token"
    /// The known version, with another process's mark of a deletion, or a crash's. A mark does not move the version.
    case sameDeletion = "the known version, with a deletion's mark"
    /// The known version is a logout.
    case sameLoggedOut = "the known logout"
    /// The known version has no session, and no operator has ended one.
    case sameWithoutSession = "the known version, without a session"
    /// The store does not know the user, as before.
    case sameAbsent = "no such user, as before"
    /// The same session with a lower generation: a file from a backup replaced a newer one (security.md T14).
    case older = "an older version of the session"
    /// Another process is deleting the account, or a crash has cut that off: the session must not be continued here.
    case deletingElsewhere = "a deletion of another process"
    /// The same of an account that another session has logged in to.
    case deletingOtherSession = "a deletion of another process's session"
    /// A write of this process that the store reported as failed has still been made.
    case ownFailedWrite = "a write of ours that was reported as failed"
    /// A newer version of the session with a refresh token that this process has exchanged for a later one, or without one: the
    /// other process has renewed the access token alone, or has found the earlier refresh token dead. The later refresh token is
    /// unsaved here, and only it can renew the session.
    case exchangedToken = "a newer version with a refresh token that was exchanged here"
    /// Another generation with the tokens that are known here: another process has cancelled its deletion.
    case sameTokens = "another version with the known tokens"
    /// The store does not know the user any more: another process has removed it.
    case absent = "no such user"
    /// An operator has logged the user out elsewhere.
    case loggedOut = "a logout"
    /// The session has ended elsewhere, and no operator has ended it.
    case ended = "no session, without a logout"
    /// Another process has renewed the session.
    case newer = "a newer version of the session"
    /// Another process has logged the user in.
    case otherSession = "another session"

    /// What the store holds is compared with this.
    struct Known: Sendable {
        var identity: StoredIdentity
        var base: SessionVersion
        /// The session as it was read or written last.
        var session: StoredSession?
        /// What the latest failed write would have stored.
        var failedWrite: FailedWrite?
        /// The refresh tokens that were exchanged for a later one which is not stored.
        var exchanged: [Secret]
        /// A mark of a deletion may be this process's own.
        var hasDeletionMark: Bool

        /// A session with this refresh token, or without one, is behind the session here.
        func hasExchanged(_ token: Secret?) -> Bool {
            guard let token else { return !exchanged.isEmpty }
            return exchanged.contains(token)
        }
    }

    /// A session that a failed write would have stored.
    struct FailedWrite: Equatable, Sendable {
        var version: SessionVersion
        var issuedAt: WallTime
        /// A fetch changes it, and leaves `issuedAt`.
        var refresh: Secret?

        func isMade(as stored: StoredUser) -> Bool {
            version == stored.version && issuedAt == stored.session?.issuedAt && refresh == stored.session?.refresh
        }
    }

    /// What `stored` is to what is `known`.
    init(_ stored: StoredUser?, to known: Known) {
        guard let stored else {
            self = known.base == .absent ? .sameAbsent : .absent
            return
        }
        guard stored.belongs(to: known.identity) else {
            self = .foreign
            return
        }
        let order = stored.version.order(to: known.base)
        let isOwn = known.failedWrite?.isMade(as: stored) ?? false
        switch (order, stored.status) {
        case (.same, .deleting) where !known.hasDeletionMark: self = .sameDeletion
        case (.same, .active(let session)), (.same, .deleting(let session)):
            self = session.refresh == nil ? .sameWithoutRefreshToken : .same
        case (.same, .loggedOut): self = .sameLoggedOut
        case (.same, .none): self = .sameWithoutSession
        case (.older, _): self = .older
        case (.newer, .deleting) where !known.hasDeletionMark: self = .deletingElsewhere
        case (.otherSession, .deleting) where !known.hasDeletionMark: self = .deletingOtherSession
        case (.newer, .active) where isOwn, (.newer, .deleting) where isOwn,
            (.otherSession, .active) where isOwn, (.otherSession, .deleting) where isOwn:
            self = .ownFailedWrite
        case (.newer, .active(let session)) where known.hasExchanged(session.refresh): self = .exchangedToken
        case (.newer, .active(let session)) where session == known.session,
            (.otherSession, .active(let session)) where session == known.session:
            self = .sameTokens
        case (.newer, .loggedOut), (.otherSession, .loggedOut): self = .loggedOut
        case (.newer, .none), (.otherSession, .none): self = .ended
        case (.newer, .active), (.newer, .deleting): self = .newer
        case (.otherSession, .active), (.otherSession, .deleting): self = .otherSession
        }
    }

    /// What the store says of the session.
    enum StoredState: String {
        /// There is a session to take over.
        case session
        /// The store does not know the user.
        case removed = "no user"
        /// An operator has ended the session, or is deleting its account.
        case loggedOut = "logged out"
        /// There is no session, and no operator has ended one.
        case ended = "no session"
        /// The user is another identity's.
        case foreign = "another identity"
    }

    /// What the store says of the session.
    var storedState: StoredState {
        switch self {
        case .same, .sameWithoutRefreshToken, .older, .ownFailedWrite, .exchangedToken, .sameTokens, .newer,
            .otherSession:
            .session
        case .sameAbsent, .absent: .removed
        case .sameDeletion, .sameLoggedOut, .deletingElsewhere, .deletingOtherSession, .loggedOut: .loggedOut
        case .sameWithoutSession, .ended: .ended
        case .foreign: .foreign
        }
    }

    /// The store holds the session that is known here, whatever its version: its tokens are not revoked here.
    var hasKnownSession: Bool {
        switch self {
        case .same, .sameWithoutRefreshToken, .sameDeletion, .older, .deletingElsewhere, .ownFailedWrite,
            .exchangedToken, .sameTokens, .newer:
            true
        case .foreign, .sameLoggedOut, .sameWithoutSession, .sameAbsent, .deletingOtherSession, .absent, .loggedOut,
            .ended, .otherSession:
            false
        }
    }

    /// The account is being deleted, and not by this process: by another one, or a crash has cut that off.
    var isDeletingElsewhere: Bool {
        switch self {
        case .sameDeletion, .deletingElsewhere, .deletingOtherSession: true
        case .foreign, .same, .sameWithoutRefreshToken, .sameLoggedOut, .sameWithoutSession, .sameAbsent, .older,
            .ownFailedWrite, .exchangedToken, .sameTokens, .absent, .loggedOut, .ended, .newer, .otherSession:
            false
        }
    }
}
