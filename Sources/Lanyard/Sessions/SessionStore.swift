/// Where sessions outlive a restart, as the sessions' home sees it: every call returns at once and is answered exactly once, on whatever
/// queue, in the order in which the calls were made.
package protocol SessionStore: AnyObject, Sendable {
    /// Nothing outlives a restart: said loudly at the start.
    var isMemoryOnly: Bool { get }

    /// What the store holds of a user at this moment, written by whatever process; nil: nothing.
    func read(_ user: String, reply: @escaping @Sendable (Result<StoredUser?, StoreError>) -> Void)

    /// The same of all users, for whoever wants to know what other processes have made of them; nil: it cannot be read, or nobody else can
    /// have written.
    func readAll(reply: @escaping @Sendable ([StoredUser]?) -> Void)

    /// Reads, changes and writes under the store's lock. When `stored` is answered, it survives a crash.
    func commit(_ change: StoreChange, reply: @escaping @Sendable (Result<StoreChange.Verdict, StoreError>) -> Void)

    /// Tries once to take a user's lock, which is held from before a call until its answer is stored (refresh.md 6).
    func lock(_ user: String, reply: @escaping @Sendable (StoreLock) -> Void)

    /// Gives it back. Harmless without it.
    func unlock(_ user: String)

    /// The latest write failed: what came since lives in memory. For the check `store`; from any thread.
    var isFailing: Bool { get }

    /// Answers what was asked until now, then gives all locks back and ends. Waits for that, at most `limit`.
    func close(within limit: Duration)
}

/// What a store without a file has to say of them.
extension SessionStore {
    package var isFailing: Bool { false }
    package func close(within limit: Duration) {}
    package func readAll(reply: @escaping @Sendable ([StoredUser]?) -> Void) { reply(nil) }
}

/// What came of trying to take a user's lock.
package enum StoreLock: Equatable, Sendable {
    case taken
    /// Another process has it.
    case busy
    /// It cannot be had for another reason, in plain words: the single flight within this process must do.
    case failed(String)
}
