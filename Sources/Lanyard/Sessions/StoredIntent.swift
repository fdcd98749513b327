/// A call that is about to be made: stored before it, removed with its result. An intent that remains after a crash, or
/// after a lost response, has an unknown outcome (refresh.md 9).
package struct StoredIntent: Equatable, Sendable {
    package var kind: SessionCall.Kind
    /// The wall clock at the latest of the calls.
    package var at: WallTime
    /// How often the session's refresh token was sent since the last response, this call included. 2 is the single
    /// retry (refresh.md 9). A login's intent keeps the number; 0 if no refresh was open.
    package var tries: Int

    package init(kind: SessionCall.Kind, at: WallTime, tries: Int) {
        self.kind = kind
        self.at = at
        self.tries = tries
    }
}

extension StoredUser {
    /// The intent's call has a result that changed nothing: an earlier open refresh is open again.
    mutating func closeIntent() {
        guard let open = intent else { return }
        let tries = open.kind == .refresh ? open.tries - 1 : open.tries
        intent = tries > 0 ? StoredIntent(kind: .refresh, at: open.at, tries: tries) : nil
    }
}
