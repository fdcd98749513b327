import Foundation
import Glibc

extension ServerProcess {
    /// What the threads of a process do, as the kernel tells it.
    struct ThreadActivity: Equatable {
        /// Every thread waits: state `S` (proc_pid_stat(5)).
        var allSleep = true
        /// How often a thread has left a processor, by the thread's id.
        var switches: [String: Int] = [:]
    }

    /// The activity now. A process that has ended rests.
    var threadActivity: ThreadActivity {
        var activity = ThreadActivity()
        let folder = "/proc/\(pid)/task"
        for thread in (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [] {
            // A thread that has ended since the folder was read has no file any more.
            guard let text = try? String(contentsOfFile: "\(folder)/\(thread)/status", encoding: .utf8) else {
                continue
            }
            var switches = 0
            for line in text.split(separator: "\n") {
                if line.hasPrefix("State:") {
                    let state = line.dropFirst("State:".count).drop { $0 == "\t" || $0 == " " }.first
                    // A dead thread does nothing more.
                    if state != "S" && state != "Z" && state != "X" { activity.allSleep = false }
                } else if line.hasPrefix("voluntary_ctxt_switches:") || line.hasPrefix("nonvoluntary_ctxt_switches:") {
                    switches += line.split(separator: "\t").last.flatMap { Int($0) } ?? 0
                }
            }
            if Self.isSanitizersOwn("\(folder)/\(thread)") { switches = 0 }
            activity.switches[thread] = switches
        }
        return activity
    }

    /// Whether this is the thread that the thread sanitizer adds to each program. It wakes ten times a second, which is no work of the
    /// program: it waits in clock_nanosleep(2), as no thread of ours does.
    private static func isSanitizersOwn(_ folder: String) -> Bool {
        guard Sanitizer.isThread else { return false }
        return (try? String(contentsOfFile: folder + "/wchan", encoding: .utf8)) == "hrtimer_nanosleep"
    }
}

/// Waits until what these processes had begun is done, and everything that they wrote to stderr and stdout is read.
///
/// All threads of all of them sleep at one moment, and nothing is left in the pipes. A test that has a response asks so before it
/// reads a log line, a metric, a report or the emulator's notes. A clock that stands passes a few milliseconds.
///
/// - Throws: `Patience.failure` if they do not come to rest.
package func settled(_ processes: ServerProcess...) async throws { try await settled(processes) }

/// The same for a list.
package func settled(_ processes: [ServerProcess]) async throws {
    for process in processes { try await process.clock?.passLogDelay() }
    let patience = Patience()
    while !areSettled(processes) {
        guard !patience.isExhausted else {
            throw patience.failure("these processes settle: \(processes.map { "\($0.pid): \($0.threadStates)" })")
        }
        try await Task.sleep(for: .milliseconds(1))
    }
}

/// Two samples without a switch between them: every thread slept from the one to the other.
private func areSettled(_ processes: [ServerProcess]) -> Bool {
    let first = processes.map(\.threadActivity)
    guard first.allSatisfy(\.allSleep), processes.allSatisfy(\.hasReadAll) else { return false }
    return processes.map(\.threadActivity) == first
}
