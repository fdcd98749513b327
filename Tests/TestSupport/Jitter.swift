import Glibc

/// Threads of started processes that go on late, as the seed in `LANYARD_TEST_JITTER` says: the library `Jitter`, preloaded
/// (Tests/Jitter/jitter.c). deploy/jitter sets the variable.
enum Jitter {
    /// What a program's environment gets. Only lanyard and the emulator are delayed.
    ///
    /// - Throws: `TestFailure` if the library has not been built.
    static func variables(for program: String) throws -> [String: String] {
        guard let seed = getenv("LANYARD_TEST_JITTER"),
            ["lanyard", "lanyard-emulator"].contains(program.split(separator: "/").last ?? "")
        else { return [:] }
        return ["LD_PRELOAD": try Products.library("libJitter.so"), "JITTER_SEED": String(cString: seed)]
    }
}
