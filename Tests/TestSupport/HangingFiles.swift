import Glibc

/// Files that hang in a started process, as on a dead network file system: the library `HangingFiles`, preloaded.
///
/// While `FILE.hang` exists, open(2) and stat(2) of `FILE` block (Tests/HangingFiles/hanging_files.c).
package enum HangingFiles {
    /// The arguments before a command that preload the library into it.
    ///
    /// - Throws: `TestFailure` if it has not been built.
    package static func launcher() throws -> [String] {
        ["/usr/bin/env", "LD_PRELOAD=" + (try Products.library("libHangingFiles.so"))]
    }

    /// From now on, opening the file blocks.
    package static func hang(_ path: String) throws {
        let raw = open(path + ".hang", O_CREAT | O_WRONLY | O_CLOEXEC, 0o644)
        guard raw >= 0 else { throw TestFailure("\(path).hang: errno \(errno)") }
        close(raw)
    }

    /// Calls that block on the file continue.
    package static func release(_ path: String) { unlink(path + ".hang") }
}
