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

        package init(device: UInt, inode: UInt, size: Int, changedAt: Int64, mode: UInt32) {
            self.device = device
            self.inode = inode
            self.size = size
            self.changedAt = changedAt
            self.mode = mode
        }
    }

    /// The content, or why there is none.
    package typealias Outcome = Result<SecretFile.Content, SecretFile.ReadError>

    /// nil: `stat` failed or was not called.
    package var stamp: Stamp?
    /// nil: the file was not read, because its stamp is the known one.
    package var outcome: Outcome?

    package init(stamp: Stamp?, outcome: Outcome?) {
        self.stamp = stamp
        self.outcome = outcome
    }

    /// Calls `stat` and reads the file unless its stamp is `known`. Blocks as long as the file system does.
    ///
    /// - Parameters:
    ///   - textBytesMax: the file is read as a secret of text, up to this size.
    ///   - bytesMax: the file is read bit for bit instead, up to this size.
    static func read(
        _ path: String, known: Stamp?, textUpTo textBytesMax: Int = SecretFile.bytesMax, wholeUpTo bytesMax: Int? = nil
    ) -> FileSnapshot {
        let stamp = stamp(of: path)
        if stamp != nil, stamp == known { return FileSnapshot(stamp: stamp, outcome: nil) }
        do {
            let content =
                if let bytesMax {
                    try SecretFile.readWhole(path, bytesMax: bytesMax)
                } else { try SecretFile.read(path, bytesMax: textBytesMax) }
            return FileSnapshot(stamp: stamp, outcome: .success(content))
        } catch {
            return FileSnapshot(stamp: stamp, outcome: .failure(error))
        }
    }

    private static func stamp(of path: String) -> Stamp? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        let changedAt = Int64(status.st_ctim.tv_sec) * 1_000_000_000 + Int64(status.st_ctim.tv_nsec)
        return Stamp(
            device: status.st_dev, inode: status.st_ino, size: Int(status.st_size), changedAt: changedAt,
            mode: status.st_mode)
    }
}
