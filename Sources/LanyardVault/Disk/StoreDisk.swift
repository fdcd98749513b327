import LanyardFoundations

/// The file calls that the store consists of, in one folder. Each returns when the kernel does. The program may die, or the machine may
/// lose its power, before and after each of them. A simulated disk does both.
///
/// Names are single components. No call follows a symbolic link at a name.
package protocol StoreDisk: AnyObject, Sendable {
    /// The uid with which this process creates files.
    var owner: UInt32 { get }

    /// The folder itself.
    ///
    /// - Throws: `errno` of a folder that cannot be looked at.
    func inspectFolder() throws(DiskError) -> DiskEntry

    /// A file from an offset on; nil if there is none. All is of one file, also if another one takes its name in between.
    ///
    /// - Parameters:
    ///   - bytesMax: of the whole file.
    ///   - headByteCount: so many bytes of the file's start are read first.
    ///   - start: the offset from which the rest is read, given the entry and the file's start (fewer bytes if the file is shorter). It is
    ///     not called for a file that is not read. An offset behind the end reads nothing.
    /// - Throws: `errno` of a failed read, such as `EIO`. A file that this process may not open is no error: `DiskContent.openError`.
    func read(
        _ name: String, bytesMax: Int, headByteCount: Int, from start: (DiskEntry, [UInt8]) -> Int
    ) throws(DiskError) -> DiskContent?

    /// Creates an empty file with mode 0600. Fails if there is one.
    ///
    /// - Throws: `EEXIST` if something has the name; `ENOSPC` or `EDQUOT` without room; `EACCES`, `EPERM` or `EROFS` if this process may
    ///   not.
    func create(_ name: String) throws(DiskError) -> any DiskWriter

    /// Opens an existing file to add bytes at its end. Others that read it see some first part of them.
    ///
    /// - Parameter offset: the file's length.
    /// - Throws: `EINVAL` unless it is a regular file of this process's user and of that length.
    func extend(_ name: String, from offset: Int) throws(DiskError) -> any DiskWriter

    /// Removes what stands behind the first `byteCount` bytes, and syncs the file.
    ///
    /// - Throws: `EINVAL` if it is no regular file of this process's user, or a shorter one.
    func cut(_ name: String, to byteCount: Int) throws(DiskError)

    /// After this the file's bytes outlast a loss of power, those that other processes have written as well.
    ///
    /// - Throws: `errno`, such as `EIO`. What the file holds after a loss of power is unknown then.
    func syncFile(_ name: String) throws(DiskError)

    /// Replaces `other`, if it exists, in one step. Outlasts a loss of power only after `syncFolder`.
    ///
    /// - Throws: `errno`, such as `EIO`. Both names are as before.
    func rename(_ name: String, to other: String) throws(DiskError)

    /// After this the folder's names outlast a loss of power.
    ///
    /// - Throws: `errno`, such as `EIO`. What the folder holds after a loss of power is unknown then.
    func syncFolder() throws(DiskError)

    /// Overwrites bytes of an existing file in place and syncs them. The file keeps its length: a file system that
    /// overwrites in place needs no room for it.
    ///
    /// - Throws: `EINVAL` if the range is not within a regular file of this process's user.
    func overwrite(_ name: String, at offset: Int, with bytes: [UInt8]) throws(DiskError)

    /// Succeeds if there is none.
    ///
    /// - Throws: `errno` of a file that is there and cannot be removed.
    func remove(_ name: String) throws(DiskError)

    /// Tries to lock the file at `name`, which is created if necessary. Only the holder of the exclusive lock may remove the file. It is
    /// never renamed: a lock is granted only on the file that has the name at that moment.
    ///
    /// - Returns: nil if a holder in this process or another excludes this one.
    /// - Throws: `EINVAL` if no regular file has the name; `errno` if the file cannot be created or opened.
    func lock(_ name: String, _ kind: DiskLockKind) throws(DiskError) -> (any DiskLock)?
}

extension StoreDisk {
    /// A whole file; nil if there is none.
    ///
    /// - Throws: as for a part.
    package func read(_ name: String, bytesMax: Int) throws(DiskError) -> DiskContent? {
        try read(name, bytesMax: bytesMax, headByteCount: 0) { _, _ in 0 }
    }
}

