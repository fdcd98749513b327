import Dispatch
import Glibc
import Logging
import Synchronization

/// The store with a file: `StoreFile` on a queue of its own, since a file call may take as long as the disk likes.
///
/// What is asked is done strictly in order. Changes that wait behind one another are written together. Everything but `isFailing`
/// and the doors of `SessionStore` belongs to `loop`'s queue.
package final class SealedStore: Watcher, SessionStore, @unchecked Sendable {
    private enum Order: Sendable {
        case read(String, @Sendable (Result<StoredUser?, StoreFault>) -> Void)
        case readAll(@Sendable ([StoredUser]?) -> Void)
        case commit(StoreChange, since: Instant, @Sendable (Result<StoreChange.Verdict, StoreFault>) -> Void)
        case lock(String, @Sendable (StoreLock) -> Void)
        case unlock(String)
        case close(@Sendable () -> Void)
    }

    /// Changes that one write takes at most: what many sessions wait for at once.
    private static let batchMax = 64

    private let loop: EventLoop
    private let file: StoreFile
    private let log: Logger
    private let failing: Atomic<Bool>
    /// Why the latest write failed.
    private var writeFault: StoreFault?
    private var door: (any DiskLock)?
    /// What was asked and not yet seen by the queue.
    private let inbox = Guarded<[Order]>([])
    private var orders: [Order] = []
    private var held: [String: any DiskLock] = [:]
    /// Users whom a change has removed while their lock was held here: their lock files go with the lock.
    private var removed: Set<String> = []
    private let deadline = Deadline()
    private var isWaiting = false
    private var isClosed = false
    private let isStarted = Atomic<Bool>(false)

    /// - Parameters:
    ///   - door: `PATH.open`, until `close`.
    ///   - unwritten: why the file could not be written at the start.
    ///   - loop: of the store's own; started with the first call.
    package init(_ file: StoreFile, door: any DiskLock, unwritten: StoreFault?, loop: EventLoop, log: Logger) {
        self.file = file
        self.door = door
        self.loop = loop
        self.log = log
        writeFault = unwritten
        failing = Atomic(unwritten != nil)
        super.init()
        deadline.owner = self
    }

    package var isMemoryOnly: Bool { false }

    package var isFailing: Bool { failing.load(ordering: .relaxed) }

    package func read(_ user: String, reply: @escaping @Sendable (Result<StoredUser?, StoreFault>) -> Void) {
        take(.read(user, reply))
    }

    package func readAll(reply: @escaping @Sendable ([StoredUser]?) -> Void) { take(.readAll(reply)) }

    package func commit(
        _ change: StoreChange, reply: @escaping @Sendable (Result<StoreChange.Verdict, StoreFault>) -> Void
    ) {
        take(.commit(change, since: .now, reply))
    }

    package func lock(_ user: String, reply: @escaping @Sendable (StoreLock) -> Void) { take(.lock(user, reply)) }

    package func unlock(_ user: String) { take(.unlock(user)) }

    package func close(within limit: Duration) {
        let done = DispatchSemaphore(value: 0)
        take(.close { done.signal() })
        _ = done.wait(timeout: .now() + .nanoseconds(Int(limit.nanoseconds)))
    }

    // MARK: The queue's side

    private func take(_ order: Order) {
        if !isStarted.exchange(true, ordering: .relaxed) { loop.start() }
        let isFirst = inbox.withLock { inbox in
            inbox.append(order)
            return inbox.count == 1
        }
        // Whoever comes while the queue is busy with the disk is found there when it looks again.
        guard isFirst else { return }
        loop.post { [self] in if !isWaiting { work() } }
    }

    private func collect() {
        orders += inbox.withLock { inbox in
            defer { inbox = [] }
            return inbox
        }
    }

    /// Another process has written, or still does.
    override package func due(_ deadline: Deadline) {
        isWaiting = false
        work()
    }

    private func work() {
        loop.assertHome()
        while !isWaiting {
            collect()
            guard let order = orders.first else { return }
            switch order {
            case .commit: commitBatch()
            case .read(let user, let reply):
                orders.removeFirst()
                reply(isClosed ? .failure(.closed) : read(user))
            case .readAll(let reply):
                orders.removeFirst()
                reply(isClosed ? nil : readAll())
            case .lock(let user, let reply):
                orders.removeFirst()
                reply(isClosed ? .failed("the store is closed") : tryLock(user))
            case .unlock(let user):
                orders.removeFirst()
                unlockUser(user)
            case .close(let reply):
                orders.removeFirst()
                shut()
                reply()
            }
        }
    }

    private func read(_ user: String) -> Result<StoredUser?, StoreFault> {
        do throws(StoreFault) {
            let contents = try file.read()
            noteTrouble()
            announceNotes()
            return .success(contents[user])
        } catch {
            return .failure(error)
        }
    }

    /// Asked for every 30 s: whatever else has failed is tried again by whom it concerns, the start's try to write by nobody.
    private func readAll() -> [StoredUser]? {
        if writeFault != nil { tryToWrite() }
        guard let contents = try? file.read() else { return nil }
        announceNotes()
        return contents.users
    }

    /// Writes what the file holds already, to find out whether writing works again.
    private func tryToWrite() {
        guard (try? file.commit([], now: .now, tries: true)) != nil, file.hasWritten else { return }
        noteWrite(nil)
    }

    /// All changes up to the next order of another kind.
    private func commitBatch() {
        var batch: [(change: StoreChange, reply: @Sendable (Result<StoreChange.Verdict, StoreFault>) -> Void)] = []
        for order in orders.prefix(Self.batchMax) {
            guard case .commit(let change, _, let reply) = order else { break }
            batch.append((change, reply))
        }
        let verdicts: [StoreChange.Verdict]
        do throws(StoreFault) {
            guard !isClosed else { throw .closed }
            verdicts = try file.commit(batch.map(\.change), now: .now, tries: isFailing)
        } catch {
            if error.kind == .busy, waitForLock() { return }
            let failed = error.kind == .busy ? 1 : batch.count
            orders.removeFirst(failed)
            noteWrite(error)
            for (_, reply) in batch.prefix(failed) { reply(.failure(error)) }
            return
        }
        orders.removeFirst(batch.count)
        // Changes that the file held already prove nothing.
        if file.hasWritten { noteWrite(nil) }
        announceNotes()
        for (entry, verdict) in zip(batch, verdicts) {
            if case .stored(let user) = verdict { noteRemoval(entry.change, standing: user) }
            entry.reply(.success(verdict))
        }
    }

    /// A removed user's lock protects nothing any more.
    private func noteRemoval(_ change: StoreChange, standing: StoredUser?) {
        if let standing { removed.remove(standing.name) }
        guard case .remove(let user, _) = change else { return }
        if held[user] != nil {
            removed.insert(user)
        } else if let lock = try? file.disk.lock(file.path.lock(of: user), .exclusive) {
            removeLockFile(of: user)
            lock.release()
        }
    }

    private func unlockUser(_ user: String) {
        guard let lock = held.removeValue(forKey: user) else { return }
        if removed.remove(user) != nil { removeLockFile(of: user) }
        lock.release()
    }

    /// Under the lock. One that cannot be removed does no harm.
    private func removeLockFile(of user: String) { try? file.disk.remove(file.path.lock(of: user)) }

    /// - Returns: false if the first change has waited long enough.
    private func waitForLock() -> Bool {
        guard case .commit(_, let since, _) = orders.first, loop.now - since < StorePatience.limit else { return false }
        isWaiting = true
        loop.set(deadline, at: loop.now + StorePatience.pause)
        return true
    }

    private func tryLock(_ user: String) -> StoreLock {
        do throws(DiskFault) {
            guard let lock = try file.disk.lock(file.path.lock(of: user), .exclusive) else { return .busy }
            held[user] = lock
            return .taken
        } catch {
            let words = "\(file.path.folder): \(error.doing) failed (\(SystemError.text(of: error.code)))"
            log.warning(
                "a user's lock cannot be had: other processes on this store may call for the user at the same time",
                metadata: ["event": "store.lock_failed", "user": "\(user)", "reason": "\(words)"])
            return .failed(words)
        }
    }

    private func shut() {
        isClosed = true
        for user in Array(held.keys) { unlockUser(user) }
        door?.release()
        door = nil
        loop.drop(deadline)
        loop.stop()
    }

    // MARK: What is told

    private func noteWrite(_ fault: StoreFault?) {
        writeFault = fault
        noteTrouble()
    }

    /// A line when the store begins to fail and when it works again; the metrics tell how often.
    private func noteTrouble() {
        let fault = writeFault ?? file.unsynced
        let was = failing.exchange(fault != nil, ordering: .relaxed)
        guard was != (fault != nil) else { return }
        let path: Logger.MetadataValue = "\(file.path.path)"
        if let fault {
            let what =
                writeFault == nil
                ? "what the store holds may not outlast a loss of power"
                : "sessions cannot be stored and live in memory until they can"
            log.error("\(what): \(fault.words)", metadata: ["event": "store.write_failed", "path": path])
        } else {
            log.notice("sessions are stored again", metadata: ["event": "store.write_recovered", "path": path])
        }
    }

    private func announceNotes() {
        for note in file.takeNotes() { note.announce(of: file.path, on: log) }
    }
}

extension StoreFault {
    fileprivate static let closed = StoreFault(.system(EBADF), words: "the store is closed")
}
