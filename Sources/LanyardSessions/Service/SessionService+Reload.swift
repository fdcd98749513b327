import Dispatch
import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings
import Logging

/// Another configuration while sessions are served (architecture-control.md 7.9): all of it in one turn of the queue.
extension SessionService {
    /// Hands the routes of the new configuration to the shards, on the queue of the service. The users of the
    /// configuration have their indexes by then.
    ///
    /// - Parameter active: the active user of the new configuration.
    package typealias ServeRoutes = @Sendable (_ active: UserIndex?) -> Void

    /// Takes a new configuration, or nothing of it. Users of which nothing has changed are not touched: an unchanged
    /// `ManagedUser` has the same source object as before.
    ///
    /// Returns at once. The store is read first, which takes as long as its disk does. From anywhere. One call at a time
    /// changes something.
    ///
    /// - Parameters:
    ///   - configuration: nil: nothing of users and identities differs.
    ///   - begins: asked on the queue, in the turn in which the users would change. False: nothing is changed.
    ///   - serve: called once, in the turn in which the users change; not called if nothing is changed. All publications
    ///     of the service come from its queue, so each shard gets routes, active user and tokens in one order.
    ///   - reply: called once, on the queue, with why nothing was changed and the remedy. Empty: the configuration is in
    ///     force. nil: `begins` was false.
    package func reload(
        _ configuration: SessionConfiguration?, begins: @escaping @Sendable () -> Bool,
        serve: @escaping ServeRoutes, reply: @escaping @Sendable ([String]?) -> Void
    ) {
        loop.post { [self] in
            whenStarted { [self] in
                reload(configuration, stored: [:], begins, serve, reply)
            }
        }
    }

    /// - Parameter stored: what the store held of each user that was read; a user without a record has nil.
    private func reload(
        _ configuration: SessionConfiguration?, stored: [String: StoredUser?], _ begins: @escaping @Sendable () -> Bool,
        _ serve: @escaping ServeRoutes, _ reply: @escaping @Sendable ([String]?) -> Void
    ) {
        guard !isStopped, !isDraining else { return reply(["Lanyard is about to end"]) }
        guard let configuration else {
            guard begins() else { return reply(nil) }
            serve(userService.registry.active)
            return reply([])
        }
        var reload = plan(configuration)
        // While the store was read, an operator may have changed the users.
        let missing = userService.registry.namesToRead(for: reload).subtracting(stored.keys)
        guard missing.isEmpty else {
            return read(missing.sorted(), stored) { [self] result in
                switch result {
                case .success(let stored): self.reload(configuration, stored: stored, begins, serve, reply)
                case .failure(let error): reply([error.message])
                }
            }
        }
        reload.stored = stored.compactMapValues(\.self)
        let obstacles = userService.registry.obstacles(to: reload)
        guard obstacles.isEmpty else { return reply(obstacles) }
        guard begins() else { return reply(nil) }
        apply(configuration, reload, serve)
        reply([])
    }

    private func plan(_ configuration: SessionConfiguration) -> UserReload {
        var present: [UserIndex: UserOrigin] = [:]
        var waiting: Set<UserIndex> = []
        for runner in runners {
            present[runner.index] = runner.managedUser.origin
            if runner.hasWaitingCall { waiting.insert(runner.index) }
        }
        var identities: [String: UserReload.Identity?] = [:]
        for identity in configuration.identities { identities.updateValue(identity.reloaded, forKey: identity.name) }
        return UserReload(
            users: configuration.users.map { ($0.settings.name, $0.origin) }, identities: identities,
            configuredActive: configuration.settings.activeUser,
            activatesNext: configuration.settings.activatesNextOnLogout, present: present, waiting: waiting,
            former: self.configuration.users.mapValues(\.origin))
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

    private func apply(_ configuration: SessionConfiguration, _ reload: UserReload, _ serve: ServeRoutes) {
        apply(configuration)
        let steps = userService.apply(reload)
        // From here on the shards have the new routes, and the indexes of users that left or moved get no token.
        serve(userService.registry.active)
        var begun: [(SessionRunner, StoredUser?)] = []
        for step in steps {
            switch step {
            case .update: break
            case .add(let user), .replace(let user):
                if let runner = exchangeRunner(of: user) { begun.append((runner, reload.stored[user.name])) }
            case .retire(let user): if let runner = runner(withNameOf: user.index) { remove(runner, as: user.index) }
            }
        }
        let fresh = Set(begun.map(\.0.index))
        for runner in runners where !fresh.contains(runner.index) { reconfigure(runner) }
        showReloaded(userService.registry.shown, active: userService.registry.active)
        for (runner, stored) in begun { begin(runner, stored) }
        refuseUnknownVariants()
        log(steps)
        signalIfDrained()
    }

    /// All users take the settings that they have in common.
    private func reconfigure(_ runner: SessionRunner) {
        let former = runner.managedUser
        guard let user = userService.registry[runner.index] ?? userService.registry.hidden(at: runner.index),
            let managedUser = configuration.managedUser(for: user)
        else { return }
        // An unchanged user keeps its watch.
        let new = managedUser.origin == former.origin ? former : managedUser
        runner.reconfigure(new, configuration.setup(of: new, runner.index, names))
    }

    /// Puts a new runner in the place of the user's former one, which retires.
    private func exchangeRunner(of user: RegisteredUser) -> SessionRunner? {
        guard let managedUser = configuration.managedUser(for: user) else { return nil }
        let former = runnerTable[user.index]
        let runner = makeRunner(managedUser, user.index, after: former)
        runnerTable[user.index].current = runner
        subscribers.publish(.pending, for: user.index)
        publishVariants(of: user.name, .pending)
        guard !former.all.isEmpty else { return runner }
        runner.waitForPredecessor()
        for other in former.retiring { other.yieldToSuccessor() }
        if let former = former.current { retire(former, for: .waiting) }
        return runner
    }

    /// The user of the runner is not configured any more.
    ///
    /// - Parameter index: what its name means from now on.
    private func remove(_ runner: SessionRunner, as index: UserIndex) {
        runnerTable[index].current = nil
        subscribers.publish(.none(.userUnknown(wasRemoved: false)), for: index)
        publishVariants(of: runner.name, .none(.userUnknown(wasRemoved: false)))
        retire(runner, for: .none)
    }

    private func retire(_ runner: SessionRunner, for successor: RunnerLife.Successor) {
        runnerTable[runner.index].retiring.append(runner)
        runner.retire(for: successor)
    }

    /// Starts the runner with what the store holds now, after the one before it.
    private func begin(_ runner: SessionRunner, _ known: StoredUser?) {
        guard runner.isWaiting else { return start(runner, known) }
        guard runnerTable[runner.index].retiring.isEmpty else { return }
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

    func handleRetired(_ runner: SessionRunner) {
        loop.assertIsCurrent()
        runnerTable[runner.index].retiring.removeAll { $0 === runner }
        countRefreshes(after: runner)
        if let successor = self.runner(withNameOf: runner.index), successor.isWaiting {
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
        guard case .service(let service, let refreshTokens) = kind else { return nil }
        return UserReload.Identity(
            stored: StoredIdentity(name, service.fingerprint), refreshTokens: refreshTokens,
            source: ObjectIdentifier(service))
    }
}
