import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// The tokens of an authenticated session, with the instants that follow from the lifetime (refresh.md 1, refresh.md 2,
/// refresh.md 3, refresh.md 4).
package struct SessionTokens: Sendable {
    /// The access token.
    package let access: Secret
    /// Of the access token.
    package let generation: Generation
    /// The service's id of the account, if it is known.
    package let accountID: String?
    /// The account, with its number in the request path.
    package let account: SessionAccount
    /// nil: dead or never issued; the next renewal is a login.
    package var refresh: Secret?
    /// The refresh token in its place whose outcome is unknown; nil: it must not be sent again. It renews nothing before its time.
    package internal(set) var lastTry: LastTry?
    private var refreshEnds: RefreshEnds
    /// How long the refresh of this token may take, as far as the calls before tell.
    private let callDuration: Duration
    /// Counts from the moment before the request was sent; endless for a token that is not renewed here.
    package let lifetime: Duration
    /// The start of the mandatory zone, the last min(`refresh.mandatory`, lifetime / 4). From here on, failures delay
    /// requests.
    package private(set) var mandatoryFrom: Instant
    /// The expiry minus the skew allowance: from here on the token must not be used.
    package private(set) var usableUntil: Instant
    /// The expiry on the wall clock; nil if there is none.
    package private(set) var expiry: WallTime?
    private var expiresAt: Instant
    /// By then the service does not accept the access token any more, whatever its clock says and however late it has responded: the
    /// expiry, which counts from the request, plus the allowance and the longest time of an attempt.
    package let hasEndedAt: Instant

    /// A refresh token that is sent once more after an unknown outcome (refresh-outcomes.md 9).
    package struct LastTry: Equatable, Sendable {
        package let token: Secret
        /// Each access token of the session has ended by then.
        package let at: Instant
        /// The configured credential was refused: nothing but this can renew the session by itself.
        package var replacesLogin = false
    }

    /// When the refresh token ends.
    private struct RefreshEnds: Sendable {
        var expiry: WallTime?
        var idleEnd: WallTime?
        /// A refresh brings another refresh token, which may end later.
        var mayMoveExpiry: Bool
    }

    /// The refresh token's own expiry, if it is known.
    package var refreshExpiry: WallTime? { refreshEnds.expiry }
    /// When the refresh token ends if it is not used before; nil: unknown.
    package var refreshIdleEnd: WallTime? { refreshEnds.idleEnd }

    /// - Parameters:
    ///   - grant: the tokens of the response.
    ///   - accountID, account: the account of the tokens.
    ///   - startedAt, startedAtWall: the clocks before the request was sent.
    ///   - refresh: the refresh token that stays if the grant brings none, with its expiry.
    ///   - skew: the difference between the service's clock and ours, in either direction.
    ///   - refreshTokens: what is configured of them.
    ///   - callDuration: how long recent calls for the token have taken.
    package init(
        _ grant: Grant, generation: Generation, accountID: String?, account: SessionAccount, startedAt: Instant,
        startedAtWall: WallTime, keeping refresh: (token: Secret?, expiry: WallTime?), skew: Duration,
        settings: RefreshSettings, refreshTokens: RefreshTokenSettings = RefreshTokenSettings(),
        callDuration: Duration = .zero
    ) {
        // Calls take a little more now and then.
        self.callDuration = callDuration + callDuration / 8
        access = grant.accessToken
        self.generation = generation
        self.accountID = accountID
        self.account = account
        self.refresh = grant.refreshToken ?? refresh.token
        refreshEnds = RefreshEnds(
            expiry: grant.refreshToken == nil ? refresh.expiry : grant.refreshTokenExpiry,
            idleEnd: self.refresh == nil ? nil : refreshTokens.idle.map { startedAtWall + $0 },
            mayMoveExpiry: refreshTokens.rotation != .none)
        lifetime = grant.lifetime
        expiresAt = startedAt + lifetime
        guard expiresAt != .never else {
            mandatoryFrom = .never
            usableUntil = .never
            hasEndedAt = .never
            expiry = nil
            return
        }
        let policy = ClockPolicy(settings)
        let allowance = policy.allowance(lifetime: lifetime, skew: skew)
        usableUntil = expiresAt - allowance
        hasEndedAt = expiresAt + allowance + policy.attemptTimeout
        // The zone begins no later than the token stops being usable. A large skew must not leave it without a usable
        // instant.
        let zone = expiresAt - min(max(settings.mandatory, allowance), lifetime / 4)
        // The successor of a token that is renewed as soon as it comes is there after two calls. Requests need not wait before that.
        mandatoryFrom = max(zone, min(usableUntil, startedAt + self.callDuration * 2))
        expiry = startedAtWall + lifetime
    }

    /// The stored tokens at the time of `eventContext`, perhaps from an earlier boot of this machine.
    ///
    /// Their age is that of the boot clock if this is still the same boot, otherwise that of the wall clock. An
    /// impossible age leaves an access token that must not be used. The earlier of the two ends applies (refresh.md 1).
    package init(
        _ stored: StoredSession, generation: Generation, accountID: String?, account: SessionAccount, boot: String,
        at eventContext: EventContext, skew: Duration, settings: RefreshSettings,
        refreshTokens: RefreshTokenSettings = RefreshTokenSettings(), callDuration: Duration = .zero
    ) {
        self.init(
            stored.tokens.plain, (stored.refresh, stored.refreshExpiry), generation: generation, accountID: accountID,
            account: account, boot: boot, at: eventContext, skew: skew, settings: settings,
            refreshTokens: refreshTokens, callDuration: callDuration)
    }

    /// The same for one stored access token.
    ///
    /// - Parameter refresh: the session's refresh token with its expiry; nil for the token of a variant.
    init(
        _ stored: StoredAccessToken, _ refresh: (token: Secret?, expiry: WallTime?), generation: Generation,
        accountID: String?, account: SessionAccount, boot: String, at eventContext: EventContext, skew: Duration,
        settings: RefreshSettings, refreshTokens: RefreshTokenSettings = RefreshTokenSettings(),
        callDuration: Duration = .zero
    ) {
        let isSameBoot = !boot.isEmpty && stored.issuedAtBoot.boot == boot
        let allowance = ClockPolicy(settings).allowance(lifetime: stored.lifetime, skew: skew)
        let age = isSameBoot ? eventContext.instant - stored.issuedAtBoot.instant : eventContext.wall - stored.issuedAt
        let makesSense = age >= (isSameBoot ? .zero : .zero - allowance)
        self.init(
            Grant(
                accessToken: stored.token, refreshToken: refresh.token, userID: nil, lifetime: stored.lifetime,
                refreshTokenExpiry: refresh.expiry, serverDate: nil),
            generation: generation, accountID: accountID, account: account,
            startedAt: eventContext.instant - max(age, .zero), startedAtWall: stored.issuedAt,
            keeping: (nil, refresh.expiry), skew: skew, settings: settings, refreshTokens: refreshTokens,
            callDuration: callDuration)
        if isSameBoot { bound(by: eventContext) }
        if !makesSense { self = withheld(at: eventContext.instant) }
    }

    /// The access token is that of the store, with the same end.
    func isSame(as stored: StoredAccessToken) -> Bool {
        access == stored.token && expiry == stored.issuedAt + stored.lifetime
    }

    /// The same access token after the fetch of another one with the refresh token, which may have replaced that.
    func renewed(by grant: Grant, startedAtWall: WallTime, _ settings: RefreshTokenSettings) -> SessionTokens {
        var tokens = self
        tokens.refresh = grant.refreshToken ?? refresh
        if grant.refreshToken != nil { tokens.lastTry = nil }
        if grant.refreshToken != nil { tokens.refreshEnds.expiry = grant.refreshTokenExpiry }
        tokens.refreshEnds.idleEnd = tokens.refresh == nil ? nil : settings.idle.map { startedAtWall + $0 }
        return tokens
    }

    /// The refresh token renews nothing any more.
    ///
    /// - Parameter lastTryAt: when it may be sent once more; nil: never.
    mutating func giveUpRefreshToken(lastTryAt: Instant?) {
        let token = refresh ?? lastTry?.token
        lastTry = lastTryAt.flatMap { at in token.map { LastTry(token: $0, at: at) } }
        refresh = nil
    }

    /// The same tokens, not to be used from `instant` on.
    func withheld(at instant: Instant) -> SessionTokens {
        var tokens = self
        tokens.mandatoryFrom = min(mandatoryFrom, instant)
        tokens.usableUntil = min(usableUntil, instant)
        return tokens
    }

    /// The refresh token's end, if it is not used before; nil: unknown.
    var refreshEnd: WallTime? { [refreshExpiry, refreshIdleEnd].compactMap(\.self).min() }

    /// When to renew: `chance` places it uniformly in the configured part of the lifetime. If the refresh token ends
    /// earlier: in that part of its own time, if a refresh may move the end, else at
    /// the end. A part in which a call would reach into the mandatory zone is moved before it as a whole,
    /// since requests wait there, but no further than to a quarter of the lifetime.
    ///
    /// - Parameters:
    ///   - spread: up to this part of the lifetime later, also by `chance`, but never in the mandatory zone. An
    ///     overdue renewal is spread from now on.
    ///   - secondCallAfter: when a call without a response gets a second one, which is to end before the mandatory zone, too. For it the
    ///     part of the lifetime is narrowed, to a quarter at most, and not moved: the schedule of calls that get their response stays.
    package func refreshAt(
        _ settings: RefreshSettings, _ eventContext: EventContext, spread: Double = 0, secondCallAfter: Duration? = nil
    ) -> Instant {
        guard expiresAt != .never else { return .never }
        let issuedAt = expiresAt - lifetime
        let end = (mandatoryFrom - callDuration - issuedAt) / lifetime
        let excess = max(0, settings.at.upperBound - end)
        let earliest = min(Self.earliestPart, settings.at.lowerBound)
        let low = max(earliest, settings.at.lowerBound - excess)
        var high = max(low, settings.at.upperBound - excess)
        if let secondCallAfter {
            high = min(high, max(end - secondCallAfter / lifetime, low + (high - low) / 4))
        }
        var scheduled = issuedAt + lifetime * (low + (high - low) * eventContext.chance)
        if spread > 0 {
            let late = max(scheduled, eventContext.instant) + lifetime * (spread * eventContext.chance)
            scheduled = max(scheduled, min(late, mandatoryFrom))
        }
        guard refresh != nil else { return scheduled }
        return min(
            scheduled, refreshAt(before: refreshIdleEnd, isMoved: true, settings, eventContext),
            refreshAt(before: refreshExpiry, isMoved: refreshEnds.mayMoveExpiry, settings, eventContext))
    }

    /// A token that came quickly is not renewed before this part of its lifetime, however long the calls before have taken.
    private static let earliestPart = 0.25

    /// When to renew before an end of the refresh token.
    ///
    /// - Parameter isMoved: a refresh moves the end, so it comes before. In the last minute it comes at the end: an end that does not
    ///   move must not lead to ever shorter waits.
    private func refreshAt(
        before end: WallTime?, isMoved: Bool, _ settings: RefreshSettings, _ eventContext: EventContext
    ) -> Instant {
        guard let end, end > eventContext.wall else { return .never }
        let atEnd = eventContext.instant + (end - eventContext.wall)
        guard isMoved, let expiry else { return atEnd }
        // From the response on.
        let whole = end - expiry + lifetime
        guard whole >= ClockPolicy(settings).movedEndMin else { return atEnd }
        let part =
            settings.at.lowerBound + (settings.at.upperBound - settings.at.lowerBound) * eventContext.chance
        return atEnd - whole * (1 - part)
    }

    /// Whether the access token may be sent.
    package func isUsable(at instant: Instant) -> Bool { instant < usableUntil }

    /// Applies the earlier end of the two clocks (refresh.md 1): after a forward jump of the wall clock the token ends
    /// earlier by as much.
    @discardableResult
    mutating func bound(by eventContext: EventContext) -> Duration {
        guard let expiry else { return .zero }
        let early = (expiresAt - eventContext.instant) - (expiry - eventContext.wall)
        guard early > .zero else { return .zero }
        expiresAt = expiresAt - early
        mandatoryFrom = mandatoryFrom - early
        usableUntil = usableUntil - early
        return early
    }

    func accessToken(of user: UserIndex, waitsFrom: Instant, renewal: AccessToken.Renewal) -> AccessToken {
        AccessToken(
            user: user, generation: generation.number, account: account.number, token: access, waitsFrom: waitsFrom,
            usableUntil: usableUntil, expiresAt: expiresAt, lifetime: expiresAt == .never ? .zero : lifetime,
            renewal: renewal)
    }
}
