import Glibc

/// Threads of started processes that continue late, as the seed in `LANYARD_TEST_JITTER` says: the library `Jitter`, preloaded
/// (Tests/Jitter/jitter.c). deploy/jitter sets the variable.
enum Jitter {
    /// What the environment of a command gets. Only lanyard and the emulator are delayed, also behind a launcher: the library looks at the
    /// program's name.
    ///
    /// - Throws: `TestFailure` if the library has not been built.
    static func variables(for command: [String]) throws -> [String: String] {
        guard let seed = getenv("LANYARD_TEST_JITTER"),
            command.contains(where: { ["lanyard", "lanyard-emulator"].contains($0.split(separator: "/").last ?? "") })
        else { return [:] }
        return ["LD_PRELOAD": try Products.library("libJitter.so"), "JITTER_SEED": String(cString: seed)]
    }
}
