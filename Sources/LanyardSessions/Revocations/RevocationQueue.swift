import LanyardFoundations
import LanyardSessionInterface

/// The sessions whose end the identity services must still be told, and when each call is repeated. It does no I/O:
/// time and chance are arguments (architecture.md 5.8: "retried in the background").
///
/// The first call is made at once. `ClockPolicy.Revocations` says when it is repeated.
package struct RevocationQueue: Sendable {
    /// What to do.
    package enum Action: Equatable, Sendable {
        /// Call the service; `callCompleted` reports the result.
        case call(StoredRevocation)
        /// The revocation is finished.
        case done(StoredRevocation, Outcome)
        /// The call is repeated at `until`.
        case postponed(StoredRevocation, IdentityError, until: Instant)
    }

    /// How a revocation has ended.
    package enum Outcome: String, Sendable {
        /// The service knows.
        case told
        /// The service has no revocation: the session ends there by itself.
        case notSupported = "not_supported"
        /// The service could not be told for a day, or is not configured any more.
        case givenUp = "given_up"
    }

    private struct Entry {
        let revocation: StoredRevocation
        /// The owner of the session; nil: unknown.
        let user: String?
        var failures = 0
        /// `.never` while a call is in progress.
        var nextAt: Instant
    }

    /// The most calls at one time: after an outage a thousand revocations may be pending.
    private static let callsMax = 4

    private var entries: [Entry] = []
    private var calls: Int { entries.count { $0.nextAt == .never } }

    package init() {}

    /// The number of pending revocations.
    package var count: Int { entries.count }

    /// Every service has been asked at least once.
    package var isDrained: Bool { entries.allSatisfy { $0.failures > 0 } }

    /// Whether a session with this token is pending.
    package func contains(_ token: Secret) -> Bool { entries.contains { $0.revocation.token == token } }

    /// Whether a session of this user is pending.
    package func contains(user: String) -> Bool { entries.contains { $0.user == user } }

    /// Whether a session with an unknown owner is pending at this identity.
    package func containsOrphan(of identity: String) -> Bool {
        entries.contains { $0.user == nil && $0.revocation.identity == identity }
    }

    /// When to call `due`; `.never` if nothing waits, or the maximum of calls is in progress.
    package var dueAt: Instant { calls < Self.callsMax ? entries.map(\.nextAt).min() ?? .never : .never }

    /// Adds a revocation, unless one with the same token is pending.
    ///
    /// - Parameter user: the owner of the session, if it is known.
    package mutating func add(
        _ revocation: StoredRevocation, of user: String? = nil, at eventContext: EventContext
    ) -> [Action] {
        guard !contains(revocation.token) else { return [] }
        entries.append(Entry(revocation: revocation, user: user, nextAt: eventContext.instant))
        return due(at: eventContext)
    }

    /// Makes the calls that are due.
    package mutating func due(at eventContext: EventContext) -> [Action] {
        var actions: [Action] = []
        for place in entries.indices where entries[place].nextAt <= eventContext.instant && calls < Self.callsMax {
            entries[place].nextAt = .never
            actions.append(.call(entries[place].revocation))
        }
        return actions
    }

    /// A session that the service does not know counts as revoked.
    package mutating func handleCallCompleted(
        _ token: Secret, _ result: Result<Void, IdentityError>, at eventContext: EventContext
    ) -> [Action] {
        guard let place = entries.firstIndex(where: { $0.revocation.token == token }) else { return [] }
        let revocation = entries[place].revocation
        switch result {
        case .success: return finish(place, .told, at: eventContext)
        case .failure(let error) where error.verdict == .sessionDead: return finish(place, .told, at: eventContext)
        case .failure(let error) where error.isUnsupported: return finish(place, .notSupported, at: eventContext)
        case .failure where eventContext.wall - revocation.since >= ClockPolicy.Revocations.period:
            return finish(place, .givenUp, at: eventContext)
        case .failure(let error):
            entries[place].failures += 1
            let until = eventContext.instant + delay(after: entries[place].failures, error, eventContext)
            entries[place].nextAt = until
            return [.postponed(revocation, error, until: until)] + due(at: eventContext)
        }
    }

    private mutating func finish(_ place: Int, _ outcome: Outcome, at eventContext: EventContext) -> [Action] {
        [.done(entries.remove(at: place).revocation, outcome)] + due(at: eventContext)
    }

    /// Retry-After makes the delay longer, never shorter.
    private func delay(after failures: Int, _ error: IdentityError, _ eventContext: EventContext) -> Duration {
        let delay = ClockPolicy.Revocations.backoff.delay(after: failures, chance: eventContext.chance)
        guard case .transient(let retryAfter?) = error.verdict else { return delay }
        return max(delay, min(retryAfter, ClockPolicy.Revocations.retryAfterMax))
    }
}
