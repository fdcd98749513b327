import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// The users' locks that this process holds. A removed user's lock has no further purpose, so its file is removed with
/// it. A lock file that cannot be removed does no harm.
struct UserLocks {
    private let file: StoreFile
    private var held: [String: any DiskLock] = [:]
    /// Users that a change has removed while their lock was held here.
    private var removed: Set<String> = []

    init(of file: StoreFile) { self.file = file }

    /// Tries once to take the lock.
    ///
    /// - Returns: false: another process has it.
    mutating func take(_ user: String) throws(DiskError) -> Bool {
        guard let lock = try file.disk.lock(file.path.lock(of: user), .exclusive) else { return false }
        held[user] = lock
        return true
    }

    mutating func release(_ user: String) {
        guard let lock = held.removeValue(forKey: user) else { return }
        if removed.remove(user) != nil { removeFile(of: user) }
        lock.release()
    }

    mutating func releaseAll() {
        for user in Array(held.keys) { release(user) }
    }

    /// The store knows the user.
    mutating func keep(_ user: String) { removed.remove(user) }

    /// The store does not know the user any more.
    mutating func handleRemoval(of user: String) {
        if held[user] != nil {
            removed.insert(user)
        } else if let lock = try? file.disk.lock(file.path.lock(of: user), .exclusive) {
            removeFile(of: user)
            lock.release()
        }
    }

    /// Under the lock.
    private func removeFile(of user: String) { try? file.disk.remove(file.path.lock(of: user)) }
}
