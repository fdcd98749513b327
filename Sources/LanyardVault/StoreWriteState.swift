import LanyardFoundations
import LanyardSessionInterface
import Logging
import Synchronization

/// Whether the file can be written: for health, operators and the log. The store's queue changes it; any thread reads
/// `isFailing` and `failure`.
final class StoreWriteState: @unchecked Sendable {
    private let path: String
    private let log: Logger
    /// Why the latest write failed. Belongs to the store's queue, which `SealedStore` checks.
    private(set) var error: StoreError?
    private let failing: Atomic<Bool>
    private let latestFailure: Guarded<StoreFailure?>

    /// - Parameter unwritten: why the file could not be written at the start.
    init(of path: String, unwritten: StoreError?, log: Logger) {
        self.path = path
        self.log = log
        error = unwritten
        failing = Atomic(unwritten != nil)
        latestFailure = Guarded(unwritten.map { StoreFailure(path: path, since: .now, message: $0.message) })
    }

    var isFailing: Bool { failing.load(ordering: .relaxed) }

    var failure: StoreFailure? { latestFailure.withLock { $0 } }

    /// A write has failed, or succeeded.
    func record(_ error: StoreError?, unsynced: StoreError?) {
        self.error = error
        update(unsynced: unsynced)
    }

    /// Logs a line when the store starts to fail and when it works again. The metrics count the failures.
    ///
    /// - Parameter unsynced: why what the store holds may not outlast a loss of power.
    func update(unsynced: StoreError?) {
        let present = error ?? unsynced
        latestFailure.withLock { failure in
            failure = present.map { StoreFailure(path: path, since: failure?.since ?? .now, message: $0.message) }
        }
        let was = failing.exchange(present != nil, ordering: .relaxed)
        guard was != (present != nil) else { return }
        guard let present else {
            return log.notice(
                "sessions are stored again", metadata: ["event": "store.write_recovered", "path": "\(path)"])
        }
        let what =
            error == nil
            ? "what the store holds may not outlast a loss of power"
            : "sessions cannot be stored and live in memory until they can"
        log.error("\(what): \(present.message)", metadata: ["event": "store.write_failed", "path": "\(path)"])
    }
}
