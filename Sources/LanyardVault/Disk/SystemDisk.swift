import Glibc
import LanyardFoundations

/// The kernel's file calls, relative to a folder's descriptor: a change in the other parts of the path does not affect it.
package final class SystemDisk: StoreDisk {
    private let folder: OwnedDescriptor

    /// Opens the folder.
    ///
    /// A symbolic link is followed if root or this user made it (systemd's `DynamicUser=` puts one at the state directory). An attacker
    /// with the rights to redirect such a link could do more than that.
    ///
    /// - Parameter makesFolder: creates the folder with mode 0700 if only the last component is missing.
    /// - Throws: `ELOOP` for another user's link.
    package init(folder path: String, makesFolder: Bool) throws(DiskError) {
        if makesFolder, mkdir(path, 0o700) != 0, errno != EEXIST, errno != EROFS, errno != EACCES {
            throw DiskError(errno, "making the folder")
        }
        var status = stat()
        guard lstat(path, &status) == 0 else { throw DiskError(errno, "looking for the folder") }
        if status.st_mode & S_IFMT == S_IFLNK, status.st_uid != 0, status.st_uid != geteuid() {
            throw DiskError(ELOOP, "following another user's symbolic link")
        }
        let raw = try Self.retryingInterrupted("opening the folder") {
            Self.opened { open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
        }
        folder = OwnedDescriptor(taking: raw)
    }

    /// Checks with the kernel whether `init` could make the folder, which is missing, without making it.
    ///
    /// - Throws: `ENOENT` or `ENOTDIR` if more than the last component is missing; `EACCES` or `EROFS` if this process may not.
    package static func checkCreatable(folder path: String) throws(DiskError) {
        let parent = path.split(separator: "/").dropLast().joined(separator: "/")
        guard faccessat(AT_FDCWD, (path.hasPrefix("/") ? "/" : "./") + parent, W_OK | X_OK, AT_EACCESS) == 0 else {
            throw DiskError(errno, "making the folder")
        }
    }

    package var owner: UInt32 { geteuid() }

    package func inspectFolder() throws(DiskError) -> DiskEntry {
        var status = stat()
        guard fstat(folder.raw, &status) == 0 else { throw DiskError(errno, "looking at the folder") }
        return Self.entry(status)
    }

    /// Checks with the kernel whether this process may create files in the folder, without creating one.
    ///
    /// - Throws: `EACCES` or `EROFS`: the operator grants the permission or names another folder.
    package func checkWritable() throws(DiskError) {
        guard faccessat(folder.raw, ".", W_OK | X_OK, AT_EACCESS) == 0 else {
            throw DiskError(errno, "looking whether the folder may be written")
        }
    }

    package func read(
        _ name: String, bytesMax: Int, headByteCount: Int, from start: (DiskEntry, [UInt8]) -> Int
    ) throws(DiskError) -> DiskContent? {
        // Without O_NONBLOCK, opening a pipe would wait for its writer.
        let flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK
        let raw = Self.opened { openat(folder.raw, name, flags) }
        guard raw >= 0 else {
            let openError = errno
            if openError == ENOENT { return nil }
            var status = stat()
            guard fstatat(folder.raw, name, &status, AT_SYMLINK_NOFOLLOW) == 0 else {
                throw DiskError(openError, "opening")
            }
            return DiskContent(Self.entry(status), bytes: nil, openError: openError)
        }
        let file = OwnedDescriptor(taking: raw)
        var status = stat()
        guard fstat(file.raw, &status) == 0 else { throw DiskError(errno, "looking") }
        let entry = Self.entry(status)
        guard entry.kind == .file, entry.size <= bytesMax else { return DiskContent(entry, bytes: nil) }
        // Fewer bytes if the file has become shorter since.
        let head = headByteCount == 0 ? [] : try Self.read(file, from: 0, upTo: min(headByteCount, entry.size))
        let offset = start(entry, head)
        let bytes = try Self.read(file, from: offset, upTo: max(0, entry.size - offset))
        return DiskContent(entry, bytes: bytes, offset: offset)
    }

    private static func read(
        _ file: borrowing OwnedDescriptor, from offset: Int, upTo byteCount: Int
    ) throws(DiskError) -> [UInt8] {
        let raw = file.raw
        var code: CInt = 0
        let bytes = [UInt8](unsafeUninitializedCapacity: byteCount) { room, filled in
            while filled < byteCount {
                let count = pread(raw, room.baseAddress! + filled, byteCount - filled, off_t(offset + filled))
                if count == 0 { return }
                if count > 0 { filled += count } else if errno != EINTR { return code = errno }
            }
        }
        guard code == 0 else { throw DiskError(code, "reading") }
        return bytes
    }

    package func create(_ name: String) throws(DiskError) -> any DiskWriter {
        let flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC
        let raw = try Self.retryingInterrupted("creating a temporary file") {
            Self.opened { openat(folder.raw, name, flags, 0o600) }
        }
        let file = OwnedDescriptor(taking: raw)
        // The umask may have removed even the owner's permissions.
        guard fchmod(raw, 0o600) == 0 else { throw DiskError(errno, "creating a temporary file") }
        return SystemDiskWriter(file)
    }

    package func extend(_ name: String, from offset: Int) throws(DiskError) -> any DiskWriter {
        var status = stat()
        let file = try openedForWriting(name, &status, "adding to \(name)")
        guard Int(status.st_size) == offset, lseek(file.raw, off_t(offset), SEEK_SET) == off_t(offset) else {
            throw DiskError(EINVAL, "adding to \(name)")
        }
        return SystemDiskWriter(file)
    }

    package func cut(_ name: String, to byteCount: Int) throws(DiskError) {
        let doing = "cutting \(name)"
        var status = stat()
        let file = try openedForWriting(name, &status, doing)
        guard byteCount >= 0, byteCount <= Int(status.st_size) else { throw DiskError(EINVAL, doing) }
        _ = try Self.retryingInterrupted(doing) { ftruncate(file.raw, off_t(byteCount)) }
        _ = try Self.retryingInterrupted(doing) { fsync(file.raw) }
    }

    package func syncFile(_ name: String) throws(DiskError) {
        var status = stat()
        let file = try openedForWriting(name, &status, "syncing \(name)")
        _ = try Self.retryingInterrupted("syncing \(name)") { fdatasync(file.raw) }
    }

    package func rename(_ name: String, to other: String) throws(DiskError) {
        _ = try Self.retryingInterrupted("renaming") { renameat(folder.raw, name, folder.raw, other) }
    }

    package func syncFolder() throws(DiskError) {
        _ = try Self.retryingInterrupted("syncing the folder") { fsync(folder.raw) }
    }

    package func overwrite(_ name: String, at offset: Int, with bytes: [UInt8]) throws(DiskError) {
        let doing = "overwriting a part of \(name)"
        var status = stat()
        let file = try openedForWriting(name, &status, doing)
        guard offset >= 0, offset + bytes.count <= Int(status.st_size) else { throw DiskError(EINVAL, doing) }
        var done = 0
        while done < bytes.count {
            let count = bytes.withUnsafeBytes { all in
                pwrite(file.raw, all.baseAddress! + done, bytes.count - done, off_t(offset + done))
            }
            // A regular file never accepts zero of several bytes. Repeating the call would never end.
            if count == 0 { throw DiskError(EIO, doing) }
            if count > 0 { done += count } else if errno != EINTR { throw DiskError(errno, doing) }
        }
        _ = try Self.retryingInterrupted(doing) { fdatasync(file.raw) }
    }

    /// A regular file of this process's user.
    private func openedForWriting(
        _ name: String, _ status: inout stat, _ doing: String
    ) throws(DiskError) -> OwnedDescriptor {
        let flags = O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK
        let raw = try Self.retryingInterrupted(doing) { Self.opened { openat(folder.raw, name, flags) } }
        let file = OwnedDescriptor(taking: raw)
        guard fstat(file.raw, &status) == 0 else { throw DiskError(errno, doing) }
        guard status.st_mode & S_IFMT == S_IFREG, status.st_uid == owner else { throw DiskError(EINVAL, doing) }
        return file
    }

    package func remove(_ name: String) throws(DiskError) {
        guard unlinkat(folder.raw, name, 0) != 0, errno != ENOENT else { return }
        throw DiskError(errno, "removing \(name)")
    }

    package func lock(_ name: String, _ kind: DiskLockKind) throws(DiskError) -> (any DiskLock)? {
        // The former holder may have removed the file between `open` and `flock`. Then the lock is on a file without a name.
        for _ in 0..<Self.lockTriesMax {
            guard let file = try locked(name, kind) else { return nil }
            if isNamed(name, file) { return SystemDiskLock(file) }
        }
        return nil
    }

    /// More removals than this during one attempt count as a lock that is held.
    private static let lockTriesMax = 100

    /// Whether `name` still leads to this file.
    private func isNamed(_ name: String, _ file: borrowing OwnedDescriptor) -> Bool {
        var (own, named) = (stat(), stat())
        return fstat(file.raw, &own) == 0 && fstatat(folder.raw, name, &named, AT_SYMLINK_NOFOLLOW) == 0
            && own.st_ino == named.st_ino && own.st_dev == named.st_dev
    }

    private func locked(_ name: String, _ kind: DiskLockKind) throws(DiskError) -> OwnedDescriptor? {
        let flags = O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK
        // Network file systems require a lock's file open for writing. On a read-only file system reading must suffice.
        var raw = Self.opened { openat(folder.raw, name, O_RDWR | flags, 0o600) }
        if raw < 0, errno == EROFS { raw = Self.opened { openat(folder.raw, name, O_RDONLY | flags, 0o600) } }
        guard raw >= 0 else { throw DiskError(errno, "opening \(name)") }
        let file = OwnedDescriptor(taking: raw)
        var status = stat()
        guard fstat(raw, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw DiskError(EINVAL, "opening \(name), which is no regular file")
        }
        while flock(raw, (kind == .exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0 {
            if errno == EWOULDBLOCK { return nil }
            if errno != EINTR { throw DiskError(errno, "locking \(name)") }
        }
        return file
    }

    /// Opens a file. If no descriptor is left, idle connections are closed, and the call is repeated once.
    ///
    /// Does not use `DescriptorShortage.open`: a file of a dead network file system would hold its lock, and no client could be accepted.
    private static func opened(_ call: () -> CInt) -> CInt {
        let raw = call()
        guard raw < 0, DescriptorShortage.isCause(of: errno) else { return raw }
        DescriptorShortage.shared.releaseAndWait()
        return call()
    }

    /// Repeats a call that a signal has interrupted.
    private static func retryingInterrupted(_ doing: String, _ call: () -> CInt) throws(DiskError) -> CInt {
        while true {
            let result = call()
            if result >= 0 { return result }
            if errno != EINTR { throw DiskError(errno, doing) }
        }
    }

    private static func entry(_ status: stat) -> DiskEntry {
        let kind: DiskEntry.Kind =
            switch status.st_mode & S_IFMT {
            case S_IFREG: .file
            case S_IFDIR: .folder
            case S_IFLNK: .link
            default: .other
            }
        let written = WallTime(
            nanoseconds: Int64(status.st_mtim.tv_sec) * 1_000_000_000 + Int64(status.st_mtim.tv_nsec))
        return DiskEntry(
            kind, owner: status.st_uid, mode: status.st_mode & 0o7777, size: Int(status.st_size),
            version: DiskEntry.Version(inode: UInt64(status.st_ino), writtenAt: written))
    }
}

/// The descriptor of a file that is being written.
final class SystemDiskWriter: DiskWriter {
    private let file: OwnedDescriptor

    init(_ file: consuming OwnedDescriptor) { self.file = file }

    func write(_ bytes: UnsafeRawBufferPointer) throws(DiskError) -> Int {
        while true {
            let count = Glibc.write(file.raw, bytes.baseAddress, bytes.count)
            if count > 0 { return count }
            // A regular file never accepts zero of several bytes. Repeating the call would never end.
            if count == 0 { throw DiskError(EIO, "writing") }
            if errno != EINTR { throw DiskError(errno, "writing") }
        }
    }

    func sync() throws(DiskError) {
        while fsync(file.raw) != 0 {
            if errno != EINTR { throw DiskError(errno, "syncing") }
        }
    }
}

/// A lock by `flock`. It belongs to the open file, so it also excludes a second lock of the same process. Closing another descriptor of the
/// same file does not release it, unlike a record lock of `fcntl`.
final class SystemDiskLock: DiskLock {
    private let file: OwnedDescriptor

    init(_ file: consuming OwnedDescriptor) { self.file = file }

    func release() { flock(file.raw, LOCK_UN) }
}
