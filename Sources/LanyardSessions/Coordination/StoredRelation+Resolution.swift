/// What follows from what the store holds, at each moment (docs/design/stored-relations.md has the table). Each moment has the type of
/// what can follow then.
extension StoredRelation {
    /// When the user was read.
    enum ReadResolution: String {
        /// Nothing has changed.
        case proceed
        /// That user stays in the store, and this one continues.
        case continueBeside = "continue beside"
        /// The newer state is kept, and is written over the older one.
        case writeNewer = "write ours"
        /// What another process has stored applies.
        case yield
    }

    /// When the user was read for a call that sends the refresh token.
    enum RefreshResolution {
        case read(ReadResolution)
        /// The refresh token is dead: no call is made with it.
        case endToken
    }

    /// When the store did not take a change.
    enum ChangeResolution: String {
        /// That user stays in the store, and this one continues.
        case continueBeside = "continue beside"
        /// The newer state is kept, and is written over the older one.
        case writeNewer = "write ours"
        /// The stored version is the base, and the change is made again.
        case rebase = "repeat"
        /// What another process has stored applies.
        case yield
    }

    /// When the store did not take a login.
    enum LoginResolution {
        case change(ChangeResolution)
        /// The login replaces what the store has. The log has a line.
        case keepLogin
    }

    /// One row of the table.
    struct Resolutions {
        /// Under the user's lock, before a refresh of the session's own.
        let beforeRefresh: RefreshResolution
        /// Under the user's lock, before a login of the session's own.
        let beforeLogin: ReadResolution
        /// Under the user's lock, before an operator's login, or a session that came from one.
        let beforeOperatorLogin: ReadResolution
        /// Nothing is in progress: a read of all users.
        let atRest: ReadResolution
        /// The store did not take the tokens of a refresh.
        let afterRefresh: ChangeResolution
        /// The store did not take the tokens of a login.
        let afterLogin: LoginResolution
        /// The same while the end of the session before it is unsaved.
        let afterLoginWithUnsavedEnd: LoginResolution
        /// The store did not take the end of the session, or of its refresh token.
        let atEnd: ChangeResolution
        /// The store did not take an unsaved session that it has in another version.
        let ofUnsavedSession: ChangeResolution
        /// The store did not take another unsaved change. A removal is none of them: it is always dropped.
        let ofUnsavedChange: ChangeResolution
    }

    /// What follows from what the store holds.
    var resolutions: Resolutions {
        switch self {
        case .foreign:
            Resolutions(
                beforeRefresh: .read(.continueBeside), beforeLogin: .continueBeside,
                beforeOperatorLogin: .continueBeside, atRest: .continueBeside,
                afterRefresh: .continueBeside, afterLogin: .change(.continueBeside),
                afterLoginWithUnsavedEnd: .change(.continueBeside), atEnd: .continueBeside,
                ofUnsavedSession: .continueBeside, ofUnsavedChange: .continueBeside)
        case .same, .sameAbsent, .sameWithoutSession:
            Resolutions(
                beforeRefresh: .read(.proceed), beforeLogin: .proceed, beforeOperatorLogin: .proceed, atRest: .proceed,
                afterRefresh: .yield, afterLogin: .change(.yield), afterLoginWithUnsavedEnd: .keepLogin, atEnd: .yield,
                ofUnsavedSession: .yield, ofUnsavedChange: .yield)
        // Another process has found the session dead.
        case .sameWithoutRefreshToken:
            Resolutions(
                beforeRefresh: .endToken, beforeLogin: .proceed, beforeOperatorLogin: .proceed, atRest: .proceed,
                afterRefresh: .yield, afterLogin: .change(.yield), afterLoginWithUnsavedEnd: .keepLogin, atEnd: .yield,
                ofUnsavedSession: .yield, ofUnsavedChange: .yield)
        case .sameDeletion, .sameLoggedOut:
            Resolutions(
                beforeRefresh: .read(.yield), beforeLogin: .yield, beforeOperatorLogin: .proceed, atRest: .proceed,
                afterRefresh: .yield, afterLogin: .change(.yield), afterLoginWithUnsavedEnd: .keepLogin, atEnd: .yield,
                ofUnsavedSession: .yield, ofUnsavedChange: .yield)
        case .older:
            Resolutions(
                beforeRefresh: .read(.writeNewer), beforeLogin: .writeNewer, beforeOperatorLogin: .writeNewer,
                atRest: .writeNewer,
                afterRefresh: .writeNewer, afterLogin: .change(.writeNewer),
                afterLoginWithUnsavedEnd: .change(.writeNewer), atEnd: .writeNewer,
                ofUnsavedSession: .writeNewer, ofUnsavedChange: .writeNewer)
        case .ownFailedWrite:
            Resolutions(
                beforeRefresh: .read(.yield), beforeLogin: .yield, beforeOperatorLogin: .yield, atRest: .yield,
                afterRefresh: .rebase, afterLogin: .change(.rebase), afterLoginWithUnsavedEnd: .change(.rebase),
                atEnd: .rebase,
                ofUnsavedSession: .yield, ofUnsavedChange: .yield)
        // Before a call nothing is unsaved.
        case .exchangedToken:
            Resolutions(
                beforeRefresh: .read(.yield), beforeLogin: .yield, beforeOperatorLogin: .yield, atRest: .yield,
                afterRefresh: .rebase, afterLogin: .keepLogin, afterLoginWithUnsavedEnd: .keepLogin, atEnd: .rebase,
                ofUnsavedSession: .rebase, ofUnsavedChange: .rebase)
        case .sameTokens:
            Resolutions(
                beforeRefresh: .read(.yield), beforeLogin: .yield, beforeOperatorLogin: .yield, atRest: .yield,
                afterRefresh: .rebase, afterLogin: .change(.yield), afterLoginWithUnsavedEnd: .keepLogin, atEnd: .yield,
                ofUnsavedSession: .rebase, ofUnsavedChange: .yield)
        // The store has no session, and no operator has ended it.
        case .ended:
            Resolutions(
                beforeRefresh: .endToken, beforeLogin: .yield, beforeOperatorLogin: .yield, atRest: .yield,
                afterRefresh: .yield, afterLogin: .keepLogin, afterLoginWithUnsavedEnd: .keepLogin, atEnd: .yield,
                ofUnsavedSession: .yield, ofUnsavedChange: .yield)
        // The session before a login with an unsaved end was ended by an operator here.
        case .deletingElsewhere, .deletingOtherSession, .absent, .loggedOut, .newer, .otherSession:
            Resolutions(
                beforeRefresh: .read(.yield), beforeLogin: .yield, beforeOperatorLogin: .yield, atRest: .yield,
                afterRefresh: .yield, afterLogin: .change(.yield), afterLoginWithUnsavedEnd: .keepLogin, atEnd: .yield,
                ofUnsavedSession: .yield, ofUnsavedChange: .yield)
        }
    }
}
