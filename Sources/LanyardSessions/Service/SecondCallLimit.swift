import LanyardFoundations

/// Which sessions of an identity may have a second call now (refresh.md 17). A few find out for all whether the service responds: its
/// response to one releases the others. So calls without a response never take up what the identity has for calls. Belongs to the queue
/// of `SessionService`, which its owner checks.
struct SecondCallLimit {
    /// The sessions that may have one at once.
    private static let sessionsMax = 3
    /// From one to the next.
    private static let interval = Duration.seconds(1)

    private struct Caller {
        weak var attempt: CallAttempt?
    }

    private var nextAt = Instant.past
    private var callers: [Caller] = []
    /// A session has wanted one since the service has responded the last time.
    private var wasWanted = false

    /// The service has responded.
    ///
    /// - Returns: whether a session has wanted a second call since it did before.
    mutating func endSilence() -> Bool {
        defer { wasWanted = false }
        return wasWanted
    }

    /// A session wants to make one, in place of its own before, if it has one.
    ///
    /// - Parameter isReleased: the service has responded to another session: there is no limit.
    /// - Returns: when it may ask again; nil: it makes the call.
    mutating func allowedAt(for attempt: CallAttempt, isReleased: Bool, at now: Instant) -> Instant? {
        guard !isReleased else { return nil }
        wasWanted = true
        if now < nextAt { return nextAt }
        callers.removeAll { $0.attempt?.hasOpenSecond != true }
        if !attempt.hasOpenSecond {
            guard callers.count < Self.sessionsMax else { return now + Self.interval }
            callers.append(Caller(attempt: attempt))
        }
        nextAt = now + Self.interval
        return nil
    }
}
