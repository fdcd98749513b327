import LanyardFoundations

/// What one shard knows of all users' tokens, and the requests that wait for a token. Belongs to the shard's queue.
package final class TokenCache {
    /// A parked request.
    package protocol Waiter: AnyObject {
        /// Something was published for its user. The waiter was removed and decides again.
        func handleTokenCacheChange()
    }

    package enum Decision {
        case use(AccessToken)
        /// Wait for the next publication, up to `refresh.wait_max`. Then the present token is used if it is unexpired.
        case park
        case refuse(AccessToken.Refusal)
        /// The request began before a reload that has given its user another account space, or has taken it away.
        case replaced
    }

    /// What a request can expect after an upstream refused its token.
    package enum ReplacementOutlook {
        /// A newer token is available.
        case renewed(AccessToken)
        /// A refresh was requested; the next publication tells more.
        case awaited
        /// A refresh or a login is in progress; the next publication is its result.
        case inProgress
        /// A refresh may not be forced again yet.
        case coolingDown
        /// The token's session has ended, or a reload has replaced its user: the next token may be of another account.
        case replaced
        /// Another program renews the token, and has not done so yet.
        case unchanged
        /// No newer token will come, or not soon.
        case none
    }

    private struct Entry {
        /// Of the user that the rest is about. Indexes of the place with an earlier epoch get nothing.
        var epoch: UInt32
        var availability = AccessToken.Availability.pending
        /// A token was requested from the session path, which has not published since.
        var isRequested = false
        /// The refusal that was reported to the session path, until a publication confirms it.
        var refusal: Refusal?
        var waiters: [any Waiter] = []
        /// The account of the latest token.
        var account = AccountNumber.unknown
        /// Grows when the user is logged out or becomes another account: an earlier request must not get a token of the
        /// new account.
        var accountEpoch: UInt32 = 0
    }

    /// A reported refusal.
    private struct Refusal {
        let generation: UInt64
        let number: RefusalNumber
    }

    /// By `UserIndex.number`.
    private var entries: [Entry] = []
    /// Of the latest refusal that was reported.
    private var refusalNumber = RefusalNumber.ofNewCache()
    private let source: any TokenSource
    /// The shard's; nil: a simulation runs the cache, without a loop.
    private let loop: EventLoop?

    package init(source: any TokenSource, on loop: EventLoop? = nil) {
        self.source = source
        self.loop = loop
    }

    /// Decides what a request of `user` does now.
    package func decide(_ user: UserIndex, at now: Instant) -> Decision {
        loop?.assertIsCurrent()
        guard isCurrent(user) else { return .replaced }
        switch entries[user.number].availability {
        case .token(let token) where now < token.waitsFrom && now < token.usableUntil: return .use(token)
        case .token, .pending:
            requestToken(user)
            return .park
        case .none(let refusal):
            // Requests that come while the identity service gives no token shorten the back-off (architecture-control.md 5.3).
            switch refusal {
            case .identityUnreachable, .loginRequiredElsewhere, .credentialRefusedElsewhere: requestToken(user)
            case .loginRequired, .loggedOut, .credentialRefused, .clientRefused, .variantRefused, .tokenUnusable,
                .userUnknown:
                break
            }
            return .refuse(refusal)
        }
    }

    /// The same for a request whose client gets the token itself (fleet.md 2): one that ends soon is not handed out.
    package func decideGrant(_ user: UserIndex, at now: Instant) -> Decision {
        loop?.assertIsCurrent()
        let decision = decide(user, at: now)
        guard case .use(let token) = decision, !token.mayBeHandedOut(at: now) else { return decision }
        requestToken(user)
        return .park
    }

    /// Another program says that the token of this generation was refused (fleet.md 2). A refresh is forced as for an upstream that refuses
    /// it, if it is still the present one.
    package func handleReportedRefusal(_ generation: UInt64, of user: UserIndex, at now: Instant) {
        loop?.assertIsCurrent()
        guard isCurrent(user), case .token(let token) = entries[user.number].availability,
            token.generation == generation
        else { return }
        _ = outlook(for: token, at: now, forces: true)
    }

    /// The token for a request that has waited long enough: any that is not yet expired.
    package func unexpiredToken(_ user: UserIndex, at now: Instant) -> AccessToken? {
        loop?.assertIsCurrent()
        guard isCurrent(user), case .token(let token) = entries[user.number].availability, now < token.usableUntil
        else {
            return nil
        }
        return token
    }

    /// An upstream refused the token of `generation` (refresh-outcomes.md 11). A newer token is used at once, else one refresh
    /// is forced.
    ///
    /// - Parameters:
    ///   - accountEpoch: the token's. A token of a session that has ended is not replaced by one of the next session,
    ///     which may belong to another account.
    ///   - forces: a refresh may be forced; false only returns the outlook.
    package func handleRefusal(
        _ generation: UInt64, of user: UserIndex, accountEpoch: UInt32 = 0, at now: Instant, forces: Bool
    ) -> ReplacementOutlook {
        loop?.assertIsCurrent()
        guard isCurrent(user) else { return .replaced }
        let hasSessionEnded = accountEpoch != entries[user.number].accountEpoch
        switch entries[user.number].availability {
        case .token where hasSessionEnded, .pending where hasSessionEnded: return .replaced
        case .token(let token) where token.generation > generation && now < token.usableUntil: return .renewed(token)
        case .token(let token): return outlook(for: token, at: now, forces: forces)
        case .pending: return .inProgress
        case .none: return .none
        }
    }

    private func outlook(for token: AccessToken, at now: Instant, forces: Bool) -> ReplacementOutlook {
        let user = token.user
        switch token.renewal {
        case .inProgress: return .inProgress
        case .elsewhere: return .unchanged
        case .impossible: return .none
        case .failing(let until) where now < until: return .none
        case .possible(let from) where now < from: return .coolingDown
        case .possible, .failing:
            guard forces else { return .none }
            if entries[user.number].refusal?.generation != token.generation { reportRefusal(of: token) }
            return .awaited
        }
    }

    private func reportRefusal(of token: AccessToken) {
        refusalNumber = refusalNumber.next
        entries[token.user.number].refusal = Refusal(generation: token.generation, number: refusalNumber)
        source.tokenRefused(by: token.user, generation: token.generation, number: refusalNumber)
    }

    /// A refused token was not replaced, because a refresh may not be forced again yet.
    package func reportDenial(of user: UserIndex) {
        loop?.assertIsCurrent()
        source.refreshDenied(by: user)
    }

    /// An upstream has refused the newer token of a replay, too.
    package func noteRefusedReplay(_ generation: UInt64, of user: UserIndex) {
        loop?.assertIsCurrent()
        if isCurrent(user) { source.freshTokenRefused(by: user, generation: generation) }
    }

    /// Whether the session of `user` has ended: logged out, dead, refused or replaced by a reload. False while a login is
    /// in progress or the identity service gives no token for now.
    package func isSessionOver(_ user: UserIndex) -> Bool {
        loop?.assertIsCurrent()
        guard isCurrent(user) else { return true }
        guard case .none(let refusal) = entries[user.number].availability else { return false }
        return switch refusal {
        case .loginRequired, .loginRequiredElsewhere, .loggedOut, .credentialRefused, .variantRefused, .userUnknown:
            true
        case .identityUnreachable, .credentialRefusedElsewhere, .clientRefused, .tokenUnusable: false
        }
    }

    /// The account that was published last. It stays when there is no token. nil: a reload has replaced the user.
    package func account(of user: UserIndex) -> AccountNumber? {
        loop?.assertIsCurrent()
        return isCurrent(user) ? entries[user.number].account : nil
    }

    /// - Parameter user: one for which a decision of this turn said to wait.
    package func park(_ waiter: any Waiter, for user: UserIndex) {
        loop?.assertIsCurrent()
        guard isCurrent(user) else { return }
        entries[user.number].waiters.append(waiter)
    }

    package func unpark(_ waiter: any Waiter, for user: UserIndex) {
        loop?.assertIsCurrent()
        entries[user.number].waiters.removeAll { $0 === waiter }
    }

    /// Applies a publication of the session path. It replaces the earlier state, and all waiters are notified in order. One
    /// for a user that a reload has replaced is dropped.
    ///
    /// - Parameter heard: the refusals that the session path had heard of when it published. The publication is the reply to them.
    package func receive(_ availability: AccessToken.Availability, for user: UserIndex, heard: HeardRefusals) {
        loop?.assertIsCurrent()
        add(user)
        guard isCurrent(user) else { return }
        switch availability {
        case .token(let token):
            // A login, here or in another process, may have changed the account without a publication in between.
            if token.account != entries[user.number].account { entries[user.number].accountEpoch &+= 1 }
            entries[user.number].account = token.account
            entries[user.number].availability = .token(token.inEpoch(entries[user.number].accountEpoch))
        case .none(.loginRequired), .none(.loginRequiredElsewhere), .none(.loggedOut), .none(.userUnknown):
            entries[user.number].accountEpoch &+= 1
            entries[user.number].availability = availability
        case .pending, .none: entries[user.number].availability = availability
        }
        entries[user.number].isRequested = false
        if let refusal = entries[user.number].refusal, heard.contains(refusal.number) {
            entries[user.number].refusal = nil
        }
        notifyWaiters(of: user)
    }

    /// The user is this account from now on, whose token follows. What was sent as another one is not sent again, and its token
    /// is not used any more.
    package func receive(_ account: AccountNumber, for user: UserIndex) {
        loop?.assertIsCurrent()
        add(user)
        guard isCurrent(user), account != entries[user.number].account else { return }
        entries[user.number].account = account
        entries[user.number].accountEpoch &+= 1
        if case .token = entries[user.number].availability {
            entries[user.number].availability = .pending
            entries[user.number].isRequested = false
        }
        notifyWaiters(of: user)
    }

    private func notifyWaiters(of user: UserIndex) {
        let waiters = entries[user.number].waiters
        entries[user.number].waiters = []
        for waiter in waiters { waiter.handleTokenCacheChange() }
    }

    /// Whether another request of `user` may wait. A user with many of them leaves an eighth of the places to the other users, whose
    /// identity service may respond.
    package func mayPark(_ user: UserIndex, among parked: SharedLimit) -> Bool {
        loop?.assertIsCurrent()
        let reserve = entries.count > 1 ? parked.limit / 8 : 0
        guard reserve > 0, parked.limit - parked.count <= reserve, user.number < entries.count else { return true }
        return entries[user.number].waiters.count < max(1, reserve / 2)
    }

    private func requestToken(_ user: UserIndex) {
        guard !entries[user.number].isRequested else { return }
        entries[user.number].isRequested = true
        source.tokenNeeded(by: user)
    }

    /// Knows the user from now on: its requests wait for a publication. It ends the one of an earlier epoch, whose waiters
    /// are notified and get `replaced`.
    package func add(_ user: UserIndex) {
        loop?.assertIsCurrent()
        reserve(user)
        guard user.epoch > entries[user.number].epoch else { return }
        let waiters = entries[user.number].waiters
        entries[user.number] = Entry(epoch: user.epoch)
        for waiter in waiters { waiter.handleTokenCacheChange() }
    }

    /// False for a user that a reload has replaced.
    private func isCurrent(_ user: UserIndex) -> Bool {
        reserve(user)
        return entries[user.number].epoch == user.epoch
    }

    private func reserve(_ user: UserIndex) {
        while entries.count <= user.number { entries.append(Entry(epoch: 0)) }
    }
}
