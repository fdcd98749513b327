import LanyardFoundations
import LanyardSessionInterface
import Logging

/// What all parts of the session service need of it: the session runners, the user service and the revocation runner.
/// Each part has a protocol of its own below. The service owns the parts, and they know it by these protocols alone.
///
/// All members belong to the queue of `loop`, which the service checks.
protocol SessionEnvironment: AnyObject, Sendable {
    var loop: EventLoop { get }
    var logger: Logger { get }
    var isStopped: Bool { get }
    /// Every change of the store goes through here and is counted. `reply` is called on any queue.
    func commit(_ change: StoreChange, reply: @escaping @Sendable (Result<StoreChange.Verdict, StoreError>) -> Void)
    /// Ends the drain if the process may end by now.
    func signalIfDrained()
}

/// What the runner of one user needs.
protocol RunnerEnvironment: SessionEnvironment {
    /// The process is about to end.
    var isDraining: Bool { get }
    var store: any SessionStore { get }
    var accounts: any AccountRegistry { get }
    var revocations: any RevocationSending { get }
    var turns: TurnKeeper { get }
    /// The store's key for `CredentialFingerprint`.
    var fingerprintKey: Secret { get }

    /// Begins a call; the change is counted as by `commit`.
    func begin(_ user: String, _ intent: StoreChange, reply: @escaping @Sendable (StoreBeginning) -> Void)
    /// A session is about to be stored. Other users' unsaved ends are tried first, because the store may still hold the
    /// account for one of them.
    func retryUnsavedEnds(for runner: SessionRunner)
    /// Publishes a runner's status in the report.
    func update(_ runner: SessionRunner)
    /// A session's own call has its result, which the session has handled.
    func handleCallEnd(of runner: SessionRunner, _ result: Result<Grant, IdentityError>)
    /// The runner of a user that has left, or that has another runner by now, has ended.
    func handleRetired(_ runner: SessionRunner)
    /// A login or refresh call begins; `endCall` follows when its result has come.
    func beginCall()
    func endCall()
    /// A session of the identity wants to make a second call now (refresh.md 17): one in a second for each identity, of three sessions at
    /// once.
    ///
    /// - Parameter isReleased: the service has responded to another session: there is no limit.
    /// - Returns: when it may ask again; nil: it makes the call.
    func secondCallAllowedAt(_ identity: String, for attempt: CallAttempt, isReleased: Bool) -> Instant?
    func count(_ name: String, _ labels: [MetricSample.Label])
    func observe(refresh duration: Duration)
}

/// Which user may have which account.
protocol AccountRegistry: AnyObject, Sendable {
    /// Whether an account may be this user's.
    func claim(_ account: String?, for user: UserIndex) -> AccountOwnership
}

/// Tells identity services of sessions that have ended.
protocol RevocationSending: AnyObject, Sendable {
    /// - Parameters:
    ///   - user: the owner of the session; nil: unknown, for example from an earlier process.
    ///   - isStored: the store holds the revocation already. Otherwise it is stored now, so that a crash does not lose
    ///     it.
    ///   - reply: called once, on the service's queue; true: the identity service knows, false: not yet.
    func enqueue(
        _ revocation: StoredRevocation, of user: String?, isStored: Bool, _ logger: Logger,
        _ reply: @escaping @Sendable (Bool) -> Void)

    /// Whether a revocation of this user's sessions is pending. A revocation from an earlier process has no known
    /// owner. It counts for any user of the identity that was not logged out in this process.
    func hasPendingRevocation(of user: String, identity: String, wasLoggedOutHere: Bool) -> Bool
    /// What came of this user's latest revocations, by the same rule.
    func revocationState(of user: String, identity: String, wasLoggedOutHere: Bool) -> RevocationState
    /// The user's latest session had nothing to revoke: what came of earlier ones says nothing of it.
    func forgetOutcome(of user: String)
}

extension RevocationSending {
    /// Tells the identity service of a session whose revocation is not stored yet. No caller waits for the outcome.
    func enqueue(_ revocation: StoredRevocation, of user: String? = nil, _ logger: Logger) {
        enqueue(revocation, of: user, isStored: false, logger) { _ in }
    }
}

/// Finds the identity service of a session that has ended.
protocol RevocationServices: AnyObject {
    /// The service that is to be told of a session's end; nil: none is configured.
    func service(of revocation: StoredRevocation) -> (any IdentityService)?
}

/// What the revocation runner needs.
protocol RevocationEnvironment: SessionEnvironment, RevocationServices {
    /// The present users of an identity.
    func userCount(at identity: String) -> Int
}

/// What the user service needs.
protocol UserEnvironment: SessionEnvironment, RevocationServices {
    var store: any SessionStore { get }
    /// What the store held when it was opened.
    var contents: StoreContents { get }
    var revocations: any RevocationSending { get }

    /// The runner of a user; nil: unknown or removed.
    func runner(at user: UserIndex) -> SessionRunner?
    /// Adds a runner that waits for its first login, unless the user's identity is not configured any more.
    func addRunner(for user: RegisteredUser)
    /// Takes the runner of a removed user away.
    func drop(_ runner: SessionRunner)
    /// Sets the users that the report shows, in this order.
    func show(_ shown: [UserIndex], isFailing: Bool)
    /// A user as the report shows it; nil: not shown.
    func reportedUser(_ user: UserIndex) -> ReportedUser?
    /// Sets the user that routes without a user of their own follow.
    func activate(_ user: UserIndex?)
    /// The wait is told of each publication for its index, until `remove`.
    func add(_ wait: TokenWait)
    func remove(_ wait: TokenWait)
    /// The account calls of an identity; nil: it has none.
    func accounts(at identity: String) -> (any AccountService)?
}
