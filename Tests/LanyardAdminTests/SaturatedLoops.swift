import CLinux
import Glibc
import LanyardFoundations
import TestSupport

/// Event loops as many as CPUs, each of which spins in work that is posted to it without end.
final class SaturatedLoops: Sendable {
    /// How much of the machine the loops took between two looks.
    struct Share {
        /// Thread time of all loops, in seconds.
        var spun: Double
        /// What no process wanted.
        var idle: Double

        /// Of what the cores could give: what other processes took was not to be had.
        var ofAvailable: Double { spun / max(spun + idle, 1e-9) }
    }

    private let loops: [EventLoop]
    private let spun: [Counter]
    private let stopped = Milestone()
    private let idleBefore: Double

    init() throws {
        let count = max(Int(sysconf(CInt(_SC_NPROCESSORS_ONLN))), 1)
        loops = try (0..<count).map { try EventLoop(label: "test.shard.\($0)") }
        spun = loops.map { _ in Counter() }
        idleBefore = try ProcessorTime.idle()
        for (loop, counter) in zip(loops, spun) {
            loop.start()
            // More than one piece waits at any time, as behind a busy shard.
            for _ in 0..<4 { Self.spin(on: loop, counter, until: stopped) }
        }
    }

    /// Thread time that each loop has taken so far, on average.
    var spunByEach: Duration { .nanoseconds(spun.reduce(0) { $0 + $1.value } / spun.count) }

    /// Ends the spinning and tells what it took.
    func stop() throws -> Share {
        let share = Share(
            spun: Double(spun.reduce(0) { $0 + $1.value }) / 1e9, idle: try ProcessorTime.idle() - idleBefore)
        stopped.set()
        for loop in loops { loop.stop() }
        return share
    }

    private static func spin(on loop: EventLoop, _ counter: Counter, until stopped: Milestone) {
        loop.post {
            let start = threadTime()
            while threadTime() - start < 500_000 {}
            counter.add(Int(threadTime() - start))
            if !stopped.isSet { spin(on: loop, counter, until: stopped) }
        }
    }

    private static func threadTime() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
