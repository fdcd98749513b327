import CLinux
import Glibc

/// The machine's resources that this process may use.
package enum Machine {
    private static let shardsMax = 16

    /// Shards for `shards: auto`: min(CPUs that may be used, quota of the cgroup rounded up, 16).
    package static var shardCount: Int {
        let cpus = max(Int(lanyard_cpu_count()), 1)
        return min(cpus, cgroupCPUs() ?? cpus, shardsMax)
    }

    /// CPUs that the cgroup grants, rounded up; nil without a quota.
    private static func cgroupCPUs() -> Int? {
        if let words = ProcFile.read("/sys/fs/cgroup/cpu.max")?.split(whereSeparator: \.isWhitespace), words.count == 2
        {
            return quota(words[0], words[1])
        }
        guard let quota = ProcFile.read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
            let period = ProcFile.read("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
        else { return nil }
        return self.quota(quota.prefix { !$0.isWhitespace }, period.prefix { !$0.isWhitespace })
    }

    /// `max` and -1 are no quota.
    private static func quota(_ quota: Substring, _ period: Substring) -> Int? {
        guard let quota = Int(quota), let period = Int(period), quota > 0, period > 0 else { return nil }
        return max(quota.clampedSum(period - 1) / period, 1)
    }

    /// The identifier of this boot; empty if it cannot be read.
    package static var bootID: String {
        String((ProcFile.read("/proc/sys/kernel/random/boot_id") ?? "").prefix { !$0.isWhitespace })
    }

    /// The CPU time of the calling thread so far.
    package static var threadCPUTime: Duration {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    /// Prevents core files and crash reports, and prevents other processes of the same user from reading this one's memory, which holds
    /// tokens and passwords.
    ///
    /// - Returns: false if the kernel refused. The caller warns and continues.
    package static func forbidDumps() -> Bool {
        var none = rlimit(rlim_cur: 0, rlim_max: 0)
        let isLimited = setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none) == 0
        // Swift's own crash report prints the memory that the registers point to, and continues after a signal of `kill`.
        for number in [SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV] { signal(number, SIG_DFL) }
        return lanyard_set_not_dumpable() == 0 && isLimited
    }

    /// Runs `body` with an umask that removes no permission. The umask belongs to the whole process: call before the first thread, or only
    /// briefly.
    package static func withoutUmask<Result>(_ body: () -> Result) -> Result {
        let former = umask(0)
        defer { umask(former) }
        return body()
    }

    /// Large blocks are mapped one by one, from 128 KiB on. They go back to the kernel when they are freed.
    ///
    /// By default the first freed block of a size raises glibc's threshold to that size (mallopt(3)). Later blocks then come from the heaps
    /// of the threads, which keep them. A few long responses of an identity service made the process grow by 2 MB a minute.
    package static func returnLargeBlocks() { lanyard_return_large_blocks() }

    /// Gives back the memory of code that only the start executes. Code that is executed again comes back from the page cache, 64 KiB at a
    /// time and in about a microsecond.
    package static func returnStartCode() { lanyard_return_code() }

    /// Threads of this process; nil where /proc is not mounted.
    package static var threadCount: Int? { ProcFile.entryCount("/proc/self/task") }

    /// Raises the soft limit of descriptors to the hard one and returns the limit (http-connections.md 20.4).
    package static func raiseDescriptorLimit() -> Int {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 1024 }
        if limit.rlim_cur < limit.rlim_max {
            var raised = limit
            raised.rlim_cur = limit.rlim_max
            if setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &raised) == 0 { limit = raised }
        }
        return Int(clamping: limit.rlim_cur)
    }
}
