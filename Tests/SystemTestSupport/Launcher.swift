import Foundation
import Glibc
import TestSupport

/// Commands that change something about a process and then become the program that their last arguments name, with the same pid.
enum Launcher {
    /// A shell that runs `preparation` and applies `redirections` (`2>&-`, `>/dev/full`) before it becomes the program.
    static func shell(_ preparation: String = ":", redirections: String = "") -> [String] {
        ["/bin/sh", "-c", "\(preparation); exec \"$@\" \(redirections)", "sh"]
    }

    /// A command that moves the process to another namespace or user, for which it must have one thread; then the program under the clock.
    static func moving(_ command: [String], under clock: TestClock) -> [String] {
        ["/usr/bin/env", "-u", "LD_PRELOAD"] + command + ["/usr/bin/env"]
            + clock.environment().map { "\($0)=\($1)" }
    }

    /// Closes these of the descriptors 0 to 2.
    static func closing(_ descriptors: [Int]) -> [String] {
        shell(redirections: descriptors.map { "\($0)>&-" }.joined(separator: " "))
    }
}

/// What the kernel tells about a process's descriptors. Of a process that is not dumpable only root learns it.
enum DescriptorTable {
    static var isReadable: Bool { getuid() == 0 }

    /// What a descriptor leads to, such as `/dev/null` or `socket:[4711]`; nil if it is closed.
    static func target(of descriptor: Int, in pid: pid_t) -> String? {
        try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(pid)/fd/\(descriptor)")
    }

    /// The numbers of the open descriptors that lead to sockets.
    static func sockets(of pid: pid_t) -> [Int] {
        let numbers = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/fd")) ?? []
        return numbers.compactMap { Int($0) }.filter { target(of: $0, in: pid)?.hasPrefix("socket:") == true }
    }
}
