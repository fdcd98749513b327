import Dispatch
import Glibc
import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings
import Logging
import Synchronization

/// The store with a file: `StoreFile` on a queue of its own, because a file call may take any amount of time.
///
/// Requests are carried out strictly in order. Changes that wait behind one another are written together. All state except `isFailing` and
/// the inbox belongs to `loop`'s queue.
package final class SealedStore: Watcher, SessionStore, @unchecked Sendable {
    private enum Request: Sendable {
        case read(String, @Sendable (Result<StoredUser?, StoreError>) -> Void)
        case readAll(@Sendable ([StoredUser]?) -> Void)
        case commit(StoreChange, since: Instant, @Sendable (Result<StoreChange.Verdict, StoreError>) -> Void)
        case lock(String, @Sendable (StoreLock) -> Void)
        /// A call begins: in one turn with the lock, the read and the commit that follow it in the queue.
        case begin(String, StoreChange, @Sendable (StoreBeginning) -> Void)
        case unlock(String)
        case close(@Sendable () -> Void)
    }

    /// Changes in one write at most. Many sessions may wait for one write at the same time.
    private static let batchMax = 64
    /// The next changes that are written one by one: the text could not hold one of them, and the others must not fail with it.
    private var singleChanges = 0

    private let loop: EventLoop
    private let file: StoreFile
    private let log: Logger
    private let writeState: StoreWriteState
    private var openFileLock: (any DiskLock)?
    /// Requests that the queue has not taken yet.
    private let inbox = Guarded<[Request]>([])
    private var requests: [Request] = []
    private var userLocks: UserLocks
    private let deadline = Deadline()
    private var isWaiting = false
    private var isClosed = false
    private let isStarted = Atomic<Bool>(false)
    /// Ends the wait of `close`.
    private let closed = DispatchSemaphore(value: 0)

    /// - Parameters:
    ///   - openFileLock: `PATH.open`, until `close`.
    ///   - unwritten: why the file could not be written at the start.
    ///   - loop: the store's own loop; started with the first call.
    package init(_ file: StoreFile, openFileLock: any DiskLock, unwritten: StoreError?, loop: EventLoop, log: Logger) {
        self.file = file
        self.openFileLock = openFileLock
        self.loop = loop
        self.log = log
        writeState = StoreWriteState(of: file.path.path, unwritten: unwritten, log: log)
        userLocks = UserLocks(of: file)
        super.init()
        deadline.owner = self
    }

    package var isMemoryOnly: Bool { false }

    package var isFailing: Bool { writeState.isFailing }

    package var failure: StoreFailure? { writeState.failure }

    package func read(_ user: String, reply: @escaping @Sendable (Result<StoredUser?, StoreError>) -> Void) {
        enqueue(.read(user, reply))
    }

    package func readAll(reply: @escaping @Sendable ([StoredUser]?) -> Void) { enqueue(.readAll(reply)) }

    package func commit(
        _ change: StoreChange, reply: @escaping @Sendable (Result<StoreChange.Verdict, StoreError>) -> Void
    ) {
        enqueue(.commit(change, since: .now, reply))
    }

    package func lock(_ user: String, reply: @escaping @Sendable (StoreLock) -> Void) { enqueue(.lock(user, reply)) }

    package func begin(_ user: String, _ intent: StoreChange, reply: @escaping @Sendable (StoreBeginning) -> Void) {
        enqueue(.begin(user, intent, reply))
    }

    package func unlock(_ user: String) { enqueue(.unlock(user)) }

    /// Blocks the calling thread, which is not the queue's.
    package func close(within limit: Duration) {
        enqueue(.close { [closed] in closed.signal() })
        _ = closed.wait(timeout: .now() + .nanoseconds(Int(limit.nanoseconds)))
    }

    /// From any thread.
    package func endClose() { closed.signal() }

    // MARK: The queue's side

    /// From any thread.
    private func enqueue(_ request: Request) {
        if !isStarted.exchange(true, ordering: .relaxed) { loop.start() }
        let isFirst = inbox.withLock { inbox in
            inbox.append(request)
            return inbox.count == 1
        }
        // A request that comes while the queue is busy with the disk is found when the queue checks the inbox again.
        guard isFirst else { return }
        loop.post { [self] in if !isWaiting { work() } }
    }

    private func collect() {
        requests += inbox.withLock { inbox in
            defer { inbox = [] }
            return inbox
        }
    }

    /// The wait for another process's write has ended.
    override package func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        isWaiting = false
        work()
    }

    private func work() {
        loop.assertIsCurrent()
        while !isWaiting {
            collect()
            guard let request = requests.first else { return }
            switch request {
            case .commit: commitBatch()
            case .read(let user, let reply):
                requests.removeFirst()
                reply(isClosed ? .failure(.closed) : read(user))
            case .readAll(let reply):
                requests.removeFirst()
                reply(isClosed ? nil : readAll())
            case .lock(let user, let reply):
                requests.removeFirst()
                reply(isClosed ? .failed("the store is closed") : tryLock(user))
            case .begin: beginBatch()
            case .unlock(let user):
                requests.removeFirst()
                userLocks.release(user)
            case .close(let reply):
                requests.removeFirst()
                closeAll()
                reply()
            }
        }
    }

    private func read(_ user: String) -> Result<StoredUser?, StoreError> { readContents().map { $0[user] } }

    private func readContents() -> Result<StoreContents, StoreError> {
        do throws(StoreError) {
            let contents = try file.read()
            writeState.update(unsynced: file.unsynced)
            announceLogEvents()
            return .success(contents)
        } catch {
            return .failure(error)
        }
    }

    /// Called every 30 s. Other failed calls are repeated by their callers. The failed write of the start is repeated only here.
    private func readAll() -> [StoredUser]? {
        if writeState.error != nil { tryToWrite() }
        guard let contents = try? file.read() else { return nil }
        announceLogEvents()
        return contents.users
    }

    /// Writes the file's present contents to find out whether writing works again.
    private func tryToWrite() {
        guard (try? file.commit([], now: .now, tries: true)) != nil, file.hasWritten else { return }
        recordWriteResult(nil)
    }

    /// All changes up to the next request of another kind.
    private func commitBatch() {
        var batch: [(change: StoreChange, reply: @Sendable (Result<StoreChange.Verdict, StoreError>) -> Void)] = []
        for request in requests.prefix(singleChanges > 0 ? 1 : Self.batchMax) {
            guard case .commit(let change, _, let reply) = request else { break }
            batch.append((change, reply))
        }
        let outcomes: [Result<StoreChange.Verdict, StoreError>]
        do throws(StoreError) {
            guard !isClosed else { throw .closed }
            outcomes = try file.commitEach(batch.map(\.change), now: .now, tries: isFailing)
        } catch {
            if error.kind == .busy, waitForLock() { return }
            if error.kind == .unfit, batch.count > 1 { return singleChanges = batch.count }
            singleChanges = max(singleChanges - 1, 0)
            let failed = error.kind == .busy ? 1 : batch.count
            requests.removeFirst(failed)
            recordWriteResult(error)
            announceLogEvents()
            for (_, reply) in batch.prefix(failed) { reply(.failure(error)) }
            return
        }
        requests.removeFirst(batch.count)
        singleChanges = max(singleChanges - 1, 0)
        // Changes that the file already held prove nothing.
        if file.hasWritten { recordWriteResult(nil) }
        announceLogEvents()
        for (entry, outcome) in zip(batch, outcomes) {
            switch outcome {
            case .success(.stored(let user)), .success(.storedEnding(let user, _)):
                handleRemoval(entry.change, standing: user)
            case .success(.overtaken), .success(.inUse), .failure: break
            }
            entry.reply(outcome)
        }
    }

    /// A user that a change has removed, or whose first login was refused, needs no lock any more.
    private func handleRemoval(_ change: StoreChange, standing: StoredUser?) {
        if let standing { userLocks.keep(standing.name) }
        switch change {
        case .remove(let name, _): userLocks.handleRemoval(of: name)
        case .clearIntent(let name, _, _) where standing == nil: userLocks.handleRemoval(of: name)
        default: break
        }
    }

    /// - Returns: false if the first change has waited long enough.
    private func waitForLock() -> Bool {
        guard case .commit(_, let since, _) = requests.first, loop.now - since < StoreLockRetry.timeout else {
            return false
        }
        isWaiting = true
        loop.set(deadline, at: loop.now + StoreLockRetry.delay)
        return true
    }

    /// All calls that begin, up to the next request of another kind: one read and one write serve them. A write takes longer the more is
    /// stored, and one identity's many calls must not hold up another's by one write each.
    ///
    /// Their changes go to the head of the queue, as changes of their own: they may have to wait for another process's write.
    private func beginBatch() {
        var begun:
            [(user: String, intent: StoreChange, lockError: String?, reply: @Sendable (StoreBeginning) -> Void)] = []
        var count = 0
        for request in requests.prefix(Self.batchMax) {
            guard case .begin(let user, let intent, let reply) = request else { break }
            count += 1
            switch isClosed ? StoreLock.failed("the store is closed") : tryLock(user) {
            case .busy: reply(.busy)
            case .taken: begun.append((user, intent, nil, reply))
            case .failed(let message): begun.append((user, intent, message, reply))
            }
        }
        // Behind the last lock: what another process has stored of a user before it released the lock is in it.
        let contents = isClosed || begun.isEmpty ? .failure(.closed) : readContents()
        let changes = begun.map { call in
            let read = contents.map { $0[call.user] }
            return Request.commit(call.intent, since: .now) {
                call.reply(.attempted(StoreBeginning.Attempt(read, $0), lockError: call.lockError))
            }
        }
        requests.replaceSubrange(0..<count, with: changes)
    }

    private func tryLock(_ user: String) -> StoreLock {
        do throws(DiskError) {
            return try userLocks.take(user) ? .taken : .busy
        } catch {
            let message = "\(file.path.folder): \(error.doing) failed (\(Errno.text(of: error.code)))"
            log.warning(
                "a user's lock cannot be taken: other processes on this store may call for the user at the same time",
                metadata: ["event": "store.lock_failed", "user": "\(user)", "reason": "\(message)"])
            return .failed(message)
        }
    }

    private func closeAll() {
        isClosed = true
        userLocks.releaseAll()
        openFileLock?.release()
        openFileLock = nil
        loop.drop(deadline)
        loop.stop()
    }

    // MARK: Log

    private func recordWriteResult(_ error: StoreError?) { writeState.record(error, unsynced: file.unsynced) }

    private func announceLogEvents() {
        for event in file.takeLogEvents() { event.announce(of: file.path, on: log) }
    }
}

extension StoreError {
    fileprivate static let closed = StoreError(.system(EBADF), message: "the store is closed")
}

/// How long a process retries to take the sealed file's lock (architecture-control.md 4.9). Other processes hold it for one read and one
/// write.
enum StoreLockRetry {
    static let timeout = Duration.seconds(10)

    /// The delay before the next attempt.
    static var delay: Duration { Backoff.storeLock.delay(after: 1, chance: .random(in: 0..<1)) }
}
