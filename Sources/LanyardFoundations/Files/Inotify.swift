import CLinux
import Glibc

/// An inotify instance (inotify(7)): reports changes of names in watched folders. From any thread; one thread at a time reads events.
final class Inotify: Sendable {
    /// What has happened to a name, or to a folder.
    struct Change: OptionSet {
        let rawValue: UInt32

        /// The content of the named file. The name stands for the same file as before.
        static let content = Change(rawValue: UInt32(IN_MODIFY) | UInt32(IN_CLOSE_WRITE))
        /// The kernel dropped events: anything may have changed.
        static let overflow = Change(rawValue: UInt32(IN_Q_OVERFLOW))
        /// The file system of the folder is gone. No event names the files in it.
        static let unmount = Change(rawValue: UInt32(IN_UNMOUNT))
        /// A name was made, removed or replaced.
        fileprivate static let name = Change(
            rawValue: UInt32(IN_CREATE) | UInt32(IN_DELETE) | UInt32(IN_MOVED_FROM) | UInt32(IN_MOVED_TO))
        /// Permissions. Of a folder they decide whether what is in it can be read, and watched.
        fileprivate static let attributes = Change(rawValue: UInt32(IN_ATTRIB))
    }

    /// One event.
    struct Event {
        /// The folder's number, as `watch` has returned it.
        let folder: Int32
        let change: Change
        /// Without NUL; empty: the event is about the folder itself. Lent for the call.
        let name: UnsafeRawBufferPointer
    }

    /// Bytes of the fields before an event's name.
    private static let headBytes = 16

    let descriptor: OwnedDescriptor

    /// - Throws: `.noInstance`: EMFILE, the account has too many instances, or the process too many descriptors; ENOSYS, the kernel has no
    ///   inotify.
    init() throws(FileNoticeError) {
        let raw = inotify_init1(CInt(IN_NONBLOCK) | CInt(IN_CLOEXEC))
        guard raw >= 0 else { throw .noInstance(errno) }
        descriptor = OwnedDescriptor(taking: raw)
    }

    /// Watches names of a folder, in addition to what is watched of it already. Blocks as long as the file system does.
    ///
    /// - Parameters:
    ///   - folder: an absolute path, with a NUL at its end. A symbolic link is not followed.
    ///   - content: changes of files count as well, not only those of their names. A folder on the way to another one has no need of
    ///     them, and some have many, such as /tmp.
    /// - Returns: the folder's number, the same for each path to it; or a negative `errno`.
    func watch(_ folder: [UInt8], content: Bool) -> Int32 {
        var change: Change = [.name, .attributes]
        if content { change.formUnion(.content) }
        let mask = change.rawValue | UInt32(IN_ONLYDIR) | UInt32(IN_DONT_FOLLOW) | UInt32(IN_MASK_ADD)
        let number = folder.withUnsafeBytes {
            inotify_add_watch(descriptor.raw, $0.assumingMemoryBound(to: CChar.self).baseAddress!, mask)
        }
        return number >= 0 ? number : -errno
    }

    /// Ends the watching of a folder. One that is gone has no watch any more, which is no error.
    func unwatch(_ folder: Int32) { inotify_rm_watch(descriptor.raw, folder) }

    /// Reads waiting events, as many as fit into `room`. Does not block.
    ///
    /// - Returns: false: no event waits.
    func read(into room: UnsafeMutableRawBufferPointer, _ body: (Event) -> Void) -> Bool {
        let count = Glibc.read(descriptor.raw, room.baseAddress, room.count)
        guard count > 0 else { return false }
        var place = 0
        while place + Self.headBytes <= count {
            let head = UnsafeRawBufferPointer(rebasing: room[place...])
            let padded = Int(head.loadUnaligned(fromByteOffset: 12, as: UInt32.self))
            let end = min(place + Self.headBytes + padded, count)
            let name = room[place + Self.headBytes..<end].prefix { $0 != 0 }
            body(
                Event(
                    folder: head.loadUnaligned(as: Int32.self),
                    change: Change(rawValue: head.loadUnaligned(fromByteOffset: 4, as: UInt32.self)),
                    name: UnsafeRawBufferPointer(rebasing: name)))
            place = end
        }
        return true
    }
}

