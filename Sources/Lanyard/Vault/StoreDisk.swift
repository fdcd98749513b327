/// The file calls that the store is made of, in one folder: each returns when the kernel does, and the program may die, or the machine
/// lose its power, before and after each of them. A simulated one does both.
///
/// Names are single components. Nothing here follows a symbolic link at a name.
package protocol StoreDisk: AnyObject, Sendable {
    /// The uid that this process makes files with.
    var owner: UInt32 { get }

    /// The folder itself.
    func inspectFolder() throws(DiskError) -> DiskEntry

    /// A whole file; nil: there is none.
    func read(_ name: String, bytesMax: Int) throws(DiskError) -> DiskContent?

    /// A new, empty file, mode 0600. Fails if there is one.
    func create(_ name: String) throws(DiskError) -> any DiskWriter

    /// Replaces `other`, if it is there, in one step. Lasts only after `syncFolder`.
    func rename(_ name: String, to other: String) throws(DiskError)

    /// From now on the folder's names outlast a loss of power.
    func syncFolder() throws(DiskError)

    /// Without complaint if there is none.
    func remove(_ name: String) throws(DiskError)

    /// Tries to lock the file at `name`, which is made if need be. Only the holder of the exclusive lock may remove the file. It is never renamed:
    /// a lock is given only on the file that has the name at that moment.
    ///
    /// - Returns: nil if somebody, in this process or another, has it in a way that excludes this one.
    func lock(_ name: String, _ kind: DiskLockKind) throws(DiskError) -> (any DiskLock)?
}

package enum DiskLockKind: Sendable {
    /// Nobody else has it in whatever way.
    case exclusive
    /// Others may have it so, too.
    case shared
}

/// A file that is being written. Closed when the last reference goes.
package protocol DiskWriter: AnyObject {
    /// Adds bytes at the end.
    ///
    /// - Returns: how many of them, one at least.
    func write(_ bytes: UnsafeRawBufferPointer) throws(DiskError) -> Int

    /// From now on its bytes outlast a loss of power.
    func sync() throws(DiskError)
}

/// A lock that is held. Given back by `release`, at the latest when the last reference or the process goes.
package protocol DiskLock: AnyObject, Sendable {
    func release()
}
