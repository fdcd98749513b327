import Glibc
import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// Messages for an operator: the path, what is wrong, and the remedy. The file is unchanged.
extension StoreError {
    static func foreignOwner(_ path: String, _ entry: DiskEntry, _ owner: UInt32) -> StoreError {
        // A command of root's usually looks at a service's store; a service finds what root has copied there.
        let remedy =
            owner == 0
            ? "run this command as uid \(entry.owner), such as with runuser -u USER -- lanyard"
            : "chown it, or run as uid \(entry.owner)"
        return StoreError(
            .foreignOwner,
            message: "\(path) belongs to uid \(entry.owner), and this process is uid \(owner); \(remedy)")
    }

    static func unsafeMode(_ path: String, _ entry: DiskEntry, wanted: String) -> StoreError {
        StoreError(
            .unsafeMode,
            message: "\(path) has mode 0\(String(entry.mode, radix: 8)): other users reach what is sealed there; "
                + "check whether that was used, then chmod \(wanted) \(path)")
    }

    static func notRegular(_ path: String, _ entry: DiskEntry) -> StoreError {
        let message = entry.kind == .link ? "is a symbolic link; name the file that it leads to" : "is no regular file"
        return StoreError(.notRegular, message: "\(path) \(message)")
    }

    static func damaged(_ path: String, _ message: String) -> StoreError {
        StoreError(
            .damaged,
            message:
                "\(path) is damaged: \(message); restore a copy of it, or move it away and log the users in again"
        )
    }

    static func newerVersion(_ path: String, _ version: Int, known: Int) -> StoreError {
        StoreError(
            .newerVersion,
            message: "\(path) was written by a later release of Lanyard (its format is \(version), this release reads "
                + "\(known)); run that release, or move the file away and log the users in again")
    }

    static func busy(_ path: String) -> StoreError {
        StoreError(.busy, message: "another process holds \(path)")
    }

    /// The file was removed while the store was open.
    static func gone(_ path: String) -> StoreError {
        StoreError(
            .system(ENOENT),
            message: "\(path) has been removed; put it back, or restart Lanyard to begin with an empty one")
    }

    static func tooLarge(_ path: String, _ message: String) -> StoreError {
        StoreError(.unfit, message: "\(path) cannot be written: \(message); remove users that are no longer needed")
    }

    static func shareFull(_ path: String, _ identity: String) -> StoreError {
        StoreError(
            .shareFull,
            message:
                "\(path): the identity \(identity) has used up its share of the store; its sessions live in memory until "
                + "their tokens are shorter or fewer; see what its service sends, or remove users")
    }

    init(_ path: String, _ error: SealingError) {
        let alternative = "or move the file away and log the users in again"
        switch error {
        case .wrongKey:
            self.init(
                .wrongKey,
                message:
                    "\(path) is sealed with another key or passphrase than the configuration names; name the one it was "
                    + "sealed with (after lanyard store rekey the new one), \(alternative)")
        case .otherKind(let isPassphrase):
            let (sealed, named) = isPassphrase ? ("passphrase", "key") : ("key", "passphrase")
            self.init(
                .wrongKey,
                message:
                    "\(path) is sealed with a \(sealed), and the configuration names a \(named); name the \(sealed), "
                    + alternative)
        case .damaged(let message): self = .damaged(path, message)
        case .newerVersion(let version): self = .newerVersion(path, version, known: LogHeader.version)
        case .unfit(let message): self = .damaged(path, message)
        case .failed(let what):
            self.init(.unfit, message: "\(path): OpenSSL failed in \(what); free memory, or repair the library")
        }
    }

    init(_ path: String, _ error: StoreText.FormatError) {
        switch error {
        case .newerVersion(let version): self = .newerVersion(path, version, known: StoreText.recordVersion)
        case .malformed(let place): self = .damaged(path, "its contents are invalid from byte \(place) on")
        case .tooLarge(let message): self = .tooLarge(path, message)
        }
    }

    init(_ path: StorePath, _ error: DiskError, owner: UInt32) {
        self.init(
            .system(error.code),
            message: "\(path.path): \(error.doing) failed (\(Errno.text(of: error.code)))"
                + Self.remedy(error.code, path, owner))
    }

    private static func remedy(_ code: CInt, _ path: StorePath, _ owner: UInt32) -> String {
        switch code {
        case ENOSPC, EDQUOT: "; free space where \(path.folder) is"
        case EFBIG: "; raise the limit of file sizes (ulimit -f, LimitFSIZE=)"
        case EACCES, EPERM: "; let uid \(owner) read and write in \(path.folder)"
        case EROFS: "; mount the file system of \(path.folder) writable, or name another path"
        case ENOENT, ENOTDIR: "; make the folder \(path.folder), mode 0700, for uid \(owner)"
        case ELOOP: "; let root or uid \(owner) make that link, or name the folder itself"
        default: "; check the system's log for that disk"
        }
    }
}

/// The exit status of a program that needs the store and cannot open it.
extension StoreError {
    /// 78 (configuration) if an operator must act, 75 (temporary failure) if another process holds the store.
    package var exitCode: Int32 { kind == .busy ? 75 : 78 }

    /// One word for the log's `reason`.
    package var reason: String {
        switch kind {
        case .busy: "store_busy"
        case .system: "store_system_call"
        case .wrongKey: "store_wrong_key"
        case .damaged: "store_damaged"
        case .newerVersion: "store_newer_version"
        case .unsafeMode: "store_unsafe_mode"
        case .foreignOwner: "store_foreign_owner"
        case .notRegular: "store_not_regular"
        case .unfit: "store_unfit"
        case .shareFull: "store_share_full"
        }
    }
}
