/// What one shard knows of all users' tokens, and the requests that wait for one. Belongs to the shard's queue.
package final class TokenCache {
    /// A parked request.
    package protocol Waiter: AnyObject {
        /// Something was published for the user it waits for: it asks the board again.
        func tokenCacheChanged()
    }

    package enum Decision {
        case use(AccessToken)
        /// Wait for the next publication, up to `refresh.wait_max`; then the token at hand serves if it is still good.
        case park
        case refuse(AccessToken.Refusal)
    }

    /// What a request whose token an upstream refused can hope for.
    package enum ReplacementOutlook {
        /// A newer token is here.
        case renewed(AccessToken)
        /// The next publication tells more.
        case awaited
        /// One is being fetched: the next publication brings it or the failure.
        case underWay
        /// A refresh may not be forced again so soon.
        case coolingDown
        /// The session that it belonged to is over, and another has taken its place, maybe another account's.
        case replaced
        /// There will be none, or not soon.
        case none
    }

    private struct Entry {
        var availability = AccessToken.Availability.pending
        /// The session path was asked and has not answered yet.
        var isRequested = false
        /// The session path was told that an upstream refused this generation, and has not answered yet.
        var refused: UInt64?
        var waiters: [any Waiter] = []
        /// Whose the latest token is or was.
        var account: Int?
        /// Grows whenever the user leaves or becomes another account: what was sent before belongs to nobody who comes after.
        var accountEpoch: UInt32 = 0
    }

    private var entries: [Entry] = []
    /// The user that routes without one of their own follow.
    package private(set) var active: UserIndex?
    private let source: any TokenSource

    package init(source: any TokenSource) { self.source = source }

    /// What a request of `user` is to do now.
    package func decide(_ user: UserIndex, at now: Instant) -> Decision {
        reserve(user)
        switch entries[user.number].availability {
        case .token(let token) where now < token.waitsFrom && now < token.usableUntil: return .use(token)
        case .token, .pending:
            requestToken(user)
            return .park
        case .none(let refusal):
            // Requests that come while the service is unreachable shorten the back-off (architecture.md 5.3).
            if case .identityUnreachable = refusal { requestToken(user) }
            return .refuse(refusal)
        }
    }

    /// The token that serves a request which has waited long enough: any that is not yet expired.
    package func unexpiredToken(_ user: UserIndex, at now: Instant) -> AccessToken? {
        reserve(user)
        guard case .token(let token) = entries[user.number].availability, now < token.usableUntil else { return nil }
        return token
    }

    /// An upstream refused the token of `generation` (refresh.md 11): a newer one serves at once, else one refresh is forced.
    ///
    /// - Parameters:
    ///   - era: the token's. One of a session that has ended is not replaced by one of the next, which may be somebody else's.
    ///   - forces: a refresh may be forced; false merely looks.
    package func refused(
        _ generation: UInt64, of user: UserIndex, accountEpoch: UInt32 = 0, at now: Instant, forces: Bool
    ) -> ReplacementOutlook {
        reserve(user)
        let isOver = accountEpoch != entries[user.number].accountEpoch
        switch entries[user.number].availability {
        case .token where isOver, .pending where isOver: return .replaced
        case .token(let token) where token.generation > generation && now < token.usableUntil: return .renewed(token)
        case .token(let token): return outlook(for: token, at: now, forces: forces)
        case .pending: return .underWay
        case .none: return .none
        }
    }

    private func outlook(for token: AccessToken, at now: Instant, forces: Bool) -> ReplacementOutlook {
        let user = token.user
        switch token.renewal {
        case .underWay: return .underWay
        case .impossible: return .none
        case .failing(let until) where now < until: return .none
        case .possible(let from) where now < from: return .coolingDown
        case .possible, .failing:
            guard forces else { return .none }
            if entries[user.number].refused != token.generation {
                entries[user.number].refused = token.generation
                source.tokenRefused(by: user, generation: token.generation)
            }
            return .awaited
        }
    }

    /// The session of `user` is over: logged out, dead or refused. Not so while a login or the identity service is waited for.
    package func isSessionOver(_ user: UserIndex) -> Bool {
        reserve(user)
        guard case .none(let refusal) = entries[user.number].availability else { return false }
        return switch refusal {
        case .loginRequired, .credentialRefused, .userUnknown: true
        case .identityUnreachable: false
        }
    }

    /// The account whose token was published last. It stays while there is none.
    package func account(of user: UserIndex) -> Int? {
        reserve(user)
        return entries[user.number].account
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
        switch availability {
        case .token(var token):
            // A login, or another process's, may have ended in another account without a word in between.
            if token.account != entries[user.number].account { entries[user.number].accountEpoch &+= 1 }
            entries[user.number].account = token.account
            token.accountEpoch = entries[user.number].accountEpoch
            entries[user.number].availability = .token(token)
        case .none(.loginRequired), .none(.userUnknown):
            entries[user.number].accountEpoch &+= 1
            entries[user.number].availability = availability
        case .pending, .none: entries[user.number].availability = availability
        }
        entries[user.number].isRequested = false
        if !Self.isRefusalPending(availability, entries[user.number].refused) { entries[user.number].refused = nil }
        let waiters = entries[user.number].waiters
        entries[user.number].waiters = []
        for waiter in waiters { waiter.tokenCacheChanged() }
    }

    /// Whether a publication leaves a refusal unanswered: the same token, whose refresh might be forced at once, was published before the session
    /// path heard of the refusal. Its answer follows, and is another one (`TokenSource.tokenRefused`).
    private static func isRefusalPending(_ availability: AccessToken.Availability, _ refused: UInt64?) -> Bool {
        guard case .token(let token) = availability, token.generation == refused else { return false }
        return token.renewal == .possible(from: .past)
    }

    package func activate(_ user: UserIndex?) { active = user }

    private func requestToken(_ user: UserIndex) {
        guard !entries[user.number].isRequested else { return }
        entries[user.number].isRequested = true
        source.tokenNeeded(by: user)
    }

    private func reserve(_ user: UserIndex) {
        while entries.count <= user.number { entries.append(Entry()) }
    }
}
