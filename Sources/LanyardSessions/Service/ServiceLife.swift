import Dispatch
import LanyardFoundations

/// Where the session service is in its life. Belongs to its queue, which it checks.
enum ServiceLife {
    /// The users are not started yet. The work follows the start. Goes to `serving` or `draining`.
    case starting(waiting: [@Sendable () -> Void])
    /// Goes to `draining` or `stopped`.
    case serving
    /// The process is about to end: what has begun is finished, and nothing begins. Goes to `stopped`.
    case draining(DrainStep)
    /// Nothing is done any more.
    case stopped

    var isStopped: Bool { if case .stopped = self { true } else { false } }
    var isDraining: Bool { if case .draining = self { true } else { false } }
}

/// What a drain waits for.
enum DrainStep {
    /// All users are told that the process ends. Goes to `everything`.
    case telling
    /// All calls and writes that have begun. Goes to `beginningLastWrites`, or to one of the next two when its time is up.
    case everything
    /// Operators' calls are waited for, and refreshes as below. Goes to `rotations` or `beginningLastWrites`.
    case operatorsCalls
    /// Refreshes are waited for whose responses may have the only copy of the next refresh token. Goes to
    /// `beginningLastWrites`.
    case rotations
    /// Unsaved changes are about to be tried once more. Goes to one of the last two.
    case beginningLastWrites
    /// The last writes, after which nothing is in progress.
    case lastWrites
    /// The last writes of the users that have no call. Their time is short, and other users' calls are not waited for.
    case lastWritesBesideCalls
}

/// What the end of the process waits for: calls of the session service, which its queue counts, and signals, which other
/// threads wait for.
final class ServiceEnd: @unchecked Sendable {
    /// Login and refresh calls without a result yet, including those of removed users. The tokens that these bring are
    /// revoked. Belongs to the service's queue, which it checks.
    private(set) var callsInFlight = 0
    private let drained = DispatchSemaphore(value: 0)
    private let ended = DispatchSemaphore(value: 0)
    private let givenUp = Guarded(false)

    func beginCall() { callsInFlight += 1 }

    func endCall() { callsInFlight -= 1 }

    /// Nothing is left to wait for, or the wait is given up. From anywhere, as the members below.
    func signalDrained() { drained.signal() }

    /// Nothing is waited for any more, nor begun for the end.
    func giveUp() {
        givenUp.withLock { $0 = true }
        drained.signal()
    }

    var isGivenUp: Bool { givenUp.withLock { $0 } }

    func signalEnded() { ended.signal() }

    /// Blocks the calling thread.
    ///
    /// - Returns: false: the limit has passed.
    func waitUntilDrained(within limit: Duration) -> Bool { Self.wait(drained, within: limit) }

    /// Blocks the calling thread, at most `limit`.
    func waitUntilEnded(within limit: Duration) { _ = Self.wait(ended, within: limit) }

    private static func wait(_ semaphore: DispatchSemaphore, within limit: Duration) -> Bool {
        semaphore.wait(timeout: .now() + .nanoseconds(Int(limit.nanoseconds))) == .success
    }
}
