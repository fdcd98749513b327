import Dispatch
import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings
import Logging

/// Another configuration while sessions are served (architecture.md 7.9): all of it in one turn of the queue, but for
/// the removed users.
extension SessionService {
    /// Takes a new configuration, or nothing of it. Users of which nothing has changed are not touched: an unchanged
    /// `ManagedUser` has the same source object as before. A removed user serves until `retireRemovedUsers`.
    ///
    /// Blocks the calling thread, which owns no queue, until the store has said what it holds of the users concerned.
    /// One call at a time.
    ///
    /// - Returns: why nothing was changed, with the remedy; empty: the configuration is in force.
    package func reload(_ configuration: SessionConfiguration) -> [String] {
        let done = DispatchSemaphore(value: 0)
        let outcome = Guarded<[String]>([])
        loop.post { [self] in
            whenStarted { [self] in
                reload(configuration, stored: [:]) { obstacles in
                    outcome.withLock { $0 = obstacles }
                    done.signal()
                }
            }
        }
        done.wait()
        return outcome.withLock { $0 }
    }

    /// Takes away the users that the latest reload has removed. Call it when no route names them any more: their
    /// requests are refused from now on.
    ///
    /// Blocks the calling thread, which owns no queue.
    package func retireRemovedUsers() {
        let done = DispatchSemaphore(value: 0)
        loop.post { [self] in
            let leaving = self.leaving
            self.leaving = []
            for runner in leaving where self.runner(at: runner.index) === runner { remove(runner) }
            countRefreshes()
            done.signal()
        }
        done.wait()
    }

    /// - Parameter stored: what the store held of each user that was read; a user without a record has nil.
    private func reload(
        _ configuration: SessionConfiguration, stored: [String: StoredUser?],
        _ reply: @escaping @Sendable ([String]) -> Void
    ) {
        guard !isStopped, !isDraining else { return reply(["Lanyard is about to end"]) }
        var reload = plan(configuration)
        // While the store was read, an operator may have changed the users.
        let missing = userService.registry.namesToRead(for: reload).subtracting(stored.keys)
        guard missing.isEmpty else {
            return read(missing.sorted(), stored) { [self] result in
                switch result {
                case .success(let stored): self.reload(configuration, stored: stored, reply)
                case .failure(let error): reply([error.message])
                }
            }
        }
        reload.stored = stored.compactMapValues(\.self)
        let obstacles = userService.registry.obstacles(to: reload)
        guard obstacles.isEmpty else { return reply(obstacles) }
        apply(configuration, reload)
        reply([])
    }

    private func plan(_ configuration: SessionConfiguration) -> UserReload {
        var present: [UserIndex: UserOrigin] = [:]
        var waiting: Set<UserIndex> = []
        for case let runner? in runners {
            present[runner.index] = runner.managedUser.origin
            if runner.hasWaitingRequest { waiting.insert(runner.index) }
        }
        var identities: [String: UserReload.Identity?] = [:]
        for identity in configuration.identities { identities.updateValue(identity.reloaded, forKey: identity.name) }
        return UserReload(
            users: configuration.users.map { ($0.settings.name, $0.origin) }, identities: identities,
            configuredActive: configuration.settings.activeUser,
            activatesNext: configuration.settings.activatesNextOnLogout, present: present, waiting: waiting,
            former: configured.mapValues(\.origin))
    }

    /// Reads the users one after the other.
    private func read(
        _ names: [String], _ stored: [String: StoredUser?],
        _ reply: @escaping @Sendable (Result<[String: StoredUser?], StoreError>) -> Void
    ) {
        guard let name = names.first else { return reply(.success(stored)) }
        store.read(name) { [self] result in
            loop.post { [self] in
                switch result {
                case .success(let user):
                    var stored = stored
                    stored.updateValue(user, forKey: name)
                    read(Array(names.dropFirst()), stored, reply)
                case .failure(let error): reply(.failure(error))
                }
            }
        }
    }

    // MARK: The turn

    private func apply(_ configuration: SessionConfiguration, _ reload: UserReload) {
        apply(configuration)
        let steps = userService.apply(reload)
        var begun: [(SessionRunner, StoredUser?)] = []
        for step in steps {
            switch step {
            case .update: break
            case .add(let user), .replace(let user):
                if let runner = exchangeRunner(of: user) { begun.append((runner, reload.stored[user.name])) }
            case .retire(let user): if let runner = runner(at: user.index) { leaving.append(runner) }
            }
        }
        let fresh = Set(begun.map(\.0.index))
        for case let runner? in runners where !fresh.contains(runner.index) { reconfigure(runner) }
        showReloaded(userService.registry.shown, active: userService.registry.active)
        for (runner, stored) in begun { begin(runner, stored) }
        log(steps)
        signalIfDrained()
    }

