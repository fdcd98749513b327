import Glibc

/// Makes a file that did not exist, whole or not at all.
///
/// The content is written into a file of another name in the same folder, reaches the disk, and then gets its name by link(2). That
/// fails if the name is taken. So a full disk or a crash leaves no half file, and no existing file is replaced.
package enum NewFile {
    /// Why there is no new file. A type of its own, because commands say something else for each.
    package enum MakeError: Error, Equatable, Sendable {
        /// Something has the name: a file, a folder, a link that leads nowhere.
        case exists
        /// No file can be made in the folder: `errno`.
        case refused(CInt)
        /// The content cannot be written, such as on a full disk: `errno`.
        case unwritten(CInt)
    }

    /// Makes the file with mode 0600.
    ///
    /// - Throws: `exists` if something has the name; `refused` if the folder takes no file; `unwritten` if the content does not fit the
    ///   disk. The operator acts. There is no new file.
    package static func make(_ path: String, content: UnsafeRawBufferPointer) throws(MakeError) {
        guard !isTaken(path) else { throw .exists }
        let temporary = "\(path).\(getpid()).tmp"
        let raw = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard raw >= 0 else { throw .refused(errno) }
        defer { unlink(temporary) }
        try write(content, to: OwnedDescriptor(taking: raw))
        if link(temporary, path) != 0 {
            let code = errno
            if code == EEXIST { throw .exists }
            // Some file systems have no second name for a file.
            guard code == EPERM || code == EOPNOTSUPP || code == ENOSYS || code == EMLINK else { throw .refused(code) }
            try makeAtOnce(path, content: content)
        }
        synchronizeFolder(of: path)
    }

    /// Under its own name. An error removes it again; a crash may leave a part.
    private static func makeAtOnce(_ path: String, content: UnsafeRawBufferPointer) throws(MakeError) {
        let raw = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard raw >= 0 else { throw errno == EEXIST ? .exists : .refused(errno) }
        do throws(MakeError) {
            try write(content, to: OwnedDescriptor(taking: raw))
        } catch {
            unlink(path)
            throw error
        }
    }

    /// Whether something has the name, also a link that leads nowhere.
    package static func isTaken(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0
    }

    /// `errno` of a folder in which this process can make no file; nil: it probably can.
    package static func obstacle(inFolderOf path: String) -> CInt? {
        access(folder(of: path), W_OK | X_OK) == 0 ? nil : errno
    }

    private static func folder(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    private static func write(
        _ content: UnsafeRawBufferPointer, to descriptor: consuming OwnedDescriptor
    ) throws(MakeError) {
        // The umask may have removed the owner's rights.
        guard fchmod(descriptor.raw, 0o600) == 0 else { throw .unwritten(errno) }
        var rest = content[...]
        while !rest.isEmpty {
            let run = UnsafeRawBufferPointer(rebasing: rest)
            let count = Glibc.write(descriptor.raw, run.baseAddress, run.count)
            if count > 0 {
                rest = rest.dropFirst(count)
            } else if count == 0 || errno != EINTR {
                throw .unwritten(count == 0 ? EIO : errno)
            }
        }
        guard fsync(descriptor.raw) == 0 || errno == EINVAL else { throw .unwritten(errno) }
    }

    /// A crash right after it would otherwise lose the name. A failure is no reason to take the file back.
    private static func synchronizeFolder(of path: String) {
        let raw = open(folder(of: path), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard raw >= 0 else { return }
        let descriptor = OwnedDescriptor(taking: raw)
        _ = fsync(descriptor.raw)
    }
}
