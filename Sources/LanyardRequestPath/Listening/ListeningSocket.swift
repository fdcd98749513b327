import CLinux
import Glibc
import LanyardFoundations
import LanyardSettings

/// A listening socket and its bound address. It is closed, and its unix path removed, with the last reference.
package final class ListeningSocket: Sendable {
    /// Connections that the kernel queues (http-connections.md 20.4).
    package static let backlog: CInt = 1024

    private let descriptor: OwnedDescriptor
    /// The bound address: with the kernel's port if 0 was asked for.
    package let address: ListenerSettings.Address
    /// The port for the default allow-list of hosts; nil for a unix socket.
    package let port: UInt16?
    /// The file of a unix socket.
    private let file: SocketPath?

    /// Binds and listens. Starts no thread and no event.
    ///
    /// A v6 address accepts no v4 connection; this includes `::`. A unix path is replaced if its socket refuses
    /// connections. A socket that accepts, and any other file, is left unchanged.
    /// - Throws: `.configuration` `.system(errno)` with the address; the exit code is 69. `EEXIST`: another file is at the unix path.
    package init(_ settings: ListenerSettings) throws(SystemError) {
        switch settings.address {
        case .tcp(let host, let port):
            let known = SocketAddress.known(host: host, port: port)
            guard let wanted = known.first, let last = known.last else {
                try Self.checkZone(of: settings)
                throw SystemError(.configuration, .malformed, "binding \(settings.address): not a numeric address")
            }
            descriptor = try Self.open(wanted, otherwise: last, "binding \(settings.address)")
            let raw = descriptor.raw
            let bound = SocketAddress { getsockname(raw, $0, $1) == 0 } ?? wanted
            address = .tcp(host: bound.zonedHost, port: bound.port)
            self.port = bound.port
            file = nil
        case .unix(let path):
            let wanted = try Self.unixAddress(path)
            try Self.clearStale(path, wanted)
            // Both in one step: a noncopyable value is either initialised whole or not at all.
            let (opened, bound) = try Self.open(wanted, path: path, mode: settings.socketMode)
            descriptor = OwnedDescriptor(taking: opened)
            file = bound
            address = settings.address
            port = nil
        case .activated:
            // Those that were passed have an initializer of their own.
            throw SystemError(.configuration, .system(ENOENT), "binding \(settings.address)")
        }
    }

    /// What binding this address would find, as far as that is the same for a process that runs beside this one: whether another process
    /// has the address now does not count. Makes no socket and no file. Of a TCP address only its network interface is known.
    ///
    /// - Throws: as `init` does. `ENOENT` and `ENOTDIR` are about the folder.
    package static func inspect(_ settings: ListenerSettings) throws(SystemError) {
        try checkZone(of: settings)
        guard case .unix(let path) = settings.address else { return }
        _ = try unixAddress(path)
        let doing = "binding unix:\(path)"
        let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
        guard faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0 else {
            throw SystemError(.configuration, .system(errno), doing)
        }
        _ = try SocketPath(existingAt: path)
    }

    /// - Throws: `ENODEV`: the address names a network interface that does not exist.
    private static func checkZone(of settings: ListenerSettings) throws(SystemError) {
        guard case .tcp(let host, _) = settings.address, let percent = host.firstIndex(of: "%"),
            NetworkZone.index(of: String(host[percent...].dropFirst())) == nil
        else { return }
        throw SystemError(.configuration, .system(ENODEV), "binding \(settings.address)")
    }

    private static func unixAddress(_ path: String) throws(SystemError) -> SocketAddress {
        if let address = SocketAddress(path: path) { return address }
        throw SystemError(
            .configuration, .tooLarge, "binding unix:\(path): the path is empty or longer than 107 bytes")
    }

    /// A socket that the service manager has bound. Its file, if it has one, is the manager's and stays.
    ///
    /// - Throws: it is not a listening stream socket.
    package init(activated socket: consuming OwnedDescriptor, _ settings: ListenerSettings) throws(SystemError) {
        let raw = socket.raw
        guard let bound = SocketAddress(filledBy: { getsockname(raw, $0, $1) == 0 }),
            [AF_INET, AF_INET6, AF_UNIX].contains(bound.family),
            Self.option(SO_TYPE, of: raw) == CInt(SOCK_STREAM.rawValue),
            Self.option(SO_ACCEPTCONN, of: raw) == 1, fcntl(raw, F_SETFL, fcntl(raw, F_GETFL) | O_NONBLOCK) == 0
        else { throw SystemError(.configuration, .malformed, "using \(settings.address)") }
        // Inherited by each client's connection.
        Socket.limitUnsent(raw)
        Socket.setNoDelay(raw)
        descriptor = socket
        file = nil
        if bound.family == AF_UNIX {
            address = .unix(path: bound.path)
            port = nil
        } else {
            KeepAlivePolicy().apply(to: raw)
            address = .tcp(host: bound.zonedHost, port: bound.port)
            port = bound.port
        }
    }

    private static func option(_ name: CInt, of raw: CInt) -> CInt? {
        var value: CInt = 0
        var size = socklen_t(MemoryLayout<CInt>.size)
        return getsockopt(raw, SOL_SOCKET, name, &value, &size) == 0 ? value : nil
    }

    /// The file is removed first: while the descriptor is open, no other file can have its inode number.
    deinit { file?.remove() }

    /// The descriptor, borrowed.
    package var raw: CInt { descriptor.raw }

    /// - Parameter other: bound if the machine lacks the first address: a loopback name has two.
    private static func open(
        _ address: SocketAddress, otherwise other: SocketAddress, _ doing: String
    ) throws(SystemError) -> OwnedDescriptor {
        do throws(SystemError) {
            return try open(address, doing)
        } catch {
            guard other != address, [.system(EADDRNOTAVAIL), .system(EAFNOSUPPORT)].contains(error.kind) else {
                throw error
            }
            return try open(other, doing)
        }
    }

    private static func open(_ address: SocketAddress, _ doing: String) throws(SystemError) -> OwnedDescriptor {
        let socket = try make(address.family, doing)
        let raw = socket.raw
        var one: CInt = 1
        setsockopt(raw, SOL_SOCKET, SO_REUSEADDR, &one, socklen_t(MemoryLayout<CInt>.size))
        // Inherited by each client's connection.
        Socket.limitUnsent(raw)
        Socket.setNoDelay(raw)
        // Those of data have keys, which follow.
        KeepAlivePolicy().apply(to: raw)
        // Otherwise `::` accepts v4 connections too, and no other listener can bind `0.0.0.0` at the same port
        // (ipv6(7)).
        if address.family == AF_INET6,
            setsockopt(raw, CInt(IPPROTO_IPV6), IPV6_V6ONLY, &one, socklen_t(MemoryLayout<CInt>.size)) != 0
        {
            throw SystemError(.configuration, .system(errno), doing)
        }
        guard address.withPointer({ bind(raw, $0, $1) }) == 0, listen(raw, backlog) == 0 else {
            throw SystemError(.configuration, .system(errno), doing)
        }
        return socket
    }

    /// The file has its permissions from the start: bind copies those of the socket without the umask (unix(7)). A
    /// chmod of the path would follow a link that has replaced it.
    private static func open(
        _ address: SocketAddress, path: String, mode: UInt16
    ) throws(SystemError) -> (descriptor: CInt, file: SocketPath) {
        let doing = "binding unix:\(path)"
        let socket = try make(AF_UNIX, doing)
        let raw = socket.raw
        guard fchmod(raw, mode_t(mode)) == 0 else { throw SystemError(.configuration, .system(errno), doing) }
        let failure = Machine.withoutUmask { address.withPointer { bind(raw, $0, $1) } == 0 ? 0 : errno }
        guard failure == 0 else { throw SystemError(.configuration, .system(failure), doing) }
        // No client can connect before `listen`.
        let file = try SocketPath(boundAt: path, mode: mode)
        guard listen(raw, backlog) == 0 else {
            let code = errno
            file.remove()
            throw SystemError(.configuration, .system(code), doing)
        }
        return (socket.release(), file)
    }

    private static func make(_ family: CInt, _ doing: String) throws(SystemError) -> OwnedDescriptor {
        let kind = CInt(SOCK_STREAM.rawValue) | CInt(SOCK_NONBLOCK.rawValue) | CInt(SOCK_CLOEXEC.rawValue)
        let raw = socket(family, kind, 0)
        guard raw >= 0 else { throw SystemError(.configuration, .system(errno), doing) }
        return OwnedDescriptor(taking: raw)
    }

    /// Removes the socket of a process that has ended: one that refuses connections. Does not block.
    private static func clearStale(_ path: String, _ address: SocketAddress) throws(SystemError) {
        guard let file = try SocketPath(existingAt: path) else { return }
        let probe = try make(AF_UNIX, "binding unix:\(path)")
        let code = address.withPointer { connect(probe.raw, $0, $1) } == 0 ? 0 : errno
        switch code {
        case ECONNREFUSED: file.remove()
        case ENOENT: return
        // EAGAIN: the owner's queue of connections is full (connect(2)).
        case 0, EAGAIN: throw SystemError(.configuration, .system(EADDRINUSE), "binding unix:\(path)")
        default: throw SystemError(.configuration, .system(code), "binding unix:\(path)")
        }
    }
}

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
