/// What follows from what the store holds (docs/design/lives.md has the table).
extension StoredRelation {
    /// When a stored user is compared with what is known.
    enum Moment: String, CaseIterable, Sendable {
        /// Under the user's lock, before a refresh of the session's own.
        case refresh = "before a refresh"
        /// Under the user's lock, before a login of the session's own.
        case login = "before a login"
        /// Under the user's lock, before an operator's login, or a session that came from one.
        case operatorLogin = "before an operator's login"
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
        /// The store did not take an unsaved removal.
        case retryingRemoval = "unsaved removal"
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
        /// The refresh token is dead: no call is made with it.
        case endToken = "end the token"
        /// The change is dropped. The user is not known here any more.
        case forget = "drop"
    }

    /// One row of the table.
    private struct Row {
        var calls: (refresh: Resolution, login: Resolution, operatorLogin: Resolution)
        var idle: Resolution
        var saving: (refresh: Resolution, login: Resolution, afterUnsavedEnd: Resolution)
        var closing: Resolution
        var retrying: (session: Resolution, change: Resolution)
    }

    /// What follows from what the store holds at each moment.
    func resolution(at moment: Moment) -> Resolution {
        let row = row
        return switch moment {
        case .refresh: row.calls.refresh
        case .login: row.calls.login
        case .operatorLogin: row.calls.operatorLogin
        case .idle: row.idle
        case .savingRefresh: row.saving.refresh
        case .savingLogin: row.saving.login
        case .savingLoginAfterUnsavedEnd: row.saving.afterUnsavedEnd
        case .closing: row.closing
        case .retryingSession: row.retrying.session
        case .retryingChange: row.retrying.change
        // Another process has added the user again.
        case .retryingRemoval: .forget
        }
    }

    private var row: Row {
        switch self {
        case .foreign:
            Row(
                calls: (.continue, .continue, .continue), idle: .continue,
                saving: (.continue, .continue, .continue), closing: .continue, retrying: (.continue, .continue))
        case .same, .sameAbsent, .sameWithoutSession:
            Row(
                calls: (.proceed, .proceed, .proceed), idle: .proceed,
                saving: (.yield, .yield, .keepLogin), closing: .yield, retrying: (.yield, .yield))
        // Another process has found the session dead.
        case .sameWithoutRefreshToken:
            Row(
                calls: (.endToken, .proceed, .proceed), idle: .proceed,
                saving: (.yield, .yield, .keepLogin), closing: .yield, retrying: (.yield, .yield))
        case .sameDeletion, .sameLoggedOut:
            Row(
                calls: (.yield, .yield, .proceed), idle: .proceed,
                saving: (.yield, .yield, .keepLogin), closing: .yield, retrying: (.yield, .yield))
        case .older:
            Row(
                calls: (.writeNewer, .writeNewer, .writeNewer), idle: .writeNewer,
                saving: (.writeNewer, .writeNewer, .writeNewer), closing: .writeNewer,
                retrying: (.writeNewer, .writeNewer))
        case .ownFailedWrite:
            Row(
                calls: (.yield, .yield, .yield), idle: .yield,
                saving: (.rebase, .rebase, .rebase), closing: .rebase, retrying: (.yield, .yield))
        // Before a call nothing is unsaved.
        case .exchangedToken:
            Row(
                calls: (.yield, .yield, .yield), idle: .yield,
                saving: (.rebase, .keepLogin, .keepLogin), closing: .rebase, retrying: (.rebase, .rebase))
        case .sameTokens:
            Row(
                calls: (.yield, .yield, .yield), idle: .yield,
                saving: (.rebase, .yield, .keepLogin), closing: .yield, retrying: (.rebase, .yield))
        // The store has no session, and no operator has ended it.
        case .ended:
            Row(
                calls: (.endToken, .yield, .yield), idle: .yield,
                saving: (.yield, .keepLogin, .keepLogin), closing: .yield, retrying: (.yield, .yield))
        // The session before a login with an unsaved end was ended by an operator here.
        case .deletingElsewhere, .deletingOtherSession, .absent, .loggedOut, .newer, .otherSession:
            Row(
                calls: (.yield, .yield, .yield), idle: .yield,
                saving: (.yield, .yield, .keepLogin), closing: .yield, retrying: (.yield, .yield))
        }
    }
}
