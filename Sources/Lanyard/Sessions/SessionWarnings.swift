/// What ends by itself and is told ahead: the refresh token, and an anonymous account (refresh.md 12, refresh.md 16).
struct SessionWarnings: Sendable {
    /// How long before the refresh token's end it is warned of.
    private static let steps: [(before: Duration, name: String)] = [
        (.seconds(7 * 86_400), "7_days"), (.seconds(86_400), "1_day"), (.seconds(3600), "1_hour"),
    ]
    /// Ten days before the service deletes the account.
    private static let accountAge = Duration.seconds(80 * 86_400)

    /// The next warning; `.never` if none is left.
    private(set) var nextAt = Instant.never
    private var expiry: WallTime?
    /// How many of `steps` are behind.
    private var told = 0
    private var isFresh = false
    private var accountTold: WallTime?

    /// The refresh token is a new one: the steps that its whole life is shorter than are no warning.
    mutating func restart() { isFresh = true }

    /// What is to be told by now.
    ///
    /// - Parameters:
    ///   - expiry: of the refresh token at hand.
    ///   - hasCredential: its end needs no person.
    ///   - accountSince: of an anonymous account that somebody is logged in to.
    mutating func look(
        expiry: WallTime?, hasCredential: Bool, accountSince: WallTime?, at moment: SessionMoment
    ) -> [SessionNote] {
        nextAt = .never
        defer { isFresh = false }
        return [lookAtToken(expiry, hasCredential, moment), lookAtAccount(accountSince, moment)].compactMap(\.self)
    }

    private mutating func lookAtToken(
        _ end: WallTime?, _ hasCredential: Bool, _ moment: SessionMoment
    ) -> SessionNote? {
        if end != expiry {
            expiry = end
            told = 0
        }
        guard let end else { return nil }
        let left = end - moment.wall
        let due = Self.steps.prefix { left <= $0.before }.count
        defer {
            told = max(told, due)
            if told < Self.steps.count { wake(in: left - Self.steps[told].before, moment) }
        }
        guard due > told, left > .zero, !isFresh else { return nil }
        var note = SessionNote(
            .expiring, hasCredential ? .info : .warning, reason: Self.steps[due - 1].name, nextAt: moment.instant + left
        )
        note.details["remedy"] = hasCredential ? "the credential logs in again by itself" : "a person logs in again"
        return note
    }

    private mutating func lookAtAccount(_ since: WallTime?, _ moment: SessionMoment) -> SessionNote? {
        guard let since, since != accountTold else { return nil }
        let left = since + Self.accountAge - moment.wall
        guard left <= .zero else {
            wake(in: left, moment)
            return nil
        }
        accountTold = since
        return SessionNote(.accountAging, .error, reason: "80_days")
    }

    private mutating func wake(in time: Duration, _ moment: SessionMoment) {
        // Looked at once a day at least: the wall clock, which this is about, may be set meanwhile.
        nextAt = min(nextAt, moment.instant + min(max(time, .milliseconds(1)), .seconds(86_400)))
    }
}
