/// What one shard knows of all users' tokens, and the requests that wait for one. Belongs to the shard's queue.
package final class TokenBoard {
    /// A parked request.
    package protocol Waiter: AnyObject {
        /// Something was published for the user it waits for: it asks the board again.
        func tokenBoardChanged()
    }

    package enum Verdict {
        case use(AccessToken)
        /// Wait for the next publication, up to `refresh.wait_max`; then the token at hand serves if it is still good.
        case park
        case refuse(AccessToken.Refusal)
    }

    private struct Entry {
        var availability = AccessToken.Availability.pending
        /// The session path was asked and has not answered yet.
        var asked = false
        var waiters: [any Waiter] = []
    }

    private var entries: [Entry] = []
    /// The user that routes without one of their own follow.
    package private(set) var active: UserIndex?
    private let source: any TokenSource

    package init(source: any TokenSource) { self.source = source }

    /// What a request of `user` is to do now.
    package func decide(_ user: UserIndex, at now: Instant) -> Verdict {
        reserve(user)
        switch entries[user.number].availability {
        case .token(let token) where now < token.waitsFrom && now < token.usableUntil: return .use(token)
        case .token, .pending:
            ask(user)
            return .park
        case .none(let refusal):
            // Requests that come while the service is unreachable shorten the back-off (design §5).
            if case .identityUnreachable = refusal { ask(user) }
            return .refuse(refusal)
        }
    }

    /// The token that serves a request which has waited long enough: any that is not yet expired.
    package func lastResort(_ user: UserIndex, at now: Instant) -> AccessToken? {
        reserve(user)
        guard case .token(let token) = entries[user.number].availability, now < token.usableUntil else { return nil }
        return token
    }

    package func park(_ waiter: any Waiter, for user: UserIndex) {
        reserve(user)
        entries[user.number].waiters.append(waiter)
    }

    package func unpark(_ waiter: any Waiter, for user: UserIndex) {
        entries[user.number].waiters.removeAll { $0 === waiter }
    }

    /// A publication of the session path: it replaces what was known, and all who wait look again, in order.
    package func receive(_ availability: AccessToken.Availability, for user: UserIndex) {
        reserve(user)
        entries[user.number].availability = availability
        entries[user.number].asked = false
        let waiters = entries[user.number].waiters
        entries[user.number].waiters = []
        for waiter in waiters { waiter.tokenBoardChanged() }
    }

    package func activate(_ user: UserIndex?) { active = user }

    private func ask(_ user: UserIndex) {
        guard !entries[user.number].asked else { return }
        entries[user.number].asked = true
        source.tokenNeeded(by: user)
    }

    private func reserve(_ user: UserIndex) {
        while entries.count <= user.number { entries.append(Entry()) }
    }
}
