import LanyardFoundations

/// Orders all writers of what files give to the running program: contexts of TLS, capabilities, the contents of identities' files.
///
/// The watch of a file publishes in a turn, and so does a reload. In its turn a reload also ends the watches of the former configuration.
/// So a watch that was replaced publishes nothing any more, and each shard gets everything in the order of the turns. A turn neither waits
/// for another queue nor reads a file.
final class FilePublication: Sendable {
    private let turns = Guarded(())

    /// Runs `body` while no other turn runs. From any thread, not within a turn.
    func turn<Result: Sendable>(_ body: () -> Result) -> Result { turns.withLock { _ in body() } }
}
