import LanyardFoundations
import LanyardSessionInterface

/// Where a runner is in its life. Only a runner that is to serve has the subscribers: one that retires cannot publish.
enum RunnerLife {
    /// Nothing has been asked of the runner. Goes to `serving` with its start or the first call, to `waiting` or to `stopped`.
    case created(TokenSubscribers)
    /// The runner before this one has not ended, and `start` follows. Operators' calls wait for it. Goes to `serving`
    /// or `stopped`.
    case waiting(calls: [SessionRunner.Incoming], TokenSubscribers)
    /// The user is served. Goes to `retiring` or `stopped`.
    case serving(TokenSubscribers)
    /// The user has left, or has another runner: what has begun is finished. Goes to `stopped`.
    case retiring(Successor)
    /// Nothing is done any more.
    case stopped

    /// What waits for the end of a runner that retires.
    enum Successor {
        /// The runner ends once nothing of it is in progress or unsaved.
        case none
        /// Another runner of the same user waits. Changes that the store does not take are given up, with a log line.
        case waiting
    }
}

/// The runners of one user name.
struct UserRunners {
    /// The runner of the present user; nil: forgotten, or not configured any more.
    var current: SessionRunner?
    /// Runners that a reload has taken away or replaced, until what they have begun has ended.
    var retiring: [SessionRunner] = []

    var all: [SessionRunner] { (current.map { [$0] } ?? []) + retiring }
}

/// The runners of all users, by the number of their `UserIndex`. An index is reused only if its first user never had a
/// session.
struct RunnerTable {
    private var runners: [UserRunners] = []
    /// The runners whose refresh call is in progress.
    private var refreshing: Set<ObjectIdentifier> = []
    /// The present users of whose session's end the store does not know. Nearly always there is none.
    private var endsUnsaved: Set<UserIndex> = []
    /// All runners before this place were drained when `areAllDrained` saw them last.
    private var drainedPlaces = 0

    /// The runners of all present users.
    var current: [SessionRunner] { runners.compactMap(\.current) }

    /// The runners that have left, or were replaced, and have not ended.
    var retiring: [SessionRunner] { runners.flatMap(\.retiring) }

    /// All runners that have not ended.
    var all: [SessionRunner] { runners.flatMap(\.all) }

    /// Whether it holds of a runner that has not ended. The runners whose users are there come first.
    func contains(where predicate: (SessionRunner) -> Bool) -> Bool {
        runners.contains { $0.current.map(predicate) ?? false || $0.retiring.contains(where: predicate) }
    }

    /// The runners of the user's name.
    subscript(user: UserIndex) -> UserRunners {
        get { runners.indices.contains(user.number) ? runners[user.number] : UserRunners() }
        set {
            while runners.count <= user.number { runners.append(UserRunners()) }
            runners[user.number] = newValue
        }
    }

    /// The runner of a user; nil: unknown, removed, or replaced by a reload.
    func runner(at user: UserIndex) -> SessionRunner? { self[user].current.flatMap { $0.index == user ? $0 : nil } }

    /// The refresh calls in progress. Those of users that leave count until they end.
    var refreshCount: Int { refreshing.count }

    /// The runners of users of whose session's end the store does not know, in the order of the users.
    var unsavedEnds: [SessionRunner] {
        endsUnsaved.sorted { $0.number < $1.number }.compactMap { runner(at: $0) }
    }

    /// A runner has changed, or has ended.
    mutating func handleChange(of runner: SessionRunner) {
        if runner.isRefreshing, !runner.isStopped {
            refreshing.insert(ObjectIdentifier(runner))
        } else {
            refreshing.remove(ObjectIdentifier(runner))
        }
        // The runner of a user that was replaced says nothing of the present one.
        guard self.runner(at: runner.index) === runner else { return }
        if runner.coordinator.hasUnsavedEnd, !runner.isStopped {
            endsUnsaved.insert(runner.index)
        } else {
            endsUnsaved.remove(runner.index)
        }
    }

    /// Whether no runner has anything in progress. Each of many runners asks when it has ended, so the search continues at the runner that
    /// it has found last.
    mutating func areAllDrained() -> Bool {
        for _ in runners.indices {
            if drainedPlaces >= runners.count { drainedPlaces = 0 }
            let names = runners[drainedPlaces]
            guard names.current?.isDrained != false, names.retiring.allSatisfy(\.isDrained) else { return false }
            drainedPlaces += 1
        }
        return true
    }

    /// Ends all runners.
    mutating func stop() {
        for runner in all { runner.stop() }
        (runners, refreshing, endsUnsaved) = ([], [], [])
    }
}
