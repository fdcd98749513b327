import LanyardFoundations
import LanyardSettings

/// Warnings ahead of an end: of the refresh token, and of an anonymous account (refresh-outcomes.md 12, refresh.md 16).
struct SessionWarnings: Sendable {
    /// The times before the refresh token's expiry at which a warning is due.
    private static let steps: [(before: Duration, name: String)] = [
        (.seconds(7 * 86_400), "7_days"), (.seconds(86_400), "1_day"), (.seconds(3600), "1_hour"),
    ]
    /// Ten days before the service deletes the account.
    private static let accountAge = Duration.seconds(80 * 86_400)

    /// The next warning; `.never` if none is left.
    private(set) var nextAt = Instant.never
    private var expiry: WallTime?
    /// The number of `steps` that have passed.
    private var stepsPassed = 0
    private var isFresh = false
    private var warnedAccountSince: WallTime?

    /// The refresh token is new: a step that is longer than its whole lifetime gives no warning.
    mutating func restart() { isFresh = true }

    /// The warnings that are due.
    ///
    /// - Parameters:
    ///   - expiry: of the current refresh token.
    ///   - idle: how long a refresh token lives without use; nil: unknown. A step that is no shorter gives no warning.
    ///   - hasCredential: a new login needs no operator.
    ///   - accountSince: the age of an anonymous account in use; nil: there is none.
    mutating func collect(
        expiry: WallTime?, idle: Duration?, hasCredential: Bool, accountSince: WallTime?, at eventContext: EventContext
    ) -> [SessionLogEvent] {
        nextAt = .never
        defer { isFresh = false }
        return [tokenWarning(expiry, idle, hasCredential, eventContext), accountWarning(accountSince, eventContext)]
            .compactMap(\.self)
    }

    private mutating func tokenWarning(
        _ end: WallTime?, _ idle: Duration?, _ hasCredential: Bool, _ eventContext: EventContext
    ) -> SessionLogEvent? {
        if end != expiry {
            expiry = end
            stepsPassed = 0
        }
        guard let end else { return nil }
        let left = end - eventContext.wall
        let due = Self.steps.prefix { left <= $0.before }.count
        defer {
            stepsPassed = max(stepsPassed, due)
            if stepsPassed < Self.steps.count { scheduleCheck(in: left - Self.steps[stepsPassed].before, eventContext) }
        }
        guard due > stepsPassed, left > .zero, !isFresh, idle.map({ Self.steps[due - 1].before < $0 }) ?? true else {
            return nil
        }
        var logEvent = SessionLogEvent(
            .expiring, hasCredential ? .info : .warning, reason: Self.steps[due - 1].name,
            nextAt: eventContext.instant + left
        )
        logEvent.details["remedy"] =
            hasCredential ? "the credential logs in again automatically" : "an operator must log in again"
        return logEvent
    }

    private mutating func accountWarning(_ since: WallTime?, _ eventContext: EventContext) -> SessionLogEvent? {
        guard let since, since != warnedAccountSince else { return nil }
        let left = since + Self.accountAge - eventContext.wall
        guard left <= .zero else {
            scheduleCheck(in: left, eventContext)
            return nil
        }
        warnedAccountSince = since
        return SessionLogEvent(.accountAging, .error, reason: "80_days")
    }

    private mutating func scheduleCheck(in time: Duration, _ eventContext: EventContext) {
        // Checked at least once a day: the wall clock, on which this depends, may be set in between.
        nextAt = min(nextAt, eventContext.instant + min(max(time, .milliseconds(1)), .seconds(86_400)))
    }
}

extension SessionCoordinator {
    /// Adds the warnings of a refresh token or account that is about to end.
    mutating func addWarnings() {
        let tokens = session.tokens
        // Only a failed refresh lets the time without use pass.
        let isFailing = session.state == .stale || session.state == .unreachable
        let logEvents = refreshToken.warnings.collect(
            expiry: tokens?.refresh == nil ? nil : isFailing ? tokens?.refreshEnd : tokens?.refreshExpiry,
            idle: setup.refreshTokens.idle, hasCredential: context.hasCredential,
            accountSince: tokens != nil && provider == "anonymous" ? knownRecord.accountSince : nil, at: eventContext)
        for logEvent in logEvents { emit(.logEvent(logEvent)) }
    }
}
