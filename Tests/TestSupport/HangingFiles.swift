import Glibc

/// Files that hang in a started process, as on a dead network file system: the library `HangingFiles`, preloaded.
///
/// While `FILE.hang` exists, whoever opens `FILE` or looks at it waits (Tests/HangingFiles/hanging_files.c).
package enum HangingFiles {
    /// The words before a command that preload the library into it.
    ///
    /// - Throws: `TestFailure` when it has not been built.
    package static func launcher() throws -> [String] {
        ["/usr/bin/env", "LD_PRELOAD=" + (try Products.library("libHangingFiles.so"))]
    }

    /// From now on, whoever opens the file waits.
    package static func hang(_ path: String) throws {
        let raw = open(path + ".hang", O_CREAT | O_WRONLY | O_CLOEXEC, 0o644)
        guard raw >= 0 else { throw TestFailure("\(path).hang: errno \(errno)") }
        close(raw)
    }

    /// Whoever waits for the file goes on.
    package static func release(_ path: String) { unlink(path + ".hang") }
}
