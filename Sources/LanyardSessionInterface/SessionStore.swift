import LanyardFoundations

/// The store that keeps sessions across restarts. Every call returns at once and gets exactly one reply, on any queue,
/// in the order of the calls.
package protocol SessionStore: AnyObject, Sendable {
    /// Nothing outlives a restart; the start logs a warning.
    var isMemoryOnly: Bool { get }

    /// What the store holds of a user now, written by any process; nil: nothing.
    func read(_ user: String, reply: @escaping @Sendable (Result<StoredUser?, StoreError>) -> Void)

    /// What the store holds of all users, to find external changes; nil: it cannot be read, or no other process can
    /// have written.
    func readAll(reply: @escaping @Sendable ([StoredUser]?) -> Void)

    /// Reads, changes and writes under the store's lock. A change survives a crash once the reply is `stored`.
    func commit(_ change: StoreChange, reply: @escaping @Sendable (Result<StoreChange.Verdict, StoreError>) -> Void)

    /// Tries once to take a user's lock, which is held from before a call until its result is stored (refresh.md 6).
    func lock(_ user: String, reply: @escaping @Sendable (StoreLock) -> Void)

    /// Begins a call: tries once to take the user's lock, reads what the store holds of the user, and makes the change,
    /// which is a `StoreChange.storeIntent`. While another process has the lock, nothing else is done.
    func begin(_ user: String, _ intent: StoreChange, reply: @escaping @Sendable (StoreBeginning) -> Void)

    /// Gives the lock back. It has no effect without the lock.
    func unlock(_ user: String)

    /// The latest write failed: later changes live in memory. It feeds the check `store`; from any thread.
    var isFailing: Bool { get }

    /// The same with its cause, for operators; nil: the store works. From any thread.
    var failure: StoreFailure? { get }

    /// Finishes the calls made so far, then gives all locks back and ends. Waits for that, at most `limit`.
    func close(within limit: Duration)
    /// Ends the wait of `close` at once. From any thread.
    func endClose()
}

/// The defaults for a store without a file.
extension SessionStore {
    package var isFailing: Bool { false }
    package var failure: StoreFailure? { nil }
    package func close(within limit: Duration) {}

    package func endClose() {}
    package func readAll(reply: @escaping @Sendable ([StoredUser]?) -> Void) { reply(nil) }
}

/// Why a store cannot be written now.
package struct StoreFailure: Equatable, Sendable {
    /// The store's file.
    package var path: String
    /// Of the first failed write since the store worked.
    package var since: WallTime
    /// Of the latest failed write: the path, what is wrong and the remedy.
    package var message: String

    package init(path: String, since: WallTime, message: String) {
        self.path = path
        self.since = since
        self.message = message
    }
}

/// The result of beginning a call.
package enum StoreBeginning: Sendable {
    /// Another process has the user's lock. Nothing was read.
    case busy
    /// The lock is taken, or cannot be had at all.
    ///
    /// - lockError: why the lock cannot be taken (`StoreLock.failed`); nil: it is taken.
    case attempted(Attempt, lockError: String?)

    /// What came of the intent.
    package enum Attempt: Sendable {
        /// The intent is stored: the call may be made.
        ///
        /// - before: the user before the change; nil: unknown to the store.
        /// - ended: a session that the change has ended and that its process does not know.
        case begun(StoredUser?, before: StoredUser?, ended: [StoredRevocation])
        /// The user is not as it is known to the caller, or does not allow the call. An earlier call may be open.
        case moved(StoredUser?)
        /// The intent could not be stored, and the user is as it was read.
        case unwritten(StoredUser?)
        /// The user could not be read.
        case unreadable(StoreError)

        /// From the read and the change that follows it.
        package init(_ read: Result<StoredUser?, StoreError>, _ verdict: Result<StoreChange.Verdict, StoreError>) {
            self =
                switch (read, verdict) {
                case (.success(let before), .success(.stored(let user))): .begun(user, before: before, ended: [])
                case (.success(let before), .success(.storedEnding(let user, let ended))):
                    .begun(user, before: before, ended: ended)
                case (_, .success(.overtaken(let user))): .moved(user)
                case (.success(let user), .success(.inUse)), (.success(let user), .failure): .unwritten(user)
                case (.failure(let error), .success), (.failure, .failure(let error)): .unreadable(error)
                }
        }
    }
}

extension SessionStore {
    /// For a store whose calls are carried out at once, in their order.
    package func begin(_ user: String, _ intent: StoreChange, reply: @escaping @Sendable (StoreBeginning) -> Void) {
        lock(user) { [self] lock in
            let lockError: String?
            switch lock {
            case .busy: return reply(.busy)
            case .taken: lockError = nil
            case .failed(let message): lockError = message
            }
            read(user) { [self] read in
                commit(intent) { reply(.attempted(StoreBeginning.Attempt(read, $0), lockError: lockError)) }
            }
        }
    }
}

/// The result of trying to take a user's lock.
package enum StoreLock: Equatable, Sendable {
    case taken
    /// Another process has it.
    case busy
    /// It cannot be taken for another reason, given as a message. The single flight within this process must suffice.
    case failed(String)
}

extension Backoff {
    /// Between two attempts to take a lock of the store that another process holds: 20 to 200 ms, so that two waiting
    /// processes do not collide repeatedly (architecture-control.md 4.9).
    package static let storeLock = Backoff(first: .milliseconds(200), max: .milliseconds(200), fixedShare: 0.1)
}

/// Why the store could not be read or written. The file is unchanged.
///
/// A type of its own, because each kind is a `reason` of the log and decides the exit status.
package struct StoreError: Error, Equatable, Sendable {
    /// What stands in the way.
    package enum Kind: Equatable, Sendable {
        /// Another process holds the lock. The store itself retries until its time limit.
        case busy
        /// A system call failed; the value is `errno`.
        case system(CInt)
        /// The file exists and cannot be opened; the operator is told which reason applies (architecture-control.md 4.7).
        case wrongKey, damaged, newerVersion, unsafeMode, foreignOwner, notRegular
        /// The key, the passphrase or the file's own parameters cannot be used.
        case unfit
        /// The change would give an identity more than its share of the store (`StoreShare`). Others can be stored.
        case shareFull
    }

    /// What stands in the way.
    package var kind: Kind
    /// What is wrong, the path and the remedy; no secret.
    package var message: String

    package init(_ kind: Kind, message: String) {
        self.kind = kind
        self.message = message
    }
}
