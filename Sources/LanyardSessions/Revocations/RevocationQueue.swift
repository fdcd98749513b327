import LanyardFoundations
import LanyardSessionInterface

/// The sessions whose end the identity services must still be told, and when each call is repeated. It does no I/O:
/// time and chance are arguments (architecture-control.md 5.8: "retried in the background").
///
/// The first call is made at once. `ClockPolicy.Revocations` says when it is repeated.
///
/// Each identity has a share of its own: of calls at one time, and of revocations (`StoreShare`). So a service that does not respond, or
/// that begins and ends sessions without an end, delays no revocation of another identity, and uses up no memory of theirs.
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
        /// The identity has more revocations than its share, and this one was given up for a newer one.
        case shareUsedUp = "share_used_up"
    }

    private struct Entry {
        let revocation: StoredRevocation
        /// The owner of the session; nil: unknown.
        let user: String?
        var failures = 0
        /// `.never` while a call is in progress.
        var nextAt: Instant
    }

    /// The most calls at one time to one identity. The service may have sessions to refresh beside them.
    private static let callsMax = 4

    /// In the order in which they came.
    private var entries: [Entry] = []
    /// The calls in progress, also of revocations that were given up since. A few.
    private var calls: [StoredRevocation] = []

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

    /// When to call `due`; `.never` if nothing waits, or all identities that wait have their maximum of calls in progress.
    package var dueAt: Instant {
        entries.filter { hasSlot($0.revocation.identity) }.map(\.nextAt).min() ?? .never
    }

    private func hasSlot(_ identity: String) -> Bool { calls.count { $0.identity == identity } < Self.callsMax }

    /// Adds a revocation, unless one with the same token is pending. If the identity then has more than its share, others are given up.
    ///
    /// - Parameters:
    ///   - user: the owner of the session, if it is known.
    ///   - userCount: the identity's users.
    package mutating func add(
        _ revocation: StoredRevocation, of user: String? = nil, userCount: Int = 0, at eventContext: EventContext
    ) -> [Action] {
        guard !contains(revocation.token) else { return [] }
        entries.append(Entry(revocation: revocation, user: user, nextAt: eventContext.instant))
        return giveUpSurplus(of: revocation.identity, userCount) + due(at: eventContext)
    }

    private mutating func giveUpSurplus(of identity: String, _ userCount: Int) -> [Action] {
        var actions: [Action] = []
        while let surplus = StoreShare.surplus(
            of: entries.map(\.revocation).filter { $0.identity == identity }, userCount: userCount)
        {
            entries.removeAll { $0.revocation.token == surplus.token }
            actions.append(.done(surplus, .shareUsedUp))
        }
        return actions
    }

    /// Makes the calls that are due: those of operators first.
    package mutating func due(at eventContext: EventContext) -> [Action] {
        var actions: [Action] = []
        for isByOperator in [true, false] {
            for place in entries.indices
            where entries[place].revocation.isByOperator == isByOperator
                && entries[place].nextAt <= eventContext.instant && hasSlot(entries[place].revocation.identity)
            {
                entries[place].nextAt = .never
                calls.append(entries[place].revocation)
                actions.append(.call(entries[place].revocation))
            }
        }
        return actions
    }

    /// A session that the service does not know counts as revoked.
    package mutating func handleCallCompleted(
        _ token: Secret, _ result: Result<Void, IdentityError>, at eventContext: EventContext
    ) -> [Action] {
        calls.removeAll { $0.token == token }
        guard let place = entries.firstIndex(where: { $0.revocation.token == token }) else {
            return due(at: eventContext)
        }
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
