import LanyardFoundations
import LanyardSessions

/// Rule 14: every process compares its clocks every 30 s. Of those looks only the ones after something has happened are simulated.
extension FleetWorld {
    /// Before a clock is changed, or the machine stops: plans the look that will notice.
    func watchClocks() {
        let (instant, wall) = (clocks.instant, clocks.wall)
        for process in open where process.comparison == nil {
            // Where the latest look was, had all of them been simulated.
            let looks = (instant - process.looksFrom).nanoseconds / Duration.seconds(30).nanoseconds
            let latest = process.looksFrom + .seconds(30) * Int(looks)
            let comparison = ClockComparison(instant: latest, wall: wall - (instant - latest))
            process.comparison = comparison
            heap.plan(.tick(process: process.number, life: process.life), at: clocks.real(comparison.nextAt))
        }
    }

    func tick(_ process: FleetProcess) {
        guard let comparison = process.comparison else { return }
        guard clocks.instant >= comparison.nextAt else {
            // Its boot clock has stood still in that time.
            heap.plan(.tick(process: process.number, life: process.life), at: clocks.real(comparison.nextAt))
            return
        }
        process.comparison = nil
        process.looksFrom = clocks.instant
        guard comparison.disagreement(at: clocks.instant, clocks.wall) != nil, plan.bug != .clockJumpIgnored else {
            return
        }
        for user in members.indices { deliver(process, user, .session(.clockJumped)) }
        tellFeed(process, .clockJumped)
    }
}

extension WallTime {
    static func - (time: WallTime, duration: Duration) -> WallTime { time + (.zero - duration) }
}
