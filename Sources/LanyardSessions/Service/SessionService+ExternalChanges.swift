import LanyardFoundations
import LanyardSessionInterface

/// What other processes have changed in the store.
extension SessionService {
    /// Reads external changes of users that would not read the store for a long time.
    func readExternalChanges() {
        loop.assertIsCurrent()
        let commitCount = runners.filter(\.isRenewedHere).map { ($0, $0.commitCount) }
        guard !commitCount.isEmpty else { return }
        store.readAll { [self] users in
            guard let users else { return }
            loop.post { [self] in reconcile(users, as: commitCount) }
        }
    }

    /// - Parameter commitCount: the number of changes that each runner had sent before the read. A runner that has sent
    ///   more since is skipped.
    private func reconcile(_ users: [StoredUser], as commitCount: [(SessionRunner, UInt64)]) {
        guard !isStopped, !isDraining else { return }
        let users = Dictionary(users.map { ($0.name, $0) }) { first, _ in first }
        for (runner, count) in commitCount {
            guard self.runner(at: runner.index) === runner, runner.commitCount == count else { continue }
            runner.handle(.storeSnapshot(users[runner.name]))
        }
    }
}
