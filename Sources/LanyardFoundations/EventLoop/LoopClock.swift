// The machine's clock.
extension EventLoop {
    // In debug builds tests move and stop a loop's time (`LoopTime`), but neither timers nor iterations.

    /// The setting of a timerfd for an instant of the loop; 0: the instant comes when a test says so.
    @inline(__always) func timerSetting(_ instant: Instant) -> Int64 {
        #if DEBUG
        time.timerSetting(instant)
        #else
        max(instant.nanoseconds, 1)
        #endif
    }

    @inline(__always) static var machineTime: Int64 {
        #if DEBUG
        LoopTime.machine
        #else
        Instant.now.nanoseconds
        #endif
    }

    /// The same at the start of the present batch.
    @inline(__always) var batchTime: Int64 {
        #if DEBUG
        LoopTime.machine
        #else
        now.nanoseconds
        #endif
    }
}
