#if DEBUG
import CLinux
import Dispatch
import Glibc
import Synchronization

/// The time of one loop in a debug build: the machine's, until a test moves or stops it. Release builds have none of it.
///
/// `Instant.now` and `WallTime.now` are this time on the loop's queue, so all code of a loop reads one time. Belongs to the loop's
/// queue, which the loop checks.
final class LoopTime: @unchecked Sendable {
    private static let key = DispatchSpecificKey<LoopTime>()

    /// The time of the loop whose queue runs the caller; nil: no loop's queue runs it.
    static var ofQueue: LoopTime? { DispatchQueue.getSpecific(key: key) }

    static func install(_ time: LoopTime, on queue: DispatchQueue) { queue.setSpecific(key: key, value: time) }

    static var machine: Int64 { lanyard_clock(CLOCK_BOOTTIME) }

    /// How far a running time is ahead of the machine's.
    private var lead: Int64 = 0
    /// nil: the time runs.
    private var stoppedAt: Int64?
    private var isPassing = false
    /// The time ran before the passing.
    private var runsOn = false
    private var hasParkedIteration = false
    /// The loop's count of posted work at the end of the latest round of `EventLoop.runDueWork`.
    var handledAtRound = 0
    private let awaited = Atomic<Int>(0)

    var now: Instant { Instant(nanoseconds: stoppedAt ?? Self.machine + lead) }
    var wall: WallTime { WallTime.ofMachine + (now - Instant(nanoseconds: Self.machine)) }

    /// The setting of a timerfd; 0, which sets none: the time stands before `instant`.
    func timerSetting(_ instant: Instant) -> Int64 {
        if let stoppedAt { return instant.nanoseconds <= stoppedAt ? 1 : 0 }
        return max(instant.nanoseconds.clampedDifference(lead), 1)
    }

    func stop(at instant: Instant) { stoppedAt = instant.nanoseconds }
    func advance(by duration: Duration) { stoppedAt = (now + duration).nanoseconds }

    func beginPassing() {
        runsOn = stoppedAt == nil
        isPassing = true
        stop(at: now)
    }

    /// - Returns: whether an iteration was left out.
    func endPassing() -> Bool {
        if runsOn, let stoppedAt {
            lead = stoppedAt - Self.machine
            self.stoppedAt = nil
        }
        defer { (isPassing, hasParkedIteration) = (false, false) }
        return hasParkedIteration
    }

    /// - Returns: whether the iteration must not run, because a test passes the time.
    func parksIteration() -> Bool {
        if isPassing { hasParkedIteration = true }
        return isPassing
    }

    var awaitedReplies: Int { awaited.load(ordering: .sequentiallyConsistent) }
    fileprivate func changeAwaitedReplies(by change: Int) { awaited.add(change, ordering: .sequentiallyConsistent) }
}

/// A reply that a loop waits for until it has come or can come no longer.
final class AwaitedReply: Sendable {
    private let time: LoopTime
    private let hasEnded = Atomic<Bool>(false)

    init(of time: LoopTime) {
        self.time = time
        time.changeAwaitedReplies(by: 1)
    }

    func end() {
        if !hasEnded.exchange(true, ordering: .sequentiallyConsistent) { time.changeAwaitedReplies(by: -1) }
    }

    deinit { end() }
}
#endif
