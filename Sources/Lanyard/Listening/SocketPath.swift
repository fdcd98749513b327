import Glibc

/// The file of a bound unix socket, identified by device and inode, so that a later change of the path is noticed.
struct SocketPath {
    let path: String
    private let device: dev_t
    private let inode: ino_t

    /// The status of the file at a path; nil with `errno` if there is none. Links are not followed.
    private static func fileStatus(at path: String) -> stat? {
        var status = stat()
        return lstat(path, &status) == 0 ? status : nil
    }

    /// The socket file of another process; nil if there is no file.
    ///
    /// - Throws: `EEXIST` if the file is no socket.
    init?(existingAt path: String) throws(SystemError) {
        guard let status = Self.fileStatus(at: path) else { return nil }
        guard status.st_mode & S_IFMT == S_IFSOCK else {
            throw SystemError(.configuration, .system(EEXIST), "binding unix:\(path)")
        }
        self.init(path, status)
    }

    /// The socket file that has just been bound.
    ///
    /// - Parameter mode: its permissions; a default ACL of the folder may have restricted them.
    /// - Throws: `EEXIST` or `EADDRINUSE` if another file is there already, `EOPNOTSUPP` if the file system gave wider
    ///   permissions.
    init(boundAt path: String, mode: UInt16) throws(SystemError) {
        let doing = "binding unix:\(path)"
        guard let status = Self.fileStatus(at: path) else { throw SystemError(.configuration, .system(errno), doing) }
        guard status.st_mode & S_IFMT == S_IFSOCK else { throw SystemError(.configuration, .system(EEXIST), doing) }
        guard status.st_uid == geteuid() else { throw SystemError(.configuration, .system(EADDRINUSE), doing) }
        self.init(path, status)
        if status.st_mode & 0o777 & ~mode_t(mode) != 0 {
            remove()
            throw SystemError(.configuration, .system(EOPNOTSUPP), doing)
        }
    }

    private init(_ path: String, _ status: stat) {
        self.path = path
        device = status.st_dev
        inode = status.st_ino
    }

    /// Removes the path if it is still this socket. The kernel cannot remove a certain file only: a file that replaces
    /// the socket between the check and the removal is lost.
    func remove() {
        guard let status = Self.fileStatus(at: path), status.st_dev == device, status.st_ino == inode else { return }
        unlink(path)
    }
}
