import LanyardFoundations

/// The one writer of what files give to the running program: contexts of TLS, capabilities, values of fields, what files of identities
/// hold.
///
/// A watch publishes in a turn, and so does a reload. In its turn a reload also ends the watches of the former configuration. So a watch
/// that was replaced publishes nothing any more, and each shard gets everything in the order of the turns. A turn neither waits for another
/// queue nor reads a file.
final class FilePublication: Sendable {
    /// The right to publish, for as long as a turn lasts. Who publishes, or replaces a watch, asks for it.
    struct Turn: ~Copyable {
        fileprivate init() {}
    }

    private let turns = Guarded(())

    /// Runs `body` while no other turn runs. From any thread, not within a turn.
    func turn<Result: Sendable>(_ body: (borrowing Turn) -> Result) -> Result { turns.withLock { _ in body(Turn()) } }
}
