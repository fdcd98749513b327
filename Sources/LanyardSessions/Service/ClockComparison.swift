import LanyardFoundations

/// Compares the clocks every 30 s. Belongs to the queue of its loop.
final class ClockTimer {
    private var comparison = ClockComparison(instant: .now, wall: .now)
    private let onCompared: (ClockComparison.Disagreement?) -> Void
    private let loop: EventLoop
    private lazy var timer = SessionTimer(on: loop) { [unowned self] in compare() }

    /// - Parameter onCompared: called on the queue after each comparison.
    init(on loop: EventLoop, onCompared: @escaping (ClockComparison.Disagreement?) -> Void) {
        self.loop = loop
        self.onCompared = onCompared
    }

    func start() {
        comparison = ClockComparison(instant: .now, wall: .now)
        timer.set(at: comparison.nextAt)
    }

    /// Ends the comparisons. Call it before the last reference goes.
    func drop() { timer.drop() }

    private func compare() {
        let reason = comparison.disagreement(at: .now, .now)
        start()
        onCompared(reason)
    }
}

/// The boot clock and the wall clock at one instant. A later comparison shows whether one of them has jumped or the
/// machine was suspended.
package struct ClockComparison {
    /// What the comparison has shown.
    package enum Disagreement: String, Sendable {
        /// The wall clock has moved differently from the boot clock.
        case wallClock = "wall_clock"
        /// The comparison came late: the machine was suspended or overloaded.
        case resumed
    }

    /// The boot clock at the comparison.
    package let instant: Instant
    /// The wall clock at the comparison.
    package let wall: WallTime

    package init(instant: Instant, wall: WallTime) {
        self.instant = instant
        self.wall = wall
    }

    /// When to compare next.
    package var nextAt: Instant { instant + .seconds(30) }

    /// The disagreement since then, if it is more than 5 s.
    package func disagreement(at now: Instant, _ wallNow: WallTime) -> Disagreement? {
        let drift = (wallNow - wall) - (now - instant)
        if max(drift, .zero - drift) > .seconds(5) { return .wallClock }
        return now - nextAt > .seconds(5) ? .resumed : nil
    }
}
