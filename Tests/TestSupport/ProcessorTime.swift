import CLinux
import Foundation
import Glibc

/// CPU time as the kernel counts it. On a shared machine a program gets only the time that others leave. Compare used time with idle
/// time.
package enum ProcessorTime {
    /// Idle and waiting time since boot, in seconds: of one CPU, or of all together (proc(5), /proc/stat).
    package static func idle(ofCPU number: Int? = nil) throws -> Double {
        let name = "cpu" + (number.map(String.init) ?? "")
        let lines = try String(contentsOfFile: "/proc/stat", encoding: .utf8).split(separator: "\n")
        guard let line = lines.first(where: { $0.hasPrefix(name + " ") }) else { throw TestFailure("no \(name)") }
        let fields = line.split(separator: " ").dropFirst().compactMap { Double($0) }
        guard fields.count > 4 else { throw TestFailure("/proc/stat: \(line)") }
        return (fields[3] + fields[4]) / ticks
    }

    /// User and system time of all threads of a process so far, in seconds (/proc/PID/stat).
    package static func used(by pid: pid_t) throws -> Double {
        let text = try String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8)
        // The fields after the command's name, which may hold any byte. The first one is the state.
        let fields = text[text.lastIndex(of: ")")!...].split(separator: " ")
        guard fields.count > 13, let user = Double(fields[12]), let system = Double(fields[13]) else {
            throw TestFailure("/proc/\(pid)/stat: \(text)")
        }
        return (user + system) / ticks
    }

    /// The same in microseconds, including threads that have ended (clock_getcpuclockid(3)).
    package static func preciseUsed(by pid: pid_t) throws -> Duration {
        var clock = clockid_t()
        var time = timespec()
        guard clock_getcpuclockid(pid, &clock) == 0, clock_gettime(clock, &time) == 0 else {
            throw TestFailure("no processor clock of process \(pid)")
        }
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    /// The same of the thread that asks (clock_gettime(2)).
    package static var usedByThread: Duration {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    private static var ticks: Double { Double(sysconf(CInt(_SC_CLK_TCK))) }
}