/// Why changes of a file are not noticed at once. It is then read in intervals.
///
/// A type of its own, because it is no fault of the file: it ends in an interval and a remedy, never in a refusal.
package enum FileNoticeError: Error, Hashable, Sendable {
    /// There is no inotify instance; the value is `errno`.
    case noInstance(CInt)
    /// The kernel watches no further folder; the value is `errno`.
    case noWatch(CInt)
    /// A folder cannot be watched; the value is `errno`. Watching needs the permission to list the folder.
    case folder(String, CInt)
    /// A file system whose changes by other machines or programs the kernel does not see; the value is its magic number (statfs(2)).
    case fileSystem(Int64)

    /// One clause with the remedy, if there is one.
    package var message: String {
        switch self {
        case .noInstance(EMFILE):
            "no inotify instance is left for this account; raise fs.inotify.max_user_instances (sysctl)"
        case .noInstance(let code): "inotify cannot be used (\(Errno.text(of: code)))"
        case .noWatch(ENOSPC): "this account watches too many folders; raise fs.inotify.max_user_watches (sysctl)"
        case .noWatch(let code): "the kernel watches no further folder (\(Errno.text(of: code)))"
        case .folder(let path, EACCES): "inotify cannot watch \(path); let uid \(geteuid()) list that folder"
        case .folder(let path, let code): "inotify cannot watch \(path) (\(Errno.text(of: code)))"
        case .fileSystem(let type):
            "inotify does not see what others write to its file system (\(FileSystemType.name(of: type)))"
        }
    }

    /// The obstacle of a folder that the kernel does not watch.
    ///
    /// - Parameter code: `errno`.
    init(refusal code: CInt, _ lookup: PathWalk.Lookup) {
        self = [ENOSPC, ENOMEM].contains(code) ? .noWatch(code) : .folder(lookup.folderPath, code)
    }

    /// The obstacle of a folder's file system; nil: there is none.
    ///
    /// - Parameter folder: with a NUL at its end.
    static func ofFileSystem(at folder: [UInt8]) -> FileNoticeError? {
        let type = folder.withUnsafeBytes {
            lanyard_file_system_type($0.assumingMemoryBound(to: CChar.self).baseAddress!)
        }
        return FileSystemType.reportsChanges(type) ? nil : .fileSystem(type)
    }

    /// All of the process lacks it, and another try may succeed later.
    package var isShortage: Bool {
        switch self {
        case .noInstance, .noWatch: true
        case .folder, .fileSystem: false
        }
    }
}

/// Magic numbers of file systems (linux/magic.h).
enum FileSystemType {
    /// Only this machine's kernel writes to them, so inotify sees each change. Others count as not seen: NFS, SMB, Ceph, Lustre, 9p and
    /// FUSE are written elsewhere, and /proc and /sys report nothing.
    private static let noticed: Set<Int64> = [
        0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x8584_58f6, 0x794c_7630, 0xf2f5_2010, 0x2fc1_2fc1, 0xca45_1a4e,
        0x7371_7368, 0xe0f5_e1e2, 0x4d44, 0x2011_bab0, 0x5346_544e, 0x3153_464a, 0x5265_4973, 0x3434, 0x9660,
    ]

    private static let names: [Int64: String] = [
        0x6969: "NFS", 0x517b: "SMB", 0xff53_4d42: "CIFS", 0xfe53_4d42: "SMB2", 0x6573_5546: "FUSE", 0x0102_1997: "9p",
        0x00c3_6400: "Ceph", 0x5346_414f: "AFS", 0x6b41_4653: "AFS", 0x0bd0_0bd0: "Lustre", 0x0116_1970: "GFS2",
        0x7461_636f: "OCFS2", 0x4750_4653: "GPFS", 0x9fa0: "/proc", 0x6265_6572: "/sys",
    ]

    /// inotify sees all of its changes.
    static func reportsChanges(_ type: Int64) -> Bool { noticed.contains(type) }

    static func name(of type: Int64) -> String { names[type] ?? "type 0x" + String(type, radix: 16) }
}
