import LanyardFoundations
import LanyardSessionInterface
import Logging

/// Users that only the store knows: they are not configured any more, and the admin API did not add them.
extension UserService {
    /// Logs the unknown users with the remedy. Removes what an interrupted login has left.
    func start() {
        environment.loop.assertIsCurrent()
        let unknown = registry.unknownStoredUsers
        for stored in environment.contents.users where unknown.contains(stored.name) {
            if Self.isInterruptedLogin(stored) {
                removeInterruptedLogin(stored.name)
            } else {
                logUnknown(stored)
            }
        }
    }

    func logUnknown(_ stored: StoredUser) {
        environment.logger.warning(
            """
            the store holds a user that is not configured (any more); name it in the configuration, or forget it with \
            DELETE /v1/users/\(stored.name)
            """,
            metadata: [
                "event": "store.user.unknown", "user": .string(stored.name), "identity": .string(stored.identity),
                "reason": stored.session == nil ? "logged_out" : "session_kept",
            ])
    }

    /// Forgets an unknown user. Its session is revoked if the identity is still configured.
    func removeStored(_ callID: UserRegistry.UserCallID, _ name: String) {
        environment.loop.assertIsCurrent()
        environment.store.read(name) { [weak self] result in
            self?.later { [weak self] in self?.removeStored(callID, name, result) }
        }
    }

    private func removeStored(
        _ callID: UserRegistry.UserCallID, _ name: String, _ result: Result<StoredUser?, StoreError>
    ) {
        guard case .success(let found) = result else { return endRemoval(callID, .failure(.storeFailing)) }
        guard let user = found else { return handleRemovedStored(callID, name, .failure(.noSuchUser)) }
        // What the store holds of the session at that instant is revoked, unless no configured service can be told.
        let revocation = user.endRevocations(at: .now, includesAccessTokens: true).first
        let service = revocation.flatMap { environment.service(of: $0) }
        let hasNoService = revocation != nil && service == nil
        var end = hasNoService ? StoreChange.SessionEnd(user.version, revocations: [], at: .now) : .ofUnknown(at: .now)
        end.includesAccessTokens = service?.revokesAccessTokens == true
        environment.commit(.remove(user: name, end)) { [weak self] result in
            self?.later { [weak self] in self?.handleRemovedStored(callID, name, result) }
        }
    }

    private func handleRemovedStored(
        _ callID: UserRegistry.UserCallID, _ name: String, _ result: Result<StoreChange.Verdict, StoreError>
    ) {
        guard case .success(let verdict) = result else { return endRemoval(callID, .failure(.storeFailing)) }
        guard case .storedEnding(_, let revocations) = verdict else {
            return handleRemovedStored(callID, name, .success(.removed(isStored: true)))
        }
        let left = Guarded(revocations.count)
        for revocation in revocations {
            environment.revocations.enqueue(revocation, of: name, isStored: true, environment.logger) { [weak self] _ in
                let isLast = left.withLock { left in
                    left -= 1
                    return left == 0
                }
                if isLast { self?.handleRemovedStored(callID, name, .success(.removed(isStored: true))) }
            }
        }
    }

    private func handleRemovedStored(
        _ callID: UserRegistry.UserCallID, _ name: String, _ result: Result<UserOutcome, UserError>
    ) {
        registry.forgetStored(name)
        endRemoval(callID, result)
    }

    private func endRemoval(_ callID: UserRegistry.UserCallID, _ result: Result<UserOutcome, UserError>) {
        registry.storedRemovals[callID] = nil
        deliver(callID, result)
    }

    // MARK: Interrupted logins

    /// A new user's first login has begun and never ended.
    private static func isInterruptedLogin(_ user: StoredUser) -> Bool {
        user.session == nil && user.generation == 0 && !user.isLoggedOut && user.intent?.kind == .login
    }

    /// Takes the user's lock first: the login may be another process's and still in progress. That process then handles
    /// it.
    private func removeInterruptedLogin(_ name: String) {
        environment.store.lock(name) { [weak self] lock in
            guard lock == .taken, let self else { return }
            environment.store.read(name) { [weak self] result in
                self?.later { [weak self] in
                    guard let self else { return }
                    if case .success(let user?) = result, Self.isInterruptedLogin(user) {
                        environment.commit(.remove(user: name, .ofUnknown(at: .now))) { _ in }
                    }
                    environment.store.unlock(name)
                }
            }
        }
        registry.forgetStored(name)
    }
}
