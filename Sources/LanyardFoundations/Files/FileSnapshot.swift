import CLinux
import Glibc

/// What one read of a secret file has found.
package struct FileSnapshot: Sendable {
    /// What `stat` reports of a file. A different stamp means that the content must be read again.
    package struct Stamp: Equatable, Sendable {
        package var device: UInt
        package var inode: UInt
        package var size: Int
        /// Nanoseconds since 1970, by the clock of the file system.
        package var changedAt: Int64
        package var mode: UInt32
        /// The uid.
        package var owner: UInt32

        package init(device: UInt, inode: UInt, size: Int, changedAt: Int64, mode: UInt32, owner: UInt32 = 0) {
            self.device = device
            self.inode = inode
            self.size = size
            self.changedAt = changedAt
            self.mode = mode
            self.owner = owner
        }

        init(_ status: stat) {
            self.init(
                device: status.st_dev, inode: status.st_ino, size: Int(status.st_size),
                changedAt: (WallTime(seconds: Int64(status.st_ctim.tv_sec)) + .nanoseconds(status.st_ctim.tv_nsec))
                    .nanoseconds,
                mode: status.st_mode, owner: status.st_uid)
        }

        /// A file that has not changed for this long is not being written.
        static let restingAge = Duration.seconds(1)

        func isAtRest(at now: WallTime) -> Bool { now - WallTime(nanoseconds: changedAt) >= Self.restingAge }
    }

    /// The content, or why there is none.
    package typealias Outcome = Result<SecretFile.Content, SecretFile.ReadError>

    /// nil: `stat` failed or was not called.
    package var stamp: Stamp?
    /// nil: the file was not read, because its stamp is the known one.
    package var outcome: Outcome?
    /// When the read began: the outcome is from then or later.
    package var readAt: Instant

    package init(stamp: Stamp?, outcome: Outcome?, readAt: Instant = .now) {
        self.stamp = stamp
        self.outcome = outcome
        self.readAt = readAt
    }

    /// The file has not changed for a while, or it holds a secret that no process was writing.
    func isAtRest(at now: WallTime) -> Bool {
        if case .success(let content) = outcome, content.isComplete { return true }
        return stamp?.isAtRest(at: now) ?? false
    }

    /// The read failed, and a later one may succeed although nothing reports a change of the file, its folders or their permissions.
    var canRecover: Bool {
        guard case .failure(let error) = outcome else { return false }
        return switch error {
        case .system(let code): ![ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG, EACCES].contains(code)
        case .delayed, .unsettled, .stopping: true
        case .notRegular, .empty, .tooLarge, .unfit: false
        }
    }

    /// Calls `stat` and reads the file unless its stamp is `known`. Blocks as long as the file system does.
    ///
    /// - Parameters:
    ///   - textBytesMax: the file is read as a secret of text, up to this size.
    ///   - bytesMax: the file is read bit for bit instead, up to this size.
    static func read(
        _ path: String, known: Stamp?, textUpTo textBytesMax: Int = SecretFile.bytesMax, wholeUpTo bytesMax: Int? = nil
    ) -> FileSnapshot {
        let readAt = Instant.now
        if let known, known == stamp(of: path) { return FileSnapshot(stamp: known, outcome: nil, readAt: readAt) }
        do {
            let read = try SecretFile.readStamped(path, isText: bytesMax == nil, bytesMax: bytesMax ?? textBytesMax)
            return FileSnapshot(stamp: read.stamp, outcome: .success(read.content), readAt: readAt)
        } catch .system(let code) {
            // A stamp from now may be that of another file, which has come since.
            return FileSnapshot(stamp: nil, outcome: .failure(.system(code)), readAt: readAt)
        } catch {
            return FileSnapshot(stamp: stamp(of: path), outcome: .failure(error), readAt: readAt)
        }
    }

    /// What `stat` reports now; nil: it failed. Blocks as long as the file system does.
    static func stamp(of path: String) -> Stamp? {
        var status = stat()
        return stat(path, &status) == 0 ? Stamp(status) : nil
    }
}
