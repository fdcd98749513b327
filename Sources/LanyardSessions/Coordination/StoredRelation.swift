import LanyardFoundations
import LanyardSessionInterface

/// What a stored user is to what this process knows of it. The first that is true of it, in the order of the cases. The
/// names are those of docs/design/lives.md.
enum StoredRelation: String, CaseIterable, Sendable {
    /// It belongs to another identity.
    case foreign = "another identity's user"
    /// The version that is known here.
    case same = "the known version"
    /// The same session with a lower generation: a file from a backup replaced a newer one (security.md T14).
    case older = "an older version of the session"
    /// A write of this process that the store reported as failed has been made all the same.
    case ownFailedWrite = "a write of ours that was reported as failed"
    /// A newer version of the session with a refresh token that this process has exchanged for a later one, or without one: the
    /// other process has renewed the access token alone, or has found the earlier refresh token dead. The later refresh token is
    /// unsaved here, and only it can renew the session.
    case exchangedToken = "a newer version with a refresh token that was exchanged here"
    /// Another generation with the tokens that are known here: another process has cancelled its deletion.
    case sameTokens = "another version with the known tokens"
    /// The store does not know the user: another process has removed it.
    case absent = "no such user"
    /// An operator has logged the user out elsewhere.
    case loggedOut = "a logout"
    /// Another process is deleting the account, or a crash has cut that off: the session must not be continued here.
    case deletingElsewhere = "a deletion of another process"
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
    }

    /// What `stored` is to what is `known`.
    init(_ stored: StoredUser?, to known: Known) {
        guard let stored else {
            self = known.base == .absent ? .same : .absent
            return
        }
        guard stored.belongs(to: known.identity) else {
            self = .foreign
            return
        }
        let order = stored.version.order(to: known.base)
        let issuedAt = stored.session?.issuedAt
        let isOwn = known.failedWrite.map { $0.version == stored.version && $0.issuedAt == issuedAt } ?? false
        switch (order, stored.status) {
        case (.same, _): self = .same
        case (.older, _): self = .older
        case (.newer, _) where isOwn, (.otherSession, _) where isOwn: self = .ownFailedWrite
        case (.newer, .active(let session)) where known.hasExchanged(session.refresh): self = .exchangedToken
        case (_, .active(let session)) where session == known.session: self = .sameTokens
        case (_, .loggedOut): self = .loggedOut
        case (_, .none), (_, .refused): self = .ended
        case (_, .deleting) where !known.hasDeletionMark: self = .deletingElsewhere
        case (.newer, .active), (.newer, .deleting): self = .newer
        case (.otherSession, .active), (.otherSession, .deleting): self = .otherSession
        }
    }

    /// When a stored user is compared with what is known.
    enum Moment: String, CaseIterable, Sendable {
        /// Under the user's lock, before a call.
        case reading = "before a call"
        /// Nothing is in progress: a read of all users.
        case idle = "at rest"
        /// The store did not take the tokens of a refresh.
        case savingRefresh = "after a refresh"
        /// The store did not take the tokens of a login.
        case savingLogin = "after a login"
        /// The same while the end of the session before it is unsaved.
        case savingLoginAfterUnsavedEnd = "after a login, with an unsaved end"
        /// The store did not take the end of the session, or of its refresh token.
        case closing = "at an end"
        /// The store did not take an unsaved session.
        case retryingSession = "unsaved session"
        /// The store did not take another unsaved change.
        case retryingChange = "other unsaved change"
    }

    /// What follows.
    enum Resolution: String, CaseIterable, Sendable {
        /// Nothing has changed.
        case proceed
        /// That user stays in the store, and this one continues.
        case `continue` = "continue beside"
        /// The newer state is kept, and is written over the older one.
        case writeNewer = "write ours"
        /// The stored version is the base, and the change is made again.
        case rebase = "repeat"
        /// The same with a log line: this login replaces what the store has.
        case keepLogin = "keep the login"
        /// What another process has stored applies.
        case yield = "yield"
    }

    /// What follows from what the store holds at each moment (docs/design/lives.md has the table).
    func resolution(at moment: Moment) -> Resolution {
        switch (self, moment) {
        case (.foreign, _): .continue
        case (.same, .reading), (.same, .idle): .proceed
        case (.same, .savingLoginAfterUnsavedEnd): .keepLogin
        case (.same, .savingRefresh), (.same, .savingLogin), (.same, .closing), (.same, .retryingSession),
            (.same, .retryingChange):
            .yield
        case (.older, _): .writeNewer
        case (.ownFailedWrite, .savingRefresh), (.ownFailedWrite, .savingLogin),
            (.ownFailedWrite, .savingLoginAfterUnsavedEnd), (.ownFailedWrite, .closing):
            .rebase
        case (.ownFailedWrite, .reading), (.ownFailedWrite, .idle), (.ownFailedWrite, .retryingSession),
            (.ownFailedWrite, .retryingChange):
            .yield
        case (.exchangedToken, .savingRefresh), (.exchangedToken, .closing), (.exchangedToken, .retryingSession),
            (.exchangedToken, .retryingChange):
            .rebase
        case (.exchangedToken, .savingLogin), (.exchangedToken, .savingLoginAfterUnsavedEnd): .keepLogin
        // Nothing is unsaved then.
        case (.exchangedToken, .reading), (.exchangedToken, .idle): .yield
        case (.sameTokens, .savingRefresh), (.sameTokens, .retryingSession): .rebase
        case (.sameTokens, .savingLoginAfterUnsavedEnd): .keepLogin
        case (.sameTokens, .reading), (.sameTokens, .idle), (.sameTokens, .savingLogin), (.sameTokens, .closing),
            (.sameTokens, .retryingChange):
            .yield
        // The store has no session, and no operator has ended it.
        case (.ended, .savingLogin), (.ended, .savingLoginAfterUnsavedEnd): .keepLogin
        case (.ended, .reading), (.ended, .idle), (.ended, .savingRefresh), (.ended, .closing),
            (.ended, .retryingSession), (.ended, .retryingChange):
            .yield
        // The session before the login was ended by an operator here.
        case (.absent, .savingLoginAfterUnsavedEnd), (.loggedOut, .savingLoginAfterUnsavedEnd),
            (.deletingElsewhere, .savingLoginAfterUnsavedEnd), (.newer, .savingLoginAfterUnsavedEnd),
            (.otherSession, .savingLoginAfterUnsavedEnd):
            .keepLogin
        case (.absent, _), (.loggedOut, _), (.deletingElsewhere, _), (.newer, _), (.otherSession, _): .yield
        }
    }
}

/// What another process's record of the user means for the session here.
enum ExternalState: Sendable {
    /// There is a session to take over.
    case session(StoredUser)
    /// The store does not know the user any more.
    case removed
    /// An operator has ended the session, or is deleting its account.
    case loggedOut
    /// The session has ended, and no operator has ended it.
    case ended

    /// - Parameter hasOwnMark: the mark of a deletion may be this process's own.
    init(_ user: StoredUser?, hasOwnMark: Bool) {
        switch user?.status {
        case nil: self = .removed
        case .active?: self = user.map { .session($0) } ?? .removed
        case .deleting?: self = hasOwnMark ? user.map { .session($0) } ?? .removed : .loggedOut
        case .loggedOut?: self = .loggedOut
        case .some(.none), .refused?: self = .ended
        }
    }
}
