/// A call that was about to be made: stored before it, gone with its answer. One that is still there after a crash, or after an answer
/// that never came, has an unknown outcome (refresh.md 9).
package struct StoredIntent: Equatable, Sendable {
    package var kind: SessionCall.Kind
    /// The wall clock when the latest of the calls was made.
    package var at: WallTime
    /// How often the session's refresh token has been sent since an answer last came, this call included: 2 is the single retry
    /// (refresh.md 9). A login's intent carries it on: 0 if no refresh was open.
    package var tries: Int

    package init(kind: SessionCall.Kind, at: WallTime, tries: Int) {
        self.kind = kind
        self.at = at
        self.tries = tries
    }
}

extension StoredUser {
    /// The intent's call was answered and changed nothing: what was open before it is open again.
    mutating func settleIntent() {
        guard let open = intent else { return }
        let tries = open.kind == .refresh ? open.tries - 1 : open.tries
        intent = tries > 0 ? StoredIntent(kind: .refresh, at: open.at, tries: tries) : nil
    }
}
