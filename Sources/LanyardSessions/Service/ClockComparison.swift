import LanyardFoundations

/// Compares the clocks every 30 s. Belongs to the queue of its loop.
final class ClockTimer {
    private var comparison = ClockComparison(instant: .now, wall: .now)
    private let onCompared: (ClockComparison.Disagreement?, _ seconds: Int) -> Void
    private let loop: EventLoop
    private lazy var timer = SessionTimer(on: loop) { [unowned self] in compare() }

    /// - Parameter onCompared: called on the queue after each comparison.
    init(on loop: EventLoop, onCompared: @escaping (ClockComparison.Disagreement?, _ seconds: Int) -> Void) {
        self.loop = loop
        self.onCompared = onCompared
    }

    func start() {
        loop.assertIsCurrent()
        comparison = ClockComparison(instant: .now, wall: .now)
        timer.set(at: comparison.nextAt)
    }

    /// Ends the comparisons. Call it before the last reference goes.
    func drop() {
        loop.assertIsCurrent()
        timer.drop()
    }

    private func compare() {
        let (now, wallNow) = (Instant.now, WallTime.now)
        let reason = comparison.disagreement(at: now, wallNow)
        let seconds = reason.map { comparison.amount(of: $0, at: now, wallNow) } ?? 0
        start()
        onCompared(reason, seconds)
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

    /// Between two comparisons.
    private static let interval = Duration.seconds(30)
    /// Of the clocks, and of a comparison that comes late. A larger one is reported.
    private static let toleranceMax = Duration.seconds(5)

    /// When to compare next.
    package var nextAt: Instant { instant + Self.interval }

    /// By how many seconds the wall clock was set, negative: back; or how long the machine was suspended.
    package func amount(of disagreement: Disagreement, at now: Instant, _ wallNow: WallTime) -> Int {
        switch disagreement {
        case .wallClock: Int(((wallNow - wall) - (now - instant)).inSeconds.rounded())
        case .resumed: Int((now - nextAt).inSeconds.rounded())
        }
    }

    /// The disagreement since then, if it is more than `toleranceMax`.
    package func disagreement(at now: Instant, _ wallNow: WallTime) -> Disagreement? {
        let drift = (wallNow - wall) - (now - instant)
        if max(drift, .zero - drift) > Self.toleranceMax { return .wallClock }
        return now - nextAt > Self.toleranceMax ? .resumed : nil
    }
}
