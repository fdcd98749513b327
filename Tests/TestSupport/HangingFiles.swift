import Glibc
import LanyardFoundations

/// Files that hang in a started process, as on a dead network file system: the library `HangingFiles`, preloaded.
///
/// While `FILE.hang` is locked, open(2) and stat(2) of `FILE` block (Tests/HangingFiles/hanging_files.c).
package enum HangingFiles {
    /// The arguments before a command that preload the library into it.
    ///
    /// - Parameter clock: the program's, which is preloaded, too.
    /// - Throws: `TestFailure` if it has not been built.
    package static func launcher(under clock: TestClock? = nil) throws -> [String] {
        let library = try Products.library("libHangingFiles.so")
        // These take the place of the variables that the launcher itself gets.
        let variables = (clock?.environment(preloading: [library]) ?? ["LD_PRELOAD": library])
            .merging(try Jitter.variables(for: ["lanyard"])) { "\($0):\($1)" }
        return ["/usr/bin/env"] + variables.map { "\($0)=\($1)" }
    }

    /// The locked files, by their paths.
    private static let locks = Guarded<[String: CInt]>([:])

    /// From now on, opening the file blocks.
    package static func hang(_ path: String) throws {
        try locks.withLock { locks in
            guard locks[path] == nil else { return }
            let raw = open(path + ".hang", O_CREAT | O_RDONLY | O_CLOEXEC, 0o644)
            guard raw >= 0, flock(raw, LOCK_EX) == 0 else { throw TestFailure("\(path).hang: errno \(errno)") }
            locks[path] = raw
        }
    }

    /// Calls that block on the file continue. Their threads run when this returns.
    package static func release(_ path: String) {
        unlink(path + ".hang")
        guard let raw = locks.withLock({ $0.removeValue(forKey: path) }) else { return }
        // A process that another test is starting may have inherited the descriptor.
        flock(raw, LOCK_UN)
        close(raw)
    }
}