    /// All users take the settings that they have in common.
    private func reconfigure(_ runner: SessionRunner) {
        let former = runner.managedUser
        guard let user = userService.registry[runner.index] ?? userService.registry.hidden(at: runner.index),
            let managedUser = user.isConfigured ? configured[user.name] : managedUser(for: user)
        else { return }
        // An unchanged user keeps its watch.
        let new = managedUser.origin == former.origin ? former : managedUser
        runner.reconfigure(new, setup(of: new, runner.index))
    }

    /// Puts a new runner in the place of the user's former one, which retires.
    private func exchangeRunner(of user: RegisteredUser) -> SessionRunner? {
        guard let managedUser = user.isConfigured ? configured[user.name] : managedUser(for: user) else { return nil }
        let former = runner(at: user.index)
        let runner = makeRunner(managedUser, user.index, after: former?.coordinator.context.generation ?? 0)
        setRunner(runner, at: user.index)
        // Requests wait from now on, because the token at hand may belong to another account.
        publisher.publish(.pending, for: user.index)
        let waits = former != nil || retiring.contains { $0.index == user.index }
        guard waits else { return runner }
        runner.waitForPredecessor()
        for other in retiring where other.index == user.index { other.yieldToSuccessor() }
        if let former { retire(former, hasSuccessor: true) }
        return runner
    }

    /// The user of the runner is not configured any more.
    func remove(_ runner: SessionRunner) {
        setRunner(nil, at: runner.index)
        publisher.publish(.none(.userUnknown(wasRemoved: false)), for: runner.index)
        retire(runner, hasSuccessor: false)
    }

    private func retire(_ runner: SessionRunner, hasSuccessor: Bool) {
        retiring.append(runner)
        runner.retire(hasSuccessor: hasSuccessor)
    }

    /// Starts the runner with what the store holds now, after the one before it.
    private func begin(_ runner: SessionRunner, _ known: StoredUser?) {
        guard runner.isWaiting else { return start(runner, known) }
        guard !retiring.contains(where: { $0.index == runner.index }) else { return }
        guard case .service = runner.managedUser.source else { return start(runner, nil) }
        store.read(runner.name) { [self] result in
            loop.post { [self] in
                guard self.runner(at: runner.index) === runner, runner.isWaiting else { return }
                switch result {
                case .success(let stored): start(runner, stored)
                // Each operation reads the store again before its call.
                case .failure: start(runner, known)
                }
            }
        }
    }

    private func start(_ runner: SessionRunner, _ stored: StoredUser?) {
        guard !isStopped, !isDraining else { return }
        runner.start(stored, duplicateOf: userService.registry.holder(of: stored, besides: runner.index))
    }

    func retired(_ runner: SessionRunner) {
        retiring.removeAll { $0 === runner }
        countRefreshes()
        if let successor = self.runner(at: runner.index), successor.isWaiting {
            // Not in the turn that has made the successor: it is shown first.
            loop.post { [self] in
                if self.runner(at: successor.index) === successor, successor.isWaiting { begin(successor, nil) }
            }
        }
        signalIfDrained()
    }

    private func log(_ steps: [UserReload.Step]) {
        guard !steps.isEmpty else { return }
        var names: [String: [String]] = [:]
        for step in steps { names[step.word, default: []].append(step.user.name) }
        var metadata: Logger.Metadata = ["event": "reload.users"]
        for (word, names) in names { metadata[word] = .string(names.joined(separator: ", ")) }
        logger.notice("the users of the new configuration are in force", metadata: metadata)
    }
}

extension UserReload.Step {
    /// The user that it is about.
    var user: RegisteredUser {
        switch self {
        case .add(let user), .replace(let user), .update(let user), .retire(let user): user
        }
    }

    /// The field of the log.
    fileprivate var word: String {
        switch self {
        case .add: "added"
        case .replace: "replaced"
        case .update: "changed"
        case .retire: "removed"
        }
    }
}

extension ConfiguredIdentity {
    /// nil: static.
    fileprivate var reloaded: UserReload.Identity? {
        guard case .service(let service, let rotation) = kind else { return nil }
        return UserReload.Identity(
            stored: StoredIdentity(name, service.fingerprint), rotation: rotation, source: ObjectIdentifier(service))
    }
}