/// Which other holders a lock permits.
package enum DiskLockKind: Sendable {
    /// No other holder, of either kind.
    case exclusive
    /// Other shared holders are possible.
    case shared
}

/// A file that is being written. Closed when the last reference goes.
package protocol DiskWriter: AnyObject {
    /// Adds bytes at the end.
    ///
    /// - Returns: how many of them, at least one.
    /// - Throws: `errno`: `ENOSPC` or `EDQUOT` without room, `EIO` of the disk.
    func write(_ bytes: UnsafeRawBufferPointer) throws(DiskError) -> Int

    /// After this its bytes outlast a loss of power.
    ///
    /// - Throws: `errno`: `EIO` of the disk, or what a delayed write has met. The file must not be used then.
    func sync() throws(DiskError)
}

extension DiskWriter {
    /// Adds all of these bytes, in as many calls as it takes.
    ///
    /// - Throws: as `write` does. Some first part of them may be in the file.
    func write(all bytes: [UInt8]) throws(DiskError) {
        try bytes.withUnsafeBytes { all in
            Result { () throws(DiskError) in
                var rest = all
                while !rest.isEmpty {
                    rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(try write(rest)))
                }
            }
        }.get()
    }
}

/// A lock that is held. It ends with `release`, with the last reference, or with the process.
package protocol DiskLock: AnyObject, Sendable {
    func release()
}

/// An entry at a name, or the folder itself: the facts that decide whether it may be trusted.
package struct DiskEntry: Equatable, Sendable {
    /// What stands at the name.
    package enum Kind: Equatable, Sendable { case file, folder, link, other }

    /// What stands at the name.
    package var kind: Kind
    /// The uid that owns it.
    package var owner: UInt32
    /// Permissions: the twelve lower bits of `st_mode`.
    package var mode: UInt32
    /// In bytes.
    package var size: Int
    /// Which file it is, and when its bytes were written last; nil: unknown.
    package var version: Version?

    /// The same version of the same file has the same bytes, once its time has passed.
    package struct Version: Equatable, Sendable {
        /// The inode's number.
        package var inode: UInt64
        /// By the clock of the file system, which may count in steps of some milliseconds.
        package var writtenAt: WallTime

        package init(inode: UInt64, writtenAt: WallTime) {
            self.inode = inode
            self.writtenAt = writtenAt
        }

        /// Whether a write after `time` has a later stamp, so that bytes read then or later are those of this version.
        ///
        /// Kernels stamp with their tick, every 10 ms at most. A stamp of whole milliseconds may be that of a file system that counts
        /// seconds.
        package func isPast(at time: WallTime) -> Bool {
            let step: Duration = writtenAt.nanoseconds % 1_000_000 == 0 ? .seconds(1) : .milliseconds(20)
            return time > writtenAt + step
        }
    }

    package init(_ kind: Kind, owner: UInt32, mode: UInt32, size: Int = 0, version: Version? = nil) {
        self.kind = kind
        self.owner = owner
        self.mode = mode
        self.size = size
        self.version = version
    }
}

/// A file as it was read: what it is, and its bytes.
package struct DiskContent: Equatable, Sendable {
    /// What the file is.
    package var entry: DiskEntry
    /// From `offset` on; nil: not read, because it is not a regular file or is too large, or because of `openError`. Sealed bytes are not
    /// secret.
    package var bytes: [UInt8]?
    /// Of the first of `bytes`.
    package var offset: Int
    /// `errno` of an `open` that was refused to this process.
    package var openError: CInt?

    package init(_ entry: DiskEntry, bytes: [UInt8]?, offset: Int = 0, openError: CInt? = nil) {
        self.entry = entry
        self.bytes = bytes
        self.offset = offset
        self.openError = openError
    }
}

/// A file call of the store that failed. It changed nothing. A type of its own, because a disk does not know the remedy:
/// `StoreError` adds it with the path.
package struct DiskError: Error, Equatable, Sendable {
    /// `errno`.
    package var code: CInt
    /// A participle: "writing".
    package var doing: String

    package init(_ code: CInt, _ doing: String) {
        self.code = code
        self.doing = doing
    }
}
