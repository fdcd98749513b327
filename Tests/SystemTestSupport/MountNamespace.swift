import Glibc
import TestSupport

/// Programs that see files of the test's own in place of the system's.
enum MountNamespace {
    /// Mounts are root's; a container may forbid the namespace even to root.
    static let isPossible: Bool = {
        guard getuid() == 0, let probe = try? ServerProcess("/usr/bin/unshare", ["-m", "/bin/true"]) else {
            return false
        }
        try? blockUntil("the probe ends") { probe.exit != nil }
        return probe.exit == .code(0)
    }()

    /// What to put before a program and its arguments, so that it sees `source` at `target`. The process keeps its pid.
    static func launcher(_ mounts: [(source: String, target: String)]) -> [String] {
        let commands = mounts.map { "mount --bind \($0.source) \($0.target)" }.joined(separator: " && ")
        return ["/usr/bin/unshare", "-m", "/bin/sh", "-c", "\(commands) && exec \"$@\"", "sh"]
    }
}
